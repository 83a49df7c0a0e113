//! One run, from its seed to its history.

use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use tenure::{
    clock::Chance,
    lease::{MAX_NODE_TTL_MS, Mutant, OnFenceFailure, Owner, Principal},
};
use tokio::task::{LocalSet, spawn_local};

use super::{
    admin,
    dice::Dice,
    faults::Nemesis,
    history::{Event, Log, Op},
    host::{Host, Site},
    memories, mutants,
    net::Net,
    panics, plain,
    plan::{FENCE_MS, Fault, HANDOVER_MS, LONGEST_LOCK_DELAY, Plan, plan, with_permits},
    plugin::SimPlugin,
    rules::{UNHEARD, World},
    signal::Signal,
    store::{Flaw, Server},
    time::{self, SECOND, SimClock, now, until},
    worker::{Arena, PATIENCE, SETTLED, Worker},
};

/// How long a node's record lasts.
pub const NODE_TTL: Duration = Duration::from_secs(3);

/// What came of a run.
pub struct Outcome {
    pub log: Log,
    /// Keys that could not be had at the end, and panics.
    pub wrong: Vec<String>,
    /// Simulated nanoseconds.
    pub span: u64,
    /// By what it is judged.
    pub world: World,
}

/// The owner that a worker acts as.
pub fn owner(worker: usize) -> Owner {
    named(&format!("w{worker}"))
}

/// The owner with a name, who is a principal of the same name.
pub fn named(name: &str) -> Owner {
    Owner::new(name).expect("it is a name").of(Some(Principal::new(name)))
}

/// What a seed is run with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trial {
    /// For which broken rule the world is made.
    pub stage: Option<Mutant>,
    /// The rule that is broken in it.
    pub broken: Option<Mutant>,
}

/// Runs a seed, with a rule broken or none.
pub fn run(seed: u64, mutant: Option<Mutant>, commit: &str) -> Outcome {
    try_out(seed, Trial { stage: mutant, broken: mutant }, commit)
}

/// Runs a seed in the world of a broken rule.
pub fn try_out(seed: u64, trial: Trial, commit: &str) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime of this thread");
    let local = LocalSet::new();
    let log = Log::default();
    let life = || local.block_on(&runtime, live(seed, trial, commit, log.clone()));
    panics::take();
    let (mut wrong, span, world) = catch_unwind(AssertUnwindSafe(life)).unwrap_or_default();
    wrong.extend(panics::take());
    let _runtime = runtime.enter();
    drop(local);
    Outcome { log, wrong, span, world }
}

async fn live(seed: u64, trial: Trial, commit: &str, log: Log) -> (Vec<String>, u64, World) {
    time::begin();
    let mutant = trial.broken;
    let mut plan = plan(seed);
    let mut chance = Chance::of(seed, "run");
    mutants::set_stage(&mut plan, trial.stage, &mut Chance::of(seed, "stage"));
    log.push(
        now(),
        Event::Run {
            maker: "sim".to_owned(),
            store: plan.kind.as_str().to_owned(),
            seed,
            commit: commit.to_owned(),
        },
    );
    let site = site(seed, mutant, &plan, &mut chance, &log);
    let hosts = hosts(&site, &plan, &mut chance);
    hosts.iter().for_each(|host| host.start());
    let arena =
        Arena { net: site.net.clone(), log: log.clone(), plan, calls: Cell::new(0), mutant };
    let arena = Rc::new(arena);
    let (mut tasks, mut workers) = (Vec::new(), Vec::new());
    for number in 0..arena.plan.workers {
        let worker = Worker::new(number, owner(number).as_str(), &arena, chance.fork());
        let signal = Rc::new(Signal::default());
        workers.push(signal.clone());
        tasks.push(spawn_local(async move { signal.obey(plain::work(Rc::new(worker))).await }));
    }
    let count = arena.plan.workers;
    let admin = Rc::new(Worker::new(count, "admin", &arena, chance.fork()));
    let ordering = spawn_local(admin::order(admin.clone()));
    spawn_local(admin::order_for_long(Rc::new(Worker::new(
        count,
        "operator",
        &arena,
        Chance::of(seed, "operator"),
    ))));
    let (others, own) = (hosts.clone(), RefCell::new(chance.fork()));
    let over = Cell::new(false);
    let nemesis =
        Rc::new(Nemesis { site: site.clone(), hosts: others, workers, chance: own, over });
    let reloading = spawn_local(reload(hosts.clone(), arena.clone()));
    nemesis.rage(&arena.plan).await;
    reloading.await.expect("settings are read");
    let _ = ordering.await;
    until(arena.plan.calm + SECOND).await;
    admin::clear(&admin).await;
    until(arena.plan.stop).await;
    // An order that nobody answered may have arrived late.
    admin::clear(&admin).await;
    for task in tasks {
        task.await.expect("workers do not panic");
    }
    // Before the probes take each key anew.
    let mut wrong = Vec::new();
    if !arena.plan.recalls() {
        wrong.extend(memories::look(&hosts, &site.server).await);
    }
    let probe = |n| Rc::new(Worker::new(count + 1 + n, "probe", &arena, chance.fork()));
    let probes: Vec<_> = (0..3).map(probe).collect();
    wrong.extend(admin::probe(&probes, bound_ms(&arena.plan)).await);
    if !arena.plan.recalls() {
        for host in &hosts {
            wrong.extend(host.ghosts().await);
        }
    }
    // What is on its way to subscribers arrives, and whoever asked without a wait was to be answered by now.
    let within = arena.plan.answer_within(Op::AcquireAny) + PATIENCE;
    let answered = arena.plan.calm + SETTLED + within + SECOND;
    until((now() + UNHEARD + SECOND).max(answered)).await;
    log.push(now(), Event::Over);
    let span = now();
    hosts.iter().for_each(|host| host.crash());
    (wrong, span, World::of(&arena.plan))
}

