//! The state that the store's callers and its tasks share.

use std::{
    error::Error,
    fmt,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, atomic::AtomicBool},
    time::Duration,
};

use aws_sdk_dynamodb::{
    error::{ProvideErrorMetadata, SdkError},
    types::ConsumedCapacity,
};
use tokio::sync::{Notify, broadcast, mpsc};

use super::{
    client::{Client, Failure, FailureKind},
    command::Command,
    health::{Frozen, RecentFailures},
    layout::LeaseItem,
    options::Options,
    own::Own,
    state::DynamoState,
    table::Identity,
};
use crate::{
    clock::{Clock, Entropy, SystemEntropy},
    lease::{Epoch, Key, Nonce, Revision, StoreError},
    store::{FeedBatch, Found, Meta, ROTATED, SecretBytes, Witness},
    telemetry::Metrics,
};

/// How many batches of batches a slow listener may fall behind before it must read the history.
const FEED_BATCHES: usize = 256;
/// How many times a read is sent at most.
const READS: u32 = 3;
/// The longest time without a new log entry while a node is alive. Entries are deleted by age, and the last one
/// must remain.
const MAX_KEEPALIVE_MS: u64 = 3_600_000;
/// The first pause before a read is sent again. It doubles each time.
const READ_PAUSE: Duration = Duration::from_millis(50);

pub(super) struct DynamoShared {
    pub client: Client,
    pub options: Options,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    pub feed: broadcast::Sender<FeedBatch>,
    /// Requests to the task that reads and appends the log.
    pub commands: mpsc::Sender<Command>,
    /// Something waits to be logged.
    pub to_log: Notify,
    /// The table or the store's own record may have changed, so it must be checked now.
    pub suspect: Notify,
    pub meta: RwLock<Arc<Meta>>,
    /// The secret that the store was opened with: lease ids are derived from it.
    pub secret: SecretBytes,
    /// The secret that this process is giving the store.
    rotating: Mutex<Option<SecretBytes>>,
    pub identity: RwLock<Identity>,
    /// Whether the table's stream reports changes.
    pub stream_ok: AtomicBool,
    state: Mutex<DynamoState>,
    recent_failures: Mutex<RecentFailures>,
}

impl DynamoShared {
    pub fn new(
        client: Client,
        options: Options,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
        (own, identity): (Own, Identity),
        commands: mpsc::Sender<Command>,
    ) -> Self {
        let entropy = SystemEntropy::new();
        // The keepalive must come before the table may delete the log's last entry.
        let keepalive_ms = MAX_KEEPALIVE_MS.min(millis(options.history));
        Self {
            client,
            options,
            clock,
            metrics,
            feed: broadcast::Sender::new(FEED_BATCHES),
            commands,
            to_log: Notify::new(),
            suspect: Notify::new(),
            meta: RwLock::new(Arc::new(own.meta)),
            secret: own.secret,
            rotating: Mutex::new(None),
            identity: RwLock::new(identity),
            stream_ok: AtomicBool::new(false),
            state: Mutex::new(DynamoState::new(entropy.nonce(), keepalive_ms)),
            recent_failures: Mutex::new(RecentFailures::new(entropy.chance())),
        }
    }

