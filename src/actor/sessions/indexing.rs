//! Finds the leases of sessions whose home node this node became.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};

use super::{leases::leases_of, service::SessionService, session::Session};
use crate::{
    actor::environment::loaded,
    lease::{Inquiry, KeptEffect, Key},
    store::Found,
};

/// The number of sessions whose leases are searched for at once.
const AT_ONCE: usize = 16;
/// How long to wait after a failed search before the next one.
const RETRY: Duration = Duration::from_millis(500);

/// Runs for as long as the process.
pub async fn index_sessions(service: &Arc<SessionService>) {
    // Takes over what an earlier run of this task had begun.
    service.sessions.reindex();
    let unindexed = &service.sessions.unindexed;
    let mut under_way = stream::FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            () = unindexed.filled() => {}
            Some(()) = under_way.next(), if !under_way.is_empty() => {}
        }
        while under_way.len() < AT_ONCE
            && let Some(session) = unindexed.look(|sessions| sessions.pop_front())
        {
            under_way.push(indexing(service, session));
        }
    }
}

/// Runs until all leases of the session are known, or the session has another home node.
async fn indexing(service: &SessionService, session: Arc<Session>) {
    while session.is_due() {
        service.sessions.index.whole().await;
        let misses = session.misses();
        match leases_of(service, session.digest).await {
            Ok(leases) => {
                leases.iter().for_each(|(key, found)| note(service, &session, misses, key, found));
                session.update(|kept| kept.completed(misses));
            }
            Err(error) => {
                tracing::warn!(session = %session.digest, %error, "cannot search for a session's leases");
                tokio::time::sleep(RETRY).await;
            }
        }
        if misses > 0 {
            revisit(service, &session).await;
        }
    }
}

/// Notes a kept lease that a search found. When the search began, changes had been missed `misses` times.
fn note(service: &SessionService, session: &Session, misses: u64, key: &Key, found: &Found) {
    let Ok(record) = &found.record else { return };
    service.sessions.found(&service.environment, session.digest, key, record);
    let present = service.environment.is_present(record.node);
    match session.update(|kept| kept.found(misses, key, found.revision, record, present)) {
        None => {}
        Some(KeptEffect::HandOver(token, ask)) => {
            let (sessions, now) = (&service.sessions, service.environment.clock.now());
            sessions.asked_to_hand_over(key, token, Some(session.digest), &ask, now);
        }
        Some(KeptEffect::Reissue) => service.sessions.reissue(session.digest, key),
    }
}

/// Reads the session's record again: its end may be among the changes that were missed.
async fn revisit(service: &SessionService, session: &Session) {
    let key = Key::of_session(session.digest);
    let found = loop {
        match service.environment.store.read(&key).await {
            Ok(found) => break found,
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    };
    if let Inquiry::Over { over, .. } = Inquiry::of(session.digest, &loaded(found)) {
        service.pools.left(&service.environment, &over);
        service.sessions.ends(over, true);
    }
}
