//! Session cleanup: ends the leases of ended sessions, finds the leases of adopted ones, and finally removes the
//! records of sessions that are over.
//!
//! Guarantees: a session's record is removed only when it has been a tombstone for a while and no lease of the session
//! is known. For a session that a lease names and that has no record, a tombstone is written.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use futures_util::{StreamExt, stream};

use super::{
    bonds, handovers,
    revoke::{self, Unanswered},
    sessions::Session,
};
use crate::{
    actor::{
        lease::actor::loaded,
        mail::{Mail, Reply},
        runtime::{registry::Registry, tasks::supervise},
        world::World,
    },
    clock::{HashMap, HashSet},
    lease::{
        Answer, Call, Cleanup, CleanupEffect, Inquiry, KeptEffect, Key, Nonce, Request,
        SessionOver, State,
    },
    store::{Found, StoreError, retention},
};

/// How many keys are told, or read, at a time. Other tasks run in between.
const BATCH: usize = 500;
/// The number of sessions whose leases are searched for at once.
const AT_ONCE: usize = 16;
/// How often the sessions that are due are searched for.
const ROUND: Duration = Duration::from_millis(500);
/// The shortest time between two batches of inquiries about sessions.
const INQUIRE: Duration = Duration::from_millis(500);
/// How long to wait after a failed search before the next one.
const RETRY: Duration = Duration::from_millis(500);

/// Starts the tasks that run for as long as the process.
pub(crate) fn start(world: &Arc<World>) {
    bonds::start(world);
    supervise(world, "session_cleanup", |world| async move { clean_up_forever(world).await });
    supervise(world, "session surveys", |world| async move { survey_for_ever(world).await });
    supervise(world, "session inquiries", |world| async move { inquire_for_ever(&world).await });
    handovers::start(world);
    supervise(world, "session orders", |world| async move { reorder_for_ever(&world).await });
}

struct SessionCleanup {
    world: Arc<World>,
    retention: Duration,
    dead: HashMap<Nonce, Cleanup>,
}

async fn clean_up_forever(world: Arc<World>) {
    let mut session_cleanup =
        SessionCleanup { world, retention: retention(), dead: HashMap::default() };
    loop {
        tokio::select! {
            biased;
            () = session_cleanup.world.sessions.work.notified() => {}
            () = tokio::time::sleep(ROUND), if !session_cleanup.dead.is_empty() => {}
        }
        session_cleanup.round().await;
    }
}

impl SessionCleanup {
    async fn round(&mut self) {
        self.take_news().await;
        if !self.world.sessions.bonds.are_whole() {
            return;
        }
        let now = self.world.clock.now();
        let due = self.dead.values().filter(|cleanup| cleanup.is_due(now));
        let due: Vec<_> = due.map(|cleanup| cleanup.over.clone()).collect();
        let world = &self.world;
        let search = async |over: SessionOver| (over.session, search(world, &over).await);
        let mut searches = stream::iter(due.into_iter().map(search)).buffer_unordered(AT_ONCE);
        let mut found = Vec::new();
        while let Some(one) = searches.next().await {
            found.push(one);
        }
        drop(searches);
        for (digest, left) in found {
            self.searched(digest, left).await;
        }
    }

    /// Tells the known leases of sessions that ended.
    async fn take_news(&mut self) {
        let sessions = &self.world.sessions;
        let ended =
            std::mem::take(&mut *sessions.ended.lock().unwrap_or_else(PoisonError::into_inner));
        for over in ended {
            let digest = over.session;
            if self.dead.get(&digest).is_some_and(|cleanup| !cleanup.is_bare()) {
                continue;
            }
            let now = self.world.clock.now();
            tell(&self.world, sessions.bonds.of(digest), &over).await;
            let cleanup = Cleanup::new(over, now, sessions.bonds.are_whole(), self.retention);
            self.dead.insert(digest, cleanup);
        }
    }

