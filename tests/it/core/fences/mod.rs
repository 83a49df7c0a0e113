//! R8: fences of ended tenures.

mod late;
mod retry;

use tenure::lease::{
    Alarm, Answer, ChangeKind, FencePlan, FenceReport, FenceResult, Input, Lost, MAX_LATE_FENCES,
    Moment, OnFenceFailure, Refusal,
};

use crate::core::harness::*;

fn until(seconds: u64) -> Moment {
    START + ms(seconds * 1000)
}

/// A key under a fence that `a` holds.
fn held(plan: FencePlan) -> (Bench, Who) {
    let mut bench = Bench::ruled(0, Some(plan));
    let a = bench.done(acquire("a"));
    (bench, a)
}

/// The same, and its ttl just ran out.
fn expired(plan: FencePlan) -> (Bench, Who) {
    let (mut bench, a) = held(plan);
    bench.run(TTL_MS);
    (bench, a)
}

fn fencing() -> (Bench, Who) {
    let (bench, a) = expired(before_grant(&["power"]));
    assert_eq!(bench.state(), "fencing");
    (bench, a)
}

#[track_caller]
fn refused(who: &Who, expected: Refusal) {
    match who.answer() {
        Answer::Refused(why, _) => assert_eq!(why, expected),
        other => panic!("not refused: {other:?}"),
    }
}

#[track_caller]
fn lost(bench: &mut Bench, who: &Who) -> Lost {
    match bench.done(heartbeat(who.proof())).answer() {
        Answer::Lost(lost) => lost,
        other => panic!("not lost: {other:?}"),
    }
}

#[test]
fn the_write_that_ends_a_tenure_names_its_fence() {
    let (mut bench, a) = held(before_grant(&["power"]));
    bench.pass(TTL_MS);
    bench.wake();
    assert!(bench.fences.is_empty(), "nothing is fenced before the end is durable");
    bench.commit();
    assert_eq!(bench.running(), [("power", a.token())]);
    assert_eq!(bench.record().fences().len(), 1);
    assert_eq!(bench.events(), ["granted", "expired", "fencing"]);
    let run = &bench.fences[0];
    assert_eq!((run.owner.as_str(), run.reason), ("a", ChangeKind::Expired));
    assert_eq!((run.session, run.timeout_ms), (None, 5_000));
}

#[test]
fn nobody_is_granted_a_key_before_its_fence_is_confirmed() {
    let (mut bench, _) = held(before_grant(&["power"]));
    let b = bench.ask(acquire("b").waiting_until(until(600)));
    bench.run(100_000);
    assert!(b.waits());
    refused(&bench.done(acquire("c")), Refusal::Fencing);
    refused(&bench.done(acquire("a").reclaiming()), Refusal::Fencing);
    bench.report(FenceResult::Confirmed);
    assert!(b.waits(), "a confirmation is a write");
    bench.commit();
    b.grant();
    assert!(bench.fences.is_empty());
    assert_eq!(bench.events(), ["granted", "expired", "fencing", "fenced", "granted"]);
}

#[test]
fn every_end_that_is_not_willing_is_fenced_before_the_next_grant() {
    type End = fn(&mut Bench, &Who) -> Who;
    let ends: [End; 4] = [
        |bench, _| {
            bench.pass(TTL_MS);
            bench.ask(acquire("b").waiting_until(until(60)))
        },
        |bench, _| {
            bench.pass(TTL_MS);
            bench.ask(acquire("a").waiting_until(until(60)))
        },
        |bench, _| bench.ask(acquire("a").reclaiming().waiting_until(until(60))),
        |bench, _| {
            let b = bench.ask(acquire("b").waiting_until(until(60)));
            bench.ask(revoke_immediately());
            b
        },
    ];
    for end in ends {
        let (mut bench, a) = held(before_grant(&["power"]));
        let next = end(&mut bench, &a);
        bench.settle();
        assert!(next.waits());
        assert_eq!(bench.state(), "fencing");
        bench.confirm_all();
        assert!(next.token() > a.token());
    }
}

#[test]
fn a_willing_end_is_fenced_only_where_that_is_asked_for() {
    let (mut bench, a) = held(before_grant(&["power"]));
    bench.done(release(a.proof()));
    assert_eq!(bench.state(), "free");

    let (mut bench, a) = held(FencePlan { on_release: true, ..before_grant(&["power"]) });
    let b = bench.ask(acquire("b").waiting_until(until(60)));
    let released = bench.done(release(a.proof()));
    assert!(matches!(released.answer(), Answer::Released(true)));
    assert!(b.waits());
    bench.confirm_all();
    b.grant();
}

