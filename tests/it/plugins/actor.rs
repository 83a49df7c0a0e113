//! The actors: tries, time, places, deaths.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tenure::{
    actor::{Fence, FenceOutcome, Report},
    plugin::FenceError,
};

use crate::plugins::kit::*;

const SECOND: Duration = Duration::from_secs(1);
const MOMENT: Duration = Duration::from_millis(50);

fn failed(outcome: FenceOutcome) -> String {
    match outcome {
        FenceOutcome::Failed(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_order_that_failed_twice_is_tried_a_third_time_with_the_number_of_the_try() {
    system(async {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let tell = seen.clone();
        let twice = Scripted::plugin(move |call, order| {
            tell.lock().expect("a list").push(order.attempt);
            if call < 2 { fail("not yet") } else { confirm() }
        });
        let (plugins, recorder) = plugins(vec![("twice".into(), twice, limits(SECOND, 3, 1))]);
        for outcome in ["confirmed", "failed", "timeout", "panicked"] {
            let series = format!(
                "tenure_fence_duration_seconds_count{{plugin=\"twice\",outcome=\"{outcome}\"}}"
            );
            assert_eq!(sample(&recorder, &series) as u64, 0, "from the start");
        }
        assert_eq!(sample(&recorder, "tenure_actors{kind=\"plugin\"}") as u64, 1);
        assert_eq!(ask(&plugins, "twice", 10 * SECOND).await, FenceOutcome::Confirmed);
        assert_eq!(*seen.lock().expect("a list"), [1, 2, 3]);
        let count = |outcome| {
            let name = "tenure_fence_duration_seconds_count";
            sample(&recorder, &format!("{name}{{plugin=\"twice\",outcome=\"{outcome}\"}}")) as u64
        };
        assert_eq!([count("confirmed"), count("failed"), count("timeout")], [1, 2, 0]);
        let for_good = "tenure_fences_failed_total{plugin=\"twice\"}";
        assert_eq!(sample(&recorder, for_good) as u64, 0);
        assert_eq!(sample(&recorder, "tenure_fences_in_flight{plugin=\"twice\"}") as u64, 0);
    });
}

#[test]
fn what_fails_hangs_panics_or_blocks_fails_with_its_reason_and_harms_nobody() {
    system(async {
        let list = vec![
            ("fails".into(), Scripted::plugin(|_, _| fail("no power")), limits(SECOND, 1, 1)),
            ("hangs".into(), Scripted::plugin(|_, _| hang()), limits(MOMENT, 1, 1)),
            ("panics".into(), Scripted::plugin(|_, _| panic!("at once")), limits(PATIENCE, 1, 1)),
            (
                "panics-later".into(),
                Scripted::plugin(|_, _| {
                    Box::pin(async {
                        tokio::task::yield_now().await;
                        panic!("{}", String::from("later"))
                    })
                }),
                limits(PATIENCE, 0, 1),
            ),
            (
                "blocks".into(),
                Scripted::plugin(|call, _| {
                    Box::pin(async move {
                        if call == 0 {
                            let (_keep, never) = std::sync::mpsc::channel::<()>();
                            let _ = never.recv();
                        }
                        Ok(())
                    })
                }),
                limits(MOMENT, 1, 4),
            ),
            (
                "refuses".into(),
                Scripted::plugin(|_, _| Box::pin(async { Err(FenceError::permanent("never")) })),
                limits(SECOND, 9, 1),
            ),
            ("well".into(), Scripted::plugin(|_, _| confirm()), limits(SECOND, 0, 1)),
        ];
        let (plugins, recorder) = plugins(list);
        let all = ["fails", "hangs", "panics", "panics-later", "refuses"];
        // A panic takes its time where the backtrace of a large program is written.
        let asked = all.map(|name| ask(&plugins, name, PATIENCE));
        let (blocks, well, nobody) = tokio::join!(
            ask(&plugins, "blocks", 10 * SECOND),
            ask(&plugins, "well", SECOND),
            ask(&plugins, "nobody", SECOND)
        );
        assert_eq!(blocks, FenceOutcome::Confirmed, "the second try has another thread");
        assert_eq!(well, FenceOutcome::Confirmed);
        assert_eq!(nobody, FenceOutcome::Interrupted, "it may be known later");
        let mut said = Vec::new();
        for outcome in asked {
            said.push(failed(outcome.await));
        }
        let expected = [
            "after 2 tries: failed",
            "after 2 tries: timed out",
            "after 2 tries: panicked",
            "after 1 try: panicked",
            "after 1 try: failed",
        ];
        assert_eq!(said, expected);
        let count = |plugin, outcome| {
            let name = "tenure_fence_duration_seconds_count";
            let labels = format!("{{plugin=\"{plugin}\",outcome=\"{outcome}\"}}");
            sample(&recorder, &format!("{name}{labels}")) as u64
        };
        assert_eq!([count("hangs", "timeout"), count("panics", "panicked")], [2, 2]);
        let restarts = "tenure_actor_restarts_total{kind=\"plugin\",reason=\"panic\"}";
        assert_eq!(sample(&recorder, restarts) as u64, 0, "no actor died of it");
    });
}

#[test]
fn the_budget_bounds_tries_and_pauses_and_begins_with_a_place() {
    system(async {
        let list = vec![
            ("slow".into(), Scripted::plugin(|_, _| hang()), limits(60 * SECOND, 9, 1)),
            ("fails".into(), Scripted::plugin(|_, _| fail("no")), limits(SECOND, 100, 1)),
        ];
        let (plugins, _) = plugins(list);
        let clock = clock();
        let from = clock.now();
        let budget = Duration::from_millis(400);
        let (first, second, third) = tokio::join!(
            ask(&plugins, "slow", budget),
            ask(&plugins, "slow", budget),
            ask(&plugins, "fails", budget)
        );
        let took = clock.now().since(from);
        assert!(took >= budget * 2 && took < SECOND * 3, "{took:?}");
        let first = failed(first);
        assert!(first.starts_with("after 1 try: timed out"), "{first}");
        let second = failed(second);
        assert!(second.starts_with("after 1 try: timed out"), "{second}");
        let third = failed(third);
        assert!(third.ends_with(" tries: failed") && !third.contains("101"), "{third}");
    });
}

#[test]
fn no_more_orders_than_there_are_places_are_worked_on_at_once() {
    system(async {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (inside, peak) = (now.clone(), most.clone());
        let counts = Scripted::plugin(move |_, _| {
            let (inside, peak) = (inside.clone(), peak.clone());
            Box::pin(async move {
                peak.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(2)).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            })
        });
        let (plugins, _) = plugins(vec![("counts".into(), counts, limits(PATIENCE, 0, 5))]);
        let asked = (0..200).map(|_| ask(&plugins, "counts", PATIENCE));
        for outcome in futures_util::future::join_all(asked).await {
            assert_eq!(outcome, FenceOutcome::Confirmed);
        }
        assert_eq!(most.load(Ordering::SeqCst), 5);
    });
}

#[test]
fn a_dead_actor_reports_what_it_had_and_is_replaced() {
    system(async {
        let plugin = Scripted::plugin(|call, _| if call == 0 { hang() } else { confirm() });
        let (plugins, recorder) = plugins(vec![("p".into(), plugin, limits(PATIENCE, 0, 1))]);
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        // The first one hangs, the others wait for its place.
        for _ in 0..3 {
            let tell = tell.clone();
            let report = Report::new(move |outcome| drop(tell.send(outcome)));
            let fence = Fence { order: order("k", 1), budget: PATIENCE, report, trace: None };
            plugins.order("p", fence);
        }
        eventually("three in flight", async || {
            sample(&recorder, "tenure_fences_in_flight{plugin=\"p\"}") as u64 == 3
        })
        .await;
        plugins.kill("p");
        for _ in 0..3 {
            assert_eq!(told.recv().await, Some(FenceOutcome::Interrupted));
        }
        let restarts = "tenure_actor_restarts_total{kind=\"plugin\",reason=\"panic\"}";
        eventually("a restart", async || sample(&recorder, restarts) as u64 == 1).await;
        assert_eq!(ask(&plugins, "p", PATIENCE).await, FenceOutcome::Confirmed);
        assert_eq!(sample(&recorder, "tenure_actors{kind=\"plugin\"}") as u64, 1);
        assert_eq!(sample(&recorder, "tenure_fences_in_flight{plugin=\"p\"}") as u64, 0);
        // One that keeps dying rests: nothing is lost, nothing is stuck.
        for _ in 0..30 {
            plugins.kill("p");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(ask(&plugins, "p", PATIENCE).await, FenceOutcome::Interrupted);
        assert!(sample(&recorder, restarts) as u64 <= 11);
    });
}

#[test]
fn a_reload_adds_exchanges_and_takes_away() {
    system(async {
        let hangs = || Scripted::plugin(|_, _| hang());
        let well = || Scripted::plugin(|_, _| confirm());
        let (plugins, _) = plugins(vec![
            ("a".into(), hangs(), limits(PATIENCE, 0, 1)),
            ("b".into(), hangs(), limits(PATIENCE, 0, 1)),
        ]);
        let mut waiting = Box::pin(ask(&plugins, "a", PATIENCE));
        let gone = ask(&plugins, "b", PATIENCE);
        let early = tokio::time::timeout(MOMENT, &mut waiting).await;
        assert!(early.is_err());
        let reload = async {
            tokio::time::sleep(MOMENT).await;
            plugins.replace(vec![
                ("a".into(), well(), limits(PATIENCE, 0, 2)),
                ("c".into(), well(), limits(PATIENCE, 0, 1)),
            ]);
        };
        let (outcome, ()) = tokio::join!(gone, reload);
        assert_eq!(outcome, FenceOutcome::Interrupted);
        assert_eq!(ask(&plugins, "a", PATIENCE).await, FenceOutcome::Confirmed);
        assert_eq!(ask(&plugins, "c", PATIENCE).await, FenceOutcome::Confirmed);
        assert_eq!(ask(&plugins, "b", PATIENCE).await, FenceOutcome::Interrupted);
        let still = tokio::time::timeout(MOMENT, &mut waiting).await;
        assert!(still.is_err(), "what was under way goes on");
        plugins.close(PATIENCE).await;
        assert_eq!(waiting.await, FenceOutcome::Interrupted);
    });
}
