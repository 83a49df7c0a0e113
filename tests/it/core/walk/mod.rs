//! Random walks of one key through everything that may happen, judged at every step by what
//! docs/protocol.md promises: the judge ([`crate::core::harness::Oracle`]) is the reference, and knows of the
//! core only what clients, store and subscribers see.

pub mod operation;
mod walker;

use proptest::{prelude::*, test_runner::FileFailurePersistence};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};

use self::{operation::Operation, walker::Walker};
use crate::core::harness::Verdict;

/// The reference keeps no expectations of its own: every operation may follow every other.
struct Anything;

impl ReferenceStateMachine for Anything {
    type State = ();
    type Transition = Operation;

    fn init_state() -> BoxedStrategy<()> {
        Just(()).boxed()
    }

    fn transitions((): &()) -> BoxedStrategy<Operation> {
        operation::any()
    }

    fn apply((): (), _: &Operation) {}
}

struct Walk;

impl StateMachineTest for Walk {
    type SystemUnderTest = Walker;
    type Reference = Anything;

    fn init_test((): &()) -> Walker {
        Walker::breaking(None)
    }

    fn apply(mut walker: Walker, (): &(), operation: Operation) -> Walker {
        walker.step(&operation);
        walker
    }

    fn check_invariants(walker: &Walker, (): &()) {
        assert_eq!(*walker.verdict(), Ok(()), "the judge objects");
    }

    fn teardown(mut walker: Walker, (): ()) {
        assert_eq!(walker.rest(), Ok(()), "the judge objects, once faults stopped");
    }
}

fn config() -> ProptestConfig {
    // A failing walk is kept beside the tests, with its seed, and replayed first from then on.
    let kept = FileFailurePersistence::Direct("tests/it/core/walk/regressions.txt");
    ProptestConfig {
        cases: 3_000,
        failure_persistence: Some(Box::new(kept)),
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    }
}

prop_state_machine! {
    #![proptest_config(config())]

    #[test]
    fn every_walk_keeps_the_promises(sequential 1..120 => Walk);
}

/// Walks with fixed seeds under a broken rule, until one is caught.
pub fn first_objection(broken: tenure::lease::Mutant) -> Verdict {
    use proptest::{
        strategy::ValueTree,
        test_runner::{RngSeed, TestRunner},
    };

    let seeded = ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() };
    let mut runner = TestRunner::new(seeded);
    let walks = proptest::collection::vec(operation::any(), 120);
    for _ in 0..5_000 {
        let operations = walks.new_tree(&mut runner).expect("no filters").current();
        let mut walker = Walker::breaking(Some(broken));
        for operation in &operations {
            walker.step(operation);
        }
        walker.rest()?;
    }
    Ok(())
}
