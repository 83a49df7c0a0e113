//! One rule at a time.

use tenure::worker::guard::{
    Alarm, Effect, GuardState, Input, Report, Rest, Script, ScriptOutcome, Settings,
};

use super::bench::{Bench, ms, settings};

const CHECK_STANDBY: Script = Script::Healthcheck { active: false };
const CHECK_ACTIVE: Script = Script::Healthcheck { active: true };

fn acquires(effect: Effect) -> bool {
    effect == Effect::Acquire
}

#[test]
fn the_first_thing_is_a_deactivation_and_nothing_comes_before_it_is_done() {
    let mut bench = Bench::new(settings());
    bench.is(GuardState::Deactivating);
    assert!(bench.started(Script::Deactivate));
    bench.pass(ms(900));
    bench.end(Script::Deactivate, ScriptOutcome::Failed);
    assert_eq!(bench.alarms(), [Alarm::NotDeactivated { tries: 1, left: None }]);
    bench.log.clear();
    bench.pass(ms(400));
    bench.is(GuardState::Deactivating);
    assert!(bench.started(Script::Deactivate), "it is repeated");
    assert!(!bench.ordered(acquires) && !bench.started(CHECK_STANDBY));
    bench.end(Script::Deactivate, ScriptOutcome::Ok);
    bench.is(GuardState::Standby);
    assert!(bench.started(CHECK_STANDBY));
    assert!(!bench.ordered(acquires), "nothing is known of its health");
}

#[test]
fn a_healthy_standby_campaigns_and_an_unhealthy_one_withdraws() {
    let mut bench = Bench::standby();
    assert!(bench.ordered(acquires));
    bench.log.clear();
    bench.check(ScriptOutcome::Failed);
    assert!(bench.ordered(|effect| effect == Effect::Withdraw));
    bench.tell(Input::NotGranted);
    bench.log.clear();
    bench.check(ScriptOutcome::TimedOut);
    assert!(!bench.ordered(acquires), "a check that hangs is a failure");
    bench.check(ScriptOutcome::Ok);
    assert!(bench.ordered(acquires));
}

#[test]
fn checks_begin_a_round_apart_and_a_slow_one_is_followed_at_once() {
    let mut bench = Bench::standby_with(Settings { check_timeout: ms(2500), ..settings() });
    bench.log.clear();
    bench.pass(ms(999));
    assert!(!bench.started(CHECK_STANDBY));
    bench.pass(ms(1));
    assert!(bench.started(CHECK_STANDBY));
    bench.log.clear();
    bench.pass(ms(2000));
    assert!(!bench.started(CHECK_STANDBY), "one at a time");
    bench.check(ScriptOutcome::Ok);
    assert!(bench.started(CHECK_STANDBY));
}

#[test]
fn a_lease_that_comes_after_the_withdrawal_is_given_back() {
    let mut bench = Bench::standby();
    bench.check(ScriptOutcome::Failed);
    bench.log.clear();
    bench.grant(3000);
    bench.is(GuardState::Standby);
    assert_eq!(bench.orders(), [Effect::Release]);
}

#[test]
fn a_campaign_that_failed_is_repeated_after_a_round() {
    let mut bench = Bench::standby();
    bench.tell(Input::NotGranted);
    bench.log.clear();
    bench.pass(ms(950));
    assert!(!bench.ordered(acquires));
    bench.pass(ms(50));
    assert!(bench.ordered(acquires));
}

#[test]
fn so_many_healthy_rounds_under_the_lease_come_before_the_activation() {
    let mut bench = Bench::standby();
    bench.pass(ms(1000));
    let old = bench.runs()[0];
    assert_eq!(old.1, CHECK_STANDBY);
    bench.grant(3000);
    bench.is(GuardState::Confirming(0));
    bench.tell(Input::Ended(old.0, ScriptOutcome::Ok));
    bench.is(GuardState::Confirming(0));
    let first = bench.now;
    bench.check(ScriptOutcome::Ok);
    assert_eq!(bench.now, first, "the first round begins with the lease");
    bench.is(GuardState::Confirming(1));
    bench.pass(ms(1000));
    assert!(!bench.started(Script::Activate));
    bench.check(ScriptOutcome::Ok);
    bench.is(GuardState::Activating);
    assert_eq!(bench.now, first + ms(1000), "the second a round later");
}

