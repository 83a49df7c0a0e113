//! How a member of a pool leaves: for good, or to come back.

use std::sync::Arc;

use tokio::sync::watch;

/// How a member leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Leave {
    /// It stays.
    Not,
    /// It comes back to its keys.
    Stop,
    /// For good.
    Drain,
}

/// Stops a [`WorkerPool`](super::WorkerPool) from outside.
#[derive(Clone, Debug)]
pub struct DrainHandle(Arc<watch::Sender<Leave>>);

impl DrainHandle {
    pub(super) fn new(leave: Arc<watch::Sender<Leave>>) -> Self {
        Self(leave)
    }

    /// Hands all leases over, after which [`WorkerPool::run`](super::WorkerPool::run) returns.
    pub fn drain(&self) {
        self.0.send_replace(Leave::Drain);
    }

    /// Ends all tasks, after which [`WorkerPool::run`](super::WorkerPool::run) returns. If the policy of the pool has a `rejoin_window`, the keys
    /// are kept for that time for the next member with this owner. Otherwise this is a [drain](Self::drain).
    pub fn stop(&self) {
        self.0.send_if_modified(|leave| {
            let stops = *leave < Leave::Stop;
            if stops {
                *leave = Leave::Stop;
            }
            stops
        });
    }
}

/// Resolves when the member leaves.
pub(super) async fn asked_to_leave(leave: &mut watch::Receiver<Leave>) {
    if leave.wait_for(|leave| *leave > Leave::Not).await.is_err() {
        std::future::pending::<()>().await;
    }
}
