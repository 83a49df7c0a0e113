//! Grants whose callers left before they were told.
//!
//! Guarantees: each grant is released soon, on whichever thread it was noticed.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{StreamExt, stream};
use tokio::sync::Notify;

use crate::{
    actor::{runtime::tasks::supervise, world::World},
    lease::{Key, LeaseId, Release, Request},
};

/// How many releases are written at a time.
const AT_ONCE: usize = 64;

/// The grants that must be released.
#[derive(Default)]
pub struct UnheardGrants {
    waiting: Mutex<Vec<(Key, LeaseId)>>,
    added: Notify,
}

impl UnheardGrants {
    /// No caller will be told of this grant: has it released.
    pub(crate) fn give_back(&self, key: Key, lease_id: LeaseId) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push((key, lease_id));
        self.added.notify_one();
    }
}

/// Starts the task, which runs for as long as the process.
pub(crate) fn start(world: &Arc<World>) {
    supervise(world, "grants unheard of", |world| async move {
        loop {
            world.unheard.added.notified().await;
            let waiting = &world.unheard.waiting;
            let waiting =
                std::mem::take(&mut *waiting.lock().unwrap_or_else(PoisonError::into_inner));
            let releases = waiting.into_iter().map(async |(key, lease_id)| {
                let release = || Request::Release(Release { lease_id, value: None });
                if let Err(why) = world.ask(key.as_str(), world.now().into(), release).await {
                    tracing::debug!(key = key.as_str(), ?why, "cannot release an unheard grant");
                }
            });
            stream::iter(releases).buffer_unordered(AT_ONCE).collect::<()>().await;
        }
    });
}