#[test]
fn an_offer_begins_when_the_fence_is_confirmed() {
    let (mut bench, a) = held(FencePlan { on_release: true, ..before_grant(&["power"]) });
    let b = bench.ask(acquire("b").waiting_until(until(600)));
    bench.done(transfer(a.proof(), "c"));
    assert_eq!(bench.state(), "fencing");
    refused(&bench.done(acquire("c")), Refusal::Fencing);
    bench.run(20_000);
    bench.confirm_all();
    assert_eq!(bench.state(), "offered");
    bench.run(4_999);
    assert!(b.waits());
    bench.done(acquire("c")).grant();

    let (mut bench, a) = held(FencePlan { on_release: true, ..before_grant(&["power"]) });
    let b = bench.ask(acquire("b").waiting_until(until(600)));
    let c = bench.ask(acquire("c").waiting_until(until(600)));
    bench.done(transfer(a.proof(), "c"));
    bench.confirm_all();
    c.grant();
    assert!(b.waits());
}

#[test]
fn an_offer_that_waits_for_a_fence_outlives_a_restart() {
    let (mut bench, a) = held(FencePlan { on_release: true, ..before_grant(&["power"]) });
    bench.done(transfer(a.proof(), "c"));
    bench.restart(true, 60_000);
    bench.confirm_all();
    assert_eq!(bench.state(), "offered");
    bench.run(4_999);
    bench.done(acquire("c")).grant();
}

#[test]
fn each_plugin_confirms_and_none_is_run_again() {
    let (mut bench, a) = expired(before_grant(&["power", "network"]));
    let token = a.token();
    assert_eq!(bench.running(), [("power", token), ("network", token)]);
    bench.report_nth(1, FenceResult::Confirmed);
    bench.settle();
    assert_eq!(bench.state(), "fencing");
    assert_eq!(bench.running(), [("power", token)]);
    assert_eq!(bench.events(), ["granted", "expired", "fencing"]);
    // Both at once: one is written after the other.
    bench.report(FenceResult::Confirmed);
    bench.settle();
    assert!(bench.fences.is_empty());
    assert_eq!(bench.events(), ["granted", "expired", "fencing", "fenced"]);
    assert_eq!(bench.state(), "free");
    assert!(bench.lease.is_idle());
}

#[test]
fn reports_that_arrive_together_are_written_one_after_the_other() {
    let (mut bench, _) = expired(before_grant(&["power", "network"]));
    bench.report(FenceResult::Confirmed);
    bench.report(FenceResult::Confirmed);
    assert!(bench.fences.is_empty());
    bench.settle();
    assert_eq!(bench.state(), "free");
    assert!(bench.fences.is_empty());
}

#[test]
fn a_fence_that_failed_for_good_blocks_the_key() {
    let (mut bench, _) = fencing();
    let b = bench.ask(acquire("b").waiting_until(until(600)));
    bench.report(failed());
    bench.settle();
    bench.run(60_000);
    assert!(b.waits() && bench.fences.is_empty());
    assert!(bench.lease.view(bench.now).fence_failed);
    assert!(bench.alarms.iter().any(|alarm| matches!(alarm, Alarm::FenceFailed(_))));
    bench.restart(true, 0);
    assert!(bench.fences.is_empty(), "it waits for an administrator");
    refused(&bench.done(acquire("b")), Refusal::Fencing);
    let skipped = bench.done(skip());
    assert!(matches!(skipped.answer(), Answer::Done(_)));
    bench.done(acquire("b")).grant();
    let told = ["granted", "expired", "fencing", "fence-failed", "fence-skipped", "granted"];
    assert_eq!(bench.events(), told);
    assert_eq!(bench.cell.history[4].actor.as_deref(), Some("root"));
}

#[test]
fn a_fence_that_failed_for_good_only_alarms_where_that_is_asked_for() {
    let plan = before_grant(&["power"]);
    let plan = FencePlan { on_failure: OnFenceFailure::GrantWithAlarm, ..plan };
    let (mut bench, a) = expired(plan);
    let b = bench.ask(acquire("b").waiting_until(until(600)));
    bench.report(failed());
    bench.settle();
    b.grant();
    assert_eq!(bench.cell.history[3].kind, ChangeKind::FenceFailed);
    assert_eq!(bench.cell.history[3].reason.as_deref(), Some("power: no answer"));
    assert_eq!(lost(&mut bench, &a), Lost::Fenced, "it may have been");
}

#[test]
fn skipping_serves_who_waits_by_the_same_write() {
    let (mut bench, _) = fencing();
    let b = bench.ask(acquire("b").waiting_until(until(600)));
    bench.ask(skip());
    bench.commit();
    b.grant();
    bench.report(FenceResult::Confirmed);
    assert!(bench.flight.is_none(), "a struck fence has nothing to report");
}

#[test]
fn there_is_nothing_to_skip_where_nothing_is_fenced() {
    let (mut bench, _) = held(before_grant(&["power"]));
    assert!(matches!(bench.done(skip()).answer(), Answer::NotFencing(_)));
}