    /// Handles the result of a search for the leases of a session: whether some are left.
    async fn searched(&mut self, digest: Nonce, left: Result<Option<bool>, StoreError>) {
        let Some(cleanup) = self.dead.get_mut(&digest) else { return };
        let now = self.world.clock.now();
        let left = match left {
            Ok(Some(left)) => left,
            // The next round searches again.
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(session = %digest, %error, "cannot search for the leases of a session; retrying");
                return cleanup.failed(now);
            }
        };
        match cleanup.searched(left, now) {
            CleanupEffect::Wait => {}
            CleanupEffect::Forget => self.world.sessions.forget(digest),
            CleanupEffect::Remove => {
                if self.remove(digest).await {
                    self.dead.remove(&digest);
                } else if let Some(cleanup) = self.dead.get_mut(&digest) {
                    cleanup.stays(now);
                }
            }
        }
    }

    /// Removes the record of a session that no lease names any more. Returns whether it is gone.
    async fn remove(&self, digest: Nonce) -> bool {
        let key = Key::of_session(digest);
        match self.world.store.read(&key).await {
            Ok(None) => true,
            Ok(Some(Found { revision, record: Ok(record) })) if record.state == State::Free => {
                let gone = self.world.store.forget(&key, revision).await;
                gone.inspect_err(
                    |error| tracing::debug!(%error, "cannot remove a session's record"),
                )
                .unwrap_or(false)
            }
            _ => false,
        }
    }
}

async fn tell(world: &Arc<World>, keys: Vec<Key>, over: &SessionOver) {
    for batch in keys.chunks(BATCH) {
        let over = over.clone();
        Registry::post_all(world, batch, move || Mail::SessionOver(over.clone()));
        tokio::task::yield_now().await;
    }
}

/// The leases that a session keeps according to their records. Keys that it no longer keeps are removed from the index.
async fn leases_of(world: &World, digest: Nonce) -> Result<Vec<(Key, Found)>, StoreError> {
    let mut leases = Vec::new();
    for batch in world.sessions.bonds.of(digest).chunks(BATCH) {
        let found = world.store.read_many(batch).await?;
        for (key, found) in batch.iter().zip(found) {
            let record = found.as_ref().map(|found| &found.record);
            match record {
                // A record that cannot be interpreted may be kept by any session.
                Some(Err(_)) => {}
                Some(Ok(record)) if record.is_kept_by(digest) => {
                    leases.extend(found.map(|found| (key.clone(), found)));
                }
                Some(Ok(record)) => world.sessions.bonds.ended(digest, key, record.seq),
                None => world.sessions.bonds.ended(digest, key, u64::MAX),
            }
        }
        tokio::task::yield_now().await;
    }
    Ok(leases)
}

/// Tells the remaining leases of an ended session. Returns whether there are any, or `None` if that is not known
/// because changes were missed meanwhile.
async fn search(world: &Arc<World>, over: &SessionOver) -> Result<Option<bool>, StoreError> {
    let Some(whole) = world.sessions.bonds.whole_since() else { return Ok(None) };
    let left = leases_of(world, over.session).await?.into_iter();
    let left: Vec<Key> = left.map(|(key, _)| key).collect();
    let any = !left.is_empty();
    tell(world, left, over).await;
    Ok((any || world.sessions.bonds.whole_since() == Some(whole)).then_some(any))
}

/// Searches for the leases of sessions whose home node this node became.
async fn survey_for_ever(world: Arc<World>) {
    // Takes over what an earlier run of this task had begun.
    world.sessions.resurvey();
    let mut under_way = stream::FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            () = world.sessions.arrived.notified() => {}
            Some(()) = under_way.next(), if !under_way.is_empty() => {}
        }
        while under_way.len() < AT_ONCE
            && let Some(session) = world.sessions.next_unsurveyed()
        {
            under_way.push(survey(&world, session));
        }
    }
}

/// Runs until all leases of the session are known, or the session has another home node.
async fn survey(world: &Arc<World>, session: Arc<Session>) {
    while session.is_due() {
        world.sessions.bonds.whole().await;
        let doubts = session.doubts();
        match leases_of(world, session.digest).await {
            Ok(leases) => {
                leases.iter().for_each(|(key, found)| note(world, &session, doubts, key, found));
                session.update(|kept| kept.completed(doubts));
            }
            Err(error) => {
                tracing::warn!(session = %session.digest, %error, "cannot search for a session's leases");
                tokio::time::sleep(RETRY).await;
            }
        }
        if doubts > 0 {
            revisit(world, &session).await;
        }
    }
}

