//! Giving back, handing over, being told to go.

use tenure::lease::{Answer, ChangeKind, Lost, Mutant, Release, Request, Token, Transfer};

use crate::core::harness::*;

fn until(seconds: u64) -> tenure::lease::Moment {
    START + ms(seconds * 1000)
}

#[test]
fn release_and_the_next_grant_are_one_write() {
    let (mut bench, a) = held_by("a");
    let b = bench.ask(acquire("b").waiting_until(until(60)));
    let released = bench.ask(release(a.proof()));
    bench.commit();
    assert!(bench.flight.is_none());
    assert!(matches!(released.answer(), Answer::Released(true)));
    assert_eq!(b.grant().view.owner.unwrap().as_str(), "b");
    assert_eq!(bench.events(), ["granted", "released", "granted"]);
}

#[test]
fn what_the_holder_says_of_the_end_is_its_reason() {
    let reason = |bench: &Bench| bench.cell.history.last().and_then(|it| it.reason.clone());
    let why = || Some("exit code 9".into());
    let (mut bench, a) = held_by("a");
    bench.done(Request::Release(Release { reason: why(), ..Release::new(a.proof()) }));
    assert_eq!(reason(&bench).as_deref(), Some("exit code 9"));
    for (to, wanted) in [(None, "to any successor: exit code 9"), (Some("b"), "to b: exit code 9")]
    {
        let (mut bench, a) = held_by("a");
        let (lease_id, to) = (a.proof(), to.map(owner));
        let transfer = Transfer { lease_id, to, offer_ms: None, value: None, reason: why() };
        bench.done(Request::Transfer(Box::new(transfer)));
        assert_eq!(reason(&bench).as_deref(), Some(wanted));
    }
    // The reason of an order is not lost.
    let (mut bench, a) = held_by("a");
    bench.done(revoke());
    bench.done(Request::Release(Release { reason: why(), ..Release::new(a.proof()) }));
    assert_eq!(bench.events(), ["granted", "released"]);
    assert_eq!(reason(&bench).as_deref(), Some("maintenance"));
}

#[test]
fn releasing_twice_is_the_same_as_once() {
    let (mut bench, a) = held_by("a");
    bench.done(release(a.proof()));
    let again = bench.done(release(a.proof()));
    assert!(matches!(again.answer(), Answer::Released(false)));
    bench.done(acquire("b"));
    let late = bench.done(release(a.proof()));
    assert!(matches!(late.answer(), Answer::Released(false)));
    bench.done(acquire("b").reclaiming());
    let forgotten = bench.done(release(a.proof()));
    assert!(matches!(forgotten.answer(), Answer::NotHolder(_)));
}

#[test]
fn a_released_key_is_idle_and_wants_no_timer() {
    let (mut bench, a) = held_by("a");
    assert!(!bench.lease.is_idle());
    bench.done(release(a.proof()));
    assert!(bench.lease.is_idle());
    assert_eq!(bench.lease.next_wake(), tenure::lease::Moment::NEVER);
}

#[test]
fn expiry_hands_the_key_to_the_next_in_the_queue() {
    let (mut bench, _) = held_by("a");
    let b = bench.ask(acquire("b").waiting_until(until(60)));
    bench.run(TTL_MS - 1);
    assert!(b.waits());
    bench.run(1);
    assert_eq!(b.grant().view.owner.unwrap().as_str(), "b");
    assert!(matches!(bench.alarms[..], [tenure::lease::Alarm::EndedLate(0)]));
    let previous = b.grant().view.previous.unwrap();
    assert_eq!((previous.0.as_str(), previous.2), ("a", ChangeKind::Expired));
}

#[test]
fn a_transfer_to_a_waiting_successor_passes_over_the_queue() {
    let (mut bench, a) = held_by("a");
    let b = bench.ask(acquire("b").waiting_until(until(60)));
    let c = bench.ask(acquire("c").waiting_until(until(60)));
    let handed = bench.done(transfer(a.proof(), "c"));
    assert!(matches!(handed.answer(), Answer::Done(_)));
    assert_eq!(c.grant().view.owner.unwrap().as_str(), "c");
    assert!(b.waits());
    assert_eq!(bench.events(), ["granted", "transferred", "granted"]);
}

#[test]
fn a_transfer_to_an_absent_successor_keeps_the_key_for_it() {
    let (mut bench, a) = held_by("a");
    let b = bench.ask(acquire("b").waiting_until(until(60)));
    bench.done(transfer(a.proof(), "c"));
    assert_eq!(bench.state(), "offered");
    let stranger = bench.ask(acquire("d"));
    assert!(matches!(stranger.answer(), Answer::Refused(..)));
    let c = bench.done(acquire("c"));
    assert_eq!(c.grant().view.owner.unwrap().as_str(), "c");
    assert!(b.waits());
}

#[test]
fn an_offer_that_lapses_goes_to_the_queue() {
    let (mut bench, a) = held_by("a");
    let b = bench.ask(acquire("b").waiting_until(until(60)));
    bench.done(transfer(a.proof(), "c"));
    bench.run(4_999);
    assert!(b.waits());
    bench.run(1);
    assert_eq!(b.grant().view.owner.unwrap().as_str(), "b");
}

#[test]
fn an_offer_that_lapses_unwanted_leaves_the_key_free_and_idle() {
    let (mut bench, a) = held_by("a");
    bench.done(transfer(a.proof(), "c"));
    bench.run(5_000);
    assert_eq!(bench.record().state.as_str(), "free");
    assert!(bench.lease.is_idle());
    assert_eq!(bench.events(), ["granted", "transferred"]);
}