    // Both are changed in steps that do not panic, so a poisoned lock is harmless.
    pub fn state(&self) -> MutexGuard<'_, DynamoState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn recent_failures(&self) -> MutexGuard<'_, RecentFailures> {
        self.recent_failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn meta(&self) -> Arc<Meta> {
        Arc::clone(&self.meta.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn set_meta(&self, meta: Meta) {
        *self.meta.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(meta);
    }

    pub fn identity(&self) -> Identity {
        self.identity.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn me(&self) -> Nonce {
        self.state().me
    }

    pub fn jitter(&self, span: Duration) -> Duration {
        self.recent_failures().jitter(span)
    }

    /// What to remember of the store. For a frozen store, it is what was known before.
    pub fn witness(&self) -> Witness {
        if let Some(frozen) = &self.recent_failures().frozen {
            return frozen.remember;
        }
        let (meta, head) = (self.meta(), self.state().head);
        Witness { identity: meta.identity, epoch: meta.epoch, highest: Revision(head) }
    }

    /// Freezes the store: nothing is granted until its epoch is above this one. The first reason is kept.
    pub fn freeze(&self, why: String, epoch: Epoch) {
        let remember = self.witness();
        self.freeze_as(why, epoch, remember);
    }

    /// Like [`Self::freeze`], with what an earlier run saw of the store.
    pub fn freeze_as(&self, why: String, epoch: Epoch, remember: Witness) {
        let mut recent_failures = self.recent_failures();
        if recent_failures.frozen.is_none() {
            tracing::error!(
                why,
                "the store is frozen: nothing is granted until its epoch is raised"
            );
            recent_failures.frozen = Some(Frozen { why, epoch, remember });
            self.metrics.frozen(true);
        }
    }

    /// Remembers the secret that this process gives the store.
    pub fn rotates(&self, secret: Option<SecretBytes>) {
        *self.rotating.lock().unwrap_or_else(PoisonError::into_inner) = secret;
    }

    /// Whether this is another secret than the one that this process opened the store with or gave it.
    pub fn is_rotated(&self, now: SecretBytes) -> bool {
        let given = *self.rotating.lock().unwrap_or_else(PoisonError::into_inner);
        now != self.secret && Some(now) != given
    }

    /// Freezes the store because its secret is another one. This reason replaces any other, because no raise of the
    /// epoch helps against it.
    pub fn freeze_rotated(&self) {
        self.freeze(ROTATED.to_owned(), self.meta().epoch);
        if let Some(frozen) = &mut self.recent_failures().frozen
            && frozen.why != ROTATED
        {
            tracing::error!(why = ROTATED, "the store stays frozen for this process");
            ROTATED.clone_into(&mut frozen.why);
        }
    }

    /// Sends a write once, and records how the table responds.
    pub async fn send<T, E>(
        &self,
        what: &str,
        request: impl Future<Output = Result<T, SdkError<E>>>,
    ) -> Result<T, Failure<E>>
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        self.send_noted(what, request, true).await
    }

    /// Sends a request once, and records how the table responds.
    async fn send_noted<T, E>(
        &self,
        what: &str,
        request: impl Future<Output = Result<T, SdkError<E>>>,
        write: bool,
    ) -> Result<T, Failure<E>>
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        let reply = self.client.send(what, request).await;
        match &reply {
            Ok(_) => self.recent_failures().answered(write),
            Err(failure) => self.note_failure(failure.kind, &failure.why),
        }
        reply
    }

    fn note_failure(&self, kind: FailureKind, why: &str) {
        match kind {
            FailureKind::Condition | FailureKind::TooLarge => self.recent_failures().answered(true),
            FailureKind::Throttled => {
                self.metrics.throttled.increment(1);
                let now = self.clock.now();
                self.recent_failures().throttled(why, now);
            }
            FailureKind::Gone => {
                self.recent_failures().failed(why, true);
                self.suspect.notify_one();
            }
            FailureKind::Refused | FailureKind::Unknown => {
                self.recent_failures().failed(why, false)
            }
        }
    }

    /// Sends a read, and again if it fails. A read changes nothing.
    pub async fn send_read<T, E, F>(
        &self,
        what: &str,
        mut request: impl FnMut() -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, SdkError<E>>>,
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        let mut tries = 1;
        loop {
            match self.send_noted(what, request(), false).await {
                Ok(reply) => return Ok(reply),
                Err(failure) if tries < READS && failure.kind != FailureKind::Gone => {
                    tokio::time::sleep(READ_PAUSE * tries + self.jitter(READ_PAUSE)).await;
                    tries += 1;
                }
                Err(failure) => return Err(StoreError::Unavailable(failure.why)),
            }
        }
    }

    /// Counts the units that a write cost.
    pub fn charge_write(&self, consumed: Option<&ConsumedCapacity>) {
        self.metrics.units(milli(consumed), 0);
    }

    /// Counts the units that a read cost.
    pub fn charge_read(&self, consumed: Option<&ConsumedCapacity>) {
        self.metrics.units(0, milli(consumed));
    }

    /// Takes in the item of a key. `known` is the key's revision as it was known before the read.
    pub fn observe(&self, key: &Key, item: Option<LeaseItem>, known: u64) -> Option<Found> {
        let mut state = self.state();
        let Some(item) = item else {
            state.observe_absent(key, known);
            return None;
        };
        state.observe(&item);
        let waits = state.outbox.waiting() > 0;
        drop(state);
        if waits {
            self.to_log.notify_one();
        }
        Some(Found { revision: item.revision, record: item.record })
    }

    pub fn publish(&self, batches: Vec<FeedBatch>) {
        for one in batches {
            if matches!(one, FeedBatch::Gap { .. }) {
                self.metrics.feed_gaps.increment(1);
            }
            // An error only means that there are no listeners.
            let _ = self.feed.send(one);
        }
    }
}

/// Whole milliseconds; at most `u64::MAX`.
pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Thousandths of a capacity unit.
fn milli(consumed: Option<&ConsumedCapacity>) -> u64 {
    let units = consumed.and_then(ConsumedCapacity::capacity_units).unwrap_or(0.0);
    #[expect(
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        reason = "small and positive"
    )]
    let milli = (units.max(0.0) * 1000.0).round() as u64;
    milli
}

impl fmt::Debug for DynamoShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamoShared").field("table", &self.client.table).finish_non_exhaustive()
    }
}
