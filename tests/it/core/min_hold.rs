//! The minimum hold: nobody else is granted a key before it is over, even if the lease is released.

use tenure::lease::{Answer, LeaseId, Mutant, Refusal};

use crate::core::harness::*;

/// Longer than the ttl.
const HOLD: u64 = 25_000;

/// A key that `a` holds for at least [`HOLD`].
fn held() -> (Bench, Who) {
    let mut bench = Bench::new();
    let a = bench.done(acquire("a").min_hold_ms(HOLD));
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
fn a_key_that_is_released_early_stays_shut_for_the_rest() {
    let (mut bench, a) = held();
    bench.run(5_000);
    bench.done(release(a.proof()));
    assert_eq!(bench.state(), "cooling");
    assert_eq!(refused(&bench.done(acquire("b"))), (Refusal::Cooling, Some(HOLD - 5_000)));
    let b = bench.ask(acquire("b").waiting_until(START + ms(60_000)));
    bench.run(HOLD - 5_000 - 1);
    assert!(b.waits());
    bench.run(1);
    b.grant();
    assert_eq!(bench.events(), ["granted", "released", "cooled", "granted"]);
}

#[test]
fn a_lease_that_runs_out_early_leaves_the_key_shut_for_the_rest() {
    let (mut bench, _) = held();
    bench.run(TTL_MS);
    assert_eq!(bench.state(), "cooling");
    bench.run(HOLD - TTL_MS - 1);
    assert_eq!(bench.state(), "cooling");
    bench.run(1);
    assert_eq!(bench.state(), "free");
}

#[test]
fn a_lease_that_is_kept_for_longer_leaves_nothing() {
    let (mut bench, a) = held();
    for _ in 0..6 {
        bench.run(TTL_MS / 2);
        bench.done(heartbeat(a.proof()));
    }
    bench.done(release(a.proof()));
    assert_eq!(bench.state(), "free");
    bench.done(acquire("b")).grant();
    assert!(bench.record().fences_and_delay.is_none(), "the next tenure has none of its own");
}

#[test]
fn the_longer_of_minimum_hold_and_lock_delay_counts() {
    for (delay, shut) in [(5_000, HOLD - TTL_MS), (20_000, 20_000)] {
        let mut bench = Bench::ruled(delay, None);
        bench.done(acquire("a").min_hold_ms(HOLD));
        bench.run(TTL_MS);
        let b = bench.done(acquire("b"));
        assert_eq!(refused(&b), (Refusal::Cooling, Some(shut)));
    }
}

#[test]
fn an_administrator_and_an_offer_by_name_end_it() {
    let (mut bench, _) = held();
    bench.done(revoke_immediately());
    assert_eq!(bench.state(), "free");

    let (mut bench, _) = held();
    bench.done(revoke());
    bench.run(TTL_MS);
    assert_eq!(bench.state(), "free");

    let (mut bench, a) = held();
    bench.done(transfer(a.proof(), "b"));
    bench.done(acquire("b")).grant();
}

#[test]
fn who_waits_is_not_handed_the_key_before() {
    let (mut bench, a) = held();
    let b = bench.ask(acquire("b").waiting_until(START + ms(60_000)));
    bench.run(1_000);
    bench.done(hand_over(a.proof(), None));
    assert_eq!(bench.state(), "cooling");
    assert!(b.waits());
    bench.run(HOLD - 1_000);
    b.grant();
}

#[test]
fn the_last_owner_may_reclaim_the_key() {
    let (mut bench, a) = held();
    bench.done(release(a.proof()));
    assert_eq!(refused(&bench.done(acquire("a"))).0, Refusal::Cooling);
    bench.run(5_000);
    let again = bench.done(acquire("a").reclaiming());
    bench.run(5_000);
    bench.done(release(again.proof()));
    let b = bench.done(acquire("b"));
    assert_eq!(refused(&b), (Refusal::Cooling, Some(HOLD - 10_000)), "others are still kept out");
}

#[test]
fn a_write_in_between_neither_lengthens_nor_shortens_it() {
    let (mut bench, a) = held();
    bench.run(TTL_MS / 2);
    bench.done(heartbeat_with(a.proof(), Some("page 8"), Some(2 * TTL_MS)));
    assert_eq!(bench.record().shut_ms(), HOLD - TTL_MS / 2);
    bench.run(TTL_MS);
    bench.done(release(a.proof()));
    assert_eq!(bench.record().shut_ms(), HOLD - TTL_MS / 2 * 3);
    bench.run(HOLD - TTL_MS / 2 * 3);
    assert_eq!(bench.state(), "free");
}

#[test]
fn a_restart_starts_it_again_in_full() {
    let (mut bench, a) = held();
    bench.run(TTL_MS / 2);
    bench.restart(true, 0);
    bench.done(release(a.proof()));
    bench.run(HOLD - 1);
    assert_eq!(bench.state(), "cooling");
    bench.run(1);
    assert_eq!(bench.state(), "free");
}

#[test]
fn an_actor_that_is_rebuilt_does_not_shorten_it() {
    let (mut bench, a) = held();
    bench.run(TTL_MS / 2);
    bench.rebuild();
    bench.settle();
    bench.done(release(a.proof()));
    bench.run(HOLD - TTL_MS / 2);
    assert_eq!(bench.state(), "cooling");
    bench.run(TTL_MS / 2);
    assert_eq!(bench.state(), "free");
}

#[test]
fn a_tenure_that_is_revived_has_the_rest_of_it() {
    let (mut bench, a) = held();
    bench.run(TTL_MS + 1_000);
    let beat = bench.done(heartbeat(a.proof()));
    assert!(matches!(beat.answer(), Answer::Alive { revived: true, .. }));
    bench.run(1_000);
    bench.done(release(a.proof()));
    assert_eq!(bench.record().shut_ms(), HOLD - TTL_MS - 2_000);
}

#[test]
fn a_repeated_call_gets_the_same_grant_and_begins_nothing_anew() {
    let mut bench = Bench::new();
    let a = bench.done(acquire("a").min_hold_ms(HOLD).id(7, 7));
    bench.run(TTL_MS / 2);
    let again = bench.done(acquire("a").min_hold_ms(HOLD).id(7, 7));
    assert_eq!(again.token(), a.token());
    bench.done(release(a.proof()));
    assert_eq!(bench.record().shut_ms(), HOLD - TTL_MS / 2);
}

/// What the state of a key is after a grant whose caller leaves while the grant is being written.
fn after_a_grant_unheard(mutant: Option<Mutant>) -> &'static str {
    let mut bench = Bench::breaking(mutant);
    let a = bench.ask(acquire("a").min_hold_ms(HOLD));
    a.leaves();
    bench.settle();
    assert_eq!(bench.events(), ["granted", "released"]);
    bench.state()
}

