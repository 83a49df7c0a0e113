//! Fences that failed for good and run once more, because an administrator says so.

use super::*;
use tenure::lease::Request;

fn retry(plugin: Option<&str>) -> Request {
    Request::FenceRetry(plugin.map(Into::into))
}

/// A key whose fence failed for good.
fn blocked(plan: FencePlan) -> (Bench, u64) {
    let (mut bench, a) = expired(plan);
    bench.report(failed());
    bench.settle();
    assert!(bench.fences.is_empty() && bench.lease.view(bench.now).fence_failed);
    (bench, a.token())
}

#[track_caller]
fn ordered(bench: &mut Bench, plugin: Option<&str>) -> bool {
    match bench.done(retry(plugin)).answer() {
        Answer::Done(_) => true,
        Answer::NotFencing(_) => false,
        other => panic!("not carried out: {other:?}"),
    }
}

#[test]
fn it_opens_the_key_when_it_is_confirmed() {
    let (mut bench, token) = blocked(before_grant(&["power"]));
    let b = bench.ask(acquire("b").waiting_until(until(600)));
    assert!(ordered(&mut bench, Some("power")));
    assert_eq!(bench.running(), [("power", token)]);
    assert!(ordered(&mut bench, None), "it is being run");
    assert_eq!(bench.running().len(), 1, "once");
    assert!(b.waits());
    bench.confirm_all();
    b.grant();
    let told = ["granted", "expired", "fencing", "fence-failed", "fenced", "granted"];
    assert_eq!(bench.events(), told);
}

#[test]
fn it_may_fail_again_and_says_so() {
    let (mut bench, _) = blocked(before_grant(&["power"]));
    for failures in 2..4 {
        assert!(ordered(&mut bench, None));
        bench.report(failed());
        bench.settle();
        assert_eq!(bench.state(), "fencing");
        let count = bench.events().iter().filter(|kind| **kind == "fence-failed").count();
        assert_eq!(count, failures);
        bench.run(60_000);
        assert!(bench.fences.is_empty(), "it does not run by itself");
    }
    let record = bench.record();
    assert_eq!(record.fences()[0].failed.len(), 1, "a plugin fails once, however often");
}

#[test]
fn only_what_failed_and_is_named_is_run() {
    let (mut bench, a) = expired(before_grant(&["power", "network"]));
    for _ in 0..2 {
        bench.report(failed());
        bench.settle();
    }
    assert_eq!(bench.running(), []);
    assert!(!ordered(&mut bench, Some("disk")));
    assert!(ordered(&mut bench, Some("power")));
    assert_eq!(bench.running(), [("power", a.token())]);
    bench.confirm_all();
    assert_eq!(bench.state(), "fencing", "the other one failed");
    assert!(ordered(&mut bench, None));
    assert_eq!(bench.running(), [("network", a.token())]);
    bench.confirm_all();
    assert_eq!(bench.state(), "free");
    let (mut bench, _) = fencing();
    assert!(!ordered(&mut bench, None), "it has not failed yet");
    bench.confirm_all();
    assert!(!ordered(&mut bench, None));
    assert!(bench.lease.is_idle());
}

#[test]
fn one_that_is_interrupted_runs_again() {
    let (mut bench, token) = blocked(before_grant(&["power"]));
    assert!(ordered(&mut bench, None));
    bench.report(FenceResult::Interrupted);
    assert!(bench.fences.is_empty());
    bench.run(1_000);
    assert_eq!(bench.running(), [("power", token)]);
    bench.confirm_all();
    assert_eq!(bench.state(), "free");
    assert!(bench.lease.is_idle());
}

#[test]
fn one_that_is_skipped_meanwhile_is_over() {
    let (mut bench, _) = blocked(before_grant(&["power"]));
    assert!(ordered(&mut bench, None));
    bench.done(skip());
    bench.report(failed());
    bench.settle();
    assert_eq!(bench.events().last(), Some(&"fence-skipped"));
    assert!(bench.lease.is_idle());
}

#[test]
fn a_late_one_keeps_the_key_shut_until_it_is_confirmed() {
    let (mut bench, a) = expired(after_grant(&["power"]));
    let b = bench.done(acquire("b"));
    bench.report(failed());
    bench.settle();
    bench.done(release(b.proof()));
    assert_eq!(bench.state(), "fencing");
    assert!(ordered(&mut bench, None));
    assert_eq!(bench.running(), [("power", a.token())]);
    refused(&bench.done(acquire("c")), Refusal::Fencing);
    bench.confirm_all();
    bench.done(acquire("c")).grant();
}
