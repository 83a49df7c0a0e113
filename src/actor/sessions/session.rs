//! One session whose home node is this node, with the leases that it keeps.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{progress::Progress, reported::Reported};
use crate::{
    actor::runtime::{
        followers::{Ear, News},
        watch,
    },
    lease::{
        Handover, Holdings, Indexing, Kept, Key, Moment, Nonce, Owner, Repeats, Rules, SessionSpec,
        Token,
    },
};

pub struct Session {
    pub digest: Nonce,
    pub owner: Owner,
    /// How long a heartbeat keeps it, in milliseconds.
    pub ttl_ms: u64,
    /// What the request that made it specified.
    pub spec: SessionSpec,
    /// The latest progress that its heartbeats reported.
    pub(super) progress: Progress,
    kept: Mutex<Kept>,
    /// The loads that its heartbeats reported.
    pub reported: Reported,
    /// Its recent calls for a share of its pool.
    repeats: Mutex<Repeats>,
    /// Whether a newer session of its owner replaced it once.
    replaced: AtomicBool,
    /// Whether the session is known to be over.
    ended: watch::Sender<bool>,
    indexing: watch::Sender<Indexing>,
    /// Who keeps it by a stream.
    followers: Mutex<Vec<Weak<Ear>>>,
}

impl Session {
    /// A session with this home node. `fresh`: it was just made. Otherwise, its leases must be searched for.
    pub(super) fn new(
        digest: Nonce,
        (owner, ttl_ms): (&Owner, u64),
        spec: SessionSpec,
        announced: BTreeMap<Key, Token>,
        fresh: bool,
    ) -> Self {
        let kept = Kept::new(fresh, announced);
        let indexing = watch::Sender::new(kept.indexing());
        Self {
            digest,
            owner: owner.clone(),
            ttl_ms,
            spec,
            progress: Progress::default(),
            kept: Mutex::new(kept),
            reported: Reported::default(),
            repeats: Mutex::new(Repeats::new(fresh)),
            replaced: AtomicBool::new(false),
            ended: watch::Sender::new(false),
            indexing,
            followers: Mutex::default(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
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
        self.tell_followers();
    }

    /// A newer session of its owner is the member of its pool.
    pub fn announce_replaced(&self) {
        self.replaced.store(true, Ordering::Release);
        self.tell_followers();
    }

    /// Whether [`Self::announce_replaced`] was called. The newer session may have ended since.
    pub fn was_replaced(&self) -> bool {
        self.replaced.load(Ordering::Acquire)
    }

    /// A call begins that will name leases of the session.
    pub fn call_begins(&self) {
        self.kept().call_begins();
    }

    /// A call that began is served.
    pub fn call_ends(&self) {
        self.kept().call_ends();
    }

    /// Whether a call must not name this tenure, which was granted to it.
    pub fn is_lost(&self, rules: Rules, key: &Key, token: Token) -> bool {
        self.kept().is_lost(rules, key, token)
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
    pub(super) fn asked_to_hand_over(&self, key: &Key, token: Token, ask: &Handover) {
        self.kept().asked_to_hand_over(key, token, ask);
        self.tell_followers();
    }

    fn followers(&self) -> MutexGuard<'_, Vec<Weak<Ear>>> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the follower hears of what is announced to the holder, and of the end.
    pub fn follow(&self, ear: &Arc<Ear>) {
        let ear = Arc::downgrade(ear);
        let mut followers = self.followers();
        if !followers.iter().any(|known| Weak::ptr_eq(known, &ear)) {
            followers.retain(|known| known.strong_count() > 0);
            followers.push(ear);
        }
    }

    /// What its heartbeats announce changed.
    pub fn tell_followers(&self) {
        for ear in self.followers().iter().filter_map(Weak::upgrade) {
            ear.tell(News::Session(self.digest));
        }
    }

    /// Resolves with `true` when all its leases are known. Before that, no heartbeat may be answered. Resolves with
    /// `false` if the session left this node meanwhile.
    pub async fn indexed(&self) -> bool {
        let _ = self.indexing.subscribe().wait_for(|indexing| *indexing != Indexing::Due).await;
        self.indexing.get() == Indexing::Done
    }

    /// The session is known to be over.
    pub(super) fn say_ended(&self) {
        self.ended.send_replace(true);
        self.tell_followers();
    }

    /// Whether the session is known to be over.
    pub fn has_ended(&self) -> bool {
        self.ended.get()
    }

    /// Resolves when the session is known to be over. A caller that waits under it is then granted nothing more.
    pub async fn ended(&self) {
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Notes that the session asks for its share under this request id. Returns whether it may have done so before.
    pub fn may_repeat(&self, id: u128, now: Moment) -> bool {
        self.repeats.lock().unwrap_or_else(PoisonError::into_inner).may_be_one(id, now)
    }

    /// Notes the progress that a heartbeat reported.
    pub fn progressed(&self, progress: &str) {
        self.progress.report(progress);
    }

    /// Changes what is known, and wakes those who wait for that.
    pub(super) fn update<T>(&self, change: impl FnOnce(&mut Kept) -> T) -> T {
        let mut kept = self.kept();
        let result = change(&mut kept);
        if self.indexing.get() != kept.indexing() {
            self.indexing.send_replace(kept.indexing());
        }
        result
    }

    /// Whether its end is known here.
    pub(super) fn is_over(&self) -> bool {
        self.kept().is_over()
    }

    /// How often changes have been missed so far.
    pub(super) fn misses(&self) -> u64 {
        self.kept().misses()
    }

    /// Whether its leases must still be searched for.
    pub(super) fn is_due(&self) -> bool {
        self.indexing.get() == Indexing::Due
    }
}
