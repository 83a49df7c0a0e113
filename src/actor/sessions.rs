//! What this node knows of sessions: those at home here, with the leases that they keep, and those that
//! ended, whose leases are to end.
//!
//! A session's actor is the actor of its key; what it does beyond a lease is done here and by its
//! [`super::health_checks`].
//!
//! Guarantees: a lease is told that its session is over only when the session's tombstone was read, or
//! was seen committed; every lease of an ended session is told, also one whose grant lands late.
//!
//! Does not guarantee: that the count of a session's leases shows a grant that was committed a moment ago.
//!
//! Assumes: the supervisor reports every committed change in the order of the feed.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::Notify;

use super::{bonds::Bonds, handovers::Handovers, health_checks::Beat, places::Places, watch};
use crate::{
    clock::{DashMap, HashMap, HashSet, dash_map},
    lease::{
        Change, ChangeKind, Handover, Holdings, Kept, Key, Moment, Nonce, Owner, Repeats,
        SessionOver, SessionSpec, Survey, Token,
    },
    store::Committed,
};

/// The sessions of a node.
pub struct Sessions {
    known: DashMap<Nonce, Arc<Session>>,
    /// Which leases each session keeps, also those that are at home elsewhere.
    pub(super) bonds: Bonds,
    /// Those at home here whose leases are to be looked for.
    unsurveyed: Mutex<VecDeque<Arc<Session>>>,
    /// There are such.
    pub(super) arrived: Notify,
    /// Orders that were announced by sessions that left, and may come back before those are durable.
    announced: DashMap<Nonce, BTreeMap<Key, Token>>,
    /// Sessions that leases name, whether they live is to be found out; and which leases.
    pub(super) inquiries: Mutex<HashMap<Nonce, HashSet<Key>>>,
    /// There are such.
    pub(super) inquired: Notify,
    /// Places for rounds of checks: whoever may make a session may name an address that never answers.
    pub(super) checks: Arc<Places>,
    /// Who was asked to hand over.
    pub handovers: Handovers,
    /// Kept leases whose end is to be ordered anew, with their sessions.
    pub(super) orders: Mutex<Vec<(Nonce, Key)>>,
    /// There are such.
    pub(super) ordered: Notify,
    /// Sessions whose leases are to be told.
    pub(super) ended: Mutex<Vec<SessionOver>>,
    /// There are such.
    pub(super) work: Notify,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            known: dash_map(),
            bonds: Bonds::default(),
            unsurveyed: Mutex::default(),
            arrived: Notify::new(),
            announced: dash_map(),
            inquiries: Mutex::default(),
            inquired: Notify::new(),
            checks: Places::new(CHECKS_AT_ONCE, CHECKS_OF_ONE),
            handovers: Handovers::default(),
            orders: Mutex::default(),
            ordered: Notify::new(),
            ended: Mutex::default(),
            work: Notify::new(),
        }
    }
}

/// Most rounds of checks under way at a time, of all sessions together: each may hold a socket or a program.
const CHECKS_AT_ONCE: usize = 256;
/// Most of them of the sessions of one owner.
const CHECKS_OF_ONE: usize = 32;

/// One session.
pub struct Session {
    /// Its name for everybody.
    pub digest: Nonce,
    /// Whose it is.
    pub owner: Owner,
    /// Milliseconds that a heartbeat keeps it.
    pub ttl_ms: u64,
    /// What it said when it was made.
    pub spec: SessionSpec,
    /// What its heartbeats said last.
    pub(super) beat: Beat,
    kept: Mutex<Kept>,
    /// Its calls for a share of its pool.
    repeats: Mutex<Repeats>,
    /// Whether its end is known.
    ended: watch::Sender<bool>,
    survey: watch::Sender<Survey>,
}

impl Session {
    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many leases it keeps, and their digest.
    pub fn holdings(&self) -> Holdings {
        self.kept().holdings()
    }

    /// Its leases that an administrator ordered to end, with their tenures: its heartbeats do not keep them.
    pub fn revoked(&self) -> Vec<(Key, Token)> {
        self.kept().revoked()
    }

    /// From now on every answer to a heartbeat says that this lease is to end.
    pub fn announce_revoked(&self, key: &Key, token: Token) {
        self.kept().announce_revoked(key, token);
    }

    /// Whether this tenure of a key was ordered to end: a promise that the session made since is not one of it.
    pub fn is_revoked(&self, key: &Key, token: Token) -> bool {
        self.kept().is_revoked(key, token)
    }

