//! The policies change: a key is granted by those that are in force at the grant.

use tenure::lease::{Answer, Key, Lost, Mutant};

use crate::core::harness::*;

/// A key under a policy with this many permits.
fn key(name: &str, permits: u32, mutant: Option<Mutant>) -> Bench {
    let mut bench = Bench::of(Key::new(name).unwrap(), mutant);
    bench.context.policies = with_permits(permits, "gpus");
    bench
}

fn waiting(name: &str) -> Ask {
    acquire(name).waiting_until(START + ms(60_000))
}

/// The answer to a caller that waits for the key when the number of permits changes, and then its holder releases it.
fn answer_after(name: &str, (before, after): (u32, u32), mutant: Option<Mutant>) -> Answer {
    let mut bench = key(name, before, mutant);
    let permit = |ask: Ask| if before > 1 { ask.permit() } else { ask };
    let a = bench.done(permit(acquire("a")));
    let b = bench.ask(permit(waiting("b")));
    bench.reload(with_permits(after, "gpus"));
    bench.done(release(a.proof()));
    b.answer()
}

#[test]
fn a_waiter_is_not_granted_a_key_that_is_no_longer_a_lease_of_its_name() {
    let changes = [("g/x", (1, 2)), ("g/x#4", (4, 2)), ("g/x#1", (2, 1))];
    for (name, change) in changes {
        assert!(matches!(answer_after(name, change, None), Answer::NoLease), "{name} {change:?}");
        let broken = answer_after(name, change, Some(Mutant::FormerPolicyObeyed));
        assert!(matches!(broken, Answer::Granted(_)), "{name} {change:?}");
    }
    for (name, change) in [("g/x#2", (4, 2)), ("g/x#1", (2, 4))] {
        assert!(matches!(answer_after(name, change, None), Answer::Granted(_)));
    }
}

#[test]
fn who_waits_is_answered_at_once_whatever_is_in_flight() {
    let mut bench = key("g/x", 1, None);
    let a = bench.done(acquire("a"));
    let b = bench.ask(waiting("b"));
    bench.ask(heartbeat_with(a.proof(), Some("page 8"), None));
    bench.reload(with_permits(2, "gpus"));
    assert!(matches!(b.answer(), Answer::NoLease));
    bench.settle();
    bench.done(heartbeat(a.proof()));
    assert_eq!(bench.state(), "held", "the tenure goes on");
}

#[test]
fn a_new_caller_is_not_granted_it_either() {
    let a = key("g/x", 2, None).done(acquire("a"));
    assert!(matches!(a.answer(), Answer::NoLease));
}

#[test]
fn a_caller_whose_grant_was_not_written_leaves_the_queue_too() {
    let mut bench = key("g/x", 1, None);
    let a = bench.done(acquire("a"));
    let b = bench.ask(waiting("b"));
    bench.ask(release(a.proof()));
    bench.reload(with_permits(2, "gpus"));
    assert!(b.waits(), "its grant is being written");
    bench.refuse();
    bench.run(1_000);
    assert!(matches!(b.answer(), Answer::NoLease));
}

#[test]
fn a_caller_that_asked_for_a_pool_is_granted_its_keys_alone() {
    let mut bench = key("g/x", 1, None);
    let a = bench.done(acquire("a").of_pool("gpus"));
    let (b, c) = (bench.ask(waiting("b").of_pool("gpus")), bench.ask(waiting("c")));
    bench.reload(with_permits(1, "cpus"));
    assert!(matches!(b.answer(), Answer::NoLease));
    bench.done(release(a.proof()));
    c.grant();
}

#[test]
fn a_lease_that_is_none_any_more_is_offered_to_no_successor() {
    let mut bench = key("g/x#4", 4, None);
    let a = bench.done(acquire("a"));
    bench.reload(with_permits(2, "gpus"));
    assert!(matches!(bench.done(transfer(a.proof(), "b")).answer(), Answer::NoLease));
    // The judge takes a transfer for the end of the holder's window.
    bench.verdict = Ok(());
    bench.done(heartbeat(a.proof()));
    assert_eq!(bench.state(), "held");
    bench.done(hand_over(a.proof(), None));
    assert_eq!(bench.state(), "free");
}

#[test]
fn a_tenure_that_expired_is_not_revived_once_its_key_is_no_lease() {
    let mut bench = key("g/x#4", 4, None);
    let a = bench.done(acquire("a"));
    bench.run(TTL_MS);
    bench.reload(with_permits(2, "gpus"));
    let beat = bench.done(heartbeat(a.proof()));
    assert!(matches!(beat.answer(), Answer::Lost(Lost::Ended(_))));
    assert_eq!(bench.state(), "free");
}
