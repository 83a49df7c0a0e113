//! Grants whose callers left before they were told.
//!
//! Guarantees: each grant is released soon, on whichever thread it was noticed. While the store does not accept that,
//! it is tried again.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};

use crate::{
    actor::{
        environment::Environment,
        runtime::{inbox::Inbox, registry::Registry, tasks::supervise},
    },
    lease::{Answer, Key, LeaseId, Release, Request},
};

/// How many releases are written at a time.
const AT_ONCE: usize = 64;
/// The pause before releases are tried again that the store did not accept.
const RETRY: Duration = Duration::from_millis(250);

/// The grants that must be released.
pub struct UnheardGrants {
    environment: Arc<Environment>,
    registry: Arc<Registry>,
    waiting: Inbox<Vec<(Key, LeaseId)>>,
}

impl UnheardGrants {
    pub(in crate::actor) fn new(environment: Arc<Environment>, registry: Arc<Registry>) -> Self {
        Self { environment, registry, waiting: Inbox::default() }
    }

    /// No caller will be told of this grant: has it released.
    pub(crate) fn give_back(&self, key: Key, lease_id: LeaseId) {
        self.waiting.add(|waiting| waiting.push((key, lease_id)));
    }

    /// Starts the task that releases the grants. It runs for as long as the process.
    pub(crate) fn start(self: &Arc<Self>) {
        supervise(self, "unheard grants", |unheard| async move { unheard.release_all().await });
    }

    async fn release_all(&self) {
        loop {
            self.waiting.filled().await;
            let waiting = self.waiting.take();
            let releases = waiting.into_iter().map(|(key, lease_id)| self.release(key, lease_id));
            let left = stream::iter(releases).buffer_unordered(AT_ONCE);
            let mut left: Vec<_> = left.filter_map(std::future::ready).collect().await;
            if !left.is_empty() {
                tokio::time::sleep(RETRY).await;
                self.waiting.add(|waiting| waiting.append(&mut left));
            }
        }
    }

    /// Returns the grant if its release must be tried again.
    async fn release(&self, key: Key, lease_id: LeaseId) -> Option<(Key, LeaseId)> {
        let release = || Request::Release(Release { lease_id, value: None });
        let received = self.environment.now();
        match self.registry.ask(key.as_str(), received.into(), release).await {
            Ok(Answer::Store(_) | Answer::Busy) => Some((key, lease_id)),
            Ok(_) => None,
            Err(why) => {
                tracing::debug!(key = key.as_str(), ?why, "cannot release an unheard grant");
                None
            }
        }
    }
}
