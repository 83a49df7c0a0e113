//! Proves that a node of the same store forwarded a call.
//!
//! Guarantees: the headers in [`SEALED`] are only believed from a sender that knows the store's secret. A forwarded
//! call is accepted once, by the run of the node that it is addressed to, and only with the body that it was sent with.
//! A proof of version 1 names the address of its receiver and not the run. It is accepted only from a living node that
//! knows no later version, and no longer once the store's level says that all programs know one.
//!
//! Does not guarantee: that forwarded calls are confidential; that a call of version 1, which a node of an earlier program
//! forwarded, is not accepted again after a restart of its receiver while that node lives.
//!
//! A proof names the version of its format. A node's record says which version it knows, so a sender speaks no newer one
//! to it. A node that does not know the version of a proof rejects the call before it does anything, and answers with the
//! header `x-tenure-unproven`.
//!
//! Assumes: no two processes use the same incarnation.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use actix_web::{HttpMessage as _, HttpRequest, http::header::HeaderName};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};

use super::{
    headers::{FORWARDED, FORWARDED_FOR, PART, PLACE, PRINCIPAL, WAITED},
    nodes::Nodes,
};
use crate::{
    access::Broken,
    clock::Clock,
    lease::{ClusterSecret, Level, Moment, Nonce},
    manager::seal_versions,
};

/// The other headers of a forwarded request that the proof covers.
pub const SEALED: [HeaderName; 5] = [
    HeaderName::from_static(FORWARDED_FOR),
    HeaderName::from_static(PART),
    HeaderName::from_static(PLACE),
    HeaderName::from_static(WAITED),
    HeaderName::from_static(PRINCIPAL),
];
/// The first version whose proofs name the run of their receiver.
const NAMES_RUN: u8 = 2;
/// The number of a node's requests that may overtake an earlier one.
const WINDOW: u64 = 8192;
/// After this silence of a node, its requests may no longer overtake each other. A request is under way for seconds at
/// most.
const SILENCE: Duration = Duration::from_secs(600);

/// Seals the requests that this node forwards, and checks the requests that are forwarded to it.
pub struct Seal {
    key: Hmac<Sha256>,
    versions: Cow<'static, [u8]>,
    url: String,
    sent: AtomicU64,
    heard: Mutex<Heard>,
    clock: Arc<dyn Clock>,
    nodes: Arc<dyn Nodes>,
}

/// Marks a request that another node forwarded. It is answered here, and not forwarded again.
#[derive(Clone, Copy)]
pub struct Sealed {
    body: [u8; 32],
}

impl Sealed {
    /// Whether the request came with this body.
    pub fn has(&self, body: &[u8]) -> bool {
        digest(body) == self.body
    }
}

/// Whether another node forwarded the request.
pub fn was_forwarded(request: &HttpRequest) -> bool {
    request.extensions().contains::<Sealed>()
}

impl Seal {
    /// The seal of the node at this URL, among these nodes.
    #[must_use]
    pub fn new(
        secret: &ClusterSecret,
        url: &str,
        clock: Arc<dyn Clock>,
        nodes: Arc<dyn Nodes>,
    ) -> Self {
        Self {
            key: secret.key_of("tenure forward 1"),
            versions: seal_versions(),
            url: url.to_owned(),
            sent: AtomicU64::new(0),
            heard: Mutex::default(),
            clock,
            nodes,
        }
    }

    /// The reading of the clock.
    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    /// The newest version that this program knows.
    pub fn newest() -> u8 {
        seal_versions().first().copied().unwrap_or_default()
    }

    /// The newest version that this program and the node `to` know; the newest of all if they have none in common.
    fn version_for(&self, to: Nonce) -> u8 {
        let newest = self.versions.first().copied().unwrap_or_default();
        let known = self.nodes.seal_of(to).unwrap_or(newest);
        self.versions.iter().copied().find(|version| *version <= known).unwrap_or(newest)
    }

    /// Seals a request of the node `from` to the node `to`, which is at `url`.
    pub fn seal(&self, from: Nonce, (to, url): (Nonce, &str), request: &mut reqwest::Request) {
        self.seal_in(self.version_for(to), from, (to, url), request);
    }

