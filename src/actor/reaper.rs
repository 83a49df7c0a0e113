//! Ends the leases of ended sessions, finds the leases of adopted ones, and in the end removes the records
//! of sessions that are over.
//!
//! Guarantees: a session's record is removed only when it has been a tombstone for a while and a search of
//! every key found no lease of it; a lease that names a session without a record has it made as a tombstone.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use futures_util::{StreamExt, stream};

use super::{
    Mail, Unanswered, World, handovers, orders,
    sessions::{End, Session},
    tasks::supervise,
};
use crate::{
    clock::{HashMap, HashSet},
    lease::{Answer, Call, Key, Loaded, Moment, Nonce, Request, Revoke, Standing, State},
    store::{Found, Range},
};

/// Keys told, or read, at a time: others get a turn in between.
const BATCH: usize = 500;
/// Sessions read at a time.
const READS_AT_ONCE: usize = 64;
/// The leases of an ended session are looked for once more after this: a grant may have landed late.
const SWEEP_AGAIN: Duration = Duration::from_secs(5);
/// A session's record is removed when it has been over for so long.
const BURIAL: Duration = Duration::from_secs(300);
/// How often it is looked for sessions whose time has come.
const ROUND: Duration = Duration::from_millis(500);
/// Sessions are asked about at most so often.
const INQUIRE: Duration = Duration::from_millis(500);
/// After this the store is searched again, when that failed.
const RETRY: Duration = Duration::from_millis(500);

/// Goes on for as long as the process does.
pub(crate) fn start(world: &Arc<World>) {
    supervise(world, "reaper", |world| async move { reap_for_ever(world).await });
    supervise(world, "session inquiries", |world| async move { inquire_for_ever(&world).await });
    handovers::start(world);
    supervise(world, "session orders", |world| async move { reorder_for_ever(&world).await });
}

/// [`BURIAL`], unless a test is in a hurry.
fn burial() -> Duration {
    #[cfg(any(test, feature = "testing"))]
    if let Some(ms) = std::env::var("TENURE_TEST_BURIAL_MS").ok().and_then(|ms| ms.parse().ok()) {
        return Duration::from_millis(ms);
    }
    BURIAL
}

/// A session that is over.
struct Dead {
    end: End,
    /// Since when this is known: a grant may land for so long after it.
    since: Moment,
    /// When its leases are looked for next, and how long after that again if some are found.
    next: Moment,
    pause: Duration,
    /// A search found none: with the next one that finds none, its record goes.
    bare: bool,
}

struct Reaper {
    world: Arc<World>,
    burial: Duration,
    dead: HashMap<Nonce, Dead>,
}

async fn reap_for_ever(world: Arc<World>) {
    let mut reaper = Reaper { world, burial: burial(), dead: HashMap::default() };
    loop {
        tokio::select! {
            biased;
            () = reaper.world.sessions.work.notified() => {}
            () = tokio::time::sleep(ROUND), if !reaper.dead.is_empty() => {}
        }
        reaper.round().await;
    }
}

impl Reaper {
    async fn round(&mut self) {
        self.take_news().await;
        let doubtful = self.world.sessions.doubtful();
        let now = self.world.clock.now();
        let due = self.dead.iter().filter(|(_, dead)| dead.next <= now);
        let due: HashMap<_, _> = due.map(|(digest, dead)| (*digest, dead.end.clone())).collect();
        if due.is_empty() && doubtful.is_empty() {
            return;
        }
        let found = search(&self.world, &due, &doubtful).await;
        let (over, unknown, left) = (due.len(), doubtful.len(), found.len());
        tracing::debug!(over, unknown, left, "leases of sessions were looked for");
        for digest in due.into_keys() {
            self.searched(digest, found.contains(&digest)).await;
        }
        // After the search, for which heartbeats wait.
        let revisits = doubtful.iter().map(|(session, _)| self.revisit(session));
        stream::iter(revisits).buffer_unordered(READS_AT_ONCE).collect::<()>().await;
    }

