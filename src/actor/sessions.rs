//! What this node knows of sessions: those at home here, with the leases that they keep, and those that
//! ended, whose leases are to end.
//!
//! A session's actor is the actor of its key; what it does beyond a lease is done here and by its
//! [`super::warden`].
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

use sha2::{Digest, Sha256};
use tokio::sync::Notify;

use super::{bonds::Bonds, handovers::Handovers, warden::Beat, watch};
use crate::{
    clock::{DashMap, HashMap, HashSet, dash_map},
    lease::{
        Change, ChangeKind, Handover, Key, Nonce, Owner, Record, SessionOver, SessionSpec, Token,
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
    pub(super) checks: Places,
    /// Who was asked to hand over.
    pub handovers: Handovers,
    /// Kept leases whose end is to be ordered anew, with their sessions.
    pub(super) orders: Mutex<Vec<(Nonce, Key)>>,
    /// There are such.
    pub(super) ordered: Notify,
    /// Sessions whose leases are to be told, and why.
    pub(super) ended: Mutex<Vec<(Nonce, End)>>,
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
            checks: Places::default(),
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

/// Bounds what is under way.
pub(super) struct Places(tokio::sync::Semaphore);

impl Default for Places {
    fn default() -> Self {
        Self(tokio::sync::Semaphore::new(CHECKS_AT_ONCE))
    }
}

impl Places {
    pub async fn acquire(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        self.0.acquire().await.ok()
    }
}

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
    /// Whether its end is known.
    ended: watch::Sender<bool>,
    survey: watch::Sender<Survey>,
}

/// Whether all leases of a session are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Survey {
    /// They are to be looked for.
    Due,
    Done,
    /// This node does not keep the session any more: nobody looks for them.
    Left,
}

#[derive(Default)]
struct Kept {
    leases: HashMap<Key, Token>,
    /// XOR over the leases.
    sum: u64,
    /// Those that an administrator ordered to end, in which tenure.
    revoked: BTreeMap<Key, Token>,
    /// Those that are to be handed over, in which tenure.
    asked: BTreeMap<Key, (Token, Handover)>,
    /// Who asked to hand over all of them.
    draining: Option<Box<str>>,
    /// Ended while the store was being searched: what the search finds of them is old.
    gone: HashSet<Key>,
    /// The session's end.
    over: Option<End>,
    /// How often changes were missed.
    doubts: u64,
}

/// The leases that a session keeps, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holdings {
    /// How many.
    pub count: usize,
    /// XOR, over all of them, of the first 64 bits of SHA-256 of `key ‖ 0 ‖ token` (decimal).
    pub digest: u64,
}

/// How a session ended, as its leases are told.
#[derive(Clone, Debug)]
pub(super) struct End {
    /// For people.
    pub cause: Box<str>,
    /// Which administrator ordered it, where it was one.
    pub actor: Option<Box<str>>,
}

impl End {
    fn new(kind: ChangeKind, reason: Option<&str>, actor: Option<&str>) -> Self {
        let cause = match (kind, reason) {
            (ChangeKind::Released, _) => "the session was destroyed",
            (ChangeKind::Expired, _) => "the session expired",
            (_, Some(reason)) => reason,
            (kind, None) => kind.as_str(),
        };
        Self { cause: cause.into(), actor: actor.map(Into::into) }
    }

    /// Somebody read its tombstone.
    pub fn unknown() -> Self {
        Self { cause: "the session is over".into(), actor: None }
    }

    /// What the record of a session that is over says of its end.
    pub fn of_record(record: &Record) -> Self {
        let Some(ended) = &record.previous else { return Self::unknown() };
        let order = record.revocation.as_ref();
        let (reason, actor) = (order.map(|order| &*order.reason), order.map(|order| &*order.actor));
        Self::new(ended.reason, reason, actor)
    }

    /// As a lease of this session is told.
    pub fn of(self, session: Nonce) -> SessionOver {
        SessionOver { session, cause: self.cause, actor: self.actor }
    }
}

fn share(key: &Key, token: Token) -> u64 {
    let mut hash = Sha256::new();
    hash.update(key.as_str().as_bytes());
    hash.update([0]);
    hash.update(token.0.to_string().as_bytes());
    let hash = hash.finalize();
    u64::from_be_bytes(hash[..8].try_into().unwrap_or_default())
}

impl Kept {
    fn insert(&mut self, key: Key, token: Token) {
        let share_of_new = share(&key, token);
        if let Some(before) = self.leases.insert(key.clone(), token) {
            self.sum ^= share(&key, before);
        }
        self.sum ^= share_of_new;
    }

