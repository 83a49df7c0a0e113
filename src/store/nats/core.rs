//! The state that the store's callers and its tasks share.

use std::{
    future::{Future, ready},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use tokio::{
    runtime::Handle,
    sync::{Semaphore, broadcast, watch},
    task::AbortHandle,
};

use super::{
    super::{
        FeedBatch, Health, Meta, ROTATED, SecretBytes, StoreError, StoreFuture, Witness, Write,
    },
    link::{Link, unavailable},
    meta::MetaRecord,
    options::Options,
    table::Table,
};
use crate::{
    clock::Clock,
    lease::{Epoch, Moment, Revision},
    telemetry::Metrics,
};

/// How many requests of callers may be in flight at once. This is a few hundred times what keeps one connection
/// busy, and takes some megabytes.
pub(super) const MAX_ON_THEIR_WAY: u32 = 16_384;
/// How many batches a slow listener may fall behind before it must read the history.
const FEED_BATCHES: usize = 1024;

/// The store is frozen: nothing may be granted.
#[derive(Clone, Debug)]
pub(super) struct Frozen {
    pub why: String,
    /// The store thaws when its epoch is above this.
    pub epoch: Epoch,
    /// What was known before the store went wrong. The next run needs it.
    pub remember: Witness,
}

#[derive(Debug, Default)]
pub(super) struct Condition {
    pub frozen: Option<Frozen>,
    /// Why the store seems to have gone backwards. It is checked again before that is believed.
    pub suspect: Option<String>,
    /// Why the store does not answer.
    pub failing: Option<String>,
    /// Why the consumer does not deliver what the stream has.
    pub stale: Option<String>,
    pub closed: bool,
}

pub(super) struct Core {
    pub options: Options,
    pub link: Link,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    pub feed: broadcast::Sender<FeedBatch>,
    /// The last sequence that the consumer delivered.
    pub consumed: watch::Sender<u64>,
    pub permits: Arc<Semaphore>,
    /// The store's own record when the store was opened or thawed.
    pub origin: Mutex<MetaRecord>,
    /// The secret that this process is giving the store.
    pub rotating: Mutex<Option<SecretBytes>>,
    /// The task that follows the stream.
    pub follower: Mutex<Option<AbortHandle>>,
    /// When the stream was last known to be followed.
    pub followed: Mutex<Moment>,
    /// Only one task loads at a time.
    pub loading: tokio::sync::Mutex<()>,
    table: RwLock<Table>,
    meta: RwLock<Arc<Meta>>,
    condition: Mutex<Condition>,
    /// The highest sequence ever seen, in an answer or from the consumer.
    highest: AtomicU64,
    runtime: Handle,
}

/// Values are replaced in steps that do not panic, so a poisoned lock is harmless.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core {
    pub fn new(
        options: Options,
        link: Link,
        origin: MetaRecord,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let followed = Mutex::new(clock.now());
        Self {
            options,
            link,
            clock,
            followed,
            metrics,
            feed: broadcast::Sender::new(FEED_BATCHES),
            consumed: watch::Sender::new(0),
            permits: Arc::new(Semaphore::new(MAX_ON_THEIR_WAY as usize)),
            rotating: Mutex::new(None),
            follower: Mutex::new(None),
            loading: tokio::sync::Mutex::new(()),
            table: RwLock::new(Table::default()),
            meta: RwLock::new(Arc::new(origin.meta())),
            origin: Mutex::new(origin),
            condition: Mutex::default(),
            highest: AtomicU64::new(0),
            runtime: Handle::current(),
        }
    }

    pub fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn table_mut(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn condition(&self) -> MutexGuard<'_, Condition> {
        lock(&self.condition)
    }

    pub fn meta(&self) -> Arc<Meta> {
        Arc::clone(&self.meta.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn set_meta(&self, meta: Meta) {
        *self.meta.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(meta);
    }

    pub fn highest(&self) -> u64 {
        self.highest.load(SeqCst)
    }

    pub fn saw(&self, sequence: u64) {
        self.highest.fetch_max(sequence, SeqCst);
    }

    /// The store was thawed, so only its present content counts.
    pub fn forget_highest(&self, now: u64) {
        self.highest.store(now, SeqCst);
    }

    /// What to remember of the store until the next run.
    pub fn witness(&self) -> Witness {
        if let Some(frozen) = &self.condition().frozen {
            return frozen.remember;
        }
        let meta = self.meta();
        let highest = Revision(self.highest());
        Witness { identity: meta.identity, epoch: meta.epoch, highest }
    }

    /// Freezes the store: nothing may be granted from now on. The first reason is kept.
    pub fn freeze(&self, why: String) {
        let remember = self.witness();
        self.freeze_as(why, remember);
    }

    pub fn freeze_as(&self, why: String, remember: Witness) {
        let epoch = remember.epoch.max(self.meta().epoch);
        let mut condition = self.condition();
        if condition.frozen.is_none() {
            tracing::error!(
                why,
                "the store is frozen: nothing is granted until its epoch is raised"
            );
            condition.frozen = Some(Frozen { why, epoch, remember });
            drop(condition);
            self.metrics.frozen(true);
        }
    }

    /// Whether the store has another secret than the one that this process opened it with or gave it.
    pub fn is_rotated(&self, now: &MetaRecord) -> bool {
        let known = lock(&self.origin).secret;
        let given = lock(&self.rotating).map(|secret| secret.0);
        now.secret != known && Some(now.secret) != given
    }

    /// Freezes the store because its secret is another one. This reason replaces any other, because no raise of the
    /// epoch helps against it.
    pub fn freeze_rotated(&self) {
        self.freeze(ROTATED.to_owned());
        if let Some(frozen) = &mut self.condition().frozen
            && frozen.why != ROTATED
        {
            tracing::error!(why = ROTATED, "the store stays frozen for this process");
            ROTATED.clone_into(&mut frozen.why);
        }
    }

    pub fn health(&self) -> Health {
        let condition = self.condition();
        if let Some(frozen) = &condition.frozen {
            return Health::Frozen(frozen.why.clone());
        }
        if condition.closed {
            return Health::Degraded("the store is closed".to_owned());
        }
        if !self.link.connected() {
            return Health::Degraded("not connected to a NATS server".to_owned());
        }
        let failing = condition.suspect.as_ref().or(condition.failing.as_ref());
        match failing.or(condition.stale.as_ref()) {
            Some(why) => Health::Degraded(why.clone()),
            None => Health::Ready,
        }
    }

    /// Why no lease may be written now, if so.
    pub fn writable(&self) -> Result<(), StoreError> {
        let condition = self.condition();
        let frozen = condition.frozen.as_ref().map(|frozen| &frozen.why);
        match frozen.or(condition.suspect.as_ref()) {
            Some(why) => Err(unavailable(why)),
            None if condition.closed => Err(unavailable("the store is closed")),
            None => Ok(()),
        }
    }

    /// A write of a key was acknowledged, so its record is known from now on.
    pub fn committed(&self, write: &Write, revision: Revision, bytes: &[u8]) {
        self.saw(revision.0);
        let mut table = self.table_mut();
        // The consumer has delivered everything that it went past. The record may have been removed since.
        if revision.0 > table.consumed() {
            table.put(&write.key, revision, bytes, || write.record.condition());
        }
    }

    /// Runs work on the store's own thread, whether or not the future is polled. `failed` makes the result if the
    /// work was not begun (`false`), or if its outcome is unknown (`true`).
    pub fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
        failed: impl FnOnce(StoreError, bool) -> T + Send + 'static,
    ) -> StoreFuture<T> {
        if self.condition().closed {
            return Box::pin(ready(failed(unavailable("the store is closed"), false)));
        }
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            let why = unavailable("too many requests to the store are in flight");
            return Box::pin(ready(failed(why, false)));
        };
        let task = self.runtime.spawn(async move {
            let result = work.await;
            drop(permit);
            result
        });
        Box::pin(async move {
            match task.await {
                Ok(result) => result,
                Err(_) => failed(unavailable("the store was closed before it answered"), true),
            }
        })
    }
}
