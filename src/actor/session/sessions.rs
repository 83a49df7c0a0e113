//! What this node knows of sessions: those whose home node it is, with the leases that they keep, and those that ended,
//! whose leases must still end.
//!
//! A session's actor is the actor of its key. What it does beyond that of a lease is done here and in
//! [`super::checks`].
//!
//! Guarantees: a lease is told that its session is over only when the session's tombstone was read, or was seen
//! committed. Every lease of an ended session is told, also one whose grant lands late.
//!
//! Does not guarantee: that the count of a session's leases includes a grant that was committed a moment ago.
//!
//! Assumes: the supervisor reports every committed change in the order of the feed.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::Notify;

use super::{bonds::Bonds, checks::Beat, handovers::Handovers, places::Places};
use crate::{
    actor::runtime::watch,
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
    /// Which leases each session keeps, also those whose home node is another.
    pub(in crate::actor) bonds: Bonds,
    /// Sessions with this home node whose leases must be searched for.
    unsurveyed: Mutex<VecDeque<Arc<Session>>>,
    /// Wakes the task that reads [`Self::unsurveyed`].
    pub(in crate::actor) arrived: Notify,
    /// Revocations that sessions announced before they moved to another home node. A session may come back before they
    /// are durable.
    announced: DashMap<Nonce, BTreeMap<Key, Token>>,
    /// Sessions named by leases, with those leases: whether they are alive is not known yet.
    pub(in crate::actor) inquiries: Mutex<HashMap<Nonce, HashSet<Key>>>,
    /// Wakes the task that reads [`Self::inquiries`].
    pub(in crate::actor) inquired: Notify,
    /// Places for rounds of checks. They are limited, because whoever may make a session may name an address that never
    /// answers.
    pub(in crate::actor) checks: Arc<Places>,
    /// The requests to hand over that await an answer.
    pub handovers: Handovers,
    /// Kept leases whose revocation must be reissued, with their sessions.
    pub(in crate::actor) orders: Mutex<Vec<(Nonce, Key)>>,
    /// Wakes the task that reads [`Self::orders`].
    pub(in crate::actor) ordered: Notify,
    /// Ended sessions whose leases must be told.
    pub(in crate::actor) ended: Mutex<Vec<SessionOver>>,
    /// Wakes the task that reads [`Self::ended`].
    pub(in crate::actor) work: Notify,
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

/// The highest number of rounds of checks in progress at once, over all sessions: each may hold a socket or a program.
const CHECKS_AT_ONCE: usize = 256;
/// The highest number of these for the sessions of one owner.
const CHECKS_OF_ONE: usize = 32;

/// One session.
pub struct Session {
    /// The session's public name.
    pub digest: Nonce,
    /// Whose session it is.
    pub owner: Owner,
    /// How long a heartbeat keeps it, in milliseconds.
    pub ttl_ms: u64,
    /// What the request that made it specified.
    pub spec: SessionSpec,
    /// The latest progress that its heartbeats reported.
    pub(in crate::actor) beat: Beat,
    kept: Mutex<Kept>,
    /// Its recent calls for a share of its pool.
    repeats: Mutex<Repeats>,
    /// Whether the session is known to be over.
    ended: watch::Sender<bool>,
    survey: watch::Sender<Survey>,
}

impl Session {
    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of its leases, and their digest.
    pub fn holdings(&self) -> Holdings {
        self.kept().holdings()
    }

    /// Its leases that an administrator revoked, with their tokens: its heartbeats do not keep them.
    pub fn revoked(&self) -> Vec<(Key, Token)> {
        self.kept().revoked()
    }

    /// From now on every answer to a heartbeat says that this lease is revoked.
    pub fn announce_revoked(&self, key: &Key, token: Token) {
        self.kept().announce_revoked(key, token);
    }

    /// Whether this tenure of a key was revoked. What the session promised since then does not cover that tenure.
    pub fn is_revoked(&self, key: &Key, token: Token) -> bool {
        self.kept().is_revoked(key, token)
    }

    /// Its leases that must be handed over and are not revoked, with their tokens.
    pub fn asked(&self) -> Vec<(Key, Token)> {
        self.kept().asked()
    }

    /// Who asked it to hand everything over. While this is set, it is granted nothing more.
    pub fn drained_by(&self) -> Option<Box<str>> {
        self.kept().drained_by().map(Into::into)
    }

    /// From now on every answer to a heartbeat says that this lease must be handed over.
    pub(in crate::actor) fn asked_to_hand_over(&self, key: &Key, token: Token, ask: &Handover) {
        self.kept().asked_to_hand_over(key, token, ask);
    }

    /// Resolves with `true` when all its leases are known. Before that, no heartbeat may be answered. Resolves with
    /// `false` if the session left this node meanwhile.
    pub async fn surveyed(&self) -> bool {
        let _ = self.survey.subscribe().wait_for(|survey| *survey != Survey::Due).await;
        self.survey.get() == Survey::Done
    }

    /// Resolves when the session is known to be over. Whoever waits under it is then granted nothing more.
    pub async fn ended(&self) {
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Notes that the session asks for its share under this request id. Returns whether it may have done so before.
    pub fn may_repeat(&self, id: u128, now: Moment) -> bool {
        self.repeats.lock().unwrap_or_else(PoisonError::into_inner).may_be_one(id, now)
    }

    /// Notes the progress that a heartbeat reported.
    pub fn progressed(&self, progress: &str) {
        self.beat.progressed(progress);
    }

    /// Changes what is known, and wakes those who wait for that.
    pub(in crate::actor) fn update<T>(&self, change: impl FnOnce(&mut Kept) -> T) -> T {
        let mut kept = self.kept();
        let result = change(&mut kept);
        if self.survey.get() != kept.survey() {
            self.survey.send_replace(kept.survey());
        }
        result
    }

    /// How often changes have been missed so far.
    pub(in crate::actor) fn doubts(&self) -> u64 {
        self.kept().doubts()
    }

    /// Whether its leases must still be searched for.
    pub(in crate::actor) fn is_due(&self) -> bool {
        self.survey.get() == Survey::Due
    }
}

impl Sessions {
    /// The session, if this node knows it.
    pub fn get(&self, digest: Nonce) -> Option<Arc<Session>> {
        self.known.get(&digest).map(|session| session.clone())
    }

    fn all(&self) -> Vec<Arc<Session>> {
        self.known.iter().map(|session| session.clone()).collect()
    }

    /// Queues every session whose leases are not all known.
    pub(in crate::actor) fn resurvey(&self) {
        let due: VecDeque<_> = self.all().into_iter().filter(|session| session.is_due()).collect();
        *self.unsurveyed.lock().unwrap_or_else(PoisonError::into_inner) = due;
        self.arrived.notify_one();
    }

    /// The next session whose leases must be searched for, in the order of arrival.
    pub(in crate::actor) fn next_unsurveyed(&self) -> Option<Arc<Session>> {
        self.unsurveyed.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn survey(&self, session: Arc<Session>) {
        self.unsurveyed.lock().unwrap_or_else(PoisonError::into_inner).push_back(session);
        self.arrived.notify_one();
    }

    /// Some changes were missed: the leases of every session are searched for again.
    pub(in crate::actor) fn doubt(&self) {
        self.bonds.missed();
        for session in self.all() {
            if session.update(Kept::doubted) {
                self.survey(session);
            }
        }
    }

    pub(in crate::actor) fn forget(&self, digest: Nonce) {
        self.announced.remove(&digest);
        if let Some((_, session)) = self.known.remove(&digest) {
            session.update(Kept::left);
        }
    }

    /// A living session has another home node now. If it comes back, what happened to its leases meanwhile is not
    /// known.
    pub(in crate::actor) fn depart(&self, digest: Nonce) {
        let lives = |_: &Nonce, session: &mut Arc<Session>| !session.kept().is_over();
        if let Some((_, session)) = self.known.remove_if_mut(&digest, lives) {
            let announced = session.update(Kept::left);
            if !announced.is_empty() {
                self.announced.insert(digest, announced);
            }
        }
    }

    /// The end of this session is durable. Perhaps not all of its leases have been told.
    pub(in crate::actor) fn left(&self, over: SessionOver) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(over);
        self.work.notify_one();
    }

    /// This node became the home node of a session: it was just made, or adopted.
    pub(in crate::actor) fn arrive(
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

    /// Handles a change from the feed. Returns what the key must be told if its session is over.
    pub(in crate::actor) fn heard(&self, committed: &Committed, own: bool) -> Option<SessionOver> {
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

    /// The end of a session is durable. This node or another one wrote it.
    pub(in crate::actor) fn ends(&self, over: SessionOver, own: bool) {
        let session = self.get(over.session);
        if let Some(session) = &session {
            session.ended.send_replace(true);
        }
        if !own {
            // The node that wrote it tells the leases.
            return self.forget(over.session);
        }
        if let Some(session) = session {
            session.update(|kept| kept.ends(over.clone()));
        }
        self.left(over);
    }

    /// Reissues the revocation of a kept lease whose author is gone. This node is the session's home node.
    pub fn reorder(&self, digest: Nonce, key: &Key) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.push((digest, key.clone()));
        self.ordered.notify_one();
    }

    /// Finds out whether a session is alive, if it is not known here to live. It keeps these leases, or was a member of
    /// a pool here.
    pub fn inquire(&self, digest: Nonce, keys: impl IntoIterator<Item = Key>) {
        let lives = |session: Arc<Session>| !session.kept().is_over();
        if !self.get(digest).is_some_and(lives) {
            self.inquire_anew(digest, keys);
        }
    }

    /// Like [`Self::inquire`], but also for a session that is known here to live.
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
            // An earlier search completes.
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
