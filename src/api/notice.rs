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
    /// The member is to prepare for this key: it is to have it next. It does not have it yet.
    HandoverPrepare {
        /// The key.
        key: String,
        /// The token of the tenure that will be handed over.
        token: u64,
        /// The value of the key when this began; null if it had none, or if `prepared` is true.
        value: Option<String>,
        /// The owner that holds the key.
        from: String,
        /// Where that owner serves its keys; null if it did not say.
        address: Option<String>,
        /// Milliseconds until the holder is asked to hand over, whether or not the member is prepared.
        deadline_ms: u64,
        /// Whether the member said that it is prepared. The notice stands until it has the key, or is to have it no more.
        prepared: bool,
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