#[test]
fn a_failed_confirmation_gives_the_lease_back_at_once() {
    let mut bench = Bench::standby();
    bench.grant(3000);
    bench.check(ScriptOutcome::Ok);
    bench.log.clear();
    bench.check(ScriptOutcome::Failed);
    bench.is(GuardState::Standby);
    assert!(bench.ordered(|effect| effect == Effect::Release));
    assert!(!bench.started(Script::Deactivate), "it was never active");
}

#[test]
fn without_confirmations_the_activation_follows_the_lease() {
    let mut bench = Bench::standby_with(Settings { confirmations: 0, ..settings() });
    bench.grant(3000);
    bench.is(GuardState::Activating);
}

#[test]
fn the_will_is_ordered_before_the_activation_and_follows_every_heartbeat() {
    let mut bench = Bench::standby();
    bench.grant(3000);
    let granted = bench.now + ms(3000);
    bench.check(ScriptOutcome::Ok);
    bench.log.clear();
    bench.check(ScriptOutcome::Ok);
    let orders = bench.orders();
    let will = orders.iter().position(|&effect| effect == Effect::ArmWill { deadline: granted });
    let run = orders
        .iter()
        .position(|effect| matches!(effect, Effect::Run { script: Script::Activate, .. }));
    assert!(will.unwrap() < run.unwrap(), "{orders:?}");
    bench.renew(3000);
    assert_eq!(bench.orders(), [Effect::ArmWill { deadline: bench.now + ms(3000) }]);
    bench.renew(1000);
    assert_eq!(bench.orders(), [], "a guarantee never shrinks");
}

#[test]
fn the_fence_comes_first_and_must_succeed() {
    let fenced = Settings { fence: true, ..settings() };
    let mut bench = Bench::standby_with(fenced.clone());
    bench.grant(3000);
    bench.check(ScriptOutcome::Ok);
    bench.check(ScriptOutcome::Ok);
    bench.is(GuardState::Fencing);
    assert!(!bench.started(Script::Activate));
    bench.end(Script::Fence, ScriptOutcome::Ok);
    bench.is(GuardState::Activating);

    let mut bench = Bench::standby_with(fenced);
    bench.grant(3000);
    bench.check(ScriptOutcome::Ok);
    bench.check(ScriptOutcome::Ok);
    bench.log.clear();
    bench.end(Script::Fence, ScriptOutcome::Failed);
    bench.is(GuardState::Standby);
    assert!(bench.ordered(|effect| effect == Effect::Release));
    assert!(!bench.started(Script::Activate) && !bench.started(Script::Deactivate));
    bench.tell(Input::Released);
    bench.log.clear();
    bench.check(ScriptOutcome::Ok);
    bench.pass(ms(2900));
    assert!(!bench.ordered(acquires), "it rests");
}

#[test]
fn a_fence_that_takes_longer_than_the_lease_is_killed() {
    let mut bench = Bench::standby_with(Settings { fence: true, ..settings() });
    bench.grant(3000);
    bench.check(ScriptOutcome::Ok);
    bench.check(ScriptOutcome::Ok);
    bench.log.clear();
    bench.pass(ms(2000));
    bench.is(GuardState::Standby);
    assert!(bench.ordered(|effect| matches!(effect, Effect::Kill(_))));
}

