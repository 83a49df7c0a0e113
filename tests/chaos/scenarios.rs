//! The tests of every day, and the little that a test program has to understand to be listed and run.

use std::{panic::AssertUnwindSafe, process::ExitCode};

use crate::{
    fault::Fault,
    inside::conduct,
    matrix::{conduct_all, directory},
    net,
    run::{Plan, Verdict},
    stores::Kind,
    support::seed::{from_environment, seed},
};

/// Runs at a time: programs that are not optimised want a core each.
const AT_ONCE: usize = 2;

const ALL: [(&str, fn()); 4] = [
    ("every_fault_on_every_store", every_fault_on_every_store),
    ("a_worker_that_stops_between_check_and_write", a_worker_that_stops_between_check_and_write),
    ("leases_outlive_their_node", leases_outlive_their_node),
    (
        "a_store_is_written_to_for_ownership_and_nodes_only",
        a_store_is_written_to_for_ownership_and_nodes_only,
    ),
];

/// Lists the tests, or runs those that are named.
pub fn main(args: &[&str]) -> ExitCode {
    let has = |flag: &str| args.contains(&flag);
    if has("--list") {
        if !has("--ignored") {
            ALL.iter().for_each(|(name, _)| println!("{name}: test"));
        }
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<&str> = args.iter().copied().filter(|arg| !arg.starts_with('-')).collect();
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in ALL {
        let named =
            |wanted: &&str| if has("--exact") { *wanted == name } else { name.contains(wanted) };
        if !wanted.is_empty() && !wanted.iter().any(named) {
            continue;
        }
        println!("{name}");
        if std::panic::catch_unwind(AssertUnwindSafe(test)).is_ok() {
            passed += 1;
        } else {
            failed += 1;
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn plan(store: Kind, faults: Vec<Fault>, seed: u64) -> Plan {
    let mut plan = Plan { store, faults, seed, seconds: 0, dir: directory() };
    plan.dir = plan.dir.join(plan.name());
    plan
}

fn passed(plans: &[Plan], verdicts: &[Verdict]) {
    for (plan, verdict) in plans.iter().zip(verdicts) {
        println!("{}: {:#?}", plan.name(), verdict.struck);
    }
    let failed = verdicts.iter().filter(|verdict| verdict.failure.is_some()).count();
    assert_eq!(failed, 0, "of {} runs", plans.len());
}

/// One fault after the other. What a store forgets when it goes back is not held against it, so that fault has
/// runs of its own.
fn every_fault_on_every_store() {
    let seed = seed("faults");
    let but_restore = Fault::ALL.into_iter().filter(|fault| *fault != Fault::Restore).collect();
    let faults: [Vec<Fault>; 2] = [but_restore, vec![Fault::Restore]];
    let of = |faults: &Vec<Fault>| Kind::ALL.map(|store| plan(store, faults.clone(), seed));
    let plans: Vec<Plan> = faults.iter().flat_map(of).collect();
    let verdicts = conduct_all("run", &plans, AT_ONCE);
    passed(&plans, &verdicts);
}

/// On each store that several nodes can share. `MINUTES` make it a long run, of full size: then each store has the
/// machine for itself.
fn on_shared_stores(what: &str, faults: &[Fault]) {
    let seconds = from_environment("MINUTES").unwrap_or(0) * 60;
    let (seed, jobs) = (seed("faults"), if seconds > 0 { 1 } else { AT_ONCE });
    let of = |store| Plan { seconds, ..plan(store, faults.to_vec(), seed) };
    let plans = [Kind::Nats, Kind::Dynamodb].map(of);
    let verdicts = conduct_all(what, &plans, jobs);
    passed(&plans, &verdicts);
}

/// A node's crash costs next to nobody a lease, and a rolling restart nobody.
fn leases_outlive_their_node() {
    on_shared_stores("kept", &[Fault::Kill, Fault::Roll]);
}

fn a_store_is_written_to_for_ownership_and_nodes_only() {
    on_shared_stores("writes", &[]);
}

/// With the token check no update is lost; without it the update of the next holder is.
fn a_worker_that_stops_between_check_and_write() {
    net::demand();
    let plan = plan(Kind::Embedded, vec![Fault::Stop], seed("faults"));
    let verdict = conduct("stopped-worker", &plan);
    println!("{verdict:?}");
    assert!(verdict.failure.is_none(), "{}", verdict.failure.unwrap_or_default());
}
