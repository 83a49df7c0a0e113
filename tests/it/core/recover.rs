//! Starting from what the store holds.

use tenure::lease::{Alarm, Answer, CLIENT_DRIFT, Lost, Moment, Refusal};

use crate::core::harness::*;

fn until(seconds: u64) -> Moment {
    START + ms(seconds * 1000)
}

#[test]
fn after_a_restart_a_holder_has_one_full_ttl_by_the_slowest_clock() {
    let (mut bench, _) = held_by("a");
    bench.pass(9_000);
    bench.restart(true, 5_000);
    let locked = bench.now;
    assert_eq!(bench.lease.next_wake(), locked + CLIENT_DRIFT.stretch(ms(TTL_MS)));
    let b = bench.ask(acquire("b").waiting_until(until(60)));
    bench.run(10_202);
    assert!(b.waits());
    bench.run(1);
    b.grant();
}

#[test]
fn after_a_restart_the_holder_goes_on_without_a_write() {
    let (mut bench, a) = held_by("a");
    bench.restart(true, 5_000);
    let beat = bench.ask(heartbeat(a.proof()));
    assert!(matches!(beat.answer(), Answer::Alive { revived: false, .. }));
    assert!(bench.flight.is_none());
    assert_eq!(bench.lease.view(bench.now).token.0, a.token());
}

#[test]
fn what_was_in_flight_at_the_kill_is_there_or_not_and_nothing_in_between() {
    for written in [true, false] {
        let (mut bench, a) = held_by("a");
        bench.ask(release(a.proof()));
        bench.restart(written, 0);
        assert_eq!(bench.state(), if written { "free" } else { "held" });
        let beat = bench.done(heartbeat(a.proof()));
        assert_eq!(matches!(beat.answer(), Answer::Lost(_)), written);
    }
}

#[test]
fn a_free_key_keeps_its_tokens_through_a_restart() {
    let (mut bench, a) = held_by("a");
    bench.done(release(a.proof()));
    bench.restart(true, 0);
    assert!(bench.lease.is_idle());
    assert!(bench.done(acquire("b")).token() > a.token());
}

#[test]
fn a_rebuilt_actor_keeps_what_its_predecessor_may_have_promised() {
    let (mut bench, _) = held_by("a");
    bench.pass(9_000);
    bench.rebuild();
    bench.settle();
    assert_eq!(bench.lease.next_wake(), START + ms(9_000 + TTL_MS), "the same clock, no stretch");
}

#[test]
fn a_rebuilt_actor_promises_nothing_before_its_predecessors_write_can_land_no_more() {
    let (mut bench, a) = held_by("a");
    bench.rebuild();
    let beat = bench.ask(heartbeat(a.proof()));
    assert!(beat.waits());
    bench.commit();
    assert!(matches!(beat.answer(), Answer::Alive { .. }));
    assert_eq!(bench.events(), ["granted"], "no change of ownership");
}

#[test]
fn a_rebuilt_actor_in_front_of_a_store_that_refuses_goes_on_promising_nothing() {
    let (mut bench, a) = held_by("a");
    bench.rebuild();
    bench.refuse();
    let beat = bench.ask(heartbeat(a.proof()));
    assert!(matches!(beat.answer(), Answer::Store(_)));
    bench.run(1_000);
    let beat = bench.ask(heartbeat(a.proof()));
    assert!(matches!(beat.answer(), Answer::Alive { .. }));
}

#[test]
fn a_rebuilt_actor_of_a_key_that_nobody_holds_has_nothing_to_confirm() {
    let (mut bench, a) = held_by("a");
    bench.done(release(a.proof()));
    bench.rebuild();
    assert!(bench.flight.is_none() && bench.lease.is_idle());
}

#[test]
fn a_write_of_the_dead_actor_that_lands_afterwards_is_found_by_conflict() {
    let (mut bench, a) = held_by("a");
    bench.ask(pin("x"));
    bench.rebuild();
    let released = bench.ask(release(a.proof()));
    bench.stray_lands();
    bench.commit();
    assert_eq!(bench.alarms, [Alarm::Conflict]);
    bench.settle();
    assert!(matches!(released.answer(), Answer::Released(true)));
    assert_eq!(bench.events(), ["granted", "pinned", "released"]);
    assert_eq!(bench.record().pins.len(), 1);
}

#[test]
fn a_dead_actors_expiry_that_lands_afterwards_ends_no_promise() {
    let (mut bench, a) = held_by("a");
    let b = bench.ask(acquire("b").id(1, 1).waiting_until(until(60)));
    bench.pass(TTL_MS);
    bench.wake();
    bench.rebuild();
    let beat = bench.ask(heartbeat(a.proof()));
    bench.stray_lands();
    bench.settle();
    assert!(matches!(beat.answer(), Answer::Lost(Lost::Ended(_))));
    assert!(b.waits(), "its shell died");
    let again = bench.ask(acquire("b").id(1, 1));
    assert_eq!(again.token(), bench.cell.history[2].token.0);
}

