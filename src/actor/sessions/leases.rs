//! The leases of one session: those that it keeps by their records, and their actors.

use super::service::SessionService;
use crate::{
    actor::mail::Mail,
    lease::{Key, Nonce, SessionOver},
    store::{Found, StoreError},
};

/// How many keys are told, or read, at a time. Other tasks run in between.
const BATCH: usize = 500;

/// Tells the actors of these leases that their session is over.
pub async fn tell_over(service: &SessionService, keys: Vec<Key>, over: &SessionOver) {
    for batch in keys.chunks(BATCH) {
        let over = over.clone();
        service.registry.post_all(batch, move || Mail::SessionOver(over.clone()));
        tokio::task::yield_now().await;
    }
}

/// The leases that a session keeps according to their records. Keys that it no longer keeps are removed from the index.
pub async fn leases_of(
    service: &SessionService,
    digest: Nonce,
) -> Result<Vec<(Key, Found)>, StoreError> {
    let index = &service.sessions.index;
    let mut leases = Vec::new();
    for batch in index.of(digest).chunks(BATCH) {
        let found = service.environment.store.read_many(batch).await?;
        for (key, found) in batch.iter().zip(found) {
            let record = found.as_ref().map(|found| &found.record);
            match record {
                // A record that cannot be interpreted may be kept by any session.
                Some(Err(_)) => {}
                Some(Ok(record)) if record.is_kept_by(digest) => {
                    leases.extend(found.map(|found| (key.clone(), found)));
                }
                Some(Ok(record)) => index.ended(digest, key, record.seq),
                None => index.ended(digest, key, u64::MAX),
            }
        }
        tokio::task::yield_now().await;
    }
    Ok(leases)
}
