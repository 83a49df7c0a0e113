//! Staying the owner, and coming back.

use tenure::lease::{
    Answer, ChangeKind, Epoch, Heartbeat, Lost, Mutant, Refusal, Request, valid_for,
};

use crate::core::harness::*;

fn alive(answer: Answer) -> (u64, bool) {
    match answer {
        Answer::Alive { valid_for_ms, revived, .. } => (valid_for_ms, revived),
        other => panic!("not alive: {other:?}"),
    }
}

#[test]
fn a_heartbeat_costs_no_write_and_moves_the_expiry() {
    let (mut bench, a) = held_by("a");
    bench.pass(9_000);
    let beat = bench.ask(heartbeat(a.proof()));
    assert_eq!(alive(beat.answer()), (valid_for(START, START, ms(TTL_MS)), false));
    assert!(bench.flight.is_none());
    assert_eq!(bench.lease.next_wake(), START + ms(9_000 + TTL_MS));
}

#[test]
fn a_heartbeat_never_shortens_what_was_promised() {
    let (mut bench, a) = held_by("a");
    bench.done(heartbeat_with(a.proof(), None, Some(1_000)));
    assert_eq!(bench.lease.next_wake(), START + ms(TTL_MS));
    bench.ask(heartbeat(a.proof()));
    assert_eq!(bench.lease.next_wake(), START + ms(TTL_MS));
}

#[test]
fn a_new_value_is_written_before_it_is_acknowledged() {
    let (mut bench, a) = held_by("a");
    let beat = bench.ask(heartbeat_with(a.proof(), Some("page 7"), None));
    assert!(beat.waits());
    bench.commit();
    alive(beat.answer());
    assert_eq!(bench.record().value.as_deref(), Some("page 7"));
    assert_eq!(bench.events(), ["granted"], "no change of ownership");
    let same = bench.ask(heartbeat_with(a.proof(), Some("page 7"), None));
    assert!(bench.flight.is_none() && !same.waits(), "the same value again is a plain heartbeat");
}

#[test]
fn a_longer_ttl_is_promised_once_it_is_written() {
    let (mut bench, a) = held_by("a");
    let beat = bench.ask(heartbeat_with(a.proof(), None, Some(30_000)));
    let plain = bench.ask(heartbeat(a.proof()));
    assert!(alive(plain.answer()).0 < TTL_MS, "the old ttl until the new one is durable");
    bench.commit();
    assert!(alive(beat.answer()).0 > 29_000);
    assert_eq!(bench.lease.next_wake(), START + ms(30_000));
}

#[test]
fn a_longer_ttl_that_was_never_written_was_never_promised() {
    let (mut bench, a) = held_by("a");
    bench.ask(heartbeat_with(a.proof(), None, Some(60_000)));
    bench.restart(false, 0);
    bench.run(10_300);
    assert_eq!(bench.state(), "free");
}

#[test]
fn a_shorter_ttl_keeps_the_floor_through_a_restart() {
    let (mut bench, a) = held_by("a");
    bench.done(heartbeat_with(a.proof(), None, Some(1_000)));
    bench.restart(true, 0);
    bench.run(9_999);
    assert_eq!(bench.owner().as_deref(), Some("a"), "promised until 10 s");
    bench.run(400);
    assert_eq!(bench.state(), "free");
}

#[test]
fn a_heartbeat_beside_the_write_that_shortens_is_kept_through_a_restart() {
    let (mut bench, a) = held_by("a");
    bench.pass(9_000);
    bench.ask(heartbeat_with(a.proof(), None, Some(1_000)));
    let plain = bench.ask(heartbeat(a.proof()));
    let until = bench.now + ms(alive(plain.answer()).0);
    bench.restart(true, 0);
    let b = bench.ask(acquire("b").waiting_until(START + ms(60_000)));
    while b.waits() {
        bench.run(100);
    }
    assert!(bench.now >= until, "granted at {:?}, promised until {until:?}", bench.now);
}

#[test]
fn an_expired_lease_revives_under_its_token_while_nobody_took_it() {
    let (mut bench, a) = held_by("a");
    bench.run(TTL_MS);
    assert_eq!(bench.state(), "free");
    let beat = bench.done(heartbeat(a.proof()));
    assert!(alive(beat.answer()).1, "it hears that it was revived");
    assert_eq!(bench.lease.view(bench.now).token.0, a.token());
    assert_eq!(bench.events(), ["granted", "expired", "granted"]);
    assert_eq!(bench.cell.history[2].reason.as_deref(), Some("revived"));
    let next = bench.ask(heartbeat(a.proof()));
    assert!(!alive(next.answer()).1);
}

#[test]
fn a_heartbeat_that_may_not_revive_keeps_what_goes_on_and_revives_nothing() {
    let (mut bench, a) = held_by("a");
    let unable = || {
        let beat = Heartbeat { may_revive: false, ..Heartbeat::new(a.proof()) };
        Request::Heartbeat(beat)
    };
    bench.pass(9_000);
    assert!(!alive(bench.ask(unable()).answer()).1);
    bench.run(TTL_MS);
    let beat = bench.done(unable());
    assert!(matches!(beat.answer(), Answer::Lost(Lost::Ended(ChangeKind::Expired))));
    assert_eq!((bench.state(), bench.events()), ("free", vec!["granted", "expired"]));
    assert!(alive(bench.done(heartbeat(a.proof())).answer()).1, "another one may revive it");
}

