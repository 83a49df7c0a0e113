//! Random walks through everything that may happen to a guard, judged at every step.

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{FileFailurePersistence, RngSeed, TestRunner},
};
use tenure::worker::guard::{Input, Mutant, Outcome, Script, Settings, State};

use super::{
    bench::{Bench, ms, settings},
    judge::Verdict,
};

#[derive(Clone, Debug)]
enum Deed {
    Pass {
        ms: u64,
    },
    /// A health check comes and ends so, and a heartbeat before it.
    Round {
        outcome: Outcome,
    },
    /// The process is stopped and goes on.
    Pause {
        ms: u64,
    },
    End {
        nth: usize,
        outcome: Outcome,
    },
    Grant {
        ms: u64,
    },
    NotGranted,
    Renew {
        ms: u64,
    },
    Lose,
    WillRuns,
    Released,
    Terminate,
    /// From now on the process is so late with everything.
    Late {
        ms: u64,
    },
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![7 => Just(Outcome::Ok), 3 => Just(Outcome::Failed), 1 => Just(Outcome::TimedOut)]
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        10 => (0u64..1200).prop_map(|ms| Deed::Pass { ms }),
        8 => outcome().prop_map(|outcome| Deed::Round { outcome }),
        1 => (0u64..8000).prop_map(|ms| Deed::Pause { ms }),
        20 => (0usize..2, outcome()).prop_map(|(nth, outcome)| Deed::End { nth, outcome }),
        6 => (0u64..3000).prop_map(|ms| Deed::Grant { ms }),
        1 => Just(Deed::NotGranted),
        10 => (2000u64..3000).prop_map(|ms| Deed::Renew { ms }),
        1 => Just(Deed::Lose),
        1 => Just(Deed::WillRuns),
        4 => Just(Deed::Released),
        1 => Just(Deed::Terminate),
        1 => (0u64..100).prop_map(|ms| Deed::Late { ms }),
    ]
}

fn variant(which: u8) -> Settings {
    let mut settings = settings();
    settings.fence = which & 1 == 1;
    settings.every_round = which & 2 == 2;
    settings.confirmations = u32::from(which >> 2);
    settings.failures = 3 - u32::from(which % 3 / 2);
    settings
}

fn act(bench: &mut Bench, deed: &Deed) {
    match *deed {
        Deed::Pass { ms: span } => bench.pass(ms(span)),
        Deed::Round { outcome } => {
            if bench.held {
                bench.renew(3000);
            }
            bench.pass(ms(1000));
            let runs = bench.runs();
            let check = runs.iter().find(|(_, s)| matches!(s, Script::Healthcheck { .. }));
            if let Some(&(run, _)) = check {
                bench.tell(Input::Ended(run, outcome));
            }
        }
        Deed::Pause { ms: span } => bench.pause(ms(span)),
        Deed::End { nth, outcome } => {
            let runs = bench.runs();
            if !runs.is_empty() {
                bench.tell(Input::Ended(runs[nth % runs.len()].0, outcome));
            }
        }
        Deed::Grant { ms: span } if bench.asking => bench.grant(span),
        Deed::NotGranted if bench.asking => bench.tell(Input::NotGranted),
        Deed::Renew { ms: span } if bench.held => bench.renew(span),
        Deed::Lose if bench.held => bench.tell(Input::Lost),
        Deed::Released if bench.releasing => bench.tell(Input::Released),
        Deed::WillRuns => bench.tell(Input::WillRan),
        Deed::Terminate => bench.tell(Input::Terminate),
        Deed::Late { ms: span } => bench.late = ms(span),
        _ => {}
    }
}

/// The whole walk; then faults stop, and the guard must come into office, and leave when told.
fn walk(which: u8, deeds: &[Deed], mutant: Option<Mutant>) -> Verdict {
    let mut bench = Bench::breaking(variant(which), mutant);
    for deed in deeds {
        act(&mut bench, deed);
        std::mem::replace(&mut bench.verdict, Ok(()))?;
    }
    bench.late = ms(0);
    if bench.judge.exited.is_some() {
        return Ok(());
    }
    let terminated = deeds.iter().any(|deed| matches!(deed, Deed::Terminate));
    // The longest rest is sixteen times R*F.
    if !terminated && !bench.bliss(ms(60_000), |bench| bench.guard.state() == State::Active) {
        std::mem::replace(&mut bench.verdict, Ok(()))?;
        return Err(format!("L: never active again, but {}", bench.guard.state()));
    }
    bench.tell(Input::Terminate);
    if !bench.bliss(ms(10_000), |bench| bench.judge.exited.is_some()) {
        std::mem::replace(&mut bench.verdict, Ok(()))?;
        return Err(format!("L: does not end, but is {}", bench.guard.state()));
    }
    bench.verdict.clone()
}

fn config() -> ProptestConfig {
    let kept = FileFailurePersistence::Direct("tests/it/guard/machine/regressions.txt");
    ProptestConfig {
        cases: 3_000,
        failure_persistence: Some(Box::new(kept)),
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_walk_keeps_the_promises(
        which in 0u8..12,
        deeds in proptest::collection::vec(deed(), 1..120),
    ) {
        prop_assert_eq!(walk(which, &deeds, None), Ok(()));
    }
}

/// Walks with fixed seeds under a broken rule, until one is caught.
pub fn first_objection(broken: Mutant) -> Verdict {
    let seeded = ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() };
    let mut runner = TestRunner::new(seeded);
    let walks = (0u8..12, proptest::collection::vec(deed(), 120));
    for _ in 0..5_000 {
        let (which, deeds) = walks.new_tree(&mut runner).expect("no filters").current();
        walk(which, &deeds, Some(broken))?;
    }
    Ok(())
}

/// The walks go where the rules are: they come into office, and out of it in every way.
#[test]
fn the_walks_come_everywhere() {
    let seeded = ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() };
    let mut runner = TestRunner::new(seeded);
    let walks = (0u8..12, proptest::collection::vec(deed(), 120));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..300 {
        let (which, deeds) = walks.new_tree(&mut runner).expect("no filters").current();
        let mut bench = Bench::new(variant(which));
        for deed in &deeds {
            act(&mut bench, deed);
        }
        for (_, effect) in &bench.log {
            let text = format!("{effect:?}");
            let tell = text.starts_with("Report(Leaving") || text.starts_with("Report(Alarm");
            let end = text.find(" {").filter(|_| !text.starts_with("Exit")).unwrap_or(text.len());
            if tell || text.starts_with("Exit") || !text.starts_with("Report") {
                seen.insert(text[..end].to_owned());
            }
        }
    }
    for wanted in [
        "Report(Leaving(Unhealthy))",
        "Report(Leaving(Unrenewed))",
        "Report(Leaving(Lost))",
        "Report(Leaving(Terminated))",
        "Report(Leaving(ActivateFailed(TimedOut)))",
        "Report(Alarm(NotDeactivated",
        "Report(Alarm(Overrun))",
        "Abandon",
        "Withdraw",
        "Exit { inactive: true }",
        "Exit { inactive: false }",
    ] {
        assert!(seen.contains(wanted), "no walk came to {wanted}: {seen:#?}");
    }
}
