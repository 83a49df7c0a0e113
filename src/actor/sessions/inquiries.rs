//! Finds out whether sessions that leases name are alive.
//!
//! Guarantees: for a session that a lease names and that has no record, a tombstone is written.

use std::{sync::Arc, time::Duration};

use super::{leases::tell_over, service::SessionService};
use crate::{
    actor::{
        environment::loaded,
        mail::{Mail, Reply},
    },
    clock::HashSet,
    lease::{Call, Inquiry, Key, Nonce, Request},
};

/// The shortest time between two batches of inquiries.
const PAUSE: Duration = Duration::from_millis(500);

/// Runs for as long as the process.
pub async fn answer_inquiries(service: &Arc<SessionService>) {
    let inquiries = &service.sessions.inquiries;
    loop {
        inquiries.filled().await;
        for (digest, keys) in inquiries.take() {
            inquire(service, digest, keys).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// R6: whoever reads a lease of a dead session has it ended. For a session without a record a tombstone is written
/// first.
async fn inquire(service: &SessionService, digest: Nonce, keys: HashSet<Key>) {
    let (environment, sessions) = (&service.environment, &service.sessions);
    let key = Key::of_session(digest);
    let found = match environment.store.read(&key).await {
        Ok(found) => loaded(found),
        Err(error) => {
            tracing::warn!(%error, "cannot read the record of a session; retrying");
            return sessions.inquire_anew(digest, keys);
        }
    };
    match Inquiry::of(digest, &found) {
        Inquiry::Lives => {}
        Inquiry::Over { over, home } => {
            service.pools.left(environment, &over);
            tell_over(service, keys.into_iter().collect(), &over).await;
            sessions.ends(over, environment.is_own(home));
        }
        Inquiry::WriteTombstone => {
            write_tombstone(service, &key).await;
            // The record exists by the next inquiry.
            sessions.inquire_anew(digest, keys);
        }
    }
}

async fn write_tombstone(service: &SessionService, key: &Key) {
    let (caller, answer) = Reply::one(false);
    let (received, request) = (service.environment.now(), Request::WriteTombstone);
    let call = Call { caller, received, request, home_unreachable: false };
    let _ = service.registry.post(key.as_str(), Mail::Call(call));
    drop(answer.await);
}
