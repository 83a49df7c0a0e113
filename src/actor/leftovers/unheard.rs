//! Grants whose callers left before they were told.
//!
//! Guarantees: each grant is released soon, on whichever thread it was noticed. What keeps one key from that, such as a
//! store that refuses the write or an actor that rests, delays no other key, and is tried again until it is over.
//!
//! Does not guarantee: a release where the lease has another home node meanwhile. If the call had a request id, that node
//! may have told a repeated call of the lease.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::sync::Semaphore;

use crate::{
    actor::{
        environment::Environment,
        runtime::{
            registry::{Registry, Until, Unwanted},
            tasks::supervise,
        },
    },
    lease::{Answer, GiveBack, Key, Request},
};

/// How many releases are asked for at a time.
const AT_ONCE: usize = 64;
/// The pause before the first repetition of a release, and the longest such pause.
const RETRY: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The grants that must be released.
pub struct UnheardGrants {
    environment: Arc<Environment>,
    registry: Arc<Registry>,
    turns: Semaphore,
}

impl UnheardGrants {
    pub(in crate::actor) fn new(environment: Arc<Environment>, registry: Arc<Registry>) -> Self {
        Self { environment, registry, turns: Semaphore::new(AT_ONCE) }
    }

    /// No caller will be told of this grant: has it released. `until` is dropped after that.
    pub(crate) fn give_back(&self, key: Key, back: GiveBack, until: Option<Until>) {
        self.registry.unheard.add(|waiting| waiting.push(Unwanted { key, back, until }));
    }

    /// Starts the task that releases the grants. It runs for as long as the process.
    pub(crate) fn start(self: &Arc<Self>) {
        supervise(self, "unheard grants", |unheard| async move { unheard.release_all().await });
    }

    async fn release_all(&self) {
        let mut releases = FuturesUnordered::new();
        loop {
            tokio::select! {
                () = self.registry.unheard.filled() => {
                    let waiting = self.registry.unheard.take();
                    releases.extend(waiting.into_iter().map(|unwanted| self.release(unwanted)));
                }
                Some(()) = releases.next() => {}
            }
        }
    }

    async fn release(&self, Unwanted { key, back, until }: Unwanted) {
        let (_until, mut pause) = (until, RETRY);
        while !self.try_release(&key, back).await {
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// Returns whether nothing is left to do here.
    async fn try_release(&self, key: &Key, back: GiveBack) -> bool {
        let _turn = self.turns.acquire().await;
        let received = self.environment.now();
        match self.registry.ask(key.as_str(), received.into(), || Request::GiveBack(back)).await {
            Ok(Answer::Released(_) | Answer::NotHolder(_) | Answer::Elsewhere(_)) => true,
            answer => {
                tracing::debug!(key = key.as_str(), ?answer, "cannot release an unheard grant yet");
                false
            }
        }
    }
}
