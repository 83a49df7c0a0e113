//! The keys that an earlier process left held or offered: its promises still hold.

use std::{sync::Arc, time::Duration};

use crate::{
    actor::{
        cluster::is_pending, coordinator::Coordinator, runtime::registry::Unreachable,
        sessions::read_session_leases,
    },
    lease::{Key, KeyState, SessionOver},
    store::StoreError,
};

/// How many actors are started before the arbiters get time for other work: about a millisecond's worth.
const BATCH: usize = 128;
/// The pause after a failed start.
const PAUSE: Duration = Duration::from_millis(100);

/// Reads every key and remembers those that an earlier process left held or offered. Must finish before the first call
/// is accepted.
///
/// # Errors
/// Errors of the store.
pub async fn inherit(coordinator: &Coordinator) -> Result<Vec<Key>, StoreError> {
    let mut inherited = Vec::new();
    read_session_leases(coordinator, &coordinator.sessions, |key, record| {
        if let (Some(digest), Some(record)) = (key.session(), record)
            && record.state != KeyState::Held
        {
            coordinator.sessions.left(SessionOver::of_record(digest, record));
        }
        if record.is_none_or(is_pending) {
            coordinator.registry.inherit(key.clone());
            inherited.push(key.clone());
        }
    })
    .await?;
    Ok(inherited)
}

/// Starts the actors of inherited keys, so that their leases end on time even if no client calls. The next batch is
/// started when the arbiters have come to the end of the one before, so a call waits for one batch at most.
pub async fn awaken(coordinator: Arc<Coordinator>, inherited: Vec<Key>) {
    for batch in inherited.chunks(BATCH) {
        for key in batch {
            while let Err(Unreachable::NoArbiter) = coordinator.registry.start(key) {
                tokio::time::sleep(PAUSE).await;
            }
        }
        coordinator.registry.caught_up().await;
    }
    coordinator.registry.all_seen();
}
