//! Requests to the task that reads and appends the log.

use tokio::sync::oneshot;

use crate::lease::StoreError;

pub(super) enum Command {
    /// The log may have new entries.
    Look,
    /// Log everything that waits, then answer.
    Flush(oneshot::Sender<Result<(), StoreError>>),
    /// Discard everything and read the table again.
    Reload(oneshot::Sender<Result<(), StoreError>>),
}