#[test]
fn a_grant_that_no_answer_named_begins_none() {
    assert_eq!(after_a_grant_unheard(None), "free");
    assert_eq!(after_a_grant_unheard(Some(Mutant::UnheardHoldKept)), "cooling");
}

#[test]
fn a_waiter_that_leaves_while_it_is_granted_the_key_leaves_it_to_the_next() {
    let (mut bench, a) = held_by("a");
    let b = bench.ask(acquire("b").min_hold_ms(HOLD).waiting_until(START + ms(60_000)));
    let c = bench.ask(acquire("c").waiting_until(START + ms(60_000)));
    bench.ask(release(a.proof()));
    b.leaves();
    bench.settle();
    c.grant();
    assert_eq!(bench.events(), ["granted", "released", "granted", "released", "granted"]);
}

#[test]
fn a_grant_whose_outcome_no_caller_waited_for_begins_none() {
    let mut bench = Bench::new();
    let a = bench.ask(acquire("a").min_hold_ms(HOLD));
    bench.lose_reply(true);
    assert!(matches!(a.answer(), Answer::Store(_)));
    bench.run(1_000);
    assert_eq!(bench.state(), "free");
}

/// A key that `a` was granted, before its caller was told: the lease id.
fn granted_for_now() -> (Bench, LeaseId) {
    let (bench, a) = held();
    let id = a.proof();
    (bench, id)
}

#[test]
fn a_grant_that_is_given_back_later_leaves_nothing() {
    for rebuilt in [false, true] {
        let (mut bench, id) = granted_for_now();
        if rebuilt {
            bench.rebuild();
            bench.settle();
        }
        bench.run(1_000);
        bench.done(give_back(id));
        assert_eq!(bench.state(), "free");
        bench.done(acquire("b"));
        // The judge takes the first answer for one that reached its caller.
        bench.verdict = Ok(());
    }
}

#[test]
fn a_grant_that_ran_out_before_it_is_given_back_opens_the_key() {
    let (mut bench, id) = granted_for_now();
    bench.run(TTL_MS);
    assert_eq!(bench.state(), "cooling");
    let b = bench.ask(acquire("b").waiting_until(START + ms(60_000)));
    let back = bench.done(give_back(id));
    assert!(matches!(back.answer(), Answer::Released(true)));
    b.grant();
    assert_eq!(bench.events(), ["granted", "expired", "cooled", "granted"]);
    let back = bench.done(give_back(id));
    assert!(matches!(back.answer(), Answer::Released(false)), "it opens no later tenure");
    bench.verdict = Ok(());
}

#[test]
fn what_kept_the_key_shut_before_such_a_grant_keeps_it_shut_after() {
    let (mut bench, a) = held();
    bench.done(release(a.proof()));
    bench.run(5_000);
    let again = bench.ask(acquire("a").reclaiming().min_hold_ms(2 * HOLD));
    again.leaves();
    bench.settle();
    assert_eq!(refused(&bench.done(acquire("b"))), (Refusal::Cooling, Some(HOLD - 5_000)));
    bench.run(HOLD - 5_000);
    assert_eq!(bench.state(), "free");
}

#[test]
fn a_grant_under_a_request_id_that_no_answer_named_begins_none_when_it_runs_out() {
    for asks_again in [false, true] {
        let mut bench = Bench::new();
        let a = bench.ask(acquire("a").min_hold_ms(HOLD).id(7, 7));
        a.leaves();
        bench.settle();
        assert_eq!(bench.state(), "held", "its caller may ask again");
        if asks_again {
            bench.done(acquire("a").min_hold_ms(HOLD).id(7, 7)).grant();
        }
        bench.run(TTL_MS);
        assert_eq!(bench.state(), if asks_again { "cooling" } else { "free" });
    }
}