    /// Its leases that are to be handed over, with their tenures, and are not ordered to end.
    pub fn asked(&self) -> Vec<(Key, Token)> {
        self.kept().asked()
    }

    /// Who asked it to hand everything over: it is to be given nothing more.
    pub fn drained_by(&self) -> Option<Box<str>> {
        self.kept().drained_by().map(Into::into)
    }

    /// From now on every answer to a heartbeat says that this is to be handed over.
    pub(super) fn asked_to_hand_over(&self, key: &Key, token: Token, ask: &Handover) {
        self.kept().asked_to_hand_over(key, token, ask);
    }

    /// Resolves when all its leases are known; before, no heartbeat may be answered. Not so, where it left meanwhile.
    pub async fn surveyed(&self) -> bool {
        let _ = self.survey.subscribe().wait_for(|survey| *survey != Survey::Due).await;
        self.survey.get() == Survey::Done
    }

    /// Resolves when the session is known to be over: whoever waits under it is granted nothing more.
    pub async fn ended(&self) {
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// It asks for its share under this request id: whether it may have done so before.
    pub fn may_repeat(&self, id: u128, now: Moment) -> bool {
        self.repeats.lock().unwrap_or_else(PoisonError::into_inner).may_be_one(id, now)
    }

    /// A heartbeat said how far the work has come.
    pub fn progressed(&self, progress: &str) {
        self.beat.progressed(progress);
    }

    /// What is known changes, and who waits for that is told.
    pub(super) fn update<T>(&self, change: impl FnOnce(&mut Kept) -> T) -> T {
        let mut kept = self.kept();
        let result = change(&mut kept);
        if self.survey.get() != kept.survey() {
            self.survey.send_replace(kept.survey());
        }
        result
    }

    /// How often changes had been missed by now.
    pub(super) fn doubts(&self) -> u64 {
        self.kept().doubts()
    }

    /// Whether its leases are to be looked for yet.
    pub(super) fn is_due(&self) -> bool {
        self.survey.get() == Survey::Due
    }
}

impl Sessions {
    /// A session that this node knows.
    pub fn get(&self, digest: Nonce) -> Option<Arc<Session>> {
        self.known.get(&digest).map(|session| session.clone())
    }

    fn all(&self) -> Vec<Arc<Session>> {
        self.known.iter().map(|session| session.clone()).collect()
    }

    /// Those whose leases are not all known are looked after from now on.
    pub(super) fn resurvey(&self) {
        let due: VecDeque<_> = self.all().into_iter().filter(|session| session.is_due()).collect();
        *self.unsurveyed.lock().unwrap_or_else(PoisonError::into_inner) = due;
        self.arrived.notify_one();
    }

    /// The next one whose leases are to be looked for: first come, first served.
    pub(super) fn next_unsurveyed(&self) -> Option<Arc<Session>> {
        self.unsurveyed.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn survey(&self, session: Arc<Session>) {
        self.unsurveyed.lock().unwrap_or_else(PoisonError::into_inner).push_back(session);
        self.arrived.notify_one();
    }

    /// Some changes were missed: what every session keeps is looked for again.
    pub(super) fn doubt(&self) {
        self.bonds.missed();
        for session in self.all() {
            if session.update(Kept::doubted) {
                self.survey(session);
            }
        }
    }

    pub(super) fn forget(&self, digest: Nonce) {
        self.announced.remove(&digest);
        if let Some((_, session)) = self.known.remove(&digest) {
            session.update(Kept::left);
        }
    }

    /// A session that lives is not at home here any more. What happens to its leases meanwhile is not
    /// known, should it come back.
    pub(super) fn depart(&self, digest: Nonce) {
        let lives = |_: &Nonce, session: &mut Arc<Session>| !session.kept().is_over();
        if let Some((_, session)) = self.known.remove_if_mut(&digest, lives) {
            let announced = session.update(Kept::left);
            if !announced.is_empty() {
                self.announced.insert(digest, announced);
            }
        }
    }

    /// The end of this session is durable, and its leases may not all have been told.
    pub(super) fn left(&self, over: SessionOver) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(over);
        self.work.notify_one();
    }