#[test]
fn no_activation_begins_without_room_for_a_deactivation() {
    let mut bench = Bench::standby();
    bench.grant(2100);
    bench.check(ScriptOutcome::Ok);
    bench.check(ScriptOutcome::Ok);
    // 1.1 s are left, 1.3 s are needed.
    bench.is(GuardState::Confirming(2));
    bench.renew(3000);
    bench.is(GuardState::Activating);
}

#[test]
fn an_activation_that_is_not_renewed_ends_a_time_out_and_a_margin_before_the_deadline() {
    let mut bench = Bench::active();
    bench.renew(3000);
    bench.check(ScriptOutcome::Ok);
    let end = bench.now + ms(2000);
    bench.log.clear();
    let leave = end - settings().reserve();
    bench.pass(leave.since(bench.now) - ms(1));
    bench.is(GuardState::Active);
    bench.pass(ms(1));
    bench.is(GuardState::Deactivating);
    assert!(bench.started(Script::Deactivate));
    assert!(bench.ordered(|effect| effect == Effect::Report(Report::Leaving(Rest::Unrenewed))));
    assert!(!bench.ordered(|effect| effect == Effect::Release), "not yet");
    // It takes as long as it may, and is over with the margin to spare.
    bench.pass(ms(990));
    bench.end(Script::Deactivate, ScriptOutcome::Ok);
    assert!(bench.now < end && bench.alarms().is_empty());
    bench.is(GuardState::Standby);
    assert!(bench.ordered(|effect| effect == Effect::DisarmWill));
    assert!(bench.ordered(|effect| effect == Effect::Release));
}

#[test]
fn an_activation_that_is_not_renewed_is_killed_in_time() {
    let mut bench = Bench::standby();
    bench.grant(3000);
    bench.check(ScriptOutcome::Ok);
    bench.check(ScriptOutcome::Ok);
    bench.is(GuardState::Activating);
    let (run, _) = bench.runs()[0];
    bench.log.clear();
    bench.pass(ms(700));
    bench.is(GuardState::Deactivating);
    let orders = bench.orders();
    assert_eq!(orders[0], Effect::Kill(run));
    assert!(matches!(orders[1], Effect::Run { script: Script::Deactivate, .. }));
    bench.tell(Input::Ended(run, ScriptOutcome::Ok));
    bench.is(GuardState::Deactivating);
}

#[test]
fn a_lost_lease_is_left_at_once() {
    let mut bench = Bench::active();
    bench.log.clear();
    bench.tell(Input::Lost);
    bench.is(GuardState::Deactivating);
    bench.end(Script::Deactivate, ScriptOutcome::Ok);
    bench.is(GuardState::Standby);
    assert!(!bench.ordered(|effect| effect == Effect::Release), "there is nothing to give back");
    bench.check(ScriptOutcome::Ok);
    assert!(bench.ordered(acquires), "a loss is no fault of the service");
}

#[test]
fn so_many_failed_checks_in_a_row_end_the_activation() {
    let mut bench = Bench::active();
    for outcome in [
        ScriptOutcome::Failed,
        ScriptOutcome::TimedOut,
        ScriptOutcome::Ok,
        ScriptOutcome::Failed,
        ScriptOutcome::Failed,
    ] {
        bench.renew(3000);
        bench.check(outcome);
        bench.is(GuardState::Active);
    }
    bench.renew(3000);
    bench.log.clear();
    bench.check(ScriptOutcome::Failed);
    bench.is(GuardState::Deactivating);
    assert!(!bench.ordered(|effect| effect == Effect::Release));
    bench.end(Script::Deactivate, ScriptOutcome::Ok);
    assert!(bench.ordered(|effect| effect == Effect::Release));
    bench.tell(Input::Released);
    bench.check(ScriptOutcome::Ok);
    assert!(!bench.ordered(acquires), "others have their turn");
    for _ in 0..4 {
        bench.check(ScriptOutcome::Ok);
    }
    assert!(bench.ordered(acquires));
}

