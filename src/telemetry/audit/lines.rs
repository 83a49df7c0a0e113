//! The lines on their way to the thread that writes.

use tokio::sync::oneshot;

use super::entry::AuditEntry;

/// A call that is no change, and when it was recorded.
pub(super) type CallLine = (u64, Box<AuditEntry>);

/// A line of a change, when it was recorded, and the caller that waits until it is durable.
pub(super) struct ChangeLine {
    pub wall_ms: u64,
    pub entry: Box<AuditEntry>,
    pub kept: Option<oneshot::Sender<bool>>,
}
