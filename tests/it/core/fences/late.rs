//! Fences that run once somebody else was granted the key.

use super::*;

#[test]
fn a_late_fence_runs_once_somebody_else_was_granted() {
    let (mut bench, a) = expired(after_grant(&["power"]));
    assert_eq!(bench.state(), "free");
    assert!(bench.fences.is_empty() && bench.lease.is_idle());
    assert_eq!(bench.events(), ["granted", "expired"]);
    let b = bench.ask(acquire("b"));
    assert!(bench.fences.is_empty());
    bench.commit();
    b.grant();
    assert_eq!(bench.running(), [("power", a.token())]);
    bench.confirm_all();
    assert_eq!(bench.events(), ["granted", "expired", "granted", "fenced"]);
    assert_eq!(bench.owner().as_deref(), Some("b"));
    assert!(matches!(bench.done(heartbeat(b.proof())).answer(), Answer::Alive { .. }));
    assert_eq!(lost(&mut bench, &a), Lost::Fenced);
}

#[test]
fn a_revival_strikes_a_late_fence() {
    let (mut bench, a) = expired(after_grant(&["power"]));
    let beat = bench.done(heartbeat(a.proof()));
    assert!(matches!(beat.answer(), Answer::Alive { revived: true, .. }));
    assert!(bench.record().fences().is_empty());
    bench.done(release(a.proof()));
    bench.done(acquire("b")).grant();
    assert!(bench.fences.is_empty());
}

#[test]
fn a_late_fence_outlives_a_restart_and_a_release() {
    let (mut bench, a) = expired(after_grant(&["power"]));
    bench.restart(true, 0);
    assert!(bench.fences.is_empty(), "it may still revive");
    let b = bench.done(acquire("b"));
    bench.done(release(b.proof()));
    assert_eq!(bench.state(), "free");
    assert!(!bench.lease.is_idle(), "there is a fence to be confirmed");
    bench.restart(true, 0);
    assert_eq!(bench.running(), [("power", a.token())]);
    bench.confirm_all();
    assert!(bench.lease.is_idle());
}

#[test]
fn a_heartbeat_beside_the_confirmation_of_a_late_fence_is_absorbed() {
    let (mut bench, _) = expired(after_grant(&["power"]));
    let b = bench.done(acquire("b"));
    bench.report(FenceResult::Confirmed);
    assert!(bench.flight.is_some());
    let beat = bench.ask(heartbeat(b.proof()));
    assert!(matches!(beat.answer(), Answer::Alive { .. }));
    bench.settle();
    bench.run(TTL_MS - 1);
    assert_eq!(bench.owner().as_deref(), Some("b"));
}

#[test]
fn too_many_late_fences_shut_the_key() {
    let (mut bench, _) = held(after_grant(&["power"]));
    for nth in 0..MAX_LATE_FENCES {
        bench.run(TTL_MS);
        bench.done(acquire(["b", "c"][nth % 2])).grant();
    }
    assert_eq!(bench.fences.len(), MAX_LATE_FENCES);
    bench.run(TTL_MS);
    assert_eq!(bench.state(), "fencing");
    refused(&bench.done(acquire("d")), Refusal::Fencing);
    bench.report(FenceResult::Confirmed);
    bench.settle();
    bench.done(acquire("d")).grant();
}

#[test]
fn a_late_fence_that_failed_blocks_the_next_grant_but_not_the_owner() {
    let (mut bench, _) = expired(after_grant(&["power"]));
    let b = bench.done(acquire("b"));
    bench.report(failed());
    bench.settle();
    assert!(matches!(bench.done(heartbeat(b.proof())).answer(), Answer::Alive { .. }));
    bench.done(release(b.proof()));
    refused(&bench.done(acquire("c")), Refusal::Fencing);
    bench.done(skip());
    bench.done(acquire("c")).grant();
}