/// The settings of all nodes change, as planned.
async fn reload(hosts: Vec<Rc<Host>>, arena: Rc<Arena>) {
    let plan = &arena.plan;
    let nodes = hosts.into_iter().enumerate().map(|(number, host)| async move {
        for reload in &plan.reloads {
            until(reload.at + u64::try_from(reload.lags[number].as_nanos()).unwrap_or(0)).await;
            host.reload(with_permits(&plan.policies, reload.permits));
        }
    });
    futures_util::future::join_all(nodes).await;
}

/// A fence that failed keeps its key shut.
pub fn fence_blocks(plan: &Plan) -> bool {
    let fence = plan.policies.of("f/").fence.as_ref();
    fence.is_some_and(|fence| fence.on_failure == OnFenceFailure::Block)
}

/// How long it may take until a key can be had that somebody holds who does not answer any more.
fn bound_ms(plan: &Plan) -> u64 {
    let ttl = plan.ttls.iter().max().copied().unwrap_or(0);
    // A node whose record a restored store forgot may have promised for as long as any node may.
    let forgets = |(_, fault): &(u64, Fault)| matches!(fault, Fault::Regress { .. });
    let forgotten = if plan.faults.iter().any(forgets) { MAX_NODE_TTL_MS } else { 0 };
    // Where a usual day's answers come after the time-out, nodes lapse again and again, and each lapse gives a lease one
    // ttl more.
    let lapses = if 2 * plan.shape.slowest() > plan.shape.timeout { 8 } else { 3 };
    let hold = lapses * ttl.max(3_000) + forgotten;
    hold + LONGEST_LOCK_DELAY + 2 * FENCE_MS + HANDOVER_MS + 10_000
}

pub fn site(
    seed: u64,
    mutant: Option<Mutant>,
    plan: &Plan,
    chance: &mut Chance,
    log: &Log,
) -> Rc<Site> {
    let net = Net::new(plan.nodes, chance.fork(), log.clone());
    net.weather.set(plan.weather);
    let mut shape = plan.shape.clone();
    shape.flaw = Flaw::of(mutant);
    let server = Server::new(plan.kind, chance.fork(), log.clone(), shape);
    let mut plugin = |name| SimPlugin::new(name, log.clone(), chance.fork(), plan.manners);
    Rc::new(Site {
        server,
        net,
        log: log.clone(),
        policies: Arc::clone(&plan.policies),
        plugins: vec![plugin("one"), plugin("two")],
        node_ttl: NODE_TTL,
        mutant,
        seed,
        bus_buffer: plan.bus_buffer,
        stops: plan.stops,
        min_age: plan.min_age,
        workers: plan.workers,
    })
}

fn hosts(site: &Rc<Site>, plan: &Plan, chance: &mut Chance) -> Vec<Rc<Host>> {
    let year = 365 * 86_400_000;
    let host = |number| {
        let ppm = *chance.pick(&[-2_000, -2_000, -500, 0, 700, 2_000, 2_000]);
        let wall = 1_700_000_000_000 + *chance.pick(&[0, year, 2 * year]) - year;
        let clock = SimClock::new(chance.between(1, 1 << 62), ppm, wall);
        Rc::new(Host::new(number, clock, site.clone()))
    };
    (0..plan.nodes).map(host).collect()
}
