//! What this node knows of sessions: those whose home node it is, with the leases that they keep, and those that ended,
//! whose leases must still end.
//!
//! A session's actor is the actor of its key. It reports here that this node became the session's home node, or ceased
//! to be. The feed reports the session's leases and its end.
//!
//! Guarantees: a lease is told that its session is over only when the session's tombstone was read, or was seen
//! committed. Every lease of an ended session is told, also one whose grant lands late.
//!
//! Does not guarantee: that the count of a session's leases includes a grant that was committed a moment ago.
//!
//! Assumes: the supervisor reports every committed change in the order of the feed.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use super::{
    failing::FailingChecks, handovers::Handovers, left_leases::LeftLeases, places::Places,
    session::Session, session_leases::SessionLeases,
};
use crate::{
    actor::{environment::Environment, runtime::inbox::Inbox},
    clock::{DashMap, HashMap, HashSet, dash_map},
    lease::{
        Change, ChangeKind, Handover, Kept, Key, Moment, Nonce, Owner, Record, SessionOver,
        SessionSpec, Token,
    },
    store::Committed,
};

pub struct Sessions {
    known: DashMap<Nonce, Arc<Session>>,
    /// Which leases each session keeps, also those whose home node is another.
    pub(in crate::actor) index: SessionLeases,
    /// The leases of sessions with this home node that an earlier home node left, and no actor adopted.
    pub(in crate::actor) left: LeftLeases,
    /// Sessions with this home node whose leases must be searched for, in the order of arrival.
    pub(super) unindexed: Inbox<VecDeque<Arc<Session>>>,
    /// Revocations that sessions announced before they moved to another home node. A session may come back before they
    /// are durable.
    announced: DashMap<Nonce, BTreeMap<Key, Token>>,
    /// Sessions named by leases, with those leases: whether they are alive is not known yet.
    pub(super) inquiries: Inbox<HashMap<Nonce, HashSet<Key>>>,
    /// Places for rounds of checks. They are limited, because whoever may make a session may name an address that never
    /// answers.
    pub(super) checks: Arc<Places>,
    /// The checks whose latest rounds failed.
    pub failing: Arc<FailingChecks>,
    /// The requests to hand over that await an answer.
    pub handovers: Handovers,
    /// Kept leases whose revocation must be reissued, with their sessions.
    pub(super) reissues: Inbox<Vec<(Nonce, Key)>>,
    /// Ended sessions whose leases must be told.
    pub(super) ended: Inbox<Vec<SessionOver>>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            known: dash_map(),
            index: SessionLeases::default(),
            left: LeftLeases::default(),
            unindexed: Inbox::default(),
            announced: dash_map(),
            inquiries: Inbox::default(),
            checks: Places::new(CHECKS_AT_ONCE, CHECKS_OF_ONE),
            failing: Arc::default(),
            handovers: Handovers::default(),
            reissues: Inbox::default(),
            ended: Inbox::default(),
        }
    }
}

/// The highest number of rounds of checks in progress at once, over all sessions: each may hold a socket or a program.
const CHECKS_AT_ONCE: usize = 256;
/// The highest number of these for the sessions of one owner.
const CHECKS_OF_ONE: usize = 32;

impl Sessions {
    /// The session, if this node knows it.
    pub fn get(&self, digest: Nonce) -> Option<Arc<Session>> {
        self.known.get(&digest).map(|session| session.clone())
    }

    /// For tests: the leases that a session is known to keep. `None` while that is not known.
    #[cfg(any(test, feature = "testing"))]
    pub fn indexed(&self, digest: Nonce) -> Option<Vec<Key>> {
        self.index.are_whole().then(|| self.index.of(digest))
    }

    fn all(&self) -> Vec<Arc<Session>> {
        self.known.iter().map(|session| session.clone()).collect()
    }

    /// Queues every session whose leases are not all known.
    pub(super) fn reindex(&self) {
        let due = self.all().into_iter().filter(|session| session.is_due()).collect();
        self.unindexed.add(|unindexed| *unindexed = due);
    }

    fn indexing(&self, session: Arc<Session>) {
        self.unindexed.add(|unindexed| unindexed.push_back(session));
    }

    /// Some changes were missed: the leases of every session are searched for again.
    pub(in crate::actor) fn missed_changes(&self) {
        self.index.missed();
        self.left.missed_changes();
        for session in self.all() {
            if session.update(Kept::missed_changes) {
                self.indexing(session);
            }
        }
    }

    pub(in crate::actor) fn forget(&self, digest: Nonce) {
        self.announced.remove(&digest);
        if let Some((_, session)) = self.known.remove(&digest) {
            session.update(Kept::left);
            self.left.session_left(digest);
        }
    }

    /// A living session has another home node now. If it comes back, what happened to its leases meanwhile is not
    /// known.
    pub(in crate::actor) fn detach(&self, digest: Nonce) {
        let lives = |_: &Nonce, session: &mut Arc<Session>| !session.is_over();
        if let Some((_, session)) = self.known.remove_if_mut(&digest, lives) {
            let announced = session.update(Kept::left);
            self.left.session_left(digest);
            if !announced.is_empty() {
                self.announced.insert(digest, announced);
            }
        }
    }

    /// The end of this session is durable. Perhaps not all of its leases have been told.
    pub(in crate::actor) fn left(&self, over: SessionOver) {
        self.ended.add(|ended| ended.push(over));
    }

