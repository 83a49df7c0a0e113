//! A coordinator on a store that fails when a test says so.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tenure::{
    actor::{Arbiters, Limits, claim_this_thread},
    clock::{Clock, Entropy, SystemClock, SystemEntropy},
    lease::{Key, Revision, Rules},
    manager::{CallLimits, Manager, Parts},
    store::{
        Counted, Feed, Found, Health, History, LeaseStore, Meta, Position, Range, StoreError,
        StoreFuture, Write, WriteOutcome,
    },
    telemetry::{Metrics, OwnershipLog},
};
use tokio::sync::Semaphore;

type Meddle = dyn Fn(&Arc<dyn LeaseStore>, Write) -> StoreFuture<WriteOutcome> + Send + Sync;

/// A store that fails when a test says so.
pub struct Meddled {
    pub inner: Arc<dyn LeaseStore>,
    /// No record can be read.
    pub unreadable: AtomicBool,
    /// No page of records can be read.
    pub unlistable: AtomicBool,
    /// Reads that failed.
    pub refused: AtomicUsize,
    /// How often many records were read.
    pub scans: AtomicUsize,
    /// What becomes of a write.
    write: Box<Meddle>,
}

impl Meddled {
    pub fn new(inner: Arc<dyn LeaseStore>) -> Arc<Self> {
        Self::writing(inner, |inner, write| inner.compare_and_set(write))
    }

    pub fn writing(
        inner: Arc<dyn LeaseStore>,
        write: impl Fn(&Arc<dyn LeaseStore>, Write) -> StoreFuture<WriteOutcome> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (refused, scans) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (unreadable, unlistable) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { inner, unreadable, unlistable, refused, scans, write: Box::new(write) })
    }

    /// A store whose writes of these keys wait until the gate has permits.
    pub fn gated(
        inner: Arc<dyn LeaseStore>,
        waits: impl Fn(&Key) -> bool + Send + Sync + 'static,
    ) -> (Arc<Self>, Arc<Semaphore>) {
        let gate = Arc::new(Semaphore::new(0));
        let held = gate.clone();
        let store = Self::writing(inner, move |inner, write| {
            let gate = waits(&write.key).then(|| held.clone());
            let inner = inner.clone();
            Box::pin(async move {
                if let Some(gate) = gate {
                    let _permit = gate.acquire().await.expect("open");
                }
                inner.compare_and_set(write).await
            })
        });
        (store, gate)
    }
}

impl LeaseStore for Meddled {
    fn meta(&self) -> Arc<Meta> {
        self.inner.meta()
    }

    fn read(&self, key: &Key) -> StoreFuture<Result<Option<Found>, StoreError>> {
        if self.unreadable.load(SeqCst) {
            self.refused.fetch_add(1, SeqCst);
            return Box::pin(async { Err(StoreError::Unavailable("for a while".into())) });
        }
        self.inner.read(key)
    }

    fn compare_and_set(&self, write: Write) -> StoreFuture<WriteOutcome> {
        (self.write)(&self.inner, write)
    }

    fn forget(&self, key: &Key, expected: Revision) -> StoreFuture<Result<bool, StoreError>> {
        self.inner.forget(key, expected)
    }

    fn census(&self, most: usize) -> Option<Counted> {
        self.inner.census(most)
    }

    fn scan(&self, range: Range) -> StoreFuture<Result<Vec<(Key, Found)>, StoreError>> {
        self.scans.fetch_add(1, SeqCst);
        if self.unlistable.load(SeqCst) {
            return Box::pin(async { Err(StoreError::Unavailable("for a while".into())) });
        }
        self.inner.scan(range)
    }

    fn feed(&self) -> Feed {
        self.inner.feed()
    }

    fn history(&self, after: Position, limit: usize) -> StoreFuture<Result<History, StoreError>> {
        self.inner.history(after, limit)
    }

    fn latest(&self) -> Position {
        self.inner.latest()
    }

    fn earliest(&self) -> Position {
        self.inner.earliest()
    }

    fn health(&self) -> Health {
        self.inner.health()
    }
}

/// A coordinator on it, in this actix system.
pub async fn open(store: Arc<dyn LeaseStore>) -> Arc<Manager> {
    Manager::open(parts(store)).await.expect("the manager opens")
}

/// What it is made of.
pub fn parts(store: Arc<dyn LeaseStore>) -> Parts {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy::new());
    let arbiters = Arc::new(Arbiters::new(1));
    claim_this_thread(0);
    arbiters.set(0, actix::Arbiter::current());
    Parts {
        plugins: Vec::new(),
        subscriptions: Vec::new(),
        store,
        locked_at: clock.now(),
        clock,
        entropy,
        arbiters,
        url: String::new(),
        node_ttl: Duration::from_secs(3),
        actors: Limits::default(),
        policies: Arc::default(),
        calls: CallLimits {
            wait_max: Duration::from_secs(60),
            waiting_places: 100_000,
            strict_prefixes: false,
            weight: 1000,
        },
        waiters_per_key: 10,
        inflight_per_key: 10,
        metrics: Arc::new(Metrics::register("embedded")),
        ownership_log: OwnershipLog::new(1),
        rules: Rules::default(),
    }
}
