//! The end of a lease by its holder: a release, or a hand-over.

use std::{future::Future, sync::Arc};

use serde_json::json;
use tokio::time::timeout;

use super::{
    answer::Answer,
    extend::{lost, not_claimed},
    holder::{ANSWER, Holder},
    loss,
    view::{quoted, seconds},
};
use crate::client::{ClientError, Lease};

/// The lease of this key, which may be ended. One that was lost is forgotten, and the agent is told.
pub(super) fn to_end(holder: &Holder, key: &str) -> Result<Arc<Lease>, Answer> {
    let lease = holder.lease(key).ok_or_else(|| not_claimed(key))?;
    // An end that no server was told of is tried again.
    if lease.valid() || lease.deadline().lost.is_some_and(loss::is_wanted) {
        return Ok(lease);
    }
    let answer = lost(holder, &lease);
    holder.forget(&lease);
    Err(answer)
}

/// Tells a server, in a task of its own: a key that is half given back would stay shut until its time has run out, so
/// this goes on when the client cancels the call. Returns whether this ended the tenure.
pub(super) async fn end(
    holder: &Arc<Holder>,
    lease: &Arc<Lease>,
    telling: impl Future<Output = Result<bool, ClientError>> + Send + 'static,
) -> Result<bool, Answer> {
    let (own, ending) = (holder.clone(), lease.clone());
    let task = tokio::spawn(async move {
        let told = telling.await;
        if told.is_ok() {
            own.forget(&ending);
        }
        told
    });
    let why = match timeout(ANSWER, task).await {
        Ok(Ok(Ok(ended))) => return Ok(ended),
        Ok(Ok(Err(error))) => error.to_string(),
        Ok(Err(_)) | Err(_) => "no server answered in time".to_owned(),
    };
    let (key, ttl) = (quoted(lease.key()), seconds(lease.ttl()));
    let message = format!(
        "No server could be told: {why}. You do not hold {key} any more. Others get it once its \
         time has run out, within {ttl} s, or sooner if you call this again."
    );
    let data = json!({ "key": lease.key(), "held": false, "retryable": true });
    Err(Answer::failed(message, data))
}
