//! The lock-delay: a key stays shut for a while after its owner was lost.

use tenure::lease::{Answer, ChangeKind, Lost, Refusal, StoreError};

use crate::core::harness::*;

const DELAY_MS: u32 = 5_000;
const DELAY: u64 = DELAY_MS as u64;

/// A key under a lock-delay that `a` holds.
fn held() -> (Bench, Who) {
    let mut bench = Bench::ruled(DELAY_MS, None);
    let a = bench.done(acquire("a"));
    (bench, a)
}

/// The same, and its ttl just ran out.
fn cooling() -> (Bench, Who) {
    let (mut bench, a) = held();
    bench.run(TTL_MS);
    assert_eq!(bench.state(), "cooling");
    (bench, a)
}

#[track_caller]
fn refused(who: &Who) -> (Refusal, Option<u64>) {
    match who.answer() {
        Answer::Refused(why, view) => (why, view.expires_in_ms),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_key_that_expired_stays_shut_for_the_lock_delay() {
    let (mut bench, _) = cooling();
    bench.run(1_000);
    let b = bench.done(acquire("b"));
    assert_eq!(refused(&b), (Refusal::Cooling, Some(DELAY - 1_000)));
    bench.run(DELAY - 1_000);
    assert_eq!(bench.state(), "free");
    assert_eq!(bench.events(), ["granted", "expired", "cooled"]);
    assert_eq!(bench.cell.history[2].seq, 3);
    assert!(bench.lease.is_idle());
    bench.done(acquire("b")).grant();
}

#[test]
fn a_willing_end_and_that_of_an_administrator_shut_nothing() {
    type End = fn(&mut Bench, &Who);
    let ends: [(End, &str); 4] = [
        (|bench, a| drop(bench.done(release(a.proof()))), "free"),
        (|bench, a| drop(bench.done(transfer(a.proof(), "b"))), "offered"),
        (|bench, _| drop(bench.done(revoke_immediately())), "free"),
        (|bench, _| drop(bench.done(acquire("a").reclaiming())), "held"),
    ];
    for (end, state) in ends {
        let (mut bench, a) = held();
        end(&mut bench, &a);
        assert_eq!(bench.state(), state);
    }
    let (mut bench, _) = held();
    bench.done(revoke());
    bench.run(TTL_MS);
    assert_eq!(bench.state(), "free");
}

#[test]
fn a_waiter_is_served_exactly_at_the_end_of_the_lock_delay() {
    let (mut bench, _) = held();
    let b = bench.ask(acquire("b").waiting_until(START + ms(60_000)));
    bench.run(TTL_MS + DELAY - 1);
    assert!(b.waits());
    bench.run(1);
    b.grant();
    assert_eq!(bench.events(), ["granted", "expired", "cooled", "granted"]);
}

#[test]
fn an_acquire_that_finds_the_tenure_overdue_waits_for_the_lock_delay_too() {
    let (mut bench, _) = held();
    bench.pass(TTL_MS);
    let b = bench.ask(acquire("b").waiting_until(START + ms(60_000)));
    let c = bench.ask(acquire("c"));
    bench.settle();
    assert_eq!(refused(&c).0, Refusal::Cooling);
    bench.run(DELAY - 1);
    assert!(b.waits());
    bench.run(1);
    b.grant();
}

#[test]
fn an_acquire_after_the_end_that_no_timer_noticed_is_granted() {
    let (mut bench, _) = cooling();
    bench.pass(DELAY);
    bench.done(acquire("b")).grant();
    assert_eq!(bench.events(), ["granted", "expired", "cooled", "granted"]);
}

#[test]
fn the_old_owner_revives_its_lease_while_the_key_is_shut() {
    let (mut bench, a) = cooling();
    let beat = bench.done(heartbeat(a.proof()));
    assert!(matches!(beat.answer(), Answer::Alive { revived: true, .. }));
    assert_eq!(bench.lease.view(bench.now).token.0, a.token());
    bench.run(TTL_MS);
    assert_eq!(bench.state(), "cooling", "it starts again at the next end");
    bench.run(DELAY - 1);
    assert_eq!(bench.state(), "cooling");
}

#[test]
fn the_old_owner_is_granted_its_key_anew_if_it_reclaims() {
    let (mut bench, a) = cooling();
    assert_eq!(refused(&bench.done(acquire("a"))).0, Refusal::Cooling);
    assert_eq!(refused(&bench.done(acquire("b").reclaiming())).0, Refusal::Cooling);
    let again = bench.done(acquire("a").reclaiming());
    assert!(again.token() > a.token());
    let beat = bench.done(heartbeat(a.proof()));
    assert!(matches!(beat.answer(), Answer::Lost(Lost::Ended(ChangeKind::Expired))));
}

#[test]
fn who_waits_for_the_end_of_the_lock_delay_does_not_keep_the_old_owner_out() {
    let (mut bench, _) = cooling();
    let b = bench.ask(acquire("b").waiting_until(START + ms(60_000)));
    bench.done(acquire("a").reclaiming()).grant();
    assert!(b.waits());
}

#[test]
fn a_restart_starts_the_lock_delay_again_in_full() {
    let (mut bench, _) = cooling();
    bench.run(DELAY - 1);
    bench.restart(true, 0);
    bench.run(DELAY);
    assert_eq!(bench.state(), "cooling");
    bench.run(DELAY / 10);
    assert_eq!(bench.state(), "free");
}

#[test]
fn an_actor_that_is_rebuilt_does_not_shorten_it() {
    let (mut bench, _) = cooling();
    bench.run(DELAY / 2);
    bench.rebuild();
    bench.run(DELAY / 2);
    assert_eq!(bench.state(), "cooling");
    bench.run(DELAY / 2);
    assert_eq!(bench.state(), "free");
}

#[test]
fn a_write_in_between_neither_lengthens_nor_shortens_it() {
    let (mut bench, _) = cooling();
    bench.run(DELAY / 2);
    bench.done(pin("ops"));
    assert_eq!(bench.record().span_ms(), DELAY / 2);
    bench.run(DELAY / 2 - 1);
    assert_eq!(bench.state(), "cooling");
    bench.run(1);
    assert_eq!(bench.state(), "free");
}

#[test]
fn the_write_that_opens_the_key_may_fail_and_is_tried_again() {
    let (mut bench, _) = cooling();
    bench.pass(DELAY);
    bench.wake();
    bench.refuse();
    assert_eq!(bench.record().state.as_str(), "cooling");
    bench.run(1_000);
    assert_eq!(bench.record().state.as_str(), "free");
    assert_eq!(bench.events(), ["granted", "expired", "cooled"]);
}

#[test]
fn a_new_policy_holds_from_the_next_end_on() {
    let (mut bench, _) = held();
    bench.context.policies = ruled(0, None);
    bench.run(TTL_MS);
    assert_eq!(bench.state(), "free");

    let (mut bench, _) = cooling();
    bench.context.policies = ruled(0, None);
    bench.run(DELAY - 1);
    assert_eq!(bench.state(), "cooling");
}

/// Each write that the store refuses answers one caller or waits for its turn: nobody tries again at once, forever.
#[test]
fn an_end_that_the_store_refuses_is_told_to_who_asked_and_not_tried_at_once() {
    let (mut bench, _) = held();
    bench.pass(TTL_MS);
    let b = bench.ask(acquire("b"));
    bench.refuse();
    assert!(matches!(b.answer(), Answer::Store(StoreError::Full(_))));
    assert!(bench.flight.is_none(), "no other write");

    let c = bench.ask(acquire("c").waiting_until(START + ms(60_000)));
    bench.refuse();
    assert!(c.waits() && bench.flight.is_none());
    assert!(bench.lease.next_wake() > bench.now, "in a moment");
    bench.run(1_000 + DELAY);
    c.grant();
    assert_eq!(bench.events(), ["granted", "expired", "cooled", "granted"]);
}

#[test]
fn an_end_in_doubt_is_told_to_who_asked() {
    let (mut bench, _) = held();
    bench.pass(TTL_MS);
    let b = bench.ask(acquire("b"));
    bench.lose_reply(true);
    assert!(matches!(b.answer(), Answer::Store(_)));
    bench.read_back();
    assert_eq!(bench.events(), ["granted", "expired"]);
}
