//! R9: one queue for a key, at the node where it is at home.

use tenure::lease::{Answer, Call, Input};

use super::*;

const WAIT_MS: u64 = 100_000;

fn waits(world: &World, at: usize, name: &str) -> Ask {
    acquire(name).waiting_until(world.clock(at) + ms(WAIT_MS))
}

/// Asks as somebody who waits at this node.
fn queue_up(world: &mut World, at: usize, ask: impl Fn(Ask) -> Ask, name: &str) -> Who {
    let request = ask(waits(world, at, name));
    world.done(at, request)
}

fn is_sent_to(world: &World, who: &Who, at: usize) {
    let answer = who.answer();
    assert!(
        matches!(answer, Answer::Elsewhere(home) if home == world.incarnation(at)),
        "{answer:?}"
    );
}

#[test]
fn who_would_wait_is_sent_to_the_living_home() {
    let (mut world, _) = held_at_a(None);
    let b = queue_up(&mut world, B, |ask| ask, "b");
    is_sent_to(&world, &b, A);
    let at_once = world.done(B, acquire("b"));
    assert!(matches!(at_once.answer(), Answer::Refused(..)), "{at_once:?}");
}

#[test]
fn a_place_keeps_the_key_for_its_owner_who_takes_it_at_another_node() {
    let (mut world, holder) = held_at_a(None);
    let place = queue_up(&mut world, A, Ask::place, "b");
    let behind = queue_up(&mut world, A, |ask| ask, "c");
    world.done(A, release(holder.proof()));
    assert!(matches!(place.answer(), Answer::Done(_)), "{place:?}");
    assert!(behind.waits(), "the key is b's to take");
    let b = world.done(B, acquire("b"));
    assert!(b.token() > holder.token());
    assert_eq!(world.events(), ["granted", "released", "granted"]);
    world.news(A);
    is_sent_to(&world, &behind, B);
}

#[test]
fn who_does_not_come_in_time_loses_its_turn() {
    let (mut world, holder) = held_at_a(None);
    let place = queue_up(&mut world, A, Ask::place, "b");
    let behind = queue_up(&mut world, A, |ask| ask, "c");
    world.done(A, release(holder.proof()));
    assert!(matches!(place.answer(), Answer::Done(_)));
    world.run(1_900);
    assert!(behind.waits());
    world.run(300);
    assert!(behind.token() > holder.token());
    let late = world.done(B, acquire("b"));
    assert!(matches!(late.answer(), Answer::Refused(..)), "{late:?}");
}

#[test]
fn a_place_at_a_free_key_is_kept_too() {
    let (mut world, holder) = held_at_a(None);
    world.done(A, release(holder.proof()));
    let place = queue_up(&mut world, A, Ask::place, "b");
    assert!(matches!(place.answer(), Answer::Done(_)), "{place:?}");
    assert!(matches!(world.done(A, acquire("c")).answer(), Answer::Refused(..)));
    assert!(world.done(B, acquire("b")).token() > holder.token());
}

#[test]
fn a_place_in_doubt_grants_nothing_and_ends_nothing() {
    let (mut world, holder) = held_at_a(None);
    let place = queue_up(&mut world, A, Ask::place, "b");
    world.ask(A, release(holder.proof()));
    world.lose_reply(A, true);
    assert!(matches!(place.answer(), Answer::Store(_)), "{place:?}");
    world.run(1_000);
    assert_eq!(world.owner(), None);
    assert!(world.done(B, acquire("b")).token() > holder.token());
    assert_eq!(world.events(), ["granted", "released", "granted"]);
}

#[test]
fn who_asked_first_is_first_wherever_it_asked() {
    let (mut world, holder) = held_at_a(None);
    let second = queue_up(&mut world, A, |ask| ask, "second");
    world.run(500);
    // It waited at another node before.
    let first = Who::new(world.real, waits(&world, A, "first").into());
    let received = world.clock(A) - ms(1_000);
    let request = (*first.asked).clone();
    let call = Call { caller: first.clone(), received, request, home_unreachable: false };
    world.input(A, Input::Call(call));
    world.done(A, release(holder.proof()));
    first.grant();
    assert!(second.waits());
}
