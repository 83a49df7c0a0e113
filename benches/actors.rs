//! What a call costs through the manager, the registry and a lease actor, without HTTP.

use std::{sync::Arc, time::Duration};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use futures_util::future::join_all;
use tenure::{
    actor::{Arbiters, Limits, claim_this_thread},
    clock::{Clock, Entropy, SystemClock, SystemEntropy},
    lease::{Heartbeat, Key, LeaseId, Owner, Release, Rules},
    manager::{AcquireOne, CallLimits, Manager, Parts},
    store::embedded::{EmbeddedStore, Fresh, Options},
    telemetry::{Metrics, OwnershipLog, Recorder},
};

const KEYS: usize = 1000;
const BATCH: usize = 64;

fn open(dir: &std::path::Path, system: &actix::SystemRunner) -> Arc<Manager> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy::new());
    let fresh = Fresh { identity: entropy.nonce(), secret: [7; 32], created_ms: 0 };
    let wall = clock.clone();
    let store = EmbeddedStore::open(Options::new(dir, fresh), Arc::new(move || wall.wall_ms()));
    let store = Arc::new(store.expect("the store opens"));
    let arbiters = Arc::new(Arbiters::new(1));
    Recorder::install().expect("the only recorder");
    system.block_on(async {
        claim_this_thread(0);
        arbiters.set(0, actix::Arbiter::current());
        Manager::open(Parts {
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
                wait_max: Duration::from_secs(600),
                waiting_places: 1_000_000,
                strict_prefixes: false,
                weight: 1000,
            },
            waiters_per_key: 1000,
            inflight_per_key: 1000,
            metrics: Arc::new(Metrics::register("embedded")),
            ownership_log: OwnershipLog::new(1),
            rules: Rules::default(),
        })
        .await
        .expect("the manager opens")
    })
}

fn one(index: usize) -> AcquireOne {
    AcquireOne {
        key: Key::new(&format!("key/{index}")).expect("a key"),
        owner: Owner::new("worker-1").expect("an owner"),
        ttl_ms: 3_600_000,
        value: None,
        reclaim: false,
        allow_stale: false,
        min_hold_ms: 0,
        wait_ms: 0,
        mark: None,
        session: None,
    }
}

async fn acquire(manager: &Manager, index: usize) -> (String, LeaseId) {
    let one = one(index);
    let grant = manager.acquire(&one, manager.now()).await.expect("a free key is granted");
    (one.key.as_str().to_owned(), grant.lease_id)
}

fn actors(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a directory");
    let system = actix::System::new();
    let manager = open(dir.path(), &system);
    let held: Vec<_> = system.block_on(join_all((0..KEYS).map(|index| acquire(&manager, index))));
    let mut group = criterion.benchmark_group("manager");
    group.throughput(Throughput::Elements(BATCH as u64));
    group.bench_function("64 heartbeats", |bench| {
        bench.iter(|| {
            system.block_on(join_all(held[..BATCH].iter().map(|(key, lease_id)| {
                let beat = Heartbeat::new(*lease_id);
                manager.heartbeat(key, beat, manager.now())
            })))
        });
    });
    group.bench_function("64 acquire and release, durable", |bench| {
        bench.iter(|| {
            let manager = &manager;
            system.block_on(join_all((0..BATCH).map(|index| async move {
                let (key, lease_id) = acquire(manager, KEYS + index).await;
                let release = Release::new(lease_id);
                manager.release(&key, release, manager.now()).await
            })))
        });
    });
    group.finish();
}

criterion_group!(benches, actors);
criterion_main!(benches);
