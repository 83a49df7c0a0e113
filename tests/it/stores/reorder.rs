//! An order on a kept lease is given anew by the session's home, also when the store cannot be read at that
//! moment.

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
    lease::{Behavior, Key, Owner, Revision, Revoke, SessionSpec},
    manager::{AcquireOne, CallLimits, Manager, Parts},
    store::{
        Feed, Found, Health, History, LeaseStore, Meta, Outcome, Position, Range, StoreError,
        StoreFuture, Write,
    },
    telemetry::{Metrics, OwnershipLog},
};

use crate::support::clock::eventually;

/// A store whose records cannot be read for a while.
struct Unreadable {
    inner: Arc<dyn LeaseStore>,
    now: AtomicBool,
    refused: AtomicUsize,
}

impl LeaseStore for Unreadable {
    fn meta(&self) -> Arc<Meta> {
        self.inner.meta()
    }

    fn read(&self, key: &Key) -> StoreFuture<Result<Option<Found>, StoreError>> {
        if self.now.load(SeqCst) {
            self.refused.fetch_add(1, SeqCst);
            return Box::pin(async { Err(StoreError::Unavailable("for a while".into())) });
        }
        self.inner.read(key)
    }

    fn compare_and_set(&self, write: Write) -> StoreFuture<Outcome> {
        self.inner.compare_and_set(write)
    }

    fn forget(&self, key: &Key, expected: Revision) -> StoreFuture<Result<bool, StoreError>> {
        self.inner.forget(key, expected)
    }

    fn scan(&self, range: Range) -> StoreFuture<Result<Vec<(Key, Found)>, StoreError>> {
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

async fn open(store: Arc<dyn LeaseStore>) -> Arc<Manager> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy::new());
    let arbiters = Arc::new(Arbiters::new(1));
    claim_this_thread(0);
    arbiters.set(0, actix::Arbiter::current());
    let parts = Parts {
        plugins: Vec::new(),
        store,
        locked_at: clock.now(),
        clock,
        entropy,
        arbiters,
        url: String::new(),
        node_ttl: Duration::from_secs(3),
        actors: Limits::default(),
        policies: Arc::default(),
        calls: CallLimits { wait_max: Duration::from_secs(60) },
        waiters_per_key: 10,
        inflight_per_key: 10,
        metrics: Arc::new(Metrics::register("embedded")),
        ownership_log: OwnershipLog::new(1),
        #[cfg(any(test, feature = "testing"))]
        broken: None,
    };
    Manager::open(parts).await.expect("the manager opens")
}

#[test]
fn an_order_is_given_anew_once_the_store_can_be_read_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let inner = crate::stores::embedded::open(dir.path());
    actix::System::new().block_on(async {
        let (now, refused) = (AtomicBool::new(false), AtomicUsize::new(0));
        let store = Arc::new(Unreadable { inner, now, refused });
        let manager = open(store.clone()).await;
        let owner = Owner::new("w").expect("an owner");
        let spec = SessionSpec {
            behavior: Behavior::Release,
            lock_delay_ms: None,
            pool: None,
            weight: 1,
            capacity: None,
            checks: Vec::new(),
        };
        let opened = manager.open_session(&owner, 60_000, spec, manager.now()).await;
        let id = opened.expect("a session").id;
        let key = Key::new("k").expect("a key");
        let mut one = AcquireOne::new(key.clone(), owner, 60_000);
        one.session = Some(id);
        manager.acquire(&one, manager.now()).await.expect("a grant");
        let order = Revoke {
            reason: "maintenance".into(),
            actor: "root".into(),
            immediately: false,
            owner: None,
            token: None,
            floor: None,
        };
        manager.revoke(&key, order, manager.now()).await.expect("an order");
        let revision =
            async || store.inner.read(&key).await.expect("a read").expect("it is there").revision;
        let before = revision().await;

        store.now.store(true, SeqCst);
        manager.world().sessions.reorder(id.digest, &key);
        eventually("it was tried, and again", async || store.refused.load(SeqCst) >= 2).await;
        assert_eq!(revision().await, before, "nothing was written from what could not be read");
        store.now.store(false, SeqCst);
        eventually("it is given anew", async || revision().await > before).await;
        let record = store.inner.read(&key).await.expect("a read").expect("it is there").record;
        let order = record.expect("a record").revocation.clone().expect("the order stands");
        assert_eq!((&*order.reason, &*order.actor), ("maintenance", "root"));
    });
}
