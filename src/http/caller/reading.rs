//! The caller of a request, as the handlers see it: reads the names and proofs in a request on behalf of the caller.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use actix_web::{HttpMessage as _, HttpRequest, HttpResponse};

use super::{
    identity::PeerCertificate,
    meter::Meter,
    needs::Pace,
    rate::Cell,
    usage::{InUse, Kind, Usage},
};
use crate::{
    access::{Broken, Credential, Current, JwtProof, Principal, Verb},
    clock::Clock,
    http::answer::Problem,
    lease::{self, Key, KeySet, LeaseId, NotASessionId, Owner, PrincipalDigest, SessionId},
};

/// How often a call that waits looks at the wall clock, which may have been set.
const LOOK: Duration = Duration::from_secs(5);

/// The bytes of a body or message that cost as much as one more call: parsing them takes about as long.
pub const BYTES_OF_A_CALL: usize = 16 * 1024;

/// The keys, records or changes to read that cost as much as one more call.
pub const LOOKED_AT_OF_A_CALL: usize = 100;

/// Who sends a request.
#[derive(Clone)]
pub struct Caller {
    who: Who,
    /// What the call is charged to, if it is.
    charged: Option<Arc<Cell>>,
}

#[derive(Clone)]
enum Who {
    /// No access file is in force: everybody may do everything.
    Anyone,
    /// Nobody that this node knows.
    Nobody,
    /// A principal of the access file.
    Known(Arc<Known>),
}

/// A principal of an access file.
pub struct Known {
    pub principal: Arc<Principal>,
    /// What was verified of the JWT that it showed.
    pub jwt: Option<JwtProof>,
    /// The certificate by which it is known.
    pub certificate: Option<Arc<PeerCertificate>>,
    /// What it showed.
    pub shown: Credential,
    /// The file that is in force, and its number when the principal was found.
    pub current: Arc<Current>,
    pub generation: u64,
    /// What the principal uses at this node.
    pub usage: Arc<Usage>,
    /// Counts what is refused.
    pub meter: Arc<Meter>,
    /// By which its last day, its JWT and its certificate end.
    pub clock: Arc<dyn Clock>,
}

impl Known {
    /// When the principal, or the JWT that it showed, ends, in milliseconds since 1970.
    fn until_ms(&self) -> Option<u64> {
        let day = self.principal.expires().map(|day| day.end_ms());
        let jwt = self.jwt.as_ref().map(JwtProof::until_ms);
        day.into_iter().chain(jwt).min()
    }

    /// Whether the last day of the principal is over, or the proof that it showed holds no longer.
    pub fn is_over(&self) -> bool {
        let now = self.clock.wall_ms();
        self.until_ms().is_some_and(|until| until <= now)
            || self.certificate.as_ref().is_some_and(|certificate| !certificate.holds(now))
    }

    /// Requires that the proof of the principal still holds.
    pub fn lasts(&self) -> Result<(), Problem> {
        if self.is_over() { Err(Problem::ended(&self.principal.name)) } else { Ok(()) }
    }

    /// Resolves when the access file has another entry for the principal, or none, or no longer accepts its JWT; or when
    /// the principal, or what it showed, is revoked.
    async fn replaced(&self) {
        let mut seen = self.generation;
        loop {
            seen = self.current.changed(seen).await;
            let access = self.current.load();
            let now = match &self.jwt {
                Some(proof) => access.by_proof(proof),
                None => access.by_name(&self.principal.name),
            };
            let is_revoked =
                self.current.revokes(&self.principal.name, &self.shown, self.clock.wall_ms());
            if is_revoked || !now.is_some_and(|now| **now == *self.principal) {
                return;
            }
        }
    }

    /// Resolves when the principal's last day is over, its JWT is, or its certificate holds no longer.
    async fn ended(&self) {
        while !self.is_over() {
            let now = self.clock.wall_ms();
            let certificate = self.certificate.as_ref();
            let ends = certificate.map(|certificate| certificate.until_ms(now));
            let Some(until_ms) = self.until_ms().into_iter().chain(ends).min() else {
                return std::future::pending().await;
            };
            let left = Duration::from_millis(until_ms.saturating_sub(now));
            let look = tokio::time::sleep(left.min(LOOK));
            match certificate {
                None => look.await,
                Some(certificate) => tokio::select! {
                    () = look => {}
                    () = certificate.trust_changed() => {}
                },
            }
        }
    }
}

impl Caller {
    /// A caller where no access file is in force.
    pub fn anyone() -> Self {
        Self { who: Who::Anyone, charged: None }
    }

    /// A caller that this node does not know.
    pub fn nobody() -> Self {
        Self { who: Who::Nobody, charged: None }
    }

