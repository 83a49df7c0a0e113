//! The state that a session shares with its heartbeat: its guarantee, and the leases that it keeps.
//!
//! Guarantees: a lease that a notice revoked is never renewed again, even if the notice came before the lease was known
//! here. The digest of all leases reveals a lease that the server ended unnoticed. It also reveals a lease that the
//! server keeps for a request whose answer was lost; such a lease is released.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::AtomicUsize},
    time::Duration,
};

use reqwest::Url;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::runtime::Handle;

use super::{
    Holdings, LeaseFilter, LeaseView, Notice, Opened, SessionAlive,
    call::Call,
    error::ClientError,
    guarantee::{Guarantee, Loss, Sent},
    handle::Client,
    hold::Hold,
    keep::{KeepOutcome, Kept},
    lease_state::LeaseState,
    loads::Loads,
    prepares::Prepares,
    servers::server_url,
    settle::Granted,
    stream::Registered,
};
use crate::{
    api::{BeatBody, Code},
    lease::Moment,
};

/// A difference between the digests counts only if two heartbeats this far apart show one.
const TWICE: Duration = Duration::from_secs(1);
/// A lease that only the server knows is looked at again after this pause, before it is released.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The number of leases on a page.
const PAGE: u32 = 1000;

/// What the guard of a session shares with its heartbeat.
pub(super) struct SessionState {
    /// A reference to itself, for tasks.
    me: Weak<SessionState>,
    pub(super) client: Client,
    /// The runtime of its tasks, whichever thread drops it.
    pub(super) runtime: Handle,
    pub(super) id: String,
    pub(super) digest: String,
    pub(super) owner: String,
    pub(super) ttl: Duration,
    pub(super) rejoin_window: Option<Duration>,
    pub(super) home: Option<Url>,
    turn: AtomicUsize,
    pub(super) guarantee: Guarantee,
    /// Whether other programs use the session's id too. Leases that are not known here are then theirs.
    shared: bool,
    asking: Mutex<Asking>,
    roll: Mutex<Roll>,
    progress: Mutex<Option<String>>,
    loads: Loads,
    prepares: Prepares,
    /// What a server tells by itself.
    told: Registered,
}

/// The leases, and what is known of them.
#[derive(Default)]
struct Roll {
    leases: HashMap<String, Arc<LeaseState>>,
    /// The last tenure of each key that is known to be revoked, and when, for grants that are not known yet.
    revoked: HashMap<String, (Option<u64>, Moment)>,
    /// The time by which all leases must be handed over.
    drain: Option<Moment>,
    /// Since when the server's digest differs from the digest here.
    differs: Option<Moment>,
    /// The pair of digests, the server's and the one here, that was checked and found in order.
    settled: Option<(Holdings, Holdings)>,
    /// The tenures that only the server knows, each with the number of the first request that it cannot belong to.
    unknown: HashMap<(String, u64), u64>,
    /// The next check of a difference is not before this moment.
    rests_until: Moment,
}

/// The numbers of the requests under the session that have no answer yet.
#[derive(Default)]
struct Asking {
    next: u64,
    open: BTreeSet<u64>,
}

impl Asking {
    /// Every request below this number was answered or given up.
    fn done_below(&self) -> u64 {
        self.open.first().copied().unwrap_or(self.next)
    }
}

/// A request under the session that has no answer yet.
pub(super) struct Asked<'a> {
    session_state: &'a SessionState,
    number: u64,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.session_state.asking().open.remove(&self.number);
    }
}

impl Roll {
    fn holdings(&self) -> Holdings {
        let sum = self.leases.values().fold(0, |sum, lease| sum ^ fingerprint(lease));
        Holdings { count: self.leases.len() as u64, digest: format!("{sum:016x}") }
    }

    /// Whether the difference has lasted long enough to be checked.
    fn differs_for_long(&mut self, theirs: &Holdings, now: Moment) -> bool {
        let ours = self.holdings();
        let settled = self.settled.as_ref().is_some_and(|(a, b)| (a, b) == (theirs, &ours));
        if ours == *theirs || settled {
            self.differs = None;
            return false;
        }
        now.since(*self.differs.get_or_insert(now)) >= TWICE && now >= self.rests_until
    }

    /// The keys that only the server knew in two checks, and that no open request can be about.
    fn orphans(&mut self, listed: &HashMap<String, u64>, asking: &Asking) -> Vec<String> {
        let before = std::mem::take(&mut self.unknown);
        let mut orphans = Vec::new();
        for (key, token) in listed {
            if self.leases.get(key).is_some_and(|lease| lease.token() == *token) {
                continue;
            }
            let tenure = (key.clone(), *token);
            match before.get(&tenure) {
                Some(number) if *number <= asking.done_below() => orphans.push(key.clone()),
                Some(number) => drop(self.unknown.insert(tenure, *number)),
                None => drop(self.unknown.insert(tenure, asking.next)),
            }
        }
        orphans
    }
}

