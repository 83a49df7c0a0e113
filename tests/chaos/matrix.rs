//! Many runs, some side by side: every fault on every store, and a table of what came of them.

use std::{
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::{
    fault::Fault,
    inside::conduct,
    net,
    run::{Plan, Verdict},
    stores::Kind,
    support::seed::{from_environment, seed},
};

/// Where this process' runs leave their files.
pub fn directory() -> PathBuf {
    std::env::temp_dir().join(format!("tenure-chaos-{}", std::process::id()))
}

/// Does all of them, so many at a time, and tells of each when it is done. `what` is as in [`conduct`].
pub fn conduct_all(what: &str, plans: &[Plan], jobs: usize) -> Vec<Verdict> {
    net::demand();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<Verdict>>> = Mutex::new(vec![None; plans.len()]);
    thread::scope(|scope| {
        for _ in 0..jobs.min(plans.len()) {
            scope.spawn(|| {
                while let Some((n, plan)) =
                    plans.iter().enumerate().nth(next.fetch_add(1, Ordering::SeqCst))
                {
                    let verdict = conduct(what, plan);
                    println!("{}", row(plan, &verdict));
                    if let Some(why) = &verdict.failure {
                        let _ = std::fs::write(plan.dir.join("why"), why);
                        println!("{}", why.lines().take(40).collect::<Vec<_>>().join("\n"));
                    }
                    done.lock().unwrap_or_else(PoisonError::into_inner)[n] = Some(verdict);
                }
            });
        }
    });
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let _ = std::fs::remove_dir(directory());
    done.into_iter().map(|verdict| verdict.expect("it was done")).collect()
}

const HEAD: &str = "store     fault        seed            times  operations  grants  take-overs  heartbeats  \
                    updates  refused  lost unchecked  verdict";

fn row(plan: &Plan, verdict: &Verdict) -> String {
    let Verdict { counts, struck, updates, updates_refused, lost_unchecked, failure } = verdict;
    let fault = plan.faults_name();
    format!(
        "{:<9} {fault:<12} {:<15} {:>5}  {:>10}  {:>6}  {:>10}  {:>10}  {updates:>7}  {updates_refused:>7}  \
         {lost_unchecked:>14}  {}",
        plan.store.name(),
        plan.seed,
        struck.len(),
        counts.operations - counts.lost,
        counts.grants,
        counts.take_overs,
        counts.heartbeats,
        if failure.is_none() { "passed" } else { "FAILED" },
    )
}

fn chosen<T: Copy>(variable: &str, all: &[T], name: impl Fn(T) -> &'static str) -> Vec<T> {
    let Ok(names) = std::env::var(variable) else { return all.to_vec() };
    let find = |wanted: &str| {
        let found = all.iter().copied().find(|one| name(*one) == wanted);
        let known: Vec<_> = all.iter().map(|one| name(*one)).collect();
        found.unwrap_or_else(|| panic!("{variable}={wanted}: it is one of {known:?}"))
    };
    names.split(',').filter(|name| !name.is_empty()).map(find).collect()
}

/// Every fault × every store × SEEDS, MINUTES each. Whether all passed.
pub fn main() -> bool {
    let minutes = from_environment("MINUTES").unwrap_or(2);
    let seeds = from_environment("SEEDS").unwrap_or(3);
    let from = seed("faults");
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let jobs = from_environment("JOBS").unwrap_or(3 * cores as u64).max(1);
    let mut plans = Vec::new();
    for seed in from..from + seeds {
        for fault in chosen("FAULT", &Fault::ALL, Fault::name) {
            for store in chosen("STORE", &Kind::ALL, Kind::name) {
                let (faults, seconds) = (vec![fault], minutes * 60);
                let dir = directory().join(format!("{}-{}-{seed}", store.name(), fault.name()));
                plans.push(Plan { store, faults, seed, seconds, dir });
            }
        }
    }
    println!("{} runs of {minutes} minutes, {jobs} at a time\n{HEAD}", plans.len());
    let verdicts = conduct_all("run", &plans, jobs as usize);
    println!("\n{HEAD}");
    let mut sum = Verdict::default();
    let mut failed = 0;
    for (plan, verdict) in plans.iter().zip(&verdicts) {
        println!("{}", row(plan, verdict));
        failed += usize::from(verdict.failure.is_some());
        // What was not answered is no operation.
        sum.counts.operations += verdict.counts.operations - verdict.counts.lost;
        sum.counts.grants += verdict.counts.grants;
        sum.counts.take_overs += verdict.counts.take_overs;
        sum.counts.heartbeats += verdict.counts.heartbeats;
        sum.counts.faults += verdict.struck.len() as u64;
        sum.updates += verdict.updates;
        sum.lost_unchecked += verdict.lost_unchecked;
    }
    for (fault, store) in Fault::ALL.into_iter().flat_map(|f| Kind::ALL.map(|store| (f, store))) {
        if let Some(what) =
            fault.stand_in(store).filter(|_| plans.iter().any(|p| p.faults == [fault]))
        {
            println!("{} on {}: {what}", fault.name(), store.name());
        }
    }
    let counts = sum.counts;
    println!(
        "{} faults, {} operations, {} grants, {} take-overs, {} heartbeats, {} updates; {} updates were lost \
         where no token was checked",
        counts.faults,
        counts.operations,
        counts.grants,
        counts.take_overs,
        counts.heartbeats,
        sum.updates,
        sum.lost_unchecked
    );
    // Of so many runs, some had a worker that was held up between its check and its write.
    if plans.len() >= 36 && sum.lost_unchecked == 0 {
        println!("no update was lost where no token was checked: the test does not bite");
        failed += 1;
    }
    println!("{} passed, {failed} failed", plans.len() - failed.min(plans.len()));
    failed == 0
}
