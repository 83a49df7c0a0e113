//! Becoming the owner.

use tenure::lease::{Answer, CLIENT_DRIFT, Moment, Refusal, valid_for};

use crate::core::harness::*;

#[test]
fn a_free_key_is_granted_once_the_grant_is_durable() {
    let mut bench = Bench::new();
    let a = bench.ask(acquire("a").value("checkpoint 1"));
    assert!(a.waits(), "nobody is answered before the store has it");
    bench.commit();
    let grant = a.grant();
    assert_eq!(grant.view.owner.unwrap().as_str(), "a");
    assert_eq!(grant.view.value.as_deref(), Some("checkpoint 1"));
    assert_eq!(grant.view.token, bench.cell.history[0].token);
    assert_eq!(grant.view.expires_in_ms, Some(TTL_MS));
    assert_eq!(bench.events(), ["granted"]);
}

#[test]
fn a_held_key_is_refused_without_a_word_to_the_store() {
    let (mut bench, _) = held_by("a");
    let b = bench.ask(acquire("b"));
    assert!(matches!(b.answer(), Answer::Refused(Refusal::Held, view) if view.owner.is_some()));
    assert!(bench.flight.is_none());
}

#[test]
fn the_owner_itself_hears_that_it_holds_the_key() {
    let (mut bench, _) = held_by("a");
    let again = bench.ask(acquire("a").waiting_until(START + ms(60_000)));
    assert!(matches!(again.answer(), Answer::Refused(Refusal::HeldByYou, _)));
}

#[test]
fn reclaiming_ends_the_old_tenure_and_grants_a_higher_token_in_one_write() {
    let (mut bench, old) = held_by("a");
    let new = bench.ask(acquire("a").reclaiming());
    bench.commit();
    assert!(new.token() > old.token());
    assert_eq!(bench.events(), ["granted", "reclaimed", "granted"]);
    let dead = bench.ask(heartbeat(old.proof()));
    assert!(
        matches!(dead.answer(), Answer::Lost(tenure::lease::Lost::Ended(how)) if how.as_str() == "reclaimed")
    );
}

#[test]
fn reclaiming_what_somebody_else_holds_is_only_an_acquire() {
    let (mut bench, _) = held_by("a");
    let b = bench.ask(acquire("b").reclaiming());
    assert!(matches!(b.answer(), Answer::Refused(Refusal::Held, _)));
}

#[test]
fn whoever_asks_in_the_moment_of_expiry_gets_the_key_though_the_timer_did_not_fire() {
    let (mut bench, a) = held_by("a");
    bench.pass(TTL_MS - 1);
    let early = bench.ask(acquire("b"));
    assert!(matches!(early.answer(), Answer::Refused(Refusal::Held, _)));
    bench.pass(1);
    let b = bench.done(acquire("b"));
    assert!(b.token() > a.token());
    assert_eq!(bench.events(), ["granted", "expired", "granted"]);
}

#[test]
fn a_caller_that_left_in_flight_leaves_no_tenure_behind() {
    let mut bench = Bench::new();
    let a = bench.ask(acquire("a"));
    let b = bench.ask(acquire("b").waiting_until(START + ms(1_000)));
    a.leaves();
    bench.commit();
    assert!(a.waits(), "nobody listens");
    bench.settle();
    assert_eq!(b.grant().view.owner.unwrap().as_str(), "b");
    assert_eq!(bench.events(), ["granted", "released", "granted"]);
}

#[test]
fn a_caller_that_left_before_its_turn_is_not_even_written() {
    let mut bench = Bench::new();
    let a = bench.ask(acquire("a"));
    let b = bench.ask(acquire("b"));
    b.leaves();
    bench.commit();
    bench.done(release(a.proof()));
    assert_eq!(bench.events(), ["granted", "released"]);
    assert!(bench.lease.is_idle());
}

#[test]
fn the_window_counts_the_wait_in_and_the_drift_out() {
    // κ = 0.99 / 1.01, and one millisecond for what rounding may cost.
    assert_eq!(valid_for(START, START, ms(30_000)), 30_000 * 990 / 1010 - 1);
    assert_eq!(valid_for(START, START + ms(5_000), ms(30_000)), 35_000 * 990 / 1010 - 1);
    assert_eq!(valid_for(START, START, ms(0)), 0);
    for span in [1, 2, 99, 100, 101, 1_000, 29_999, 86_400_000] {
        let told = ms(valid_for(START, START, ms(span)));
        assert!(CLIENT_DRIFT.stretch(told) <= ms(span), "{span}: {told:?}");
    }
    assert!(valid_for(Moment::ZERO, Moment::NEVER, ms(1)) > 86_400_000 * 365, "and no overflow");
}

#[test]
fn the_holder_of_a_delayed_grant_counts_from_before_it_sent() {
    let mut bench = Bench::new();
    let a = bench.ask(acquire("a"));
    bench.pass(4_000);
    bench.commit();
    assert_eq!(a.grant().valid_for_ms, valid_for(START, START + ms(4_000), ms(TTL_MS)));
    assert_eq!(bench.lease.next_wake(), START + ms(4_000 + TTL_MS));
}