#[test]
fn a_pin_on_an_offered_key_does_not_prolong_the_offer() {
    let (mut bench, a) = held_by("a");
    bench.done(transfer(a.proof(), "c"));
    bench.run(4_000);
    bench.done(pin("ops"));
    bench.run(1_000);
    assert_eq!(bench.state(), "free");
}

#[test]
fn an_offer_starts_again_in_full_after_a_restart() {
    let (mut bench, a) = held_by("a");
    bench.done(transfer(a.proof(), "c"));
    bench.pass(4_000);
    bench.restart(true, 1_000);
    bench.run(5_000);
    assert_eq!(bench.state(), "offered");
    bench.run(200);
    assert_eq!(bench.state(), "free");
}

#[test]
fn an_administrator_may_withdraw_an_offer() {
    let (mut bench, a) = held_by("a");
    bench.done(transfer(a.proof(), "c"));
    bench.done(revoke());
    assert_eq!(bench.state(), "free");
    assert_eq!(bench.events(), ["granted", "transferred", "revoked"]);
}

/// The tenure of "a" has expired, the key is offered to "b", and the token of "a" is revoked.
fn offered_and_revoked(broken: Option<Mutant>) -> (Bench, Who, Who) {
    let mut bench = Bench::breaking(broken);
    let a = bench.done(acquire("a"));
    bench.ask(acquire("b").waiting_until(until(60)).place());
    bench.run(10_000);
    assert_eq!(bench.state(), "offered");
    let revoked = bench.done(revoke_of(a.grant().view.token));
    (bench, a, revoked)
}

#[test]
fn a_revoke_of_a_token_is_about_its_tenure_and_leaves_the_offer_that_followed() {
    let (mut bench, a, refused) = offered_and_revoked(None);
    assert!(matches!(refused.answer(), Answer::NotHeld(_)));
    assert_eq!(bench.state(), "offered");
    bench.done(revoke());
    assert_eq!(bench.events(), ["granted", "expired", "revoked"]);
    // R11: nobody took the key.
    let beat = bench.done(heartbeat(a.proof()));
    assert!(matches!(beat.answer(), Answer::Alive { revived: true, .. }));
}

#[test]
fn a_token_that_withdraws_an_offer_is_noticed() {
    let (mut bench, a, revoked) = offered_and_revoked(Some(Mutant::TokenWithdrawsOffer));
    assert!(matches!(revoked.answer(), Answer::Revoked(_)));
    // The tenure lives on, although it was revoked after its end.
    assert_eq!(bench.events(), ["granted", "expired", "revoked"]);
    let beat = bench.done(heartbeat(a.proof()));
    assert!(matches!(beat.answer(), Answer::Alive { revived: true, .. }));
}

#[test]
fn a_graceful_revoke_stops_promises_and_waits_for_the_last() {
    let (mut bench, a) = held_by("a");
    bench.pass(2_000);
    let revoked = bench.done(revoke());
    assert!(matches!(revoked.answer(), Answer::Revoked(8_000)));
    assert_eq!(bench.told_revoked, [Token(a.token())]);
    let beat = bench.ask(heartbeat(a.proof()));
    assert!(matches!(beat.answer(), Answer::Lost(Lost::Ended(ChangeKind::Revoked))));
    bench.run(7_999);
    assert_eq!(bench.owner().as_deref(), Some("a"));
    bench.run(1);
    assert_eq!(bench.events(), ["granted", "revoked"]);
    let change = &bench.cell.history[1];
    assert_eq!(change.reason.as_deref(), Some("maintenance"));
    assert_eq!(change.actor.as_deref(), Some("root"));
}

#[test]
fn a_revoked_holder_may_still_release_but_not_choose_its_successor() {
    let (mut bench, a) = held_by("a");
    bench.done(revoke());
    let handed = bench.done(transfer(a.proof(), "c"));
    assert!(matches!(handed.answer(), Answer::Lost(Lost::Ended(ChangeKind::Revoked))));
    let released = bench.done(release(a.proof()));
    assert!(matches!(released.answer(), Answer::Released(true)));
}

#[test]
fn a_graceful_revoke_survives_a_restart() {
    let (mut bench, a) = held_by("a");
    bench.done(revoke());
    bench.restart(true, 0);
    let beat = bench.ask(heartbeat(a.proof()));
    assert!(matches!(beat.answer(), Answer::Lost(Lost::Ended(ChangeKind::Revoked))));
    bench.run(10_300);
    assert_eq!(bench.events(), ["granted", "revoked"]);
}

#[test]
fn an_immediate_revoke_ends_the_tenure_at_once() {
    let (mut bench, _) = held_by("a");
    let b = bench.ask(acquire("b").waiting_until(until(60)));
    let revoked = bench.done(revoke_immediately());
    assert!(matches!(revoked.answer(), Answer::Revoked(0)));
    assert_eq!(bench.told_revoked, [], "its end is told");
    assert_eq!(b.grant().view.owner.unwrap().as_str(), "b");
}

#[test]
fn nobody_is_revoked_where_nobody_holds() {
    let mut bench = Bench::new();
    let revoked = bench.done(revoke());
    assert!(matches!(revoked.answer(), Answer::NotHeld(_)));
}

#[test]
fn nothing_is_promised_while_a_revoke_is_in_flight() {
    let (mut bench, a) = held_by("a");
    bench.ask(revoke());
    let beat = bench.ask(heartbeat(a.proof()));
    assert!(beat.waits());
    bench.commit();
    assert!(matches!(beat.answer(), Answer::Lost(_)));
}
