//! Asking again under the same request id.

use tenure::lease::{Answer, ChangeKind, Nonce, Refusal, Request, valid_for};

use crate::core::harness::*;

fn spent(who: &Who) -> Option<ChangeKind> {
    match who.answer() {
        Answer::Refused(Refusal::RequestSpent(how), _) => how,
        other => panic!("not spent: {other:?}"),
    }
}

#[test]
fn a_repeated_call_gets_the_same_grant_and_what_is_left_of_it() {
    let mut bench = Bench::new();
    let first = bench.done(acquire("a").id(1, 1));
    bench.pass(4_000);
    let again = bench.ask(acquire("a").id(1, 1));
    assert!(bench.flight.is_none());
    assert_eq!(again.token(), first.token());
    assert_eq!(again.proof(), first.proof());
    assert_eq!(again.grant().valid_for_ms, valid_for(START, START, ms(TTL_MS - 4_000)));
}

#[test]
fn the_same_id_with_another_body_is_an_error() {
    let mut bench = Bench::new();
    bench.done(acquire("a").id(1, 1));
    let other = bench.ask(acquire("a").id(1, 2));
    assert!(matches!(other.answer(), Answer::Refused(Refusal::RequestReused, _)));
}

#[test]
fn a_spent_id_says_how_its_tenure_ended_and_grants_nothing() {
    let mut bench = Bench::new();
    let a = bench.done(acquire("a").id(1, 1));
    bench.done(release(a.proof()));
    let again = bench.ask(acquire("a").id(1, 1));
    assert_eq!(spent(&again), Some(ChangeKind::Released));
    bench.done(acquire("b").id(2, 1));
    bench.run(TTL_MS);
    let again = bench.done(acquire("a").id(1, 1));
    assert_eq!(spent(&again), None, "long ago");
    assert_eq!(bench.events(), ["granted", "released", "granted", "expired"]);
}

#[test]
fn a_spent_id_stays_spent_when_its_nonce_comes_again_too() {
    let mut bench = Bench::new();
    let named = |id: u128| {
        let Ask(mut acquire) = acquire("a").id(id, 1);
        acquire.grant_nonce = Nonce(id);
        Request::Acquire(Box::new(acquire))
    };
    for id in [1, 2, 3] {
        let a = bench.done(named(id));
        bench.done(release(a.proof()));
    }
    assert_eq!(spent(&bench.done(named(1))), None);
}

#[test]
fn a_record_remembers_the_last_four_ids() {
    let mut bench = Bench::new();
    for id in 1..=5 {
        let a = bench.done(acquire("a").id(id, 1));
        bench.done(release(a.proof()));
    }
    assert_eq!(bench.record().request_marks.len(), 4);
    assert_eq!(spent(&bench.done(acquire("a").id(2, 1))), None);
    bench.done(acquire("a").id(1, 1)).grant();
}

#[test]
fn a_repeat_while_the_first_is_in_flight_waits_for_it_and_gets_the_same() {
    let mut bench = Bench::new();
    let first = bench.ask(acquire("a").id(1, 1));
    let again = bench.ask(acquire("a").id(1, 1));
    bench.commit();
    assert_eq!(first.token(), again.token());
    assert_eq!(bench.events(), ["granted"]);
}

#[test]
fn a_repeat_while_the_first_is_parked_gets_the_same_grant() {
    let (mut bench, a) = held_by("a");
    let ask = acquire("b").id(1, 1).waiting_until(START + ms(60_000));
    let first = bench.ask(ask.clone());
    let again = bench.ask(ask);
    bench.done(release(a.proof()));
    assert_eq!(first.token(), again.token());
    assert_eq!(bench.events(), ["granted", "released", "granted"]);
}

#[test]
fn a_parked_call_with_the_id_and_another_body_is_not_granted_later() {
    let (mut bench, a) = held_by("a");
    let b = bench.ask(acquire("b").id(1, 1).waiting_until(START + ms(60_000)));
    let other = bench.ask(acquire("b").id(1, 2).waiting_until(START + ms(60_000)));
    bench.done(release(a.proof()));
    bench.done(release(b.proof()));
    assert!(matches!(other.answer(), Answer::Refused(Refusal::RequestReused, _)));
    assert_eq!(bench.events(), ["granted", "released", "granted", "released"]);
}

#[test]
fn a_repeat_goes_on_where_the_caller_left() {
    let mut bench = Bench::new();
    let first = bench.ask(acquire("a").id(1, 1));
    first.leaves();
    bench.commit();
    let again = bench.done(acquire("a").id(1, 1));
    assert_eq!(again.token(), bench.cell.history[0].token.0);
}

#[test]
fn a_repeat_after_a_restart_is_a_heartbeat_too() {
    let mut bench = Bench::new();
    let first = bench.done(acquire("a").id(1, 1));
    bench.restart(true, 2_000);
    let again = bench.ask(acquire("a").id(1, 1));
    assert_eq!((again.token(), again.proof()), (first.token(), first.proof()));
    assert_eq!(again.grant().valid_for_ms, valid_for(START, START, ms(TTL_MS)));
}

#[test]
fn a_repeat_is_promised_nothing_more_once_an_administrator_ordered_the_end() {
    let mut bench = Bench::new();
    bench.done(acquire("a").id(1, 1));
    bench.done(revoke());
    bench.pass(4_000);
    let again = bench.ask(acquire("a").id(1, 1));
    assert_eq!(again.grant().valid_for_ms, valid_for(START, START, ms(6_000)));
    bench.restart(true, 0);
    let again = bench.ask(acquire("a").id(1, 1));
    assert_eq!(spent(&again), Some(ChangeKind::Revoked));
}

#[test]
fn a_revived_tenure_is_still_the_grant_of_its_id() {
    let mut bench = Bench::new();
    let a = bench.done(acquire("a").id(1, 1));
    bench.run(TTL_MS);
    bench.done(heartbeat(a.proof()));
    assert_eq!(bench.done(acquire("a").id(1, 1)).token(), a.token());
}

/// A caller that takes any of several keys and repeats itself looks for its grant with a view: while
/// the first grant is on its way the view has it, so that the repeat does not take another key.
#[test]
fn a_grant_on_its_way_is_seen_by_a_repeated_call() {
    let mut bench = Bench::new();
    bench.ask(acquire("a").id(7, 1));
    assert!(bench.flight.is_some(), "not settled yet");
    let looker = bench.ask(Request::View);
    let Answer::Viewed(view) = looker.answer() else { panic!("a view") };
    assert!(view.owner.is_none(), "it is nobody's until it is durable");
    assert_eq!(*view.marks, [(7, true)]);
}