    fn seal_in(
        &self,
        version: u8,
        from: Nonce,
        (to, receiver): (Nonce, &str),
        request: &mut reqwest::Request,
    ) {
        let number = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
        let body = digest(request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default());
        let url = request.url();
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        let base = receiver.split_once("://").map_or(receiver, |(_, rest)| rest);
        let base = base.find('/').map_or("", |at| base[at..].trim_end_matches('/'));
        let path = url.path().strip_prefix(base).unwrap_or(url.path());
        let to = (version >= NAMES_RUN).then_some(to);
        let claim = Claim { version, from, to, number, body };
        let said = |name: &HeaderName| request.headers().get(name.as_str()).map(|v| v.as_bytes());
        let method = request.method().as_str();
        let tag = self.tag(&claim, receiver, method, &[path, &query].concat(), said).finalize();
        let proof = claim.with(&tag.into_bytes());
        if let Ok(value) = reqwest::header::HeaderValue::from_str(&proof) {
            request.headers_mut().insert(FORWARDED, value);
        }
    }

    /// Whether a proof that makes this claim may be one for this run of this node.
    fn accepts(&self, claim: &Claim) -> bool {
        match claim.to {
            Some(to) => {
                let broken = [Broken::SealOfAnyRun, Broken::SealWithoutReceiver];
                self.nodes.is_own(to) || broken.into_iter().any(Broken::is_active)
            }
            None => {
                let knows_none = |known: u8| known < NAMES_RUN;
                // A program that knows no later version gets none.
                self.versions.iter().all(|version| knows_none(*version))
                    // Programs that know more than the first level know a version that names the run.
                    || (self.nodes.level() == Level::FIRST
                        && self.nodes.seal_of(claim.from).is_some_and(knows_none))
            }
        }
    }

    /// Checks the proof on a request. `None`: the request does not claim to be forwarded.
    ///
    /// # Errors
    /// When the request claims to be forwarded and the proof does not hold.
    pub fn open(&self, request: &HttpRequest) -> Result<Option<Sealed>, Forged> {
        let headers = request.headers();
        let Some(proof) = headers.get(FORWARDED) else {
            let claims = SEALED.iter().any(|name| headers.contains_key(name));
            return if claims { Err(Forged) } else { Ok(None) };
        };
        let known = |(claim, _): &(Claim, _)| self.versions.contains(&claim.version);
        let read = proof.to_str().ok().and_then(Claim::read).filter(known);
        let (claim, tag) = read.ok_or(Forged)?;
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let said = |name: &HeaderName| headers.get(name).map(|value| value.as_bytes());
        let mac = self.tag(&claim, &self.url, request.method().as_str(), path, said);
        mac.verify_slice(&tag).map_err(|_| Forged)?;
        if !self.accepts(&claim) {
            return Err(Forged);
        }
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = heard.take(claim.from, claim.number, self.clock.now());
        if is_new { Ok(Some(Sealed { body: claim.body })) } else { Err(Forged) }
    }

    fn tag<'a>(
        &self,
        claim: &Claim,
        to: &str,
        method: &str,
        path: &str,
        said: impl Fn(&HeaderName) -> Option<&'a [u8]>,
    ) -> Hmac<Sha256> {
        let mut mac = self.key.clone();
        let to = if Broken::SealWithoutReceiver.is_active() { "" } else { to };
        // Only the last part may contain a NUL, so the parts are unambiguous.
        for part in [&claim.text(), to.trim_end_matches('/'), method, path] {
            mac.update(part.as_bytes());
            mac.update(&[0]);
        }
        for name in &SEALED {
            let value = said(name);
            if name == PRINCIPAL && value.is_none() {
                // Nodes of a version without principals compute the same tag.
                continue;
            }
            mac.update(&[u8::from(value.is_some())]);
            mac.update(value.unwrap_or_default());
            mac.update(&[0]);
        }
        mac
    }
}

/// A call carries a header of calls between nodes that no node of the store wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forged;

struct Claim {
    version: u8,
    from: Nonce,
    /// The run of the receiver, from version [`NAMES_RUN`] on.
    to: Option<Nonce>,
    number: u64,
    body: [u8; 32],
}

impl Claim {
    fn text(&self) -> String {
        let Self { version, from, to, number, body } = self;
        let to = to.map(|to| format!("{to}.")).unwrap_or_default();
        format!("v{version}.{from}.{to}{number}.{}", BASE64.encode(body))
    }

    fn with(&self, tag: &[u8]) -> String {
        format!("{}.{}", self.text(), BASE64.encode(tag))
    }

