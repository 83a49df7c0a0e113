//! Writes that were refused, and writes of unknown outcome.

use tenure::lease::{Alarm, Answer, Input, Moment, Settled, StoreError};

use crate::core::harness::*;

fn until(seconds: u64) -> Moment {
    START + ms(seconds * 1000)
}

#[test]
fn a_refused_write_is_answered_and_changes_nothing() {
    let (mut bench, a) = held_by("a");
    let released = bench.ask(release(a.proof()));
    bench.refuse();
    assert!(matches!(released.answer(), Answer::Store(StoreError::Full(_))));
    assert_eq!(bench.owner().as_deref(), Some("a"));
    let again = bench.done(release(a.proof()));
    assert!(matches!(again.answer(), Answer::Released(true)));
}

#[test]
fn an_expiry_that_the_store_refuses_is_tried_again_and_people_are_told() {
    let (mut bench, _) = held_by("a");
    bench.pass(TTL_MS);
    bench.wake();
    bench.refuse();
    assert_eq!(bench.alarms, [Alarm::WriteNotAccepted(full())]);
    assert!(bench.lease.next_wake() > bench.now, "in a moment, not in a hot loop");
    bench.run(1_000);
    assert_eq!(bench.events(), ["granted", "expired"]);
}

#[test]
fn a_waiter_whose_grant_was_refused_keeps_its_place() {
    let (mut bench, a) = held_by("a");
    let b = bench.ask(acquire("b").waiting_until(until(60)));
    let c = bench.ask(acquire("c").waiting_until(until(60)));
    bench.ask(release(a.proof()));
    bench.refuse();
    assert!(b.waits());
    bench.run(TTL_MS);
    assert_eq!(b.grant().view.owner.unwrap().as_str(), "b");
    assert!(c.waits());
}

#[test]
fn a_lost_reply_is_settled_by_the_writes_own_nonce() {
    let mut bench = Bench::new();
    let a = bench.ask(acquire("a").id(1, 1));
    bench.lose_reply(true);
    assert!(matches!(a.answer(), Answer::Store(_)), "it hears at once that the outcome is unknown");
    assert_eq!(bench.reads.len(), 1);
    bench.read_back();
    assert!(bench.flight.is_none());
    let again = bench.ask(acquire("a").id(1, 1));
    assert_eq!(again.token(), bench.cell.history[0].token.0);
    assert_eq!(bench.events(), ["granted"]);
}

#[test]
fn a_lost_write_is_settled_by_sending_it_again() {
    let mut bench = Bench::new();
    bench.ask(acquire("a").id(1, 1));
    bench.lose_reply(false);
    bench.read_back();
    assert_eq!(bench.flight.as_ref().unwrap().expected.0, 0);
    bench.commit();
    bench.ask(acquire("a").id(1, 1)).grant();
    assert_eq!(bench.events(), ["granted"]);
}

#[test]
fn a_write_that_lands_late_and_its_repetition_are_one_write() {
    let mut bench = Bench::new();
    bench.ask(acquire("a").id(1, 1));
    bench.lose_reply(false);
    bench.read_back();
    bench.stray_lands();
    bench.commit();
    bench.ask(acquire("a").id(1, 1)).grant();
    assert_eq!(bench.events(), ["granted"]);
}

#[test]
fn a_grant_lost_twice_over_is_still_there_for_its_request_id() {
    let mut bench = Bench::new();
    bench.ask(acquire("a").id(1, 1));
    bench.lose_reply(false);
    bench.read_back();
    bench.lose_reply(true);
    bench.read_back();
    bench.run(1_000);
    bench.ask(acquire("a").id(1, 1)).grant();
    assert_eq!(bench.events(), ["granted"]);
}

#[test]
fn a_grant_that_nobody_can_ask_for_again_is_taken_back() {
    let mut bench = Bench::new();
    bench.ask(acquire("a"));
    bench.lose_reply(true);
    bench.read_back();
    bench.settle();
    assert_eq!(bench.events(), ["granted", "released"]);
    assert!(bench.lease.is_idle());
}

#[test]
fn a_grant_that_the_store_does_not_let_be_taken_back_is_given_back_by_the_shell() {
    let mut bench = Bench::new();
    bench.ask(acquire("a"));
    bench.lose_reply(true);
    bench.read_back();
    bench.refuse();
    assert_eq!(bench.owner().as_deref(), Some("a"));
    let [lease_id] = bench.given_back[..] else { panic!("the shell asks for its release") };
    // Also of the actor's successor.
    bench.rebuild();
    bench.done(release(lease_id));
    assert_eq!(bench.state(), "free");
}

#[test]
fn a_grant_of_an_actor_that_died_is_given_back_if_its_caller_has_left_since() {
    for marked in [false, true] {
        let mut bench = Bench::new();
        let ask = if marked { acquire("a").id(7, 0) } else { acquire("a") };
        let caller = bench.ask(ask);
        bench.lose_reply(true);
        bench.rebuild();
        // The shell repeats the call for a caller that has left meanwhile.
        caller.leaves();
        bench.ask_as(&caller);
        bench.run(1_000);
        assert_eq!(bench.given_back.len(), usize::from(!marked), "a marked call may come again");
    }
}

#[test]
fn a_parked_repeat_gets_the_grant_whose_reply_was_lost() {
    let (mut bench, a) = held_by("a");
    let ask = acquire("b").id(1, 1).waiting_until(until(60));
    let first = bench.ask(ask.clone());
    let again = bench.ask(ask);
    bench.ask(release(a.proof()));
    bench.lose_reply(true);
    assert!(matches!(first.answer(), Answer::Store(_)));
    bench.read_back();
    assert_eq!(again.token(), bench.cell.history[2].token.0);
}

