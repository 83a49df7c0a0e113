//! What a session and its heartbeat share: its guarantee, and the leases that it keeps.
//!
//! Guarantees: a lease that a notice named is never renewed again, also where the notice came before the
//! lease was known here; one that the server dropped unheard is found out by the digest of all of them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::AtomicUsize},
    time::Duration,
};

use reqwest::Url;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::runtime::Handle;

use super::{
    Client, ClientError, Holdings, LeaseFilter, LeaseView, Loss, Notice, Opened, SessionAlive,
    call::Call,
    guarantee::{Guarantee, Sent},
    keep::{Kept, Outcome},
    lease::{Core, failed},
    servers::server_url,
};
use crate::lease::Moment;

/// Two digests that differ are no proof before they did so twice, this far apart.
const TWICE: Duration = Duration::from_secs(1);
/// Leases of one page.
const PAGE: u32 = 1000;

/// A session's core.
pub(super) struct Keeper {
    /// Itself, for tasks.
    me: Weak<Keeper>,
    pub(super) client: Client,
    /// Where its tasks run, whoever drops it.
    pub(super) runtime: Handle,
    pub(super) id: String,
    pub(super) digest: String,
    pub(super) owner: String,
    pub(super) ttl: Duration,
    pub(super) home: Option<Url>,
    turn: AtomicUsize,
    pub(super) guarantee: Guarantee,
    roll: Mutex<Roll>,
    progress: Mutex<Option<String>>,
}

/// The leases, and what was heard of them.
#[derive(Default)]
struct Roll {
    leases: HashMap<String, Arc<Core>>,
    /// When a revocation of a key was last heard of, for grants that are not known yet.
    revoked: HashMap<String, Moment>,
    /// Until when all is to be handed over.
    drain: Option<Moment>,
    /// Since when the server's digest differs from ours.
    differs: Option<Moment>,
    /// What was looked into and found in order, the server's and ours.
    settled: Option<(Holdings, Holdings)>,
}

impl Roll {
    fn holdings(&self) -> Holdings {
        let sum = self.leases.values().fold(0, |sum, core| sum ^ fingerprint(core));
        Holdings { count: self.leases.len() as u64, digest: format!("{sum:016x}") }
    }

    /// Whether it is time to look into the difference.
    fn differs_for_long(&mut self, theirs: &Holdings, now: Moment) -> bool {
        let ours = self.holdings();
        let settled = self.settled.as_ref().is_some_and(|(a, b)| (a, b) == (theirs, &ours));
        if ours == *theirs || settled {
            self.differs = None;
            return false;
        }
        now.since(*self.differs.get_or_insert(now)) >= TWICE
    }
}

