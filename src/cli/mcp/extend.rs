//! The tool `extend`: asks the server now whether a key is still held.

use serde_json::json;
use tokio::time::timeout;

use super::{
    answer::Answer,
    arguments::Arguments,
    holder::{ANSWER, Holder},
    loss,
    view::{quoted, seconds},
};
use crate::client::Lease;

/// Serves a call.
pub(super) async fn extend(holder: &Holder, mut given: Arguments) -> Result<Answer, Answer> {
    let key = given.key()?;
    given.end()?;
    let lease = holder.lease(&key).ok_or_else(|| not_claimed(&key))?;
    let asked = timeout(ANSWER, lease.renew()).await;
    if !lease.valid() {
        return Err(lost(holder, &lease));
    }
    match asked {
        Ok(Ok(_)) => Ok(held(holder, &lease)),
        Ok(Err(error)) => Err(not_confirmed(&lease, &error.to_string())),
        Err(_) => Err(not_confirmed(&lease, "no server answered in time")),
    }
}

fn held(holder: &Holder, lease: &Lease) -> Answer {
    let (key, token, left) = (lease.key(), lease.token(), seconds(lease.remaining()));
    let mut message = format!(
        "You still hold {} under token {token}. You may rely on it for {left} s from now.",
        quoted(key)
    );
    let mut data = json!({ "key": key, "token": token, "held": true, "valid_for_seconds": left });
    if let Some(left) = holder.hand_over_within(lease).map(seconds) {
        message += &format!(" It must be handed over within {left} s: call `hand_over`.");
        data["hand_over_within_seconds"] = json!(left);
    }
    Answer::done(message, data)
}

/// Nobody says that it is over, and nobody says that it goes on.
fn not_confirmed(lease: &Lease, why: &str) -> Answer {
    let (key, token, left) = (lease.key(), lease.token(), seconds(lease.remaining()));
    let message = format!(
        "Not confirmed: {why}. You hold {} under token {token} for {left} s more, and not longer \
         unless a server answers. Begin nothing that may take longer; this server goes on \
         trying.",
        quoted(key)
    );
    let data = json!({
        "key": key, "token": token, "held": true, "confirmed": false, "valid_for_seconds": left,
    });
    Answer::failed(message, data)
}

/// The lease is over.
pub(super) fn lost(holder: &Holder, lease: &Lease) -> Answer {
    holder.told(lease.key());
    match lease.deadline().lost {
        Some(cause) => Answer::failed(loss::stop(lease, cause), loss::data(lease, cause)),
        // It was given back meanwhile, by another call.
        None => not_claimed(lease.key()),
    }
}

/// This process has no lease on the key.
pub(super) fn not_claimed(key: &str) -> Answer {
    let message = format!(
        "You do not hold {}: you did not claim it, or you released it or handed it over. Do not \
         write under a token that you had for it. Claim it first.",
        quoted(key)
    );
    Answer::failed(message, json!({ "key": key, "held": false }))
}