#[test]
fn a_fence_that_was_interrupted_is_run_again() {
    let (mut bench, a) = fencing();
    bench.report(FenceResult::Interrupted);
    assert!(bench.fences.is_empty() && bench.flight.is_none());
    bench.run(1_000);
    assert_eq!(bench.running(), [("power", a.token())]);
    bench.confirm_all();
    assert_eq!(bench.state(), "free");
}

#[test]
fn callers_that_keep_asking_do_not_put_it_off() {
    let (mut bench, a) = fencing();
    bench.report(FenceResult::Interrupted);
    for _ in 0..10 {
        bench.ask(acquire("b"));
        bench.run(100);
    }
    assert_eq!(bench.running(), [("power", a.token())]);
    bench.context.until = bench.now;
    bench.report(FenceResult::Interrupted);
    for _ in 0..10 {
        bench.ask(acquire("b"));
        bench.run(100);
    }
    assert!(bench.fences.is_empty(), "it may not promise now");
    bench.context.until = Moment::NEVER;
    bench.run(1_000);
    assert_eq!(bench.running(), [("power", a.token())]);
}

#[test]
fn a_confirmation_that_was_not_written_is_asked_for_again() {
    let (mut bench, a) = fencing();
    bench.report(FenceResult::Confirmed);
    bench.refuse();
    bench.run(1_000);
    assert_eq!(bench.running(), [("power", a.token())]);
    bench.report(FenceResult::Confirmed);
    bench.lose_reply(true);
    bench.run(1_000);
    assert_eq!(bench.state(), "free");
    assert!(bench.fences.is_empty());
}

#[test]
fn a_restart_or_a_rebuilt_actor_runs_it_again() {
    for rebuilt in [false, true] {
        let (mut bench, a) = fencing();
        bench.fences.clear();
        if rebuilt {
            bench.rebuild()
        } else {
            bench.restart(true, 0)
        }
        assert_eq!(bench.running(), [("power", a.token())]);
        bench.confirm_all();
        assert_eq!(bench.state(), "free");
    }
}

#[test]
fn a_fence_whose_end_was_in_flight_at_the_kill_is_run_if_it_landed() {
    for written in [false, true] {
        let (mut bench, _) = held(before_grant(&["power"]));
        bench.pass(TTL_MS);
        bench.wake();
        bench.restart(written, 0);
        assert_eq!(bench.fences.len(), usize::from(written));
        assert_eq!(bench.state(), if written { "fencing" } else { "held" });
    }
}

#[test]
fn nothing_revives_once_a_fence_began() {
    let (mut bench, a) = fencing();
    assert_eq!(lost(&mut bench, &a), Lost::Fenced);
    bench.confirm_all();
    assert_eq!(bench.state(), "free");
    assert_eq!(lost(&mut bench, &a), Lost::Fenced);

    // It may have been fenced before it was skipped.
    let (mut bench, a) = fencing();
    bench.done(skip());
    assert_eq!(bench.state(), "free");
    assert_eq!(lost(&mut bench, &a), Lost::Fenced);
}

#[test]
fn a_lock_delay_goes_on_beside_a_fence() {
    let mut bench = Bench::ruled(5_000, Some(before_grant(&["power"])));
    bench.done(acquire("a"));
    let b = bench.ask(acquire("b").waiting_until(until(600)));
    bench.run(TTL_MS + 2_000);
    bench.confirm_all();
    assert_eq!(bench.state(), "cooling");
    bench.run(2_999);
    assert!(b.waits());
    bench.run(1);
    b.grant();

    bench.run(TTL_MS + 6_000);
    assert_eq!(bench.state(), "fencing");
    bench.confirm_all();
    assert_eq!(bench.state(), "free", "it was over before the fence was");
}

#[test]
fn who_reclaims_during_a_fence_is_served_when_the_lock_delay_begins_to_count_alone() {
    let mut bench = Bench::ruled(5_000, Some(before_grant(&["power"])));
    bench.done(acquire("a"));
    bench.run(TTL_MS);
    let b = bench.ask(acquire("b").waiting_until(until(600)));
    let a = bench.ask(acquire("a").reclaiming().waiting_until(until(600)));
    bench.confirm_all();
    a.grant();
    assert!(b.waits());
}

#[test]
fn a_report_of_a_fence_that_is_not_there_is_ignored() {
    let (mut bench, a) = held(before_grant(&["power"]));
    let token = a.grant().view.token;
    let report = |plugin: &str| FenceReport {
        plugin: plugin.into(),
        token,
        outcome: FenceResult::Confirmed,
    };
    bench.input(Input::Fenced(report("power")));
    assert!(bench.flight.is_none());
    bench.run(TTL_MS);
    bench.input(Input::Fenced(report("other")));
    assert!(bench.flight.is_none());
    assert_eq!(bench.running(), [("power", token.0)]);
}