#[test]
fn an_actor_that_dies_again_while_it_confirms_leaves_a_chain_that_ends() {
    let (mut bench, a) = held_by("a");
    bench.ask(release(a.proof()));
    bench.rebuild();
    bench.rebuild();
    bench.rebuild();
    let b = bench.ask(acquire("b").waiting_until(until(60)));
    while !bench.strays.is_empty() {
        bench.stray_lands();
    }
    bench.settle();
    b.grant();
    assert_eq!(bench.events(), ["granted", "released", "granted"]);
}

#[test]
fn a_parked_repeat_finds_the_dead_actors_grant() {
    let (mut bench, a) = held_by("a");
    let b = acquire("b").id(1, 1).waiting_until(until(60));
    bench.ask(b.clone());
    bench.ask(release(a.proof()));
    bench.rebuild();
    let again = bench.ask(b);
    assert!(again.waits(), "the store says that a holds the key");
    bench.stray_lands();
    bench.settle();
    assert_eq!(again.token(), bench.cell.history[2].token.0);
    assert_eq!(bench.events(), ["granted", "released", "granted"]);
}

#[test]
fn a_quarantined_record_is_never_free() {
    let (mut bench, a) = held_by("a");
    bench.cell.spoilt = true;
    bench.restart(true, 0);
    assert!(matches!(bench.alarms[..], [Alarm::Quarantined(_)]));
    assert!(bench.lease.view(bench.now).quarantined && !bench.lease.is_idle());
    bench.run(10 * TTL_MS);
    // The first has it looked at again, as each does once in a while.
    for request in [acquire("b").into(), heartbeat(a.proof()), release(a.proof()), pin("x")] {
        let who = bench.ask(request);
        bench.run(0);
        assert!(matches!(who.answer(), Answer::Quarantined(_)));
    }
    assert_eq!(bench.alarms.len(), 2, "{:?}", bench.alarms);
    assert!(bench.flight.is_none());
    // Somebody mended it.
    bench.cell.spoilt = false;
    bench.run(10 * TTL_MS);
    let held = bench.ask(acquire("b"));
    bench.run(0);
    assert!(
        matches!(held.answer(), Answer::Refused(..)),
        "its holder may have been promised a ttl"
    );
    bench.run(2 * TTL_MS);
    let granted = bench.ask(acquire("b"));
    bench.run(0);
    assert!(granted.token() > a.token());
}

#[test]
fn a_record_that_spoils_under_a_write_is_quarantined_with_everybody_who_waits() {
    let (mut bench, a) = held_by("a");
    let b = bench.ask(acquire("b").waiting_until(until(60)));
    let released = bench.ask(release(a.proof()));
    let behind = bench.ask(acquire("c"));
    bench.cell.spoilt = true;
    bench.commit();
    assert!(bench.flight.is_none(), "nothing is written over it");
    for who in [released, b, behind] {
        assert!(matches!(who.answer(), Answer::Quarantined(_)));
    }
    bench.run(10 * TTL_MS);
    assert!(bench.lease.next_wake() > bench.now);
}

#[test]
fn a_record_that_vanished_is_nobodys_to_give_away() {
    let (mut bench, a) = held_by("a");
    bench.cell.there = None;
    let released = bench.ask(release(a.proof()));
    bench.commit();
    assert!(bench.flight.is_none(), "no endless loop of conflicts");
    assert!(matches!(released.answer(), Answer::Quarantined(_)));
    bench.run(TTL_MS);
    let early = bench.ask(acquire("b"));
    assert!(matches!(early.answer(), Answer::Quarantined(_)), "a may have been promised a ttl");
    // Once that ran out it is a key like any other.
    bench.run(TTL_MS / 2);
    let b = bench.ask(acquire("b"));
    bench.run(0);
    assert!(b.token() > a.token());
}

#[test]
fn a_free_record_that_vanished_is_a_key_that_was_never_written() {
    let (mut bench, a) = held_by("a");
    bench.ask(release(a.proof()));
    bench.settle();
    bench.cell.there = None;
    let b = bench.ask(acquire("b"));
    bench.run(0);
    assert!(b.token() > a.token());
}

#[test]
fn an_unknown_proof_is_unknown_after_a_restart_too() {
    let (mut bench, _) = held_by("a");
    let (other, b) = held_by("b");
    bench.restart(true, 0);
    let proof = other
        .context
        .secret
        .lease_id(&tenure::lease::Key::new("x").unwrap(), tenure::lease::Nonce(9));
    let beat = bench.ask(heartbeat(proof));
    assert!(matches!(beat.answer(), Answer::Lost(Lost::UnknownLease)));
    drop(b);
}

#[test]
fn a_conflict_gives_an_impatient_caller_its_answer() {
    let mut bench = Bench::new();
    bench.ask(acquire("a").id(1, 1));
    bench.rebuild();
    bench.stray_lands();
    let b = bench.ask(acquire("b"));
    bench.settle();
    assert!(matches!(b.answer(), Answer::Refused(Refusal::Held, _)));
    assert_eq!(bench.owner().as_deref(), Some("a"));
}
