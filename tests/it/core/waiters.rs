//! Waiting for a key.

use tenure::lease::{Answer, Call, Caller, Input, Refusal};

use crate::core::harness::*;

fn patient(bench: &Bench, name: &str) -> Ask {
    acquire(name).waiting_until(bench.now + ms(60_000))
}

#[test]
fn first_in_first_out() {
    let (mut bench, a) = held_by("a");
    let queue: Vec<Who> = ["b", "c", "d"]
        .into_iter()
        .map(|name| {
            let ask = patient(&bench, name);
            bench.ask(ask)
        })
        .collect();
    let mut holder = a;
    for next in queue {
        assert!(next.waits());
        bench.done(release(holder.proof()));
        holder = next;
        holder.grant();
    }
    assert_eq!(bench.owner().as_deref(), Some("d"));
}

#[test]
fn a_caller_that_left_the_queue_is_never_granted() {
    let (mut bench, a) = held_by("a");
    let b = patient(&bench, "b");
    let b = bench.ask(b);
    let c = patient(&bench, "c");
    let c = bench.ask(c);
    b.leaves();
    bench.done(release(a.proof()));
    assert!(b.waits());
    assert_eq!(c.grant().view.owner.unwrap().as_str(), "c");
    assert_eq!(bench.events(), ["granted", "released", "granted"]);
}

#[test]
fn a_wait_that_runs_out_is_refused_on_time_and_the_others_go_on() {
    let (mut bench, a) = held_by("a");
    bench.done(pin("x"));
    let b = bench.ask(acquire("b").waiting_until(START + ms(3_000)));
    let c = bench.ask(acquire("c").waiting_until(START + ms(5_000)));
    assert_eq!(bench.lease.next_wake(), START + ms(3_000));
    bench.run(3_000);
    assert!(matches!(b.answer(), Answer::Refused(Refusal::Held, _)));
    assert!(c.waits());
    bench.done(release(a.proof()));
    c.grant();
}

#[test]
fn a_wait_that_runs_out_behind_a_slow_write_is_refused_all_the_same() {
    let (mut bench, a) = held_by("a");
    let b = bench.ask(acquire("b").waiting_until(START + ms(3_000)));
    bench.ask(heartbeat_with(a.proof(), Some("v"), None));
    bench.pass(3_000);
    bench.wake();
    assert!(matches!(b.answer(), Answer::Refused(Refusal::Held, _)));
}

#[test]
fn a_queue_has_a_bound() {
    let (mut bench, _) = held_by("a");
    for _ in 0..bench.context.waiters_per_key {
        let ask = patient(&bench, "b");
        assert!(bench.ask(ask).waits());
    }
    let ask = patient(&bench, "c");
    assert!(matches!(bench.ask(ask).answer(), Answer::Busy));
}

#[test]
fn callers_that_left_do_not_fill_the_queue() {
    let (mut bench, _) = held_by("a");
    for _ in 0..bench.context.waiters_per_key * 3 {
        let ask = patient(&bench, "b");
        bench.ask(ask).leaves();
    }
    let ask = patient(&bench, "c");
    let c = bench.ask(ask);
    assert!(c.waits());
    bench.run(TTL_MS);
    assert_eq!(c.grant().view.owner.unwrap().as_str(), "c");
}

#[test]
fn what_waits_for_a_write_has_a_bound() {
    let mut bench = Bench::new();
    bench.ask(acquire("a"));
    let waiting: Vec<Who> =
        (0..bench.context.inflight_per_key).map(|_| bench.ask(acquire("b"))).collect();
    assert!(matches!(bench.ask(acquire("c")).answer(), Answer::Busy));
    assert!(matches!(bench.ask(tenure::lease::Request::View).answer(), Answer::Viewed(_)));
    bench.commit();
    assert!(waiting.iter().all(|who| matches!(who.answer(), Answer::Refused(..))));
}

#[test]
fn a_newcomer_does_not_pass_the_queue_while_the_store_refuses() {
    let (mut bench, a) = held_by("a");
    let b = patient(&bench, "b");
    let b = bench.ask(b);
    bench.pass(TTL_MS);
    bench.wake();
    let behind = patient(&bench, "c");
    let behind = bench.ask(behind);
    bench.refuse();
    let newcomer = bench.ask(acquire("d"));
    assert!(!matches!(newcomer.answer(), Answer::Granted(_)));
    bench.run(1_000);
    assert_eq!(b.grant().view.owner.unwrap().as_str(), "b");
    assert!(behind.waits() && a.answers() == 1);
}

#[test]
fn a_newcomer_does_not_pass_the_queue_behind_a_revoke_that_took_its_time() {
    let (mut bench, _) = held_by("a");
    let b = patient(&bench, "b");
    let b = bench.ask(b);
    bench.ask(revoke());
    let newcomer = bench.ask(acquire("c"));
    bench.pass(TTL_MS + 1);
    bench.commit();
    bench.settle();
    bench.run(0);
    assert!(matches!(newcomer.answer(), Answer::Refused(Refusal::Held, _)));
    b.grant();
}

#[test]
fn one_registration_on_two_keys_is_granted_one() {
    let ((mut one, a), (mut two, b)) = (held_by("a"), held_by("b"));
    let request = acquire("any").waiting_until(START + ms(60_000));
    let request = one.named(request.into());
    let any = Who::new(START, request);
    one.ask_as(&any);
    two.ask_as(&any);
    one.ask(release(a.proof()));
    two.ask(release(b.proof()));
    one.settle();
    two.settle();
    assert_eq!(any.grant().view.owner.unwrap().as_str(), "any");
    assert_eq!(one.owner().as_deref(), Some("any"));
    assert_eq!(two.owner(), None);
}

#[test]
fn a_registration_whose_write_was_refused_may_be_granted_elsewhere() {
    let (mut one, mut two) = (Bench::new(), Bench::new());
    let request = one.named(acquire("any").into());
    let any = Who::new(START, request);
    one.ask_as(&any);
    assert!(!any.claim(), "it is being granted");
    one.refuse();
    assert!(matches!(any.answer(), Answer::Store(_)), "on this key");
    assert!(any.claim());
    any.unclaim();
    let next = Who::new(START, (*any.asked).clone());
    two.input(Input::Call(Call {
        caller: next.clone(),
        received: START,
        request: (*next.asked).clone(),
        home_unreachable: false,
    }));
    two.settle();
    next.grant();
}

#[test]
fn callers_of_a_free_key_wait_in_vain_only_while_nothing_may_be_granted() {
    let (mut bench, a) = held_by("a");
    let b = patient(&bench, "b");
    let b = bench.ask(b);
    assert!(!bench.lease.is_stuck(), "another owner holds the key");
    bench.context.frozen = true;
    bench.done(release(a.proof()));
    assert!(b.waits() && bench.lease.is_stuck());
    bench.context.frozen = false;
    bench.run(1_000);
    b.grant();
    assert!(!bench.lease.is_stuck());
}
