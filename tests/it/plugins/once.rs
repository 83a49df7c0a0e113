//! Every order is reported exactly once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use proptest::prelude::*;
use tenure::actor::{Fence, FenceOutcome, Report};

use crate::plugins::kit::*;

/// What happens to the plugins between two orders.
#[derive(Clone, Copy, Debug)]
enum Step {
    Order { plugin: usize, budget_ms: u64 },
    Kill { plugin: usize },
    Reload { size: usize },
    Wait { ms: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let order =
        (0..6usize, 0..80u64).prop_map(|(plugin, budget_ms)| Step::Order { plugin, budget_ms });
    let step = prop_oneof![
        8 => order,
        1 => (0..6usize).prop_map(|plugin| Step::Kill { plugin }),
        1 => (0..6usize).prop_map(|size| Step::Reload { size }),
        1 => (0..20u64).prop_map(|ms| Step::Wait { ms }),
    ];
    prop::collection::vec(step, 1..60)
}

const NAMES: [&str; 6] = ["confirms", "twice", "fails", "hangs", "panics", "unknown"];

fn set(size: usize) -> Vec<tenure::actor::NamedPlugin> {
    let scripts = [
        Scripted::plugin(|_, _| confirm()),
        Scripted::plugin(|call, _| if call % 3 < 2 { fail("not yet") } else { confirm() }),
        Scripted::plugin(|_, _| fail("no")),
        Scripted::plugin(|_, _| hang()),
        Scripted::plugin(|_, _| panic!("often")),
    ];
    let limits = limits(Duration::from_millis(15), 2, 2);
    let named = NAMES.iter().zip(scripts);
    named.take(size).map(|(name, plugin)| ((*name).to_owned(), plugin, limits)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_order_is_reported_exactly_once_whatever_happens(steps in steps()) {
        let reports = Arc::new(Mutex::new(HashMap::<usize, Vec<FenceOutcome>>::new()));
        let told = reports.clone();
        let mut ordered = Vec::new();
        system(async {
            let (plugins, _) = plugins(set(5));
            for step in &steps {
                match *step {
                    Step::Order { plugin, budget_ms } => {
                        let (number, told) = (ordered.len(), told.clone());
                        ordered.push(plugin);
                        let report = Report::new(move |outcome| {
                            told.lock().expect("a table").entry(number).or_default().push(outcome);
                        });
                        let budget = Duration::from_millis(budget_ms);
                        let fence = Fence { order: order("k", 1), budget, report, trace: None };
                        plugins.order(NAMES[plugin], fence);
                    }
                    Step::Kill { plugin } => plugins.kill(NAMES[plugin]),
                    Step::Reload { size } => plugins.replace(set(size)),
                    Step::Wait { ms } => tokio::time::sleep(Duration::from_millis(ms)).await,
                }
            }
            eventually("all are reported", async || {
                told.lock().expect("a table").len() == ordered.len()
            }).await;
            drop(plugins);
            tokio::time::sleep(Duration::from_millis(10)).await;
        });
        for (number, outcomes) in reports.lock().expect("a table").iter() {
            prop_assert_eq!(outcomes.len(), 1, "order {}", number);
            if matches!(NAMES[ordered[*number]], "fails" | "hangs" | "panics" | "unknown") {
                prop_assert_ne!(&outcomes[0], &FenceOutcome::Confirmed);
            }
        }
    }
}
