//! Ends the leases of ended sessions, and finds the leases of adopted ones.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, PoisonError},
    time::Duration,
};

use super::{Mail, World, tasks::supervise};
use crate::{
    lease::{Call, Key, Nonce, Request, SessionOver, Standing, State},
    store::Range,
};

/// Keys told, or read, at a time: others get a turn in between.
const BATCH: usize = 500;
/// The leases of an ended session are looked for once more after this: a grant may have landed late.
const SWEEP_AGAIN: Duration = Duration::from_secs(5);
/// Sessions are asked about at most so often.
const INQUIRE: Duration = Duration::from_millis(500);
/// After this the store is searched again, when that failed.
const RETRY: Duration = Duration::from_millis(500);

/// Goes on for as long as the process does.
pub(crate) fn start(world: &Arc<World>) {
    supervise(world, "reaper", |world| async move { reap_for_ever(&world).await });
    supervise(world, "session inquiries", |world| async move { inquire_for_ever(&world).await });
}

async fn reap_for_ever(world: &Arc<World>) {
    loop {
        world.sessions.work.notified().await;
        let mut ended: Vec<_> = std::mem::take(
            &mut *world.sessions.ended.lock().unwrap_or_else(PoisonError::into_inner),
        );
        while let Some((digest, cause)) = ended.pop() {
            let keys = world.sessions.get(digest).map(|session| session.keys());
            tell(world, keys.unwrap_or_default(), digest, &cause).await;
            let world = world.clone();
            actix::spawn(async move {
                if world.store.shared().is_some() {
                    search(&world, &HashMap::from([(digest, cause.clone())])).await;
                }
                tokio::time::sleep(SWEEP_AGAIN).await;
                if world.store.shared().is_some() {
                    search(&world, &HashMap::from([(digest, cause)])).await;
                } else if let Some(session) = world.sessions.get(digest) {
                    tell(&world, session.keys(), digest, &cause).await;
                }
                world.sessions.forget(digest);
            });
        }
        if world.sessions.all().iter().any(|session| !session.is_complete()) {
            search(world, &HashMap::new()).await;
        }
    }
}

async fn tell(world: &Arc<World>, keys: Vec<Key>, session: Nonce, cause: &str) {
    for batch in keys.chunks(BATCH) {
        for key in batch {
            let over = SessionOver { session, cause: cause.into() };
            let _ = world.registry.post(world, key.as_str(), Mail::SessionOver(over));
        }
        tokio::task::yield_now().await;
    }
}

/// One look at every key: leases of these ended sessions are told, and those of sessions that are not
/// known whole are noted.
async fn search(world: &Arc<World>, ended: &HashMap<Nonce, Box<str>>) {
    let sessions = world.sessions.all();
    let surveyed: Vec<_> = sessions.into_iter().filter(|session| !session.is_complete()).collect();
    let wanted: HashMap<_, _> = surveyed.iter().map(|session| (session.digest, session)).collect();
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
            if let Some(session) = wanted.get(&bond.session) {
                session.found(key, record.token(found.revision), record.revocation.is_some());
            }
            if let Some(cause) = ended.get(&bond.session) {
                tell(world, vec![key.clone()], bond.session, cause).await;
            }
        }
        tokio::task::yield_now().await;
    }
    for session in surveyed {
        session.completed();
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

/// R6: whoever reads a lease of a dead session ends it; a session without a record gets a tombstone first.
async fn inquire(world: &Arc<World>, digest: Nonce, keys: HashSet<Key>) {
    let key = Key::of_session(digest);
    let found = match world.store.read(&key).await {
        Ok(found) => super::lease::loaded(found),
        Err(error) => return tracing::warn!(%error, "a session cannot be read"),
    };
    match Standing::of(&found) {
        Standing::Alive => {}
        Standing::Dead => {
            tell(world, keys.into_iter().collect(), digest, "the session is over").await;
        }
        Standing::Absent => {
            let (caller, answer) = super::Reply::one();
            let (received, request) = (world.now(), Request::Bury);
            let call = Call { caller, received, request, stranded: false };
            let _ = world.registry.post(world, key.as_str(), Mail::Call(call));
            drop(answer.await);
            for key in keys {
                // Asked again, it is there.
                world.sessions.inquire(digest, &key);
            }
        }
    }
}