    fn read(proof: &str) -> Option<(Self, [u8; 32])> {
        let mut parts = proof.split('.');
        let nonce = |part: &str| u128::from_str_radix(part, 16).ok().map(Nonce);
        let version = parts.next()?.strip_prefix('v')?.parse().ok()?;
        let from = nonce(parts.next()?)?;
        let to = if version >= NAMES_RUN { Some(nonce(parts.next()?)?) } else { None };
        let number = parts.next()?.parse().ok()?;
        let (body, tag) = (decode(parts.next()?)?, decode(parts.next()?)?);
        parts.next().is_none().then_some((Self { version, from, to, number, body }, tag))
    }
}

fn digest(body: &[u8]) -> [u8; 32] {
    Sha256::digest(body).into()
}

fn decode(text: &str) -> Option<[u8; 32]> {
    BASE64.decode(text).ok()?.try_into().ok()
}

/// The request numbers that were received in this run, by node.
///
/// A proof does not expire: it holds for as long as this process runs, since it names no time that the clocks of two
/// nodes could agree on. So a node's highest number is kept for as long, which takes a few bytes for each incarnation.
/// What is dropped after a silence is the window below that number: those requests then count as received before. No
/// request is accepted that the window would have refused.
#[derive(Default)]
struct Heard {
    windows: HashMap<Nonce, Window>,
    /// When the windows of silent nodes were last looked for.
    swept: Moment,
}

impl Heard {
    /// Whether this number is new.
    fn take(&mut self, from: Nonce, number: u64, now: Moment) -> bool {
        if now.since(self.swept) >= SILENCE {
            self.swept = now;
            let silent = |window: &&mut Window| now.since(window.last) >= SILENCE;
            self.windows.values_mut().filter(silent).for_each(Window::close);
        }
        let window = self.windows.entry(from).or_default();
        window.last = now;
        window.take(number)
    }
}

/// The request numbers that were received from one node.
struct Window {
    highest: u64,
    /// One bit for each of the last numbers. Empty once all of them count as received.
    heard: Box<[u64]>,
    /// When the last one was received.
    last: Moment,
}

impl Default for Window {
    fn default() -> Self {
        Self { highest: 0, heard: Self::words(0), last: Moment::ZERO }
    }
}

impl Window {
    fn words(word: u64) -> Box<[u64]> {
        vec![word; WINDOW as usize / 64].into()
    }

    /// Counts all numbers up to the highest as received.
    fn close(&mut self) {
        self.heard = Box::default();
    }

