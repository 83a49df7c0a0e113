//! Keeping a tenure from expiring.

use tenure::lease::{Answer, MAX_PINS, Token};

use crate::core::harness::*;

#[test]
fn a_pinned_lease_does_not_expire_until_everybody_unpinned() {
    let (mut bench, _) = held_by("a");
    bench.done(pin("x"));
    bench.done(pin("y"));
    bench.done(unpin("x"));
    bench.run(10 * TTL_MS);
    assert_eq!(bench.owner().as_deref(), Some("a"));
    bench.done(unpin("y"));
    bench.run(TTL_MS - 1);
    assert_eq!(bench.owner().as_deref(), Some("a"), "one more ttl in which to show that it lives");
    bench.run(1);
    assert_eq!(bench.state(), "free");
    assert_eq!(bench.events(), ["granted", "pinned", "pinned", "unpinned", "unpinned", "expired"]);
}

#[test]
fn pinning_a_free_key_pins_its_next_tenure() {
    let mut bench = Bench::new();
    bench.done(pin("x"));
    assert_eq!(bench.cell.history[0].token, Token::default(), "no tenure, no token");
    bench.done(acquire("a"));
    bench.run(10 * TTL_MS);
    assert_eq!(bench.owner().as_deref(), Some("a"));
}

#[test]
fn pinning_twice_is_the_same_as_once_and_writes_once() {
    let (mut bench, _) = held_by("a");
    bench.done(pin("x"));
    let again = bench.ask(pin("x"));
    assert!(bench.flight.is_none());
    assert!(matches!(again.answer(), Answer::Done(view) if view.pins.len() == 1));
    let other = bench.ask(unpin("z"));
    assert!(matches!(other.answer(), Answer::Done(view) if view.pins.len() == 1));
}

#[test]
fn a_key_has_so_many_pins_and_no_more() {
    let (mut bench, _) = held_by("a");
    for n in 0..MAX_PINS {
        bench.done(pin(&n.to_string()));
    }
    assert!(matches!(bench.done(pin("one more")).answer(), Answer::TooManyPins));
}

#[test]
fn a_pinned_lease_is_revoked_only_immediately() {
    let (mut bench, _) = held_by("a");
    bench.done(pin("x"));
    assert!(matches!(bench.done(revoke()).answer(), Answer::Pinned(_)));
    bench.pass(TTL_MS * 2);
    assert!(matches!(bench.done(revoke()).answer(), Answer::Pinned(_)));
    assert!(matches!(bench.done(revoke_immediately()).answer(), Answer::Revoked(0)));
}

#[test]
fn a_pinned_holder_may_still_let_go() {
    let (mut bench, a) = held_by("a");
    bench.done(pin("x"));
    assert!(matches!(bench.done(release(a.proof())).answer(), Answer::Released(true)));
}

#[test]
fn a_pin_survives_a_restart() {
    let (mut bench, _) = held_by("a");
    bench.done(pin("x"));
    bench.restart(true, 1_000);
    bench.run(10 * TTL_MS);
    assert_eq!(bench.owner().as_deref(), Some("a"));
}

#[test]
fn a_store_that_went_backwards_pins_and_unpins_nothing() {
    let (mut bench, _) = held_by("a");
    bench.done(pin("x"));
    bench.context.frozen = true;
    for request in [pin("x"), pin("y"), unpin("x"), unpin("y")] {
        let who = bench.done(request);
        assert!(matches!(who.answer(), Answer::Frozen), "{who:?}");
    }
}