    /// A principal.
    pub fn known(known: Arc<Known>) -> Self {
        Self { who: Who::Known(known), charged: None }
    }

    /// The same caller, whose call is charged to this.
    pub fn charged(self, charged: Option<Arc<Cell>>) -> Self {
        Self { charged, ..self }
    }

    /// Charges a call that is about so many leases. The door has charged it as one.
    pub fn is_about(&self, leases: usize) {
        self.owes(leases.saturating_sub(1));
    }

    /// Charges a call for its body, which is parsed whatever it is.
    pub fn sends(&self, bytes: usize) {
        self.owes(bytes / BYTES_OF_A_CALL);
    }

    /// Charges a call for the keys, records or changes that were looked at to answer it, whether or not they came out.
    pub fn looked_at(&self, items: usize) {
        self.looks()(items);
    }

    /// Charges the call for more keys, records or changes each time, while they are looked at. The node that looks
    /// charges them, also for a call that another node forwards.
    pub fn looks(&self) -> impl Fn(usize) + Send + Sync + use<> {
        let cell = match &self.who {
            Who::Known(known) => known.meter.cell(Pace::Other, &known.principal, &known.usage),
            Who::Anyone | Who::Nobody => self.charged.clone(),
        };
        let cell = cell.filter(|_| !Broken::LooksAreFree.is_active());
        let so_far = AtomicUsize::new(0);
        move |items| {
            let before = so_far.fetch_add(items, Relaxed);
            let calls = |items: usize| items / LOOKED_AT_OF_A_CALL;
            if let Some(cell) = &cell {
                cell.owe((calls(before + items) - calls(before)) as u64);
            }
        }
    }

    fn owes(&self, calls: usize) {
        if let (Some(cell), true) = (&self.charged, calls > 0) {
            cell.owe(calls as u64);
        }
    }

    /// The caller of a request that passed the door.
    pub fn of(request: &HttpRequest) -> Self {
        request.extensions().get::<Self>().cloned().unwrap_or_else(Self::nobody)
    }

    /// The principal's name; `None` where no access file is in force.
    pub fn name(&self) -> Option<&str> {
        self.account().map(|principal| &*principal.name)
    }

    /// The principal, where an access file is in force.
    pub fn account(&self) -> Option<&Arc<Principal>> {
        match &self.who {
            Who::Known(known) => Some(&known.principal),
            Who::Anyone | Who::Nobody => None,
        }
    }

    /// The principal, as the leases know it.
    pub fn principal(&self) -> Option<&lease::Principal> {
        Some(self.account()?.id())
    }

    /// What is known of a principal.
    pub(super) fn as_known(&self) -> Option<&Arc<Known>> {
        match &self.who {
            Who::Known(known) => Some(known),
            Who::Anyone | Who::Nobody => None,
        }
    }

    fn digest(&self) -> Option<PrincipalDigest> {
        self.principal().map(lease::Principal::digest)
    }

    /// Judges by the principal's rights.
    fn judge(&self, has: impl FnOnce(&Principal) -> bool) -> bool {
        match &self.who {
            Who::Anyone => true,
            Who::Nobody => false,
            Who::Known(known) => has(&known.principal),
        }
    }

    /// The refusal of a caller that lacks a right.
    pub fn refuse(&self, verb: Verb, what: &str) -> Problem {
        match self.name() {
            None => Problem::unauthenticated(),
            Some(name) => Problem::no_right(name, verb.as_str(), what),
        }
    }

    /// Requires a right to a key.
    pub fn may(&self, verb: Verb, key: &str) -> Result<(), Problem> {
        if self.judge(|principal| principal.may(verb, key)) {
            return Ok(());
        }
        Err(self.refuse(verb, &format!("for the key {key:?}")))
    }

    /// Requires a right to all keys with a prefix.
    pub fn may_all_of(&self, verb: Verb, prefix: &str) -> Result<(), Problem> {
        if self.judge(|principal| principal.may_all_of(verb, prefix)) {
            return Ok(());
        }
        let what = if prefix.is_empty() {
            "for all keys".to_owned()
        } else {
            format!("for all keys with the prefix {prefix:?}")
        };
        Err(self.refuse(verb, &what))
    }

    /// Whether the caller has a right to some keys with a prefix.
    pub fn may_some_of(&self, verb: Verb, prefix: &str) -> bool {
        self.judge(|principal| !principal.keys(verb).part_of(prefix).is_empty())
    }

    /// Requires a right that is not about keys.
    pub fn has(&self, verb: Verb) -> Result<(), Problem> {
        if self.judge(|principal| principal.has(verb)) {
            return Ok(());
        }
        Err(self.refuse(verb, "at all"))
    }