    /// A session came to be at home here: just made, or adopted.
    pub(super) fn arrive(
        &self,
        digest: Nonce,
        (owner, ttl_ms): (&Owner, u64),
        spec: SessionSpec,
        fresh: bool,
    ) -> Arc<Session> {
        let make = || {
            let announced = self.announced.remove(&digest).map(|(_, all)| all);
            let kept = Kept::new(fresh, announced.unwrap_or_default());
            let survey = kept.survey();
            let session = Arc::new(Session {
                digest,
                owner: owner.clone(),
                ttl_ms,
                spec,
                beat: Beat::default(),
                ended: watch::Sender::new(false),
                kept: Mutex::new(kept),
                repeats: Mutex::new(Repeats::new(fresh)),
                survey: watch::Sender::new(survey),
            });
            if !fresh {
                self.survey(session.clone());
            }
            session
        };
        self.known.entry(digest).or_insert_with(make).clone()
    }

    /// The feed brought a change. What the key is to be told, where its session is over.
    pub(super) fn heard(&self, committed: &Committed, own: bool) -> Option<SessionOver> {
        let Committed { key, change, .. } = committed;
        if let Some(digest) = key.session() {
            self.heard_of_session(digest, change, own);
            return None;
        }
        let session = self.get(change.session?)?;
        match change.kind {
            ChangeKind::Granted => session.update(|kept| kept.granted(key, change.token)),
            kind if kind.ends_tenure() => {
                session.update(|kept| kept.ended(key, change.token));
                None
            }
            _ => None,
        }
    }

    fn heard_of_session(&self, digest: Nonce, change: &Change, own: bool) {
        if !change.kind.ends_tenure() {
            return;
        }
        let (reason, actor) = (change.reason.as_deref(), change.actor.as_deref());
        self.ends(SessionOver::new(digest, change.kind, reason, actor), own);
    }

    /// The end of a session is durable, and was written by this node or by another.
    pub(super) fn ends(&self, over: SessionOver, own: bool) {
        let session = self.get(over.session);
        if let Some(session) = &session {
            session.ended.send_replace(true);
        }
        if !own {
            // Whoever wrote it tells the leases.
            return self.forget(over.session);
        }
        if let Some(session) = session {
            session.update(|kept| kept.ends(over.clone()));
        }
        self.left(over);
    }

    /// The author of an order on a kept lease is gone: the session's home, which this is, gives it anew.
    pub fn reorder(&self, digest: Nonce, key: &Key) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.push((digest, key.clone()));
        self.ordered.notify_one();
    }

    /// Has it found out whether a session lives that keeps these leases, or was a member here.
    pub fn inquire(&self, digest: Nonce, keys: impl IntoIterator<Item = Key>) {
        let lives = |session: Arc<Session>| !session.kept().is_over();
        if !self.get(digest).is_some_and(lives) {
            self.inquire_anew(digest, keys);
        }
    }

    /// The same, also of one that is known here to live.
    pub fn inquire_anew(&self, digest: Nonce, keys: impl IntoIterator<Item = Key>) {
        let mut asked = self.inquiries.lock().unwrap_or_else(PoisonError::into_inner);
        asked.entry(digest).or_default().extend(keys);
        self.inquired.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::lease::Behavior;

    fn arrived(sessions: &Sessions, fresh: bool) -> Arc<Session> {
        let owner = Owner::new("w").expect("an owner");
        let spec = SessionSpec {
            behavior: Behavior::Release,
            lock_delay_ms: None,
            pool: None,
            weight: 1,
            capacity: None,
            checks: Vec::new(),
        };
        sessions.arrive(Nonce(7), (&owner, 10_000), spec, fresh)
    }

    #[test]
    fn what_a_session_announced_is_remembered_while_it_is_elsewhere() {
        let (sessions, key) = (Sessions::default(), Key::new("k").expect("a key"));
        arrived(&sessions, true).announce_revoked(&key, Token(3));
        sessions.depart(Nonce(7));
        assert!(arrived(&sessions, false).is_revoked(&key, Token(3)));
        sessions.depart(Nonce(7));
        sessions.forget(Nonce(7));
        assert!(sessions.announced.is_empty());
    }

    #[tokio::test]
    async fn who_waits_for_the_leases_of_a_session_that_leaves_is_told() {
        let sessions = Sessions::default();
        let session = arrived(&sessions, false);
        let (surveyed, ()) = tokio::join!(session.surveyed(), async {
            tokio::task::yield_now().await;
            sessions.depart(Nonce(7));
            // A search that had begun before.
            session.update(|kept| kept.completed(0));
        });
        assert!(!surveyed);
        let back = arrived(&sessions, false);
        let waits = tokio::time::timeout(Duration::from_millis(20), back.surveyed()).await;
        assert!(waits.is_err(), "it is searched anew");
        back.update(|kept| kept.completed(0));
        assert!(back.surveyed().await);
    }
}
