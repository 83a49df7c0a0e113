//! Reissues revocations of kept leases whose authors are gone.

use std::{sync::Arc, time::Duration};

use super::{revoke::revoke, service::SessionService};
use crate::{
    actor::runtime::ask::Unanswered,
    lease::{Answer, Key, Nonce},
    store::Found,
};

/// How long to wait after a failed revocation before the next try.
const RETRY: Duration = Duration::from_millis(500);

/// Runs for as long as the process.
pub async fn reissue_revocations(service: &Arc<SessionService>) {
    let sessions = &service.sessions;
    loop {
        sessions.reissues.filled().await;
        let mut again = Vec::new();
        for (digest, key) in sessions.reissues.take() {
            if !reissue(service, digest, &key).await {
                again.push((digest, key));
            }
        }
        if !again.is_empty() {
            tokio::time::sleep(RETRY).await;
            again.iter().for_each(|(digest, key)| sessions.reissue(*digest, key));
        }
    }
}

/// R6: reissues the revocation of a kept lease whose author is gone, at the session's present home node. The session
/// announces it first, and the end waits for what this node promised before. Returns whether that is settled.
async fn reissue(service: &SessionService, digest: Nonce, key: &Key) -> bool {
    if service.sessions.get(digest).is_none() {
        return true;
    }
    let (revision, record) = match service.environment.store.read(key).await {
        Ok(Some(Found { revision, record: Ok(record) })) => (revision, record),
        Ok(_) => return true,
        Err(error) => {
            tracing::warn!(key = key.as_str(), %error, "cannot reissue a revocation yet; retrying");
            return false;
        }
    };
    let Some(order) = record.order_anew(revision, digest) else { return true };
    let answer = revoke(service, key, order, service.environment.now().into()).await;
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
