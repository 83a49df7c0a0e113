//! The turns in which subscribers read the history, on threads of their own, so that the threads that keep leases are
//! not held up.

use std::{future::Future, sync::Arc};

use tokio::{runtime::Handle, sync::Semaphore, task::spawn_blocking};

use crate::store::{LeaseStore, StoreError};

/// The pieces that are read at the same time; the subscribers take turns. A read of a store in the process keeps a core
/// busy. A read over a network mostly waits, and one read that hangs must not hold up all others.
const IN_PROCESS: usize = 1;
const OVER_A_NETWORK: usize = 16;

/// The turns of the subscribers.
pub struct Replays(Arc<Semaphore>);

impl Replays {
    /// The turns for reads of this store.
    pub fn of(store: &dyn LeaseStore) -> Self {
        let shared = store.shared().is_some();
        Self(Arc::new(Semaphore::new(if shared { OVER_A_NETWORK } else { IN_PROCESS })))
    }

    /// Runs a read in its turn. The turn ends when the read does, even if the subscriber leaves earlier.
    pub(in crate::http) async fn run<T: Send + 'static>(
        &self,
        job: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let turn = self.0.clone().acquire_owned().await;
        let runtime = Handle::current();
        let read = spawn_blocking(move || {
            let done = runtime.block_on(job);
            drop(turn);
            done
        });
        read.await.unwrap_or_else(|ended| Err(StoreError::Unavailable(ended.to_string())))
    }
}