    /// This node became the home node of a session: it was just made, or adopted.
    pub(in crate::actor) fn attach(
        &self,
        digest: Nonce,
        of: (&Owner, u64),
        spec: SessionSpec,
        fresh: bool,
    ) -> Arc<Session> {
        let make = || {
            let announced = self.announced.remove(&digest).map(|(_, all)| all);
            let announced = announced.unwrap_or_default();
            let session = Arc::new(Session::new(digest, of, spec, announced, fresh));
            if !fresh {
                self.indexing(session.clone());
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
        let digest = change.session?;
        self.left.changed(digest, key, change.seq);
        let session = self.get(digest)?;
        match change.kind {
            ChangeKind::Granted => session.update(|kept| kept.granted(key, change.token)),
            kind if kind.ends_tenure() => {
                let revoked = kind == ChangeKind::Revoked;
                session.update(|kept| kept.ended(key, change.token, revoked));
                None
            }
            _ => None,
        }
    }

    /// A session keeps this lease, whose record was read. Counts the lease if its home node is gone and the session is at home
    /// here.
    pub(in crate::actor) fn found(
        &self,
        environment: &Environment,
        digest: Nonce,
        key: &Key,
        record: &Record,
    ) {
        let lives = || self.get(digest).is_some_and(|session| !session.is_over());
        if !environment.is_gone(record.node) || !lives() {
            return;
        }
        self.left.found(digest, key, record.seq, &environment.metrics_of(key.as_str()));
        // It may have ended, or the session may have left, before it was counted.
        if !lives() {
            self.left.session_left(digest);
        } else if !self.index.keeps(digest, key) {
            self.left.changed(digest, key, record.seq);
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
            session.say_ended();
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
    pub fn reissue(&self, digest: Nonce, key: &Key) {
        self.reissues.add(|reissues| reissues.push((digest, key.clone())));
    }

    /// Has it found out whether a session is alive, unless it is known here to live. These leases name it as their
    /// session; there are none if the session is known as the member of a pool only.
    pub fn inquire(&self, digest: Nonce, keys: impl IntoIterator<Item = Key>) {
        let lives = |session: Arc<Session>| !session.is_over();
        if !self.get(digest).is_some_and(lives) {
            self.inquire_anew(digest, keys);
        }
    }

    /// Like [`Self::inquire`], but also for a session that is known here to live.
    pub fn inquire_anew(&self, digest: Nonce, keys: impl IntoIterator<Item = Key>) {
        self.inquiries.add(|inquiries| inquiries.entry(digest).or_default().extend(keys));
    }
}

impl Sessions {
    /// The request to hand over a lease, or all leases of a session, is durable. Starts its deadline if this node is the
    /// home node of the lease, or of the session that keeps it.
    pub(in crate::actor) fn asked_to_hand_over(
        &self,
        key: &Key,
        token: Token,
        session: Option<Nonce>,
        ask: &Handover,
        now: Moment,
    ) {
        let session = match key.session().or(session) {
            Some(digest) => match self.get(digest) {
                Some(session) => Some(session),
                None => return,
            },
            None => None,
        };
        // Whoever hears of it asks for the deadline.
        self.handovers.begin(key, token, ask, now);
        if let Some(session) = session {
            session.asked_to_hand_over(key, token, ask);
        }
    }

    /// Handles a change from the feed, for the requests to hand over.
    pub(in crate::actor) fn heard_of_handover(
        &self,
        environment: &Environment,
        key: &Key,
        change: &Change,
    ) {
        if change.kind == ChangeKind::HandoverRequested {
            // For a lease without a session, its actor starts the deadline.
            if let Some(session) = change.session {
                let ask = request(environment, key, change);
                let now = environment.clock.now();
                self.asked_to_hand_over(key, change.token, Some(session), &ask, now);
            }
        } else if change.kind.ends_tenure() && self.handovers.end(key, change.token) {
            let willing = matches!(change.kind, ChangeKind::Released | ChangeKind::Transferred);
            if willing && !key.is_session() {
                environment.metrics_of(key.as_str()).handovers.handed_over.increment(1);
            }
        }
    }
}

/// The request that a change reports.
fn request(environment: &Environment, key: &Key, change: &Change) -> Handover {
    Handover {
        reason: change.reason.clone().unwrap_or_default(),
        actor: change.actor.clone().unwrap_or_default(),
        span_ms: environment.policy_table().of(key.as_str()).0.handover_timeout_ms,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::lease::Behavior;

    fn attached(sessions: &Sessions, fresh: bool) -> Arc<Session> {
        let owner = Owner::new("w").expect("an owner");
        let spec = SessionSpec {
            behavior: Behavior::Release,
            lock_delay_ms: None,
            pool: None,
            weight: 1,
            capacity: None,
            checks: Vec::new(),
        };
        sessions.attach(Nonce(7), (&owner, 10_000), spec, fresh)
    }

    #[test]
    fn what_a_session_announced_is_remembered_while_it_is_elsewhere() {
        let (sessions, key) = (Sessions::default(), Key::new("k").expect("a key"));
        attached(&sessions, true).announce_revoked(&key, Token(3));
        sessions.detach(Nonce(7));
        assert_eq!(attached(&sessions, false).revoked(), [(key, Token(3))]);
        sessions.detach(Nonce(7));
        sessions.forget(Nonce(7));
        assert!(sessions.announced.is_empty());
    }

    #[tokio::test]
    async fn who_waits_for_the_leases_of_a_session_that_leaves_is_told() {
        let sessions = Sessions::default();
        let session = attached(&sessions, false);
        let (indexed, ()) = tokio::join!(session.indexed(), async {
            tokio::task::yield_now().await;
            sessions.detach(Nonce(7));
            // An earlier search completes.
            session.update(|kept| kept.completed(0));
        });
        assert!(!indexed);
        let back = attached(&sessions, false);
        let waits = tokio::time::timeout(Duration::from_millis(20), back.indexed()).await;
        assert!(waits.is_err(), "it is searched anew");
        back.update(|kept| kept.completed(0));
        assert!(back.indexed().await);
    }
}
