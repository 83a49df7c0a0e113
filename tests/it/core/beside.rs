//! Heartbeats that are absorbed beside the lease's actor.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use tenure::lease::{Answer, Epoch, Heartbeat, Input, Moment, Nonce, Principal, Token, valid_for};

use crate::core::harness::*;

/// A key whose holder is served beside the actor.
fn served() -> (Bench, Who) {
    let (mut bench, a) = held_by("a");
    bench.ask(heartbeat(a.proof()));
    (bench, a)
}

/// Whether a heartbeat would be absorbed beside the actor.
fn is_open(bench: &Bench) -> bool {
    bench.lease.promise_cell().is_some_and(|cell| cell.promised().is_some())
}

#[test]
fn the_first_heartbeat_of_a_tenure_makes_the_cell_and_the_next_ones_need_no_actor() {
    let (mut bench, a) = held_by("a");
    assert!(bench.beside(a.proof()).is_none());
    bench.ask(heartbeat(a.proof()));
    for round in 1..=3 {
        bench.pass(9_000);
        let beat = bench.beside(a.proof()).expect("it is absorbed");
        let Answer::Alive { token, valid_for_ms, revived } = beat.answer() else { panic!() };
        assert_eq!((token, revived), (Token(a.token()), false));
        assert_eq!(valid_for_ms, valid_for(START, START, ms(TTL_MS)));
        assert_eq!(bench.lease.next_wake(), START + ms(round * 9_000 + TTL_MS));
        assert_eq!(bench.lease.view(bench.now).expires_in_ms, Some(TTL_MS));
    }
    bench.run(TTL_MS - 1);
    assert_eq!(bench.state(), "held");
    bench.run(1);
    assert_eq!((bench.state(), bench.events()), ("free", vec!["granted", "expired"]));
    assert!(bench.beside(a.proof()).is_none());
}

#[test]
fn the_window_counts_from_the_arrival_and_the_promise_from_the_reading() {
    let (mut bench, a) = served();
    bench.pass(4_000);
    let cell = bench.entry.clone().expect("a cell");
    let beat = Heartbeat::new(a.proof());
    let received = bench.now - ms(3_000);
    let absorbed = bench.context.absorb_in(&cell, &beat, received, bench.now).expect("it is open");
    assert_eq!(absorbed.valid_for_ms, valid_for(received, bench.now, ms(TTL_MS)));
    assert!((absorbed.margin(received) - 0.9).abs() < 1e-9, "{}", absorbed.margin(received));
    assert_eq!(bench.lease.next_wake(), bench.now + ms(TTL_MS));
}

#[test]
fn what_changes_the_record_or_is_not_the_holders_goes_to_the_actor() {
    let mut bench = Bench::new();
    let mut ask = acquire("a");
    ask.0.owner = ask.0.owner.of(Some(Principal::new("p")));
    let a = bench.done(ask);
    bench.ask(heartbeat(a.proof()));
    let (cell, now) = (bench.entry.clone().expect("a cell"), bench.now);
    let absorbs =
        |bench: &Bench, beat: &Heartbeat| bench.context.absorb_in(&cell, beat, now, now).is_some();
    let beat = Heartbeat::new(a.proof());
    assert!(absorbs(&bench, &beat));
    assert!(absorbs(&bench, &Heartbeat { ttl_ms: Some(TTL_MS), ..beat.clone() }));
    assert!(!absorbs(&bench, &Heartbeat { ttl_ms: Some(TTL_MS + 1), ..beat.clone() }));
    assert!(!absorbs(&bench, &Heartbeat { value: Some("page 7".into()), ..beat.clone() }));
    let stranger = Some(Principal::new("q").digest());
    assert!(!absorbs(&bench, &Heartbeat::new(a.proof().by(stranger))));
    let other = bench.context.secret.lease_id(&tenure::lease::Key::new("k").unwrap(), Nonce(9));
    assert!(!absorbs(&bench, &Heartbeat::new(other)));
    bench.context.until = now;
    assert!(!absorbs(&bench, &beat), "the node's record has run out");
    bench.context.until = Moment::NEVER;
    bench.context.node = Nonce(9);
    assert!(!absorbs(&bench, &beat), "the node goes on as another incarnation");
    bench.context.node = Nonce(1);
    bench.context.epoch = Epoch(EPOCH.0 + 1);
    assert!(!absorbs(&bench, &beat), "the epoch was raised");
}