#[test]
fn nobody_is_promised_an_end_that_is_in_doubt() {
    let (mut bench, a) = held_by("a");
    bench.pass(TTL_MS);
    bench.wake();
    bench.lose_reply(false);
    let beat = bench.ask(heartbeat(a.proof()));
    assert!(matches!(beat.answer(), Answer::Store(_)));
    let b = bench.ask(acquire("b").waiting_until(until(60)));
    assert!(matches!(b.answer(), Answer::Store(_)));
}

#[test]
fn a_write_in_doubt_that_is_refused_the_second_time_may_still_have_been_written() {
    let (mut bench, a) = held_by("a");
    let b = bench.ask(acquire("b").waiting_until(until(60)));
    bench.pass(TTL_MS);
    bench.wake();
    bench.lose_reply(false);
    bench.read_back();
    bench.refuse();
    let beat = bench.ask(heartbeat(a.proof()));
    assert!(matches!(beat.answer(), Answer::Store(_)), "the first copy may land yet");
    bench.stray_lands();
    bench.run(1_000);
    assert!(matches!(b.answer(), Answer::Store(_)));
    assert_eq!(bench.events()[..2], ["granted", "expired"]);
}

#[test]
fn two_reads_of_one_doubt_send_one_write() {
    let mut bench = Bench::new();
    bench.ask(acquire("a").id(1, 1));
    bench.lose_reply(false);
    bench.pass(1_000);
    bench.wake();
    assert_eq!(bench.reads.len(), 2, "the first read seems lost");
    bench.read_back();
    assert!(bench.flight.is_some());
    bench.read_back();
    bench.commit();
    assert_eq!(bench.events(), ["granted"]);
}

#[test]
fn the_store_is_read_until_it_answers() {
    let mut bench = Bench::new();
    bench.ask(acquire("a").id(1, 1));
    bench.lose_reply(true);
    for _ in 0..3 {
        bench.read_fails();
        assert!(bench.lease.next_wake() > bench.now);
        bench.pass(1_000);
        bench.wake();
    }
    bench.read_back();
    bench.ask(acquire("a").id(1, 1)).grant();
}

#[test]
fn a_settled_report_that_nobody_waits_for_is_ignored() {
    let (mut bench, _) = held_by("a");
    bench.input(Input::Settled(Settled::Refused(full())));
    assert_eq!(bench.owner().as_deref(), Some("a"));
    assert_eq!(bench.lease.next_wake(), START + ms(TTL_MS));
}

/// Past the time for which a caller waits for a write.
const LONG_MS: u64 = 10_000;

#[test]
fn callers_do_not_wait_for_a_late_write_which_stays_the_one_in_flight() {
    let mut bench = Bench::new();
    let a = bench.ask(acquire("a").id(1, 1));
    let behind = bench.ask(acquire("b"));
    bench.pass(LONG_MS - 1);
    bench.wake();
    assert!(a.waits() && behind.waits());
    bench.pass(1);
    bench.wake();
    assert!(matches!(a.answer(), Answer::Store(StoreError::Unavailable(_))), "it is in doubt");
    assert!(matches!(behind.answer(), Answer::Store(StoreError::Unavailable(_))));
    let next = bench.ask(acquire("c").waiting_until(bench.now + ms(60_000)));
    assert!(
        matches!(next.answer(), Answer::Store(StoreError::Unavailable(_))),
        "it has no queue to wait in"
    );
    assert_eq!(bench.reads.len(), 0, "its outcome is awaited, and nothing else is sent");
    bench.commit();
    let again = bench.ask(acquire("a").id(1, 1));
    assert_eq!(again.token(), bench.cell.history[0].token.0);
    assert_eq!(bench.events(), ["granted"]);
}

#[test]
fn a_late_grant_that_nobody_can_ask_for_again_is_taken_back() {
    let mut bench = Bench::new();
    bench.ask(acquire("a"));
    bench.pass(LONG_MS);
    bench.wake();
    bench.commit();
    bench.settle();
    assert_eq!(bench.events(), ["granted", "released"]);
    assert!(bench.lease.is_idle());
}

#[test]
fn a_late_write_that_is_refused_after_all_may_have_landed() {
    let (mut bench, a) = held_by("a");
    let released = bench.ask(release(a.proof()));
    bench.pass(LONG_MS);
    bench.wake();
    assert!(matches!(released.answer(), Answer::Store(_)));
    bench.refuse();
    bench.run(1_000);
    assert_eq!(bench.events(), ["granted", "released"]);
}

#[test]
fn who_waits_in_the_queue_or_behind_a_doubt_is_answered_in_time() {
    let (mut bench, a) = held_by("a");
    let granted = bench.ask(acquire("b").waiting_until(bench.now + ms(60_000)));
    let queued = bench.ask(acquire("d").waiting_until(bench.now + ms(2_000)));
    bench.ask(release(a.proof()));
    let behind = bench.ask(acquire("c"));
    bench.pass(2_000);
    bench.wake();
    assert!(!queued.waits() && granted.waits());
    bench.lose_reply(false);
    assert!(!granted.waits(), "its grant is in doubt");
    for _ in 0..50 {
        while !bench.reads.is_empty() {
            bench.read_fails();
        }
        bench.pass(250);
        bench.wake();
    }
    assert!(!behind.waits(), "the store has been away for long");
}