#[test]
fn a_lease_that_expired_twice_revives_twice_and_its_tenure_is_one() {
    let (mut bench, a) = held_by("a");
    for _ in 0..2 {
        bench.run(TTL_MS);
        alive(bench.done(heartbeat(a.proof())).answer());
    }
    let b = bench.ask(acquire("b").waiting_until(bench.now + ms(60_000)));
    bench.run(TTL_MS);
    assert!(b.token() > a.token());
}

#[test]
fn only_expiry_is_revived_and_only_from_free() {
    type End = fn(&mut Bench, &Who);
    let ends: [(End, &str); 5] = [
        (|bench, a| drop(bench.done(release(a.proof()))), "released"),
        (|bench, a| drop(bench.done(transfer(a.proof(), "b"))), "transferred"),
        (|bench, _| drop(bench.done(revoke_immediately())), "revoked"),
        (|bench, _| drop(bench.done(acquire("a").reclaiming())), "reclaimed"),
        (
            |bench, _| {
                bench.pass(TTL_MS);
                bench.done(acquire("b"));
            },
            "expired",
        ),
    ];
    for (end, how) in ends {
        let (mut bench, a) = held_by("a");
        end(&mut bench, &a);
        let beat = bench.done(heartbeat(a.proof()));
        match beat.answer() {
            Answer::Lost(Lost::Ended(kind)) => assert_eq!(kind.as_str(), how),
            other => panic!("{how}: {other:?}"),
        }
    }
}

#[test]
fn a_proof_of_no_tenure_that_is_remembered_is_unknown() {
    let (mut bench, a) = held_by("a");
    bench.done(acquire("a").reclaiming());
    bench.done(acquire("a").reclaiming());
    let beat = bench.ask(heartbeat(a.proof()));
    assert!(matches!(beat.answer(), Answer::Lost(Lost::UnknownLease)));
}

#[test]
fn nothing_is_absorbed_while_the_end_of_the_tenure_is_in_flight() {
    let (mut bench, a) = held_by("a");
    bench.pass(TTL_MS);
    bench.wake();
    let late = bench.ask(heartbeat(a.proof()));
    assert!(late.waits(), "the expiry is on its way to the store");
    bench.commit();
    bench.settle();
    assert!(alive(late.answer()).1, "then it revives what nobody took");
}

#[test]
fn a_heartbeat_behind_the_expiry_that_served_a_waiter_hears_that_it_lost() {
    let (mut bench, a) = held_by("a");
    let b = bench.ask(acquire("b").waiting_until(START + ms(60_000)));
    bench.pass(TTL_MS);
    bench.wake();
    let late = bench.ask(heartbeat(a.proof()));
    bench.commit();
    assert!(matches!(late.answer(), Answer::Lost(Lost::Ended(ChangeKind::Expired))));
    assert!(!b.waits());
}

#[test]
fn a_lapse_of_the_nodes_clock_gives_every_holder_one_ttl_more() {
    let (mut bench, _) = held_by("a");
    bench.pass(9_000);
    bench.lease.extend_by_one_ttl(bench.now);
    assert_eq!(bench.lease.next_wake(), START + ms(9_000 + TTL_MS));
}

#[test]
fn a_lapse_while_nobody_holds_the_key_does_not_hide_that_a_lease_was_revived() {
    let (mut bench, a) = held_by("a");
    bench.run(TTL_MS);
    bench.lease.extend_by_one_ttl(bench.now);
    assert!(alive(bench.done(heartbeat(a.proof())).answer()).1);
}

/// A key that is held, and whose store went backwards.
fn outlived(broken: Option<Mutant>) -> (Bench, Who) {
    let mut bench = Bench::breaking(broken);
    let a = bench.done(acquire("a").id(1, 1));
    bench.context.epoch = Epoch(EPOCH.0 + 1);
    (bench, a)
}

#[test]
fn a_tenure_promises_nothing_after_its_epoch() {
    let (mut bench, a) = outlived(None);
    let beat = bench.ask(heartbeat(a.proof()));
    assert!(matches!(beat.answer(), Answer::Lost(Lost::UnknownLease)));
    // The judge of a single key knows of no epoch.
    bench.verdict = Ok(());
    let again = bench.ask(acquire("a").id(1, 1));
    assert!(matches!(again.answer(), Answer::Refused(Refusal::RequestSpent(None), _)));
    // Its owner waits like anybody else, until the promises of before have run out.
    let next = bench.ask(acquire("a").waiting_until(START + ms(2 * TTL_MS)));
    assert!(next.waits());
    bench.run(TTL_MS);
    assert!(next.token() > a.token());
    bench.done(release(next.proof()));
    let (mut bench, a) = outlived(None);
    bench.run(TTL_MS);
    assert_eq!(bench.events(), ["granted", "expired"]);
    let revival = bench.ask(heartbeat(a.proof()));
    assert!(matches!(revival.answer(), Answer::Lost(Lost::Ended(ChangeKind::Expired))));
}

#[test]
fn an_owner_may_take_its_key_into_the_new_epoch_at_once() {
    let (mut bench, a) = outlived(None);
    let taken = bench.done(acquire("a").reclaiming());
    assert!(taken.token() > a.token());
    alive(bench.ask(heartbeat(taken.proof())).answer());
}

#[test]
fn a_tenure_that_outlives_its_epoch_is_noticed() {
    let (mut bench, a) = outlived(Some(Mutant::TenureOutlivesEpoch));
    alive(bench.ask(heartbeat(a.proof())).answer());
    assert!(bench.ask(acquire("a").id(1, 1)).token() == a.token());
}