    /// Its end may be among the changes that were missed.
    async fn revisit(&self, session: &Session) {
        let key = Key::of_session(session.digest);
        let there = loop {
            match self.world.store.read(&key).await {
                Ok(there) => break there,
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        };
        if Standing::of(&super::lease::loaded(there)) == Standing::Dead {
            self.world.sessions.left(session.digest, End::unknown());
        }
    }

    /// Tells the leases of sessions that ended, as far as they are known.
    async fn take_news(&mut self) {
        let sessions = &self.world.sessions;
        let ended =
            std::mem::take(&mut *sessions.ended.lock().unwrap_or_else(PoisonError::into_inner));
        for (digest, end) in ended {
            // One that was done with ends again where its store went backwards.
            if self.dead.get(&digest).is_some_and(|dead| !dead.bare) {
                continue;
            }
            let known = self.world.sessions.get(digest).filter(|session| session.is_complete());
            let now = self.world.clock.now();
            let next = if let Some(session) = known {
                tell(&self.world, session.keys(), digest, &end).await;
                now + SWEEP_AGAIN
            } else {
                now
            };
            self.dead
                .insert(digest, Dead { end, since: now, next, pause: SWEEP_AGAIN, bare: false });
        }
    }

    /// Every key was looked at.
    async fn searched(&mut self, digest: Nonce, found: bool) {
        let Some(dead) = self.dead.get_mut(&digest) else { return };
        let now = self.world.clock.now();
        let settled = dead.since + SWEEP_AGAIN;
        if found {
            dead.next = now + dead.pause;
            // A pinned one may stay for long.
            dead.pause = (dead.pause * 2).min(BURIAL);
        } else if now < settled {
            dead.next = settled;
        } else if !dead.bare {
            self.world.sessions.forget(digest);
            (dead.bare, dead.next) = (true, now + self.burial.max(SWEEP_AGAIN));
        } else if self.bury(digest).await {
            self.dead.remove(&digest);
        } else if let Some(dead) = self.dead.get_mut(&digest) {
            dead.next = now + SWEEP_AGAIN;
        }
    }

    /// Removes the record of a session that nobody names any more. Whether it is gone.
    async fn bury(&self, digest: Nonce) -> bool {
        let key = Key::of_session(digest);
        match self.world.store.read(&key).await {
            Ok(None) => true,
            Ok(Some(Found { revision, record: Ok(record) })) if record.state == State::Free => {
                let gone = self.world.store.forget(&key, revision).await;
                gone.inspect_err(|error| tracing::debug!(%error, "a session's record stays"))
                    .unwrap_or(false)
            }
            _ => false,
        }
    }
}

async fn tell(world: &Arc<World>, keys: Vec<Key>, session: Nonce, end: &End) {
    for batch in keys.chunks(BATCH) {
        for key in batch {
            let over = end.clone().of(session);
            let _ = world.registry.post(world, key.as_str(), Mail::SessionOver(over));
        }
        tokio::task::yield_now().await;
    }
}

/// One look at every key: leases of these ended sessions are told, and those of sessions that are not
/// known whole are noted. Gives those of the ended ones that have leases yet.
async fn search(
    world: &Arc<World>,
    ended: &HashMap<Nonce, End>,
    doubtful: &[(Arc<Session>, u64)],
) -> HashSet<Nonce> {
    let surveyed: HashMap<_, _> =
        doubtful.iter().map(|(session, _)| (session.digest, session)).collect();
    let mut left = HashSet::default();
    let mut after = None;
    loop {
        let range = Range { prefix: String::new(), after: after.take(), limit: BATCH };
        let page = match world.store.scan(range.clone()).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, "the leases of sessions cannot be looked for");
                tokio::time::sleep(RETRY).await;
                after = range.after;
                continue;
            }
        };
        let Some((last, _)) = page.last() else { break };
        after = Some(last.as_str().to_owned());
        for (key, found) in &page {
            let Ok(record) = &found.record else { continue };
            let Some(bond) = record.bond().filter(|_| record.state == State::Held) else {
                continue;
            };
            if let Some(session) = surveyed.get(&bond.session) {
                let ordered = record.revocation.is_some();
                let token = record.token(found.revision);
                session.found(key, token, ordered);
                if let (Some(ask), false) = (&record.handover, ordered) {
                    world.asked_to_hand_over(key, token, Some(bond.session), ask);
                }
                if ordered && !world.is_present(record.node) {
                    world.sessions.reorder(bond.session, key);
                }
            }
            if let Some(end) = ended.get(&bond.session) {
                left.insert(bond.session);
                tell(world, vec![key.clone()], bond.session, end).await;
            }
        }
        tokio::task::yield_now().await;
    }
    for (session, doubts) in doubtful {
        session.completed(*doubts);
    }
    left
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

/// R6: an order on a kept lease, whose author is gone, is given anew by the session's present home, which
/// announces it first: the end waits for what this home promised before. Whether that is settled.
async fn reorder(world: &Arc<World>, digest: Nonce, key: &Key) -> bool {
    if world.sessions.get(digest).is_none() {
        return true;
    }
    let (revision, record) = match world.store.read(key).await {
        Ok(Some(Found { revision, record: Ok(record) })) => (revision, record),
        Ok(_) => return true,
        Err(error) => {
            tracing::warn!(key = key.as_str(), %error, "an order cannot be given anew yet");
            return false;
        }
    };
    let kept = record.bond().is_some_and(|bond| bond.session == digest);
    let Some(order) = record.revocation.as_ref().filter(|_| kept) else { return true };
    let order = Revoke {
        reason: order.reason.clone(),
        actor: order.actor.clone(),
        immediately: false,
        owner: None,
        // Its successor has no order against it.
        token: Some(record.token(revision)),
        floor: None,
    };
    let answer = orders::revoke(world, key, order, world.now().into()).await;
    let again = match &answer {
        Ok(answer) => matches!(answer, Answer::Store(_) | Answer::Busy | Answer::Lapsed),
        Err(Unanswered::Elsewhere(_) | Unanswered::NoArbiter) => false,
        Err(_) => true,
    };
    if again {
        let why = format!("{answer:?}");
        tracing::warn!(key = key.as_str(), why, "an order cannot be given anew yet");
    }
    !again
}

/// R6: whoever reads a lease of a dead session ends it; a session without a record gets a tombstone first.
async fn inquire(world: &Arc<World>, digest: Nonce, keys: HashSet<Key>) {
    let key = Key::of_session(digest);
    let again = |keys: HashSet<Key>| {
        keys.iter().for_each(|key| world.sessions.inquire(digest, key));
    };
    let found = match world.store.read(&key).await {
        Ok(found) => super::lease::loaded(found),
        Err(error) => {
            tracing::warn!(%error, "a session cannot be read");
            return again(keys);
        }
    };
    match Standing::of(&found) {
        Standing::Alive => {}
        Standing::Dead => {
            let Loaded::Record(_, record) = &found else { return };
            let end = End::of_record(record);
            tell(world, keys.into_iter().collect(), digest, &end).await;
            if world.is_own(record.node) {
                world.sessions.left(digest, end);
            }
        }
        Standing::Absent => {
            let (caller, answer) = super::Reply::one();
            let (received, request) = (world.now(), Request::Bury);
            let call = Call { caller, received, request, stranded: false };
            let _ = world.registry.post(world, key.as_str(), Mail::Call(call));
            drop(answer.await);
            // Asked again, it is there.
            again(keys);
        }
    }
}