#[test]
fn nothing_is_absorbed_beside_what_may_end_the_tenure() {
    type Order = fn(&mut Bench, &Who);
    let orders: [(Order, bool); 6] = [
        (|bench, a| drop(bench.ask(release(a.proof()))), true),
        (|bench, a| drop(bench.ask(transfer(a.proof(), "b"))), true),
        (|bench, _| drop(bench.ask(revoke())), true),
        (|bench, _| drop(bench.ask(acquire("a").reclaiming())), true),
        (|bench, a| drop(bench.ask(heartbeat_with(a.proof(), Some("page 7"), None))), false),
        (|bench, _| drop(bench.ask(ask_handover())), false),
    ];
    for (at, (order, ends)) in orders.into_iter().enumerate() {
        let (mut bench, a) = served();
        order(&mut bench, &a);
        assert!(bench.flight.is_some(), "order {at}");
        assert_eq!(is_open(&bench), !ends, "order {at}");
        bench.refuse();
        assert!(is_open(&bench), "order {at} was not carried out");
    }
}

#[test]
fn a_holder_that_is_revoked_or_pinned_is_heard_by_the_actor() {
    let (mut bench, a) = served();
    bench.done(pin("x"));
    assert!(!is_open(&bench));
    assert!(matches!(bench.ask(heartbeat(a.proof())).answer(), Answer::Alive { .. }));
    assert!(!is_open(&bench));
    bench.done(unpin("x"));
    bench.pass(1);
    bench.ask(heartbeat(a.proof()));
    assert!(is_open(&bench), "its next heartbeat says when the tenure ends");
    bench.done(revoke());
    assert!(!is_open(&bench));
    assert!(matches!(bench.ask(heartbeat(a.proof())).answer(), Answer::Lost(_)));
}

#[test]
fn a_new_ttl_is_promised_by_another_cell() {
    let (mut bench, a) = served();
    let before = bench.looks_up(a.proof()).expect("a cell");
    bench.done(heartbeat_with(a.proof(), None, Some(30_000)));
    assert!(bench.goes_on(before).is_none(), "the old ttl");
    bench.pass(1_000);
    assert!(bench.beside(a.proof()).is_some());
    assert_eq!(bench.lease.next_wake(), bench.now + ms(30_000));
}

#[test]
fn a_thread_that_goes_on_after_the_end_or_the_next_grant_promises_nothing() {
    let (mut bench, a) = served();
    let stopped = bench.looks_up(a.proof()).expect("a cell");
    bench.pass(TTL_MS);
    bench.wake();
    assert!(bench.goes_on(stopped.clone()).is_none(), "the expiry is on its way");
    bench.commit();
    assert!(bench.goes_on(stopped.clone()).is_none());
    bench.done(heartbeat(a.proof()));
    assert!(is_open(&bench), "revived under its token");
    bench.done(release(a.proof()));
    let b = bench.done(acquire("b"));
    bench.ask(heartbeat(b.proof()));
    assert!(is_open(&bench));
    assert!(bench.goes_on(stopped).is_none());
    assert!(bench.beside(a.proof()).is_none());
}

#[test]
fn a_heartbeat_at_s_is_for_the_actor_which_serves_the_queue_first() {
    let (mut bench, a) = served();
    let b = bench.ask(acquire("b").waiting_until(START + ms(60_000)));
    bench.pass(TTL_MS);
    assert!(bench.beside(a.proof()).is_none());
    bench.done(heartbeat(a.proof()));
    assert!(b.token() > a.token());
}

