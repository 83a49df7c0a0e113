//! Which seeds are run, and what is said of them.

use std::{
    env,
    path::Path,
    process::Command,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Instant,
};

use tenure::lease::Mutant;

use super::{
    history::{Counts, Needs},
    rules,
    run::{Outcome, run},
};

/// Runs at a time.
pub const THREADS: usize = 2;

pub fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// The rule that is broken, by its name.
pub fn mutant() -> Option<Mutant> {
    let name = env::var("MUTANT").ok().filter(|name| !name.is_empty())?;
    let found = Mutant::ALL.into_iter().find(|mutant| format!("{mutant:?}") == name);
    Some(found.unwrap_or_else(|| panic!("MUTANT={name}: there are {:?}", Mutant::ALL)))
}

pub fn commit() -> String {
    let told = env::var("COMMIT").ok();
    let asked = || {
        let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    told.or_else(asked).unwrap_or_else(|| "unknown".to_owned())
}

/// What is wrong with a run; nothing, if nothing is.
fn judge(outcome: &Outcome) -> (Counts, Option<String>) {
    let lines = outcome.log.lines();
    let lost = rules::never_raised(&lines);
    let (report, breaches) = rules::judge(lines, &outcome.world);
    let wrong = outcome.wrong.iter().filter(|what| !lost || !what.starts_with("I8"));
    let mut wrong = wrong.map(|what| format!("{what}\n")).collect::<String>();
    if !report.violations.is_empty() {
        wrong += &report.to_string();
    }
    for breach in breaches {
        wrong += &format!("{}: {}\n", breach.rule, breach.text);
    }
    (report.counts, (!wrong.is_empty()).then_some(wrong))
}

#[derive(Default)]
struct Sum {
    counts: Counts,
    passed: u64,
    failed: u64,
    simulated: f64,
}

fn add(one: Counts, other: Counts) -> Counts {
    let value = |counts| serde_json::to_value(counts).expect("numbers");
    let (mut sum, other) = (value(one), value(other));
    for (name, number) in sum.as_object_mut().expect("an object") {
        *number = (number.as_u64().unwrap_or(0) + other[name].as_u64().unwrap_or(0)).into();
    }
    serde_json::from_value(sum).expect("numbers")
}

/// What so many hundreds of runs must have had, or they show little.
fn enough(hundreds: u64) -> Needs {
    let per_hundred = Needs {
        take_overs: 1_000,
        adoptions: 20,
        ambiguous: 50,
        fences: 100,
        sessions_ended: 50,
        lapses: 20,
        revivals: 20,
        nodes_ended: 100,
        cuts: 10,
        feed_gaps: 5,
        judged: 10_000,
        ..Needs::default()
    };
    (0..hundreds).fold(Needs::default(), |sum, _| add(sum, per_hundred))
}

fn report(seed: u64, commit: &str, wrong: &str) {
    let mutant = env::var("MUTANT").map(|name| format!(" MUTANT={name}")).unwrap_or_default();
    println!("SEED={seed} COMMIT={commit}{mutant}\n{wrong}");
    println!("again: make sim SEEDS=1 FROM={seed}{mutant} LOG=/tmp/history-{seed}.jsonl\n");
}

#[test]
fn seeds() {
    let (from, count) = (number("FROM").unwrap_or(1), number("SEEDS").unwrap_or(500));
    if env::var("TRACE").is_ok_and(|on| !on.is_empty()) {
        let all = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE);
        all.without_time().with_ansi(false).with_writer(std::io::stderr).init();
    }
    let (mutant, commit) = (mutant(), commit());
    assert!(count > 0, "SEEDS=0 shows nothing");
    let (next, sum) = (AtomicU64::new(from), Mutex::new(Sum::default()));
    let (began, busy) = (Instant::now(), AtomicU64::new(0));
    let one_thread = || {
        let began = Instant::now();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= from + count {
                break;
            }
            let outcome = run(seed, mutant, &commit);
            let (counts, wrong) = judge(&outcome);
            if let Some(path) = env::var("LOG").ok().filter(|path| !path.is_empty() && count == 1) {
                outcome.log.write_to(Path::new(&path)).expect("the history is written");
            }
            let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
            sum.counts = add(sum.counts, counts);
            sum.simulated += outcome.span as f64 / 1e9;
            match &wrong {
                None => sum.passed += 1,
                Some(wrong) => {
                    sum.failed += 1;
                    report(seed, &commit, wrong);
                }
            }
        }
        busy.fetch_add(began.elapsed().as_millis() as u64, Ordering::Relaxed);
    };
    thread::scope(|scope| {
        (0..THREADS).for_each(|_| drop(scope.spawn(one_thread)));
    });
    let mut sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    let per_core = sum.simulated * 1000.0 / busy.into_inner().max(1) as f64;
    println!("{}", sum.counts);
    println!(
        "{:.0} simulated seconds in {:.1} s: {per_core:.0} per second and core",
        sum.simulated,
        began.elapsed().as_secs_f64()
    );
    let enough = if count >= 100 && mutant.is_none() {
        sum.counts.cover(&enough(count / 100))
    } else {
        Ok(())
    };
    if let Err(short) = &enough {
        println!("too little happened: {short}");
        sum.failed += 1;
    }
    println!("seeds {from} to {} at {commit}", from + count - 1);
    println!("{} passed, {} failed", sum.passed, sum.failed);
    assert_eq!(sum.failed, 0, "{} seeds failed", sum.failed);
}

/// The same seed gives the same history, byte by byte.
#[test]
fn twice() {
    let from = number("FROM").unwrap_or(1);
    let text = |seed| {
        let lines = run(seed, None, "twice").log.lines();
        let line = |line| serde_json::to_string(line).expect("a line is JSON");
        lines.iter().map(line).collect::<Vec<_>>()
    };
    for seed in from..from + 20 {
        let (one, other) = (text(seed), text(seed));
        for (at, (one, other)) in one.iter().zip(&other).enumerate() {
            assert_eq!(one, other, "SEED={seed}: line {at} of two runs");
        }
        assert_eq!(one.len(), other.len(), "SEED={seed}: as many lines");
    }
}