#[test]
fn an_activation_that_failed_is_undone_and_the_rests_grow() {
    let mut bench = Bench::standby();
    for (nth, outcome) in [ScriptOutcome::Failed, ScriptOutcome::TimedOut, ScriptOutcome::Failed]
        .into_iter()
        .enumerate()
    {
        bench.grant(3000);
        bench.check(ScriptOutcome::Ok);
        bench.check(ScriptOutcome::Ok);
        bench.end(Script::Activate, outcome);
        bench.is(GuardState::Deactivating);
        bench.log.clear();
        bench.end(Script::Deactivate, ScriptOutcome::Ok);
        let pause = ms(3000) * (1 << nth);
        let why = Rest::ActivateFailed(outcome);
        assert!(bench.ordered(|e| e == Effect::Report(Report::Resting { why, pause })));
        bench.tell(Input::Released);
        let rested = bench.now + pause;
        while !bench.asking {
            bench.check(ScriptOutcome::Ok);
            bench.pass(ms(50));
        }
        assert!(bench.now >= rested);
    }
}

#[test]
fn a_deactivation_that_fails_raises_an_alarm_and_the_lease_runs_out() {
    let mut bench = Bench::active();
    let end = bench.now + ms(3000);
    for _ in 0..3 {
        bench.check(ScriptOutcome::Failed);
        bench.renew(3000);
    }
    bench.is(GuardState::Deactivating);
    bench.log.clear();
    bench.end(Script::Deactivate, ScriptOutcome::Failed);
    assert!(matches!(bench.alarms()[..], [Alarm::NotDeactivated { tries: 1, left: Some(_) }]));
    assert!(bench.ordered(|effect| effect == Effect::Abandon));
    bench.log.clear();
    bench.pass(ms(10_000));
    bench.is(GuardState::Deactivating);
    assert!(bench.now > end);
    assert!(bench.started(Script::Deactivate), "it is tried again and again");
    assert!(bench.alarms().contains(&Alarm::Overrun));
    assert!(
        !bench.ordered(|e| matches!(e, Effect::Release | Effect::DisarmWill | Effect::Acquire))
    );
    bench.pass(ms(400));
    bench.end(Script::Deactivate, ScriptOutcome::Ok);
    bench.is(GuardState::Standby);
}

#[test]
fn a_deactivation_whose_end_is_not_reported_raises_an_alarm_before_the_deadline() {
    let mut bench = Bench::active();
    bench.tell(Input::Lost);
    bench.log.clear();
    // The bench ends runs that take too long; the guard must not depend on it.
    let end = bench.now + ms(3000);
    while bench.now < end - ms(300) {
        let wake = bench.guard.wake_at().expect("there is something to be watched");
        bench.now = bench.now.max(wake.min(end));
        bench.tell(Input::Tick);
        if !bench.alarms().is_empty() {
            break;
        }
    }
    assert!(bench.now < end);
    assert_eq!(bench.alarms(), [Alarm::NotDeactivated { tries: 0, left: Some(ms(300)) }]);
}

#[test]
fn a_pause_beyond_the_deadline_never_leads_to_an_activation() {
    let mut bench = Bench::active();
    bench.pause(ms(60_000));
    assert_eq!(bench.guard.state(), GuardState::Deactivating);
    // An activation that ended while the process stood still.
    let mut bench = Bench::standby();
    bench.grant(3000);
    bench.check(ScriptOutcome::Ok);
    bench.check(ScriptOutcome::Ok);
    let (run, _) = bench.runs()[0];
    bench.now = bench.now + ms(60_000);
    bench.judge.paused = true;
    bench.tell(Input::Ended(run, ScriptOutcome::Ok));
    bench.is(GuardState::Deactivating);
}

