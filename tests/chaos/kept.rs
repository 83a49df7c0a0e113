//! How many leases outlive a node. With a time to live that leaves the time for it, the crash of a node costs
//! next to nobody a lease, and a rolling restart nobody.

use crate::{
    clock::{ms, now, sleep_ms, within},
    crew::Orders,
    fault::Fault,
    history::{Fortunes, fortunes, gather},
    nemesis::World,
    node::NODE_TTL_MS,
    run::{BEGIN_MS, Plan, Stage, Verdict, judge, orders},
};

const TTL_MS: u64 = 10_000;
/// How many leases a worker wants to have; together they want every key.
const WANTS: usize = 10;
/// The least share of leases that is kept through a crash.
const KEPT: f64 = 0.99;
/// By when every worker has asked for every lease again, at a node that answers.
const ROUND_MS: u64 = TTL_MS / 3 + 1_000;

/// Processes of workers, and workers of each: those of a long run contend for 600 keys.
fn size(plan: &Plan) -> (usize, usize) {
    if plan.seconds > 0 { (5, 12) } else { (3, 8) }
}

/// Each fault of the plan in turn, once or for as long as the plan says, and what it costs.
pub async fn run(plan: &Plan) -> Verdict {
    let (crews, workers) = size(plan);
    let keys = crews * workers * WANTS;
    let told = Orders {
        workers,
        with_sessions: 0,
        keys,
        wants: WANTS,
        tries: 8,
        gives_back: 6,
        ttl_ms: TTL_MS,
        ..orders(plan.seed)
    };
    let mut stage = Stage::set(plan, crews, told).await;
    until_held(plan, keys * 5 / 6).await;
    let end = now() + plan.seconds * 1_000_000_000;
    let (mut turn, mut failures) = (0, Vec::new());
    while turn < plan.faults.len() || now() < end {
        let fault = plan.faults[turn % plan.faults.len()];
        let before = now();
        match fault {
            Fault::Kill => kill_node(&mut stage.world).await,
            _ => stage.world.suffer(fault).await,
        }
        sleep_ms(ROUND_MS).await;
        let became = fortunes(&gather(&plan.histories()), before, now());
        stage.world.struck.push(format!("{}: {became}", fault.name()));
        failures.extend(objection(fault, keys, &became));
        turn += 1;
    }
    stage.calm_down(0).await;
    let mut verdict = judge(plan, stage.world.struck, stage.counter.sums());
    failures.extend(verdict.failure.take());
    verdict.failure = (!failures.is_empty()).then(|| failures.join("\n"));
    verdict
}

/// Waits until the workers hold so many leases.
async fn until_held(plan: &Plan, leases: usize) {
    let mut held = 0;
    let enough = within(ms(BEGIN_MS), async || {
        sleep_ms(250).await;
        let t = now();
        held = fortunes(&gather(&plan.histories()), t, t).kept;
        held >= leases
    });
    assert!(enough.await, "{held} of {leases} leases are held after {BEGIN_MS} ms");
}

/// kill -9 of a node, which comes back when everything that it promised has run out.
async fn kill_node(world: &mut World) {
    let victim = world.below(world.nodes.len());
    world.begins("kill", &world.nodes[victim].place);
    world.nodes[victim].kill();
    sleep_ms(TTL_MS + NODE_TTL_MS).await;
    world.nodes[victim].launch(&world.net);
    world.nodes[victim].ready().await;
}

/// What is wrong with what a fault cost.
fn objection(fault: Fault, keys: usize, became: &Fortunes) -> Option<String> {
    let least = if fault == Fault::Roll { 1.0 } else { KEPT };
    // Of few leases it would be easy to keep all.
    let fine = became.share() >= least && became.kept * 2 >= keys;
    (!fine).then(|| format!("{}: {became} of {keys} keys: {:#?}", fault.name(), became.lost))
}