/// The first 64 bits of SHA-256 of key, a zero byte and the token.
fn fingerprint(core: &Core) -> u64 {
    let mut hash = Sha256::new();
    hash.update(core.key());
    hash.update([0]);
    hash.update(core.token().to_string());
    let bytes: [u8; 32] = hash.finalize().into();
    bytes[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl Keeper {
    pub(super) fn new(client: Client, opened: Opened, sent: Sent) -> Arc<Self> {
        let guarantee = Guarantee::new(client.clock.clone(), sent, opened.valid_for_ms);
        let Opened { id, session, .. } = opened;
        let home = session.other.get("node").and_then(Value::as_str);
        let home = home.and_then(|url| server_url(url).ok());
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            client,
            runtime: Handle::current(),
            id,
            digest: session.digest,
            owner: session.owner,
            ttl: Duration::from_millis(session.ttl_ms),
            home,
            turn: AtomicUsize::new(0),
            guarantee,
            roll: Mutex::default(),
            progress: Mutex::default(),
        })
    }

    fn roll(&self) -> MutexGuard<'_, Roll> {
        self.roll.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self) -> usize {
        self.roll().leases.len()
    }

    pub(super) fn set_progress(&self, text: String) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    /// A lease that was granted to a request of this moment.
    pub(super) fn take_in(&self, core: &Arc<Core>, sent: Sent) {
        let mut roll = self.roll();
        if let Some(loss) = self.guarantee.deadline().lost {
            core.guarantee.lose(of_a_lease(loss));
            return;
        }
        if roll.revoked.get(core.key()).is_some_and(|heard| *heard >= sent.at) {
            core.guarantee.lose(Loss::Revoked);
            return;
        }
        if let Some(end) = roll.drain {
            core.guarantee.hand_over(end);
        }
        roll.leases.insert(core.key().to_owned(), core.clone());
    }

    /// A lease that is over, or given back.
    pub(super) fn let_go(&self, core: &Core) {
        let mut roll = self.roll();
        if roll.leases.get(core.key()).is_some_and(|known| known.token() == core.token()) {
            roll.leases.remove(core.key());
        }
    }

    /// All of it is to be handed over.
    pub(super) fn drain(&self, end: Moment) {
        let mut roll = self.roll();
        roll.drain = Some(end);
        roll.leases.values().for_each(|core| core.guarantee.hand_over(end));
        drop(roll);
        self.guarantee.hand_over(end);
    }

    /// Its holder ends it. False when it was over before.
    pub(super) fn end(&self) -> bool {
        let ended = self.guarantee.lose(Loss::Released);
        self.end_leases(Loss::Released);
        ended
    }

    fn end_leases(&self, loss: Loss) {
        let leases = std::mem::take(&mut self.roll().leases);
        for core in leases.into_values() {
            core.guarantee.lose(of_a_lease(loss));
        }
    }

    fn heard(&self, alive: &SessionAlive, sent: Sent) -> Option<Duration> {
        let now = self.guarantee.clock.now();
        let mut roll = self.roll();
        for notice in &alive.notices {
            self.notice(&mut roll, notice, sent, now);
        }
        for core in roll.leases.values() {
            core.guarantee.renew(sent, alive.valid_for_ms);
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
            roll.leases.values().for_each(|core| core.guarantee.hand_over(end));
        }
        let Some(key) = &notice.key else { return };
        if let Some(core) = roll.leases.get(key) {
            core.notice(notice, sent);
        }
        if notice.kind == "revoked" {
            // What was asked for before this was heard may be what it is about.
            roll.revoked.insert(key.clone(), now);
            let long_ago = now - self.ttl * 4;
            roll.revoked.retain(|_, heard| *heard > long_ago);
        }
    }

    /// The server keeps something else than we believe: finds out what is gone.
    async fn look_into(&self, theirs: Holdings) {
        let Ok(listed) = self.listed().await else { return };
        let ours: Vec<Arc<Core>> = self.roll().leases.values().cloned().collect();
        for core in &ours {
            if listed.get(core.key()) == Some(&core.token()) {
                continue;
            }
            // The list may be a moment behind: the server has the last word about each.
            if let Some(loss) = core.cause_of_loss().await {
                core.guarantee.lose(loss);
                self.let_go(core);
            }
        }
        let mut roll = self.roll();
        roll.settled = Some((theirs, roll.holdings()));
        roll.differs = None;
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

/// What the end of a session is for its leases.
fn of_a_lease(of_session: Loss) -> Loss {
    match of_session {
        // Nobody said that it is over: it is sure no longer.
        Loss::Expired | Loss::Unreachable => of_session,
        _ => Loss::SessionEnded,
    }
}

impl Kept for Keeper {
    fn guarantee(&self) -> &Guarantee {
        &self.guarantee
    }

    async fn beat(&self, sent: Sent, patience: Duration) -> Outcome {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let body = progress.map_or(json!({}), |progress| json!({ "progress": progress }));
        let call = Call::post("sessions", body).segment(&self.id).segment("heartbeat");
        let asked = self.client.ask_next(&call, self.home.as_ref(), &self.turn, patience);
        match asked.await {
            Ok::<SessionAlive, _>(alive) => {
                if !self.guarantee.renew(sent, alive.valid_for_ms) {
                    return Outcome::Alive(None);
                }
                Outcome::Alive(self.heard(&alive, sent))
            }
            Err(error) => failed(&error, "session-lost"),
        }
    }

    fn overdue(&self) {
        self.guarantee.risk();
        self.roll().leases.values().for_each(|core| core.guarantee.risk());
    }

    fn over(&self, loss: Loss) {
        self.end_leases(loss);
    }
}