/// The first 64 bits of SHA-256 of key, a zero byte and the token.
fn fingerprint(lease: &LeaseState) -> u64 {
    let mut hash = Sha256::new();
    hash.update(lease.key());
    hash.update([0]);
    hash.update(lease.token().to_string());
    let bytes: [u8; 32] = hash.finalize().into();
    bytes[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl SessionState {
    pub(super) fn new(client: Client, opened: Opened, sent: Sent, shared: bool) -> Arc<Self> {
        let guarantee = Guarantee::new(client.clock.clone(), sent, opened.valid_for_ms);
        let Opened { id, session, .. } = opened;
        let home = session.other.get("node").and_then(Value::as_str);
        let home = home.and_then(|url| server_url(url).ok());
        let told = client.streams.nudge_of_session(&session.digest);
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            client,
            runtime: Handle::current(),
            id,
            digest: session.digest,
            owner: session.owner,
            ttl: Duration::from_millis(session.ttl_ms),
            rejoin_window: session.rejoin_window_ms.map(Duration::from_millis),
            home,
            turn: AtomicUsize::new(0),
            guarantee,
            shared,
            asking: Mutex::default(),
            roll: Mutex::default(),
            progress: Mutex::default(),
            loads: Loads::default(),
            prepares: Prepares::default(),
            told,
        })
    }

    fn roll(&self) -> MutexGuard<'_, Roll> {
        self.roll.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asking(&self) -> MutexGuard<'_, Asking> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a request under the session begins. Its grants must be known here before the result is dropped.
    pub(super) fn ask(&self) -> Asked<'_> {
        let mut asking = self.asking();
        let number = asking.next;
        asking.next += 1;
        asking.open.insert(number);
        Asked { session_state: self, number }
    }

    pub(super) fn count(&self) -> usize {
        self.roll().leases.len()
    }

    pub(super) fn set_progress(&self, text: String) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    /// The loads that heartbeats report.
    pub(super) fn loads(&self) -> &Loads {
        &self.loads
    }

    /// What it is asked to prepare for.
    pub(super) fn prepares(&self) -> &Prepares {
        &self.prepares
    }

    /// Says with a heartbeat at once that it is prepared for a key after this tenure.
    pub(super) fn prepared(&self, key: &str, token: u64) {
        self.prepares.done(key, token);
        self.told.nudge().beat();
    }

    /// Adds a lease that was granted to a request sent at this moment.
    pub(super) fn take_in(&self, lease: &Arc<LeaseState>, sent: Sent) {
        let mut roll = self.roll();
        if let Some(loss) = self.guarantee.deadline().lost {
            lease.guarantee.lose(of_a_lease(loss));
            return;
        }
        let revoked = roll.revoked.get(lease.key()).is_some_and(|(token, heard)| match token {
            Some(token) => *token == lease.token(),
            None => *heard >= sent.at,
        });
        if revoked {
            lease.guarantee.lose(Loss::Revoked);
            return;
        }
        if let Some(end) = roll.drain {
            lease.guarantee.hand_over(end);
        }
        roll.leases.insert(lease.key().to_owned(), lease.clone());
    }

    /// Removes a lease that is over or released.
    pub(super) fn let_go(&self, lease: &LeaseState) {
        let mut roll = self.roll();
        if roll.leases.get(lease.key()).is_some_and(|known| known.token() == lease.token()) {
            roll.leases.remove(lease.key());
            self.loads.forget(lease.key());
        }
    }

    /// Notes that all leases must be handed over by `end`.
    pub(super) fn drain(&self, end: Moment) {
        let mut roll = self.roll();
        roll.drain = Some(end);
        roll.leases.values().for_each(|lease| lease.guarantee.hand_over(end));
        drop(roll);
        self.guarantee.hand_over(end);
    }

    /// Ends the session for its holder. Returns false when it was already over.
    pub(super) fn end(&self) -> bool {
        let ended = self.guarantee.lose(Loss::Released);
        self.end_leases(Loss::Released);
        ended
    }

    fn end_leases(&self, loss: Loss) {
        let leases = std::mem::take(&mut self.roll().leases);
        for lease in leases.into_values() {
            lease.guarantee.lose(of_a_lease(loss));
        }
    }

    pub(super) fn heard(&self, alive: &SessionAlive, sent: Sent) -> Option<Duration> {
        if alive.notices.iter().any(|notice| notice.kind == "replaced") {
            self.guarantee.lose(Loss::Replaced);
            self.end_leases(Loss::Replaced);
            return None;
        }
        self.prepares.heard(&alive.notices);
        let now = self.guarantee.clock.now();
        let mut roll = self.roll();
        for notice in &alive.notices {
            self.notice(&mut roll, notice, sent, now);
        }
        for lease in roll.leases.values() {
            lease.guarantee.renew(sent, alive.valid_for_ms);
        }
        let look = roll.differs_for_long(&alive.leases, now);
        let again = roll.differs.map(|_| TWICE);
        drop(roll);
        if look && let Some(me) = self.me.upgrade() {
            let theirs = alive.leases.clone();
            tokio::spawn(async move { me.look_into(theirs).await });
        }
        again
    }

    fn notice(&self, roll: &mut Roll, notice: &Notice, sent: Sent, now: Moment) {
        if notice.kind == "draining" {
            let end = sent.at + Duration::from_millis(notice.deadline_ms.unwrap_or(0));
            roll.drain = Some(roll.drain.map_or(end, |before| before.min(end)));
            self.guarantee.hand_over(end);
            roll.leases.values().for_each(|lease| lease.guarantee.hand_over(end));
        }
        let Some(key) = &notice.key else { return };
        let meant =
            |lease: &&Arc<LeaseState>| notice.token.is_none_or(|token| token == lease.token());
        if let Some(lease) = roll.leases.get(key).filter(meant) {
            lease.notice(notice, sent);
        }
        if notice.kind == "revoked" {
            // The notice may be about a grant to a request that was sent before the notice was heard.
            roll.revoked.insert(key.clone(), (notice.token, now));
            let long_ago = now - self.ttl * 4;
            roll.revoked.retain(|_, (_, heard)| *heard > long_ago);
        }
    }

    /// Resolves a difference between the server's leases and those known here: ends leases that are gone, and releases
    /// leases that are not known here.
    async fn look_into(&self, theirs: Holdings) {
        let Ok(listed) = self.listed().await else { return };
        let ours: Vec<Arc<LeaseState>> = self.roll().leases.values().cloned().collect();
        for lease in &ours {
            if listed.get(lease.key()) == Some(&lease.token()) {
                continue;
            }
            // The list may be slightly out of date, so the server is asked about each lease.
            if let Some(loss) = lease.cause_of_loss().await {
                lease.guarantee.lose(loss);
                self.let_go(lease);
            }
        }
        for key in self.looked_into(theirs, &listed) {
            self.give_back(&key).await;
        }
    }

    /// Notes that the check is done. Returns the keys to release.
    fn looked_into(&self, theirs: Holdings, listed: &HashMap<String, u64>) -> Vec<String> {
        let mut roll = self.roll();
        let orphans = if self.shared { Vec::new() } else { roll.orphans(listed, &self.asking()) };
        roll.differs = None;
        if orphans.is_empty() && roll.unknown.is_empty() {
            roll.settled = Some((theirs, roll.holdings()));
        } else {
            roll.rests_until = self.guarantee.clock.now() + LOOK_AGAIN;
        }
        orphans
    }

    /// Reclaims a lease whose grant never arrived here, and releases it.
    async fn give_back(&self, key: &str) {
        let hold = Hold::key(key).reclaim(true);
        let ask = hold.ask(Some((&self.id, &self.owner)));
        let Ok(granted) = self.client.settle(ask, Duration::ZERO, self.ttl).await else { return };
        for Granted { grant, .. } in granted {
            let outcome = self.client.release(&grant.lease.key, &grant.lease_id, None).await;
            tracing::warn!(key, ?outcome, "tried to release a lease whose grant never arrived");
        }
    }

    async fn listed(&self) -> Result<HashMap<String, u64>, ClientError> {
        let session = Some(self.digest.clone());
        let mut filter = LeaseFilter { session, limit: Some(PAGE), ..LeaseFilter::default() };
        let mut listed = HashMap::new();
        loop {
            let page = self.client.leases(&filter).await?;
            let known = |lease: LeaseView| Some((lease.key, lease.token?));
            listed.extend(page.leases.into_iter().filter_map(known));
            match page.next {
                Some(next) => filter.after = Some(next),
                None => return Ok(listed),
            }
        }
    }
}