    /// Whether the caller may read a key.
    pub fn reads(&self, key: &str) -> bool {
        self.judge(|principal| principal.may(Verb::Read, key))
    }

    /// A problem about a key, without what only callers may know that may read the key.
    pub fn told(&self, key: &str, problem: Problem) -> Problem {
        if self.reads(key) { problem } else { problem.concealed() }
    }

    /// Whether the caller may read all keys with a prefix.
    pub fn reads_all_of(&self, prefix: &str) -> bool {
        self.judge(|principal| principal.may_all_of(Verb::Read, prefix))
    }

    /// The keys that the caller may read; `None` for all keys.
    pub fn readable(&self) -> Option<KeySet> {
        match &self.who {
            Who::Anyone => None,
            Who::Nobody => Some(KeySet::default()),
            Who::Known(known) => {
                let keys = known.principal.keys(Verb::Read);
                (!keys.is_everything()).then(|| keys.clone())
            }
        }
    }

    /// Counts one more use, unless the principal uses as much already as its limit says.
    pub fn uses(&self, kind: Kind) -> Result<InUse, Problem> {
        let Who::Known(known) = &self.who else {
            return Ok(InUse::unlimited());
        };
        let Known { principal, usage, meter, .. } = &**known;
        InUse::one_more(usage, principal, kind).map_err(|most| {
            meter.refused(kind.limit());
            Problem::over_limit(&principal.name, kind.limit().as_str(), most)
        })
    }

    /// Requires a weight within the principal's limit.
    pub fn may_weigh(&self, weight: u32) -> Result<(), Problem> {
        match self.account().and_then(|principal| principal.limit().weight) {
            Some(most) if weight > most => {
                let detail = format!("is {weight}; at most {most} for this principal");
                Err(Problem::field("weight", detail))
            }
            _ => Ok(()),
        }
    }

    /// Reads the owner for which the caller acts.
    pub fn owner(&self, field: &str, text: &str) -> Result<Owner, Problem> {
        let owner = Owner::new(text).map_err(|error| Problem::field(field, error))?;
        if !self.judge(|principal| principal.acts_as(text)) {
            return Err(match self.name() {
                None => Problem::unauthenticated(),
                Some(name) => Problem::not_its_owner(name, text),
            });
        }
        Ok(owner.of(self.principal().cloned()))
    }

    /// Reads the key that the caller wants to hold, or holds.
    pub fn held_key(&self, text: &str) -> Result<Key, Problem> {
        let key = Key::new(text).map_err(|error| Problem::field("key", error))?;
        self.may(Verb::Hold, text)?;
        Ok(key)
    }

    /// Reads a lease id that the caller shows.
    pub fn lease_id(&self, text: &str) -> Result<LeaseId, Problem> {
        let id: Result<LeaseId, _> = text.parse();
        id.map(|id| id.by(self.digest())).map_err(|error| Problem::field("lease_id", error))
    }

    /// Reads a session id that the caller shows.
    pub fn session_id(&self, field: &str, text: &str) -> Result<SessionId, Problem> {
        let id: Result<SessionId, NotASessionId> = text.parse();
        let SessionId { digest, proof } = id.map_err(|error| Problem::field(field, error))?;
        Ok(SessionId { digest, proof: proof.by(self.digest()) })
    }

    /// Whether a session of this owner is the caller's own.
    pub fn is_own(&self, owner: &Owner) -> bool {
        match &self.who {
            Who::Anyone => true,
            Who::Nobody => false,
            Who::Known(..) => owner.principal() == self.principal(),
        }
    }

    /// The answer to a call, which may wait for `wait_ms`. A call that waits counts as one that the principal uses, and
    /// ends as if the caller had hung up once the caller's rights change.
    pub async fn answer(
        &self,
        request: &HttpRequest,
        wait_ms: u64,
        answer: Pin<&mut impl Future<Output = Result<HttpResponse, Problem>>>,
    ) -> HttpResponse {
        let answer = async {
            if wait_ms == 0 {
                return answer.await;
            }
            let _in_use = self.uses(Kind::Waits)?;
            tokio::select! {
                biased;
                answer = answer => answer,
                problem = self.removed() => Err(problem),
            }
        };
        answer.await.unwrap_or_else(|problem| problem.respond(request))
    }

    /// Resolves when the caller is no longer who it was: the access file changed, and has another entry for it, or none;
    /// or its last day is over, or the proof that it showed holds no longer.
    pub async fn removed(&self) -> Problem {
        let Who::Known(known) = &self.who else {
            return std::future::pending().await;
        };
        tokio::select! {
            biased;
            () = known.replaced() => Problem::removed(&known.principal.name),
            () = known.ended() => Problem::ended(&known.principal.name),
        }
    }
}