    /// Whether this number is new. A number that is too old to tell counts as received before.
    fn take(&mut self, number: u64) -> bool {
        if number == 0 || number + WINDOW <= self.highest {
            return false;
        }
        if self.heard.is_empty() {
            if number <= self.highest {
                return false;
            }
            self.heard = Self::words(u64::MAX);
        }
        let fresh = number.saturating_sub(self.highest).min(WINDOW);
        for new in number - fresh + 1..=number {
            *self.word(new).0 &= !self.word(new).1;
        }
        self.highest = self.highest.max(number);
        let (word, bit) = self.word(number);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    fn word(&mut self, number: u64) -> (&mut u64, u64) {
        let at = number % WINDOW;
        (&mut self.heard[(at / 64) as usize], 1 << (at % 64))
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;
    use crate::{clock::ManualClock, tls};

    const URL: &str = "http://127.0.0.1:7373";
    /// The sender of these tests, and the run of the receiver.
    const FROM: Nonce = Nonce(7);
    const RUN: Nonce = Nonce(8);

    /// A cluster as one node sees it.
    #[derive(Clone, Copy)]
    struct Cluster {
        own: Nonce,
        /// The newest version that the sender and the receiver know, if they live.
        seals: (Option<u8>, Option<u8>),
        level: Level,
    }

    impl Nodes for Cluster {
        fn is_own(&self, incarnation: Nonce) -> bool {
            incarnation == self.own
        }

        fn seal_of(&self, incarnation: Nonce) -> Option<u8> {
            let (sender, receiver) = self.seals;
            if incarnation == FROM { sender } else { receiver.filter(|_| incarnation == RUN) }
        }

        fn level(&self) -> Level {
            self.level
        }
    }

    /// All nodes know the versions of this program, as the receiver of these tests sees it.
    const NEW: Cluster = Cluster { own: RUN, seals: (Some(2), Some(2)), level: Level::FIRST };

    fn seal(secret: u8, url: &str) -> Seal {
        among(NEW, secret, url)
    }

    fn among(cluster: Cluster, secret: u8, url: &str) -> Seal {
        let (secret, clock) = (ClusterSecret::new(&[secret; 32]), Arc::new(ManualClock::new()));
        Seal::new(&secret, url, clock, Arc::new(cluster))
    }

    /// A call that a node forwards to [`URL`].
    fn passed_on(by: &Seal, body: &str) -> reqwest::Request {
        let client = tls::http(tls::none()).build().expect("a client");
        let call = client.post(format!("{URL}/v1/acquire?a=b")).body(body.to_owned());
        let mut call = call.header(SEALED[0].as_str(), "10.0.0.7").build().expect("a request");
        by.seal(FROM, (RUN, URL), &mut call);
        call
    }

    /// The call as it arrives, with this method, path and address.
    fn arrives(call: &reqwest::Request, method: &str, path: &str, asked: &str) -> HttpRequest {
        let method = method.parse().expect("a method");
        let mut request = TestRequest::default().method(method).uri(path);
        for (name, value) in call.headers() {
            request = request.insert_header((name.as_str(), value.as_bytes()));
        }
        request.insert_header((SEALED[0].clone(), asked)).to_http_request()
    }

    #[test]
    fn what_a_node_of_the_store_passed_on_is_believed_once() {
        let (a, b) = (seal(1, "http://127.0.0.1:1"), seal(1, URL));
        for body in ["{}", "{\"key\":\"k\"}"] {
            let call = passed_on(&a, body);
            let request = arrives(&call, "POST", "/v1/acquire?a=b", "10.0.0.7");
            let sealed = b.open(&request).expect("it is true").expect("it was forwarded");
            assert!(sealed.has(body.as_bytes()) && !sealed.has(b"{ }"));
            assert!(matches!(b.open(&request), Err(Forged)), "once");
        }
        assert!(
            b.open(&TestRequest::default().to_http_request())
                .expect("nothing is claimed")
                .is_none()
        );
    }

    #[test]
    fn whatever_is_changed_is_noticed() {
        let (a, b) = (seal(1, "http://127.0.0.1:1"), seal(1, URL));
        let call = passed_on(&a, "{}");
        let changed = [
            ("PUT", "/v1/acquire?a=b", "10.0.0.7"),
            ("POST", "/v1/release?a=b", "10.0.0.7"),
            ("POST", "/v1/acquire?a=c", "10.0.0.7"),
            ("POST", "/v1/acquire", "10.0.0.7"),
            ("POST", "/v1/acquire?a=b", "10.0.0.8"),
            ("POST", "/v1/acquire?a=b", ""),
        ];
        for (method, path, asked) in changed {
            let request = arrives(&call, method, path, asked);
            assert!(matches!(b.open(&request), Err(Forged)), "{method} {path} {asked}");
        }
        let request = arrives(&call, "POST", "/v1/acquire?a=b", "10.0.0.7");
        for other in [seal(2, URL), seal(1, "http://127.0.0.1:7374")] {
            assert!(matches!(other.open(&request), Err(Forged)), "another store, another node");
        }
        for name in &SEALED {
            let request =
                TestRequest::default().insert_header((name.clone(), "1")).to_http_request();
            assert!(matches!(b.open(&request), Err(Forged)), "{name} alone");
        }
        for proof in ["", "1", "http://127.0.0.1:1", "v1.7.1.00.00"] {
            let request =
                TestRequest::default().insert_header((FORWARDED, proof)).to_http_request();
            assert!(matches!(b.open(&request), Err(Forged)), "{proof:?}");
        }
        assert!(b.open(&request).is_ok(), "the true one");
    }

    fn is_believed(by: &Seal, call: &reqwest::Request) -> bool {
        let request = arrives(call, "POST", "/v1/acquire?a=b", "10.0.0.7");
        by.open(&request).is_ok_and(|sealed| sealed.is_some())
    }

    #[test]
    fn a_call_to_an_earlier_run_is_refused() {
        let a = seal(1, "http://127.0.0.1:1");
        let call = passed_on(&a, "{}");
        let restarted = among(Cluster { own: Nonce(9), ..NEW }, 1, URL);
        assert!(!is_believed(&restarted, &call), "it is for the run before");
        assert!(is_believed(&seal(1, URL), &call), "it is for this run");
        // The proof covers the run.
        let mut call = passed_on(&a, "{}");
        let proof = call.headers()[FORWARDED].to_str().expect("text");
        let other = proof.replacen(&format!(".{RUN}."), &format!(".{}.", Nonce(9)), 1);
        assert_ne!(other, proof);
        call.headers_mut().insert(FORWARDED, other.parse().expect("a header"));
        assert!(!is_believed(&restarted, &call));
    }

    #[test]
    fn a_proof_without_a_run_is_believed_of_living_nodes_that_know_no_other_alone() {
        let a = seal(1, "http://127.0.0.1:1");
        let old = |sender, level| {
            let mut call = passed_on(&a, "{}");
            a.seal_in(1, FROM, (RUN, URL), &mut call);
            is_believed(&among(Cluster { seals: (sender, Some(2)), level, ..NEW }, 1, URL), &call)
        };
        assert!(old(Some(1), Level::FIRST));
        assert!(!old(Some(2), Level::FIRST), "the sender knows a later version");
        assert!(!old(None, Level::FIRST), "the sender is dead, or not known");
        assert!(!old(Some(1), Level(2)), "no program on the store is as old");
    }

    #[test]
    fn a_sender_speaks_the_newest_version_that_the_receiver_knows() {
        let spoken = |versions: &[u8], receiver| {
            let cluster = Cluster { seals: (Some(2), receiver), ..NEW };
            let a = among(cluster, 1, "http://127.0.0.1:1");
            let a = Seal { versions: versions.to_vec().into(), ..a };
            let call = passed_on(&a, "{}");
            call.headers()[FORWARDED].to_str().expect("text")[..2].to_owned()
        };
        assert_eq!(spoken(&[2, 1], Some(2)), "v2");
        assert_eq!(spoken(&[2, 1], Some(1)), "v1");
        assert_eq!(spoken(&[3, 2], Some(2)), "v2");
        assert_eq!(spoken(&[3, 2], Some(1)), "v3", "they have none in common");
        assert_eq!(spoken(&[2, 1], None), "v2", "it is not known yet");
        assert_eq!(spoken(&[2, 1], Some(9)), "v2");
    }

    #[test]
    fn a_version_that_is_not_known_is_rejected_and_is_part_of_what_is_proven() {
        let (a, b) = (seal(1, "http://127.0.0.1:1"), seal(1, URL));
        let mut call = passed_on(&a, "{}");
        a.seal_in(3, FROM, (RUN, URL), &mut call);
        assert!(!is_believed(&b, &call), "it is not known");
        let later = Seal { versions: vec![3, 2].into(), ..seal(1, URL) };
        let proof = call.headers()[FORWARDED].to_str().expect("text").replacen("v3", "v2", 1);
        let mut changed = passed_on(&a, "{}");
        changed.headers_mut().insert(FORWARDED, proof.parse().expect("a header"));
        assert!(!is_believed(&later, &changed), "the version was changed");
        assert!(is_believed(&later, &call));
    }

    #[test]
    fn after_a_silence_the_window_is_dropped_and_no_number_counts_twice() {
        let (mut heard, start) = (Heard::default(), Moment::ZERO + SILENCE);
        let (silent, other) = (Nonce(1), Nonce(2));
        assert!(heard.take(silent, 100, start) && heard.take(silent, 98, start));
        assert!(heard.take(other, 1, start + SILENCE / 2));
        let later = start + SILENCE;
        assert!(heard.take(other, 2, later));
        let words = |heard: &Heard, node| heard.windows[&node].heard.len();
        assert_eq!((words(&heard, silent), words(&heard, other) > 0), (0, true));
        for number in [98, 99, 100] {
            assert!(!heard.take(silent, number, later), "{number}");
        }
        assert!(heard.take(silent, 103, later) && heard.take(silent, 102, later));
        for number in [98, 99, 100, 102, 103] {
            assert!(!heard.take(silent, number, later), "{number}");
        }
        assert!(heard.take(silent, 101, later) && !heard.take(silent, 101, later));
    }

    #[test]
    fn numbers_may_overtake_each_other_and_none_counts_twice() {
        let mut window = Window::default();
        for number in [1, 3, 2, 100, 99, WINDOW, WINDOW + 99] {
            assert!(window.take(number) && !window.take(number), "{number}");
        }
        assert!(!window.take(99) && !window.take(0) && !window.take(3), "too old to tell");
        assert!(window.take(101) && window.take(WINDOW + 98));
        assert!(window.take(5 * WINDOW) && window.take(5 * WINDOW - 7));
        assert!(!window.take(WINDOW + 99));
    }
}