    fn remove(&mut self, key: &Key) {
        if let Some(token) = self.leases.remove(key) {
            self.sum ^= share(key, token);
        }
        self.revoked.remove(key);
        self.asked.remove(key);
    }
}

impl Session {
    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many leases it keeps, and their digest.
    pub fn holdings(&self) -> Holdings {
        let kept = self.kept();
        Holdings { count: kept.leases.len(), digest: kept.sum }
    }

    /// Its leases that an administrator ordered to end, with their tenures: its heartbeats do not keep them.
    pub fn revoked(&self) -> Vec<(Key, Token)> {
        self.kept().revoked.iter().map(|(key, token)| (key.clone(), *token)).collect()
    }

    /// From now on every answer to a heartbeat says that this lease is to end.
    pub fn announce_revoked(&self, key: &Key, token: Token) {
        self.kept().revoked.insert(key.clone(), token);
    }

    /// Whether this tenure of a key was ordered to end: a promise that the session made since is not one of it.
    pub fn is_revoked(&self, key: &Key, token: Token) -> bool {
        self.kept().revoked.get(key) == Some(&token)
    }

    /// Its leases that are to be handed over, with their tenures, and are not ordered to end.
    pub fn asked(&self) -> Vec<(Key, Token)> {
        let kept = self.kept();
        let standing = |key: &Key, token: Token| {
            kept.revoked.get(key) != Some(&token) && kept.leases.contains_key(key)
        };
        let asked = kept.asked.iter().map(|(key, (token, _))| (key, *token));
        let standing = asked.filter(|(key, token)| standing(key, *token));
        standing.map(|(key, token)| (key.clone(), token)).collect()
    }

    /// Whether it is asked to hand everything over: it is to be given nothing more.
    pub fn is_draining(&self) -> bool {
        self.kept().draining.is_some()
    }

    /// Who asked it to hand everything over.
    pub fn drained_by(&self) -> Option<Box<str>> {
        self.kept().draining.clone()
    }

    /// From now on every answer to a heartbeat says that this is to be handed over: one of its leases, or,
    /// under its own key, all of them.
    pub(super) fn asked_to_hand_over(&self, key: &Key, token: Token, ask: &Handover) {
        let mut kept = self.kept();
        if key.is_session() {
            kept.draining.get_or_insert_with(|| ask.actor.clone());
        } else {
            kept.asked.insert(key.clone(), (token, ask.clone()));
        }
    }

    /// Resolves when all its leases are known; before, no heartbeat may be answered. Not so, where it left meanwhile.
    pub async fn surveyed(&self) -> bool {
        let _ = self.survey.subscribe().wait_for(|survey| *survey != Survey::Due).await;
        self.is_complete()
    }

    /// Resolves when the session is known to be over: whoever waits under it is granted nothing more.
    pub async fn ended(&self) {
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// A heartbeat said how far the work has come.
    pub fn progressed(&self, progress: &str) {
        self.beat.progressed(progress);
    }

    pub(super) fn is_complete(&self) -> bool {
        self.survey.get() == Survey::Done
    }

    /// A search of the store found one of its leases.
    pub(super) fn found(&self, key: &Key, token: Token, ordered: bool) {
        let mut kept = self.kept();
        if !kept.gone.contains(key) && !kept.leases.contains_key(key) {
            kept.insert(key.clone(), token);
        }
        if ordered && kept.leases.contains_key(key) {
            kept.revoked.insert(key.clone(), token);
        }
    }

    /// How often changes had been missed by now.
    pub(super) fn doubts(&self) -> u64 {
        self.kept().doubts
    }

    /// All of them were found by a search that began when changes had been missed so often.
    pub(super) fn completed(&self, doubts: u64) {
        let mut kept = self.kept();
        if kept.doubts == doubts && self.survey.get() == Survey::Due {
            kept.gone = HashSet::default();
            // What was announced of others is over.
            let Kept { revoked, leases, .. } = &mut *kept;
            revoked.retain(|key, _| leases.contains_key(key));
            self.survey.send_replace(Survey::Done);
        }
    }

    /// What an earlier arrival had announced goes on.
    fn left(&self) -> BTreeMap<Key, Token> {
        let mut kept = self.kept();
        self.survey.send_replace(Survey::Left);
        std::mem::take(&mut kept.revoked)
    }

    /// Some changes were missed. Whether its leases are to be looked for because of that.
    fn doubted(&self) -> bool {
        let mut kept = self.kept();
        (kept.leases, kept.sum) = (HashMap::default(), 0);
        kept.gone = HashSet::default();
        kept.doubts += 1;
        let done = self.survey.get() == Survey::Done;
        if done {
            self.survey.send_replace(Survey::Due);
        }
        done
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
            if session.doubted() {
                self.survey(session);
            }
        }
    }