#[test]
fn sigterm_deactivates_gives_back_and_ends() {
    let mut bench = Bench::active();
    bench.log.clear();
    bench.tell(Input::Terminate);
    bench.is(GuardState::Deactivating);
    bench.end(Script::Deactivate, ScriptOutcome::Ok);
    bench.is(GuardState::Leaving);
    assert!(bench.ordered(|effect| effect == Effect::Release));
    assert!(!bench.ordered(|effect| matches!(effect, Effect::Exit { .. })));
    bench.tell(Input::Released);
    assert!(bench.ordered(|effect| effect == Effect::Exit { inactive: true }));
    bench.is(GuardState::Gone);
    assert_eq!(bench.guard.wake_at(), None);
}

#[test]
fn sigterm_of_a_standby_ends_its_campaign_first() {
    let mut bench = Bench::standby();
    bench.log.clear();
    bench.tell(Input::Terminate);
    assert!(bench.ordered(|effect| effect == Effect::Withdraw));
    bench.is(GuardState::Leaving);
    bench.grant(3000);
    assert!(bench.ordered(|effect| effect == Effect::Release), "it came all the same");
    bench.tell(Input::Released);
    assert!(bench.ordered(|effect| effect == Effect::Exit { inactive: true }));
}

#[test]
fn sigterm_with_a_deactivation_that_fails_ends_at_the_deadline_and_says_so() {
    let mut bench = Bench::active();
    let end = bench.now + ms(3000);
    bench.tell(Input::Terminate);
    bench.end(Script::Deactivate, ScriptOutcome::Failed);
    bench.is(GuardState::Deactivating);
    bench.pass(ms(3100));
    assert!(bench.now > end);
    assert!(bench.ordered(|effect| effect == Effect::Exit { inactive: false }));
    assert!(!bench.ordered(|effect| matches!(effect, Effect::Release | Effect::DisarmWill)));
}

#[test]
fn scripts_run_on_change_only_unless_every_round_is_asked_for() {
    for every_round in [false, true] {
        let mut bench = Bench::standby_with(Settings { every_round, ..settings() });
        bench.log.clear();
        if every_round {
            bench.end(Script::Deactivate, ScriptOutcome::Ok);
        }
        bench.check(ScriptOutcome::Ok);
        assert_eq!(bench.started(Script::Deactivate), every_round);
        if every_round {
            bench.end(Script::Deactivate, ScriptOutcome::Ok);
        }
        bench.grant(3000);
        bench.check(ScriptOutcome::Ok);
        bench.check(ScriptOutcome::Ok);
        bench.renew(3000);
        bench.end(Script::Activate, ScriptOutcome::Ok);
        bench.log.clear();
        bench.check(ScriptOutcome::Ok);
        bench.renew(3000);
        assert!(bench.started(CHECK_ACTIVE) || every_round);
        assert_eq!(bench.started(Script::Activate), every_round);
        if every_round {
            bench.end(Script::Activate, ScriptOutcome::Failed);
            bench.is(GuardState::Deactivating);
        }
    }
}

#[test]
fn a_deactivation_in_every_round_that_fails_ends_the_standby() {
    let mut bench = Bench::standby_with(Settings { every_round: true, ..settings() });
    bench.log.clear();
    bench.end(Script::Deactivate, ScriptOutcome::Failed);
    bench.is(GuardState::Deactivating);
    assert!(bench.ordered(|effect| effect == Effect::Withdraw));
    assert_eq!(bench.alarms().len(), 1);
}

#[test]
fn the_first_round_is_reported_once() {
    let mut bench = Bench::standby();
    let ready = |effect| effect == Effect::Report(Report::Ready);
    assert!(bench.ordered(ready));
    bench.log.clear();
    bench.check(ScriptOutcome::Ok);
    bench.check(ScriptOutcome::Failed);
    assert!(!bench.ordered(ready));
}

#[test]
fn an_activation_whose_will_was_executed_ends() {
    let mut bench = Bench::active();
    bench.tell(Input::WillRan);
    bench.is(GuardState::Deactivating);
    bench.end(Script::Deactivate, ScriptOutcome::Ok);
    bench.tell(Input::WillRan);
    bench.is(GuardState::Standby);
}
