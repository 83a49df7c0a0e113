//! R5: calls about a lease at which another, living node is at home.

use tenure::lease::{Answer, Input};

use super::*;

#[track_caller]
fn passed_on(world: &World, who: &Who) {
    let answer = who.answer();
    assert!(
        matches!(answer, Answer::Elsewhere(home) if home == world.incarnation(A)),
        "{answer:?}"
    );
}

#[test]
fn calls_of_the_holder_are_passed_on_to_the_living_home() {
    let (mut world, holder) = held_at_a(None);
    let proof = holder.proof();
    for request in
        [heartbeat(proof), release(proof), transfer(proof, "b"), revoke(), pin("x"), unpin("x")]
    {
        let who = world.done(B, request);
        passed_on(&world, &who);
    }
    let reclaims = world.done(B, acquire("a").reclaiming());
    passed_on(&world, &reclaims);
    assert_eq!(world.home(), world.incarnation(A));
}

#[test]
fn a_repeated_request_is_passed_on_to_the_living_home() {
    let mut world = pair();
    world.done(A, acquire("a").id(7, 0));
    let again = world.done(B, acquire("a").id(7, 0));
    passed_on(&world, &again);
}

#[test]
fn a_home_that_cannot_be_reached_is_released_without_it() {
    let (mut world, holder) = held_at_a(None);
    assert!(matches!(
        world.home_unreachable(B, release(holder.proof())).answer(),
        Answer::Released(true)
    ));
    assert_eq!(world.owner(), None);
    let next = world.done(B, acquire("b"));
    // A has not heard of it: the new holder must not be told that it lost.
    let beat = world.done(A, heartbeat(next.proof()));
    assert!(matches!(beat.answer(), Answer::Elsewhere(home) if home == world.incarnation(B)));
}

/// That node may promise it for as long as it likes.
#[test]
fn a_record_that_vanished_frees_nothing_that_another_node_has_at_home() {
    let (mut world, _) = held_at_a(None);
    let known = world.done(B, acquire("a").reclaiming());
    passed_on(&world, &known);
    world.cell.there = None;
    for _ in 0..3 {
        let next = world.done(B, acquire("b"));
        assert!(matches!(next.answer(), Answer::Quarantined(_)), "{:?}", next.answer());
        world.run(2 * TTL_MS);
    }
    world.crash(A);
    world.run(4 * NODE_TTL_MS + 2 * TTL_MS);
    world.done(B, acquire("b")).grant();
}

/// A node that does not know the key takes it for a free one.
#[test]
fn a_home_whose_record_vanished_promises_nothing_once_another_grant_is_known() {
    let mut world = pair();
    let holder = world.done(A, acquire("a"));
    world.cell.there = None;
    let next = world.done(B, acquire("b"));
    assert!(next.token() > holder.token());
    world.news(A);
    let beat = world.done(A, heartbeat(holder.proof()));
    assert!(!matches!(beat.answer(), Answer::Alive { .. }), "{:?}", beat.answer());
    alive(&world.done(B, heartbeat(next.proof())));
    let word = world.word().expect_err("two had the key, and its changes are numbered anew");
    assert!(word.starts_with("I4"), "{word}");
}

#[test]
fn nothing_but_consent_is_written_without_a_living_home() {
    let (mut world, holder) = held_at_a(None);
    let proof = holder.proof();
    for request in [heartbeat(proof), transfer(proof, "b"), revoke(), pin("x")] {
        let who = world.home_unreachable(B, request);
        passed_on(&world, &who);
    }
}

#[test]
fn a_waiter_at_another_node_is_served_when_the_key_is_given_back() {
    let (mut world, holder) = held_at_a(None);
    let next = acquire("b").waiting_until(world.clock(B) + ms(100_000));
    let next = world.home_unreachable(B, next);
    world.run(2 * TTL_MS / 3);
    assert!(next.waits());
    world.done(A, release(holder.proof()));
    world.run(1_000);
    assert!(next.waits(), "nobody told B");
    world.news(B);
    assert_eq!(next.grant().view.node, Some(world.incarnation(B)));
}

#[test]
fn a_waiter_at_another_node_is_served_though_the_first_look_fails() {
    let (mut world, holder) = held_at_a(None);
    let next = acquire("b").waiting_until(world.clock(B) + ms(100_000));
    let next = world.home_unreachable(B, next);
    world.done(A, release(holder.proof()));
    world.input(B, Input::Stale(world.latest()));
    world.outage = true;
    world.read_back(B);
    world.outage = false;
    world.run(1_000);
    next.grant();
}

#[test]
fn a_waiter_at_another_node_is_served_when_the_home_is_dead() {
    let (mut world, _) = held_at_a(None);
    let next = acquire("b").waiting_until(world.clock(B) + ms(100_000));
    let next = world.home_unreachable(B, next);
    world.crash(A);
    world.run(4 * NODE_TTL_MS + TTL_MS);
    next.grant();
}

#[test]
fn a_waiter_stays_in_the_queue_when_the_lease_is_adopted_by_the_other() {
    let (mut world, holder) = held_at_a(None);
    let next = acquire("b").waiting_until(world.clock(B) + ms(100_000));
    let next = world.home_unreachable(B, next);
    world.nodes[A].up = false;
    world.run(4 * NODE_TTL_MS);
    alive(&world.done(B, heartbeat(holder.proof())));
    assert!(next.waits());
    world.done(B, release(holder.proof()));
    next.grant();
}

#[test]
fn an_offer_is_taken_at_another_node() {
    let (mut world, holder) = held_at_a(None);
    world.done(A, transfer(holder.proof(), "b"));
    let stranger = world.done(B, acquire("c"));
    assert!(matches!(stranger.answer(), Answer::Refused(..)), "{stranger:?}");
    let next = world.done(B, acquire("b"));
    assert_eq!(next.grant().view.node, Some(world.incarnation(B)));
    assert_eq!(world.events(), ["granted", "transferred", "granted"]);
}

#[test]
fn an_offer_of_a_dead_node_lapses() {
    let (mut world, holder) = held_at_a(None);
    world.done(A, transfer(holder.proof(), "b"));
    world.news(B);
    world.crash(A);
    let next = acquire("c").waiting_until(world.clock(B) + ms(100_000));
    let next = world.home_unreachable(B, next);
    world.run(6 * NODE_TTL_MS);
    next.grant();
}