    pub(super) fn forget(&self, digest: Nonce) {
        self.announced.remove(&digest);
        if let Some((_, session)) = self.known.remove(&digest) {
            session.left();
        }
    }

    /// A session that lives is not at home here any more. What happens to its leases meanwhile is not
    /// known, should it come back.
    pub(super) fn depart(&self, digest: Nonce) {
        let lives = |_: &Nonce, session: &mut Arc<Session>| session.kept().over.is_none();
        if let Some((_, session)) = self.known.remove_if_mut(&digest, lives) {
            let announced = session.left();
            if !announced.is_empty() {
                self.announced.insert(digest, announced);
            }
        }
    }

    /// The end of this session is durable, and its leases may not all have been told.
    pub(super) fn left(&self, digest: Nonce, end: End) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push((digest, end));
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
            let kept = Kept { revoked: announced.unwrap_or_default(), ..Kept::default() };
            let survey = if fresh { Survey::Done } else { Survey::Due };
            let session = Arc::new(Session {
                digest,
                owner: owner.clone(),
                ttl_ms,
                spec,
                beat: Beat::default(),
                ended: watch::Sender::new(false),
                kept: Mutex::new(kept),
                survey: watch::Sender::new(survey),
            });
            if !fresh {
                self.survey(session.clone());
            }
            session
        };
        self.known.entry(digest).or_insert_with(make).clone()
    }

    /// The feed brought a change. The key, where it is to be told that its session is over.
    pub(super) fn heard(&self, committed: &Committed, own: bool) -> Option<End> {
        let Committed { key, change, .. } = committed;
        if let Some(digest) = key.session() {
            self.heard_of_session(digest, change, own);
            return None;
        }
        let session = self.get(change.session?)?;
        let mut kept = session.kept();
        match change.kind {
            ChangeKind::Granted => {
                kept.gone.remove(key);
                kept.revoked.retain(|revoked, token| revoked != key || *token >= change.token);
                kept.insert(key.clone(), change.token);
                return kept.over.clone();
            }
            kind if kind.ends_tenure() => {
                kept.remove(key);
                if !session.is_complete() {
                    kept.gone.insert(key.clone());
                }
            }
            _ => {}
        }
        None
    }

    fn heard_of_session(&self, digest: Nonce, change: &Change, own: bool) {
        if !change.kind.ends_tenure() {
            return;
        }
        if !own {
            // Whoever wrote it tells the leases.
            if let Some(session) = self.get(digest) {
                session.ended.send_replace(true);
            }
            return self.forget(digest);
        }
        let end = End::new(change.kind, change.reason.as_deref(), change.actor.as_deref());
        if let Some(session) = self.get(digest) {
            session.kept().over = Some(end.clone());
            session.ended.send_replace(true);
        }
        self.left(digest, end);
    }

    /// The author of an order on a kept lease is gone: the session's home, which this is, gives it anew.
    pub fn reorder(&self, digest: Nonce, key: &Key) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.push((digest, key.clone()));
        self.ordered.notify_one();
    }

    /// Has it found out whether a session lives that keeps a lease.
    pub fn inquire(&self, digest: Nonce, key: &Key) {
        let lives = |session: Arc<Session>| session.kept().over.is_none();
        if self.get(digest).is_some_and(lives) {
            return;
        }
        let mut asked = self.inquiries.lock().unwrap_or_else(PoisonError::into_inner);
        asked.entry(digest).or_default().insert(key.clone());
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
    fn an_order_that_was_announced_goes_on_when_the_session_comes_back() {
        let (sessions, key) = (Sessions::default(), Key::new("k").expect("a key"));
        arrived(&sessions, true).announce_revoked(&key, Token(3));
        sessions.depart(Nonce(7));
        let back = arrived(&sessions, false);
        assert!(back.is_revoked(&key, Token(3)));
        // The search finds the lease as it was before the order was durable.
        back.found(&key, Token(3), false);
        back.completed(0);
        assert_eq!(back.revoked(), [(key, Token(3))]);
    }

    #[test]
    fn what_was_announced_of_a_lease_that_is_over_goes_with_the_search() {
        let (sessions, key) = (Sessions::default(), Key::new("k").expect("a key"));
        arrived(&sessions, true).announce_revoked(&key, Token(3));
        sessions.depart(Nonce(7));
        let back = arrived(&sessions, false);
        back.completed(0);
        assert_eq!(back.revoked(), []);
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
            session.completed(0);
        });
        assert!(!surveyed);
        let back = arrived(&sessions, false);
        let waits = tokio::time::timeout(Duration::from_millis(20), back.surveyed()).await;
        assert!(waits.is_err(), "it is searched anew");
        back.completed(0);
        assert!(back.surveyed().await);
    }
}