#[test]
fn the_cell_of_an_actor_that_died_is_closed_and_its_successor_makes_its_own() {
    let (mut bench, a) = served();
    bench.pass(1_000);
    bench.rebuild();
    assert!(bench.entry.is_some(), "it is still found");
    assert!(bench.beside(a.proof()).is_none());
    bench.settle();
    assert!(bench.beside(a.proof()).is_none(), "the tenure is confirmed, its holder not heard");
    bench.ask(heartbeat(a.proof()));
    bench.pass(1_000);
    assert!(bench.beside(a.proof()).is_some());
}

#[test]
fn a_lapse_gives_one_ttl_more_to_whoever_was_heard_beside_the_actor() {
    let (mut bench, a) = served();
    for _ in 0..2 {
        bench.pass(9_000);
        bench.lease.extend_by_one_ttl(bench.now);
        assert!(!is_open(&bench), "the actor is to hear that the holder is back");
        assert_eq!(bench.lease.next_wake(), bench.now + ms(TTL_MS));
        bench.ask(heartbeat(a.proof()));
        assert!(is_open(&bench));
    }
    // A holder that was heard since the lapse keeps its claim to one more.
    let resumed = bench.now;
    bench.pass(2_000);
    assert!(bench.beside(a.proof()).is_some());
    bench.lease.extend_by_one_ttl(resumed);
    bench.pass(5_000);
    bench.lease.extend_by_one_ttl(bench.now);
    assert_eq!(bench.lease.next_wake(), bench.now + ms(TTL_MS));
}

#[test]
fn a_copy_of_a_lease_has_a_cell_of_its_own() {
    let (mut bench, a) = served();
    let copy = bench.lease.clone();
    assert_eq!(copy.next_wake(), bench.lease.next_wake());
    bench.pass(5_000);
    assert!(bench.beside(a.proof()).is_some());
    assert_eq!(copy.next_wake(), START + ms(TTL_MS));
    assert_eq!(bench.lease.next_wake(), START + ms(5_000 + TTL_MS));
    drop(copy);
    assert!(is_open(&bench));
}

/// How many threads send heartbeats.
const THREADS: usize = 3;

#[test]
fn no_thread_promises_after_the_cell_is_closed_nor_beyond_what_closing_returns() {
    let rounds = if cfg!(debug_assertions) { 200 } else { 2_000 };
    for _ in 0..rounds {
        let (mut bench, a) = served();
        let cell = bench.entry.clone().expect("a cell");
        let (context, beat) = (bench.context.clone(), Heartbeat::new(a.proof()));
        let (clock, highest) = (AtomicU64::new(bench.now.0), AtomicU64::new(0));
        let (closed, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let start = Barrier::new(THREADS + 1);
        thread::scope(|scope| {
            let promise = || {
                start.wait();
                while !over.load(Ordering::SeqCst) {
                    let was_closed = closed.load(Ordering::SeqCst);
                    let decided = Moment(clock.load(Ordering::SeqCst));
                    if context.absorb_in(&cell, &beat, decided, decided).is_some() {
                        assert!(!was_closed, "a promise after the cell was closed");
                        highest.fetch_max((decided + ms(TTL_MS)).0, Ordering::SeqCst);
                    }
                }
            };
            for _ in 0..THREADS {
                scope.spawn(promise);
            }
            start.wait();
            for _ in 0..50 {
                bench.pass(1);
                clock.store(bench.now.0, Ordering::SeqCst);
                // Closes the cell and opens it again.
                bench.input(Input::Tick);
            }
            bench.ask(release(a.proof()));
            closed.store(true, Ordering::SeqCst);
            bench.pass(1);
            clock.store(bench.now.0, Ordering::SeqCst);
            thread::yield_now();
            over.store(true, Ordering::SeqCst);
        });
        let left = bench.lease.view(START).expires_in_ms.expect("it ends");
        let promised = highest.into_inner();
        assert!((START + ms(left)).0 >= promised, "S is less than what was promised");
    }
}