/// The loss of a lease when its session is lost.
fn of_a_lease(of_session: Loss) -> Loss {
    match of_session {
        // No server said that the lease is over; it is no longer guaranteed, or it passes to another process.
        Loss::Expired | Loss::Unreachable | Loss::Replaced => of_session,
        _ => Loss::SessionEnded,
    }
}

impl Kept for SessionState {
    fn guarantee(&self) -> &Guarantee {
        &self.guarantee
    }

    async fn beat(&self, sent: Sent, patience: Duration) -> KeepOutcome {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let body = self.loads.report(BeatBody { progress, ..BeatBody::default() });
        let body = self.prepares.report(body);
        let call = Call::post("sessions", json!(body)).segment(&self.id).segment("heartbeat");
        let asked = self.client.ask_next(&call, self.home.as_ref(), &self.turn, patience);
        match asked.await {
            Ok::<SessionAlive, _>(alive) => {
                if !self.guarantee.renew(sent, alive.valid_for_ms) {
                    return KeepOutcome::Alive(None);
                }
                KeepOutcome::Alive(self.heard(&alive, sent))
            }
            Err(error) => KeepOutcome::of_failure(&error, Code::SessionLost),
        }
    }

    async fn nudged(&self) {
        self.told.nudge().woken().await;
    }

    fn overdue(&self) {
        self.guarantee.risk();
        self.roll().leases.values().for_each(|lease| lease.guarantee.risk());
    }

    fn over(&self, loss: Loss) {
        self.end_leases(loss);
    }

    fn denied(&self, why: Option<&str>) {
        self.client.tell_denied(&format!("session {}", self.digest), why);
    }
}
