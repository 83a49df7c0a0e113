//! Random walks through everything that may happen to a guard, judged at every step.

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{FileFailurePersistence, RngSeed, TestRunner},
};
use tenure::worker::guard::{GuardState, Input, Mutant, Script, ScriptOutcome, Settings};

use super::{
    bench::{Bench, ms, settings},
    judge::Verdict,
};

#[derive(Clone, Debug)]
enum Action {
    Pass {
        ms: u64,
    },
    /// A health check comes and ends so, and a heartbeat before it.
    Round {
        outcome: ScriptOutcome,
    },
    /// The process is stopped and goes on.
    Pause {
        ms: u64,
    },
    End {
        nth: usize,
        outcome: ScriptOutcome,
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

fn outcome() -> impl Strategy<Value = ScriptOutcome> {
    prop_oneof![7 => Just(ScriptOutcome::Ok), 3 => Just(ScriptOutcome::Failed), 1 => Just(ScriptOutcome::TimedOut)]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        10 => (0u64..1200).prop_map(|ms| Action::Pass { ms }),
        8 => outcome().prop_map(|outcome| Action::Round { outcome }),
        1 => (0u64..8000).prop_map(|ms| Action::Pause { ms }),
        20 => (0usize..2, outcome()).prop_map(|(nth, outcome)| Action::End { nth, outcome }),
        6 => (0u64..3000).prop_map(|ms| Action::Grant { ms }),
        1 => Just(Action::NotGranted),
        10 => (2000u64..3000).prop_map(|ms| Action::Renew { ms }),
        1 => Just(Action::Lose),
        1 => Just(Action::WillRuns),
        4 => Just(Action::Released),
        1 => Just(Action::Terminate),
        1 => (0u64..100).prop_map(|ms| Action::Late { ms }),
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

fn act(bench: &mut Bench, action: &Action) {
    match *action {
        Action::Pass { ms: span } => bench.pass(ms(span)),
        Action::Round { outcome } => {
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
        Action::Pause { ms: span } => bench.pause(ms(span)),
        Action::End { nth, outcome } => {
            let runs = bench.runs();
            if !runs.is_empty() {
                bench.tell(Input::Ended(runs[nth % runs.len()].0, outcome));
            }
        }
        Action::Grant { ms: span } if bench.asking => bench.grant(span),
        Action::NotGranted if bench.asking => bench.tell(Input::NotGranted),
        Action::Renew { ms: span } if bench.held => bench.renew(span),
        Action::Lose if bench.held => bench.tell(Input::Lost),
        Action::Released if bench.releasing => bench.tell(Input::Released),
        Action::WillRuns => bench.tell(Input::WillRan),
        Action::Terminate => bench.tell(Input::Terminate),
        Action::Late { ms: span } => bench.late = ms(span),
        _ => {}
    }
}

/// The whole walk; then faults stop, and the guard must become active, and end when told.
fn walk(which: u8, actions: &[Action], mutant: Option<Mutant>) -> Verdict {
    let mut bench = Bench::breaking(variant(which), mutant);
    for action in actions {
        act(&mut bench, action);
        std::mem::replace(&mut bench.verdict, Ok(()))?;
    }
    bench.late = ms(0);
    if bench.judge.exited.is_some() {
        return Ok(());
    }
    let terminated = actions.iter().any(|action| matches!(action, Action::Terminate));
    // The longest rest is sixteen times R*F.
    if !terminated && !bench.bliss(ms(60_000), |bench| bench.guard.state() == GuardState::Active) {
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
        actions in proptest::collection::vec(action(), 1..120),
    ) {
        prop_assert_eq!(walk(which, &actions, None), Ok(()));
    }
}

/// Walks with fixed seeds under a broken rule, until one is caught.
pub fn first_objection(broken: Mutant) -> Verdict {
    let seeded = ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() };
    let mut runner = TestRunner::new(seeded);
    let walks = (0u8..12, proptest::collection::vec(action(), 120));
    for _ in 0..5_000 {
        let (which, actions) = walks.new_tree(&mut runner).expect("no filters").current();
        walk(which, &actions, Some(broken))?;
    }
    Ok(())
}

/// The walks go where the rules are: they come into an activation, and out of it in every way.
#[test]
fn the_walks_come_everywhere() {
    let seeded = ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() };
    let mut runner = TestRunner::new(seeded);
    let walks = (0u8..12, proptest::collection::vec(action(), 120));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..300 {
        let (which, actions) = walks.new_tree(&mut runner).expect("no filters").current();
        let mut bench = Bench::new(variant(which));
        for action in &actions {
            act(&mut bench, action);
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