/// Notes a kept lease that a search found. When the search began, changes had been missed `doubts` times.
fn note(world: &Arc<World>, session: &Session, doubts: u64, key: &Key, found: &Found) {
    let Ok(record) = &found.record else { return };
    let present = world.is_present(record.node);
    match session.update(|kept| kept.found(doubts, key, found.revision, record, present)) {
        None => {}
        Some(KeptEffect::HandOver(token, ask)) => {
            world.asked_to_hand_over(key, token, Some(session.digest), &ask);
        }
        Some(KeptEffect::Reissue) => world.sessions.reorder(session.digest, key),
    }
}

/// Reads the session's record again: its end may be among the changes that were missed.
async fn revisit(world: &World, session: &Session) {
    let key = Key::of_session(session.digest);
    let there = loop {
        match world.store.read(&key).await {
            Ok(there) => break there,
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    };
    if let Inquiry::Over { over, .. } = Inquiry::of(session.digest, &loaded(there)) {
        world.sessions.ends(over, true);
        world.pools.left(session.digest);
    }
}

async fn inquire_for_ever(world: &Arc<World>) {
    loop {
        world.sessions.inquired.notified().await;
        let asked = std::mem::take(
            &mut *world.sessions.inquiries.lock().unwrap_or_else(PoisonError::into_inner),
        );
        for (digest, keys) in asked {
            inquire(world, digest, keys).await;
        }
        tokio::time::sleep(INQUIRE).await;
    }
}

async fn reorder_for_ever(world: &Arc<World>) {
    loop {
        world.sessions.ordered.notified().await;
        let orders = std::mem::take(
            &mut *world.sessions.orders.lock().unwrap_or_else(PoisonError::into_inner),
        );
        let mut again = Vec::new();
        for (digest, key) in orders {
            if !reorder(world, digest, &key).await {
                again.push((digest, key));
            }
        }
        if !again.is_empty() {
            tokio::time::sleep(RETRY).await;
            again.iter().for_each(|(digest, key)| world.sessions.reorder(*digest, key));
        }
    }
}

/// R6: reissues the revocation of a kept lease whose author is gone, at the session's present home node. The session
/// announces it first, and the end waits for what this node promised before. Returns whether that is settled.
async fn reorder(world: &Arc<World>, digest: Nonce, key: &Key) -> bool {
    if world.sessions.get(digest).is_none() {
        return true;
    }
    let (revision, record) = match world.store.read(key).await {
        Ok(Some(Found { revision, record: Ok(record) })) => (revision, record),
        Ok(_) => return true,
        Err(error) => {
            tracing::warn!(key = key.as_str(), %error, "cannot reissue a revocation yet; retrying");
            return false;
        }
    };
    let Some(order) = record.order_anew(revision, digest) else { return true };
    let answer = revoke::revoke(world, key, order, world.now().into()).await;
    let again = match &answer {
        Ok(answer) => matches!(answer, Answer::Store(_) | Answer::Busy | Answer::Lapsed),
        Err(Unanswered::Elsewhere(_) | Unanswered::NoArbiter) => false,
        Err(_) => true,
    };
    if again {
        let why = format!("{answer:?}");
        tracing::warn!(key = key.as_str(), why, "cannot reissue a revocation yet; retrying");
    }
    !again
}

/// R6: whoever reads a lease of a dead session has it ended. For a session without a record a tombstone is written
/// first.
async fn inquire(world: &Arc<World>, digest: Nonce, keys: HashSet<Key>) {
    let key = Key::of_session(digest);
    let again = |keys: HashSet<Key>| world.sessions.inquire_anew(digest, keys);
    let found = match world.store.read(&key).await {
        Ok(found) => loaded(found),
        Err(error) => {
            tracing::warn!(%error, "cannot read the record of a session; retrying");
            return again(keys);
        }
    };
    match Inquiry::of(digest, &found) {
        Inquiry::Lives => {}
        Inquiry::Over { over, home } => {
            world.pools.left(digest);
            tell(world, keys.into_iter().collect(), &over).await;
            world.sessions.ends(over, world.is_own(home));
        }
        Inquiry::WriteTombstone => {
            let (caller, answer) = Reply::one();
            let (received, request) = (world.now(), Request::WriteTombstone);
            let call = Call { caller, received, request, owner_unreachable: false };
            let _ = world.registry.post(world, key.as_str(), Mail::Call(call));
            drop(answer.await);
            // The record exists by the next inquiry.
            again(keys);
        }
    }
}
