//! Notices in the answer to a session's heartbeat.

use serde::Serialize;

/// A notice to the holder of a session.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Notice {
    /// The lease was revoked: it is ending, and the heartbeat does not keep it.
    Revoked {
        /// The key of the lease.
        key: String,
        /// The token of the tenure that is ending. A later tenure of the key is not affected.
        token: u64,
    },
    /// The holder must hand over this lease.
    HandoverRequested {
        /// The key of the lease.
        key: String,
        /// The token of the tenure to hand over.
        token: u64,
        /// Milliseconds until the lease is revoked instead.
        deadline_ms: u64,
    },
    /// The holder must hand over all leases of the session.
    Draining {
        /// Milliseconds until the session is revoked, with the leases that it still keeps.
        deadline_ms: u64,
    },
    /// A newer session of this owner is the member of the pool, and takes over the leases of this one. The holder must
    /// stop at once.
    Replaced,
}
