//! How the loss of a lease is told to an agent.

use serde_json::{Value, json};

use super::view::quoted;
use crate::client::{Lease, Loss};

/// Why a lease is over, for an agent.
fn cause(loss: Loss) -> &'static str {
    match loss {
        Loss::Expired => {
            "it was not renewed in time, for example because this machine slept or was paused"
        }
        Loss::Released => "it was released",
        Loss::Revoked => "an administrator ended it, or a hand-over took too long",
        Loss::Reclaimed | Loss::Replaced => {
            "the same owner name took the key again, in another process"
        }
        Loss::Transferred => "it was handed over",
        Loss::Fenced => "it was not renewed in time, and its holder was shut out of the resource",
        Loss::SessionEnded | Loss::Unknown => "the server does not know it any more",
        Loss::Unreachable => "no server could be reached in time to renew it",
    }
}

/// Whether the holder ended it itself.
pub(super) fn is_wanted(loss: Loss) -> bool {
    matches!(loss, Loss::Released | Loss::Transferred)
}

/// What the agent must do.
pub(super) fn stop(lease: &Lease, loss: Loss) -> String {
    let (key, token, cause) = (quoted(lease.key()), lease.token(), cause(loss));
    format!(
        "STOP. You no longer hold {key}: {cause}. Write nothing more under token {token}, because \
         another holder may be at work. To go on, claim the key again, look at what was done \
         meanwhile, and use the new token."
    )
}

/// The same as data.
pub(super) fn data(lease: &Lease, loss: Loss) -> Value {
    json!({
        "key": lease.key(),
        "token": lease.token(),
        "held": false,
        "lost": loss.as_str(),
    })
}
