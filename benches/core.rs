//! What the pure core costs: one step of the state machine, without I/O.

use std::{hint::black_box, sync::Arc, time::Duration};

use criterion::{Criterion, criterion_group, criterion_main};
use tenure::lease::{
    Acquire, Call, Caller, ClusterSecret, Effect, Env, Epoch, Heartbeat, Inherited, Input, Key,
    Lease, LeaseId, Level, Loaded, Moment, NodeContext, Nonce, Owner, Record, Release, Request,
    Revision, Rules, Settled,
};

struct Nobody;

impl Caller for Nobody {
    fn is_gone(&self) -> bool {
        false
    }
    fn claim(&self) -> bool {
        true
    }
    fn unclaim(&self) {}
}

struct World {
    key: Key,
    context: NodeContext,
    now: Moment,
    nonce: u128,
    revision: u64,
}

impl World {
    fn new() -> Self {
        let context = NodeContext {
            node: Nonce(1),
            until: Moment::NEVER,
            resumed: Moment::ZERO,
            policies: std::sync::Arc::default(),
            frozen: false,
            peers: None,
            epoch: Epoch(0),
            level: Level::FIRST,
            secret: ClusterSecret::new(&[7; 32]),
            waiters_per_key: 100,
            inflight_per_key: 100,
            rules: Rules::default(),
        };
        let key = Key::new("shard/17").expect("a key");
        Self { key, context, now: Moment(1 << 40), nonce: 1, revision: 0 }
    }

    fn env<T>(&mut self, body: impl FnOnce(&mut Env<'_>) -> T) -> T {
        self.now = self.now + Duration::from_micros(1);
        let nonce = &mut self.nonce;
        let mut nonces = || {
            *nonce += 1;
            Nonce(*nonce)
        };
        let Self { key, context, now, .. } = self;
        body(&mut Env { now: *now, wall_ms: 0, key, context, nonces: &mut nonces })
    }

    fn call(&mut self, lease: &mut Lease<Nobody>, request: Request) -> Vec<Effect<Nobody>> {
        let call = Call { caller: Nobody, received: self.now, request, home_unreachable: false };
        self.env(|env| lease.step(Input::Call(call), env))
    }

    fn commit(&mut self, lease: &mut Lease<Nobody>) {
        self.revision += 1;
        let settled = Settled::Committed(Revision(self.revision));
        black_box(self.env(|env| lease.step(Input::Settled(settled), env)));
    }

    fn acquire(&mut self, lease: &mut Lease<Nobody>) -> LeaseId {
        self.nonce += 1;
        let grant_nonce = Nonce(self.nonce);
        let acquire = Acquire {
            owner: Owner::new("worker-1").expect("an owner"),
            ttl_ms: 10_000,
            value: None,
            reclaim: false,
            allow_stale: false,
            wait_until: None,
            since: Moment::NEVER,
            grant_nonce,
            mark: None,
            session_ref: None,
            spec: None,
            min_hold_ms: 0,
            place: false,
            permit: false,
            pool: None,
        };
        black_box(self.call(lease, Request::Acquire(Box::new(acquire))));
        self.commit(lease);
        self.context.secret.lease_id(&self.key, grant_nonce)
    }

    fn lease(&mut self) -> Lease<Nobody> {
        let from = Inherited::FromActor(self.now);
        self.env(|env| Lease::recover(Loaded::Absent, from, env).0)
    }
}

fn core(criterion: &mut Criterion) {
    let mut world = World::new();
    let mut lease = world.lease();
    criterion.bench_function("acquire, commit, release, commit", |bench| {
        bench.iter(|| {
            let lease_id = world.acquire(&mut lease);
            let release = Request::Release(Release::new(lease_id));
            black_box(world.call(&mut lease, release));
            world.commit(&mut lease);
        });
    });
    let lease_id = world.acquire(&mut lease);
    criterion.bench_function("heartbeat", |bench| {
        bench.iter(|| {
            let beat = Heartbeat::new(lease_id);
            black_box(world.call(&mut lease, Request::Heartbeat(beat)))
        });
    });
}

fn codec(criterion: &mut Criterion) {
    let mut world = World::new();
    let mut lease = world.lease();
    let grant = Acquire {
        owner: Owner::new("worker-1").expect("an owner"),
        ttl_ms: 10_000,
        value: Some("checkpoint 17".into()),
        reclaim: false,
        allow_stale: false,
        wait_until: None,
        since: Moment::NEVER,
        grant_nonce: Nonce(9),
        mark: None,
        session_ref: None,
        spec: None,
        min_hold_ms: 0,
        place: false,
        permit: false,
        pool: None,
    };
    let effects = world.call(&mut lease, Request::Acquire(Box::new(grant)));
    let Some(Effect::Write(write)) = effects.into_iter().next() else { return };
    let record: Arc<Record> = write.record;
    let mut bytes = Vec::new();
    criterion.bench_function("encode a record", |bench| {
        bench.iter(|| {
            bytes.clear();
            record.encode_into(black_box(&mut bytes));
        });
    });
    criterion.bench_function("decode a record", |bench| {
        bench.iter(|| Record::decode(black_box(&bytes)));
    });
    let (secret, key) = (&world.context.secret, &world.key);
    criterion.bench_function("derive a lease id", |bench| {
        bench.iter(|| secret.lease_id(black_box(key), Nonce(4)));
    });
}

criterion_group!(benches, core, codec);
criterion_main!(benches);
