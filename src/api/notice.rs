//! What the heartbeat of a session tells its holder.

use serde::Serialize;

/// What a holder should know.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Notice {
    /// This lease is ordered to end, and the heartbeat does not keep it.
    Revoked {
        /// Which lease.
        key: String,
        /// Which tenure of it: a later one of the same session is not meant.
        token: u64,
    },
    /// This lease is to be handed over.
    HandoverRequested {
        /// Which lease.
        key: String,
        /// Which tenure of it.
        token: u64,
        /// Milliseconds until it is ordered to end.
        deadline_ms: u64,
    },
    /// The whole session is to hand over what it keeps.
    Draining {
        /// Milliseconds until the session is ordered to end.
        deadline_ms: u64,
    },
}
