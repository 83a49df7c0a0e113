//! What a node knows may be outdated: nobody is refused for good without a look into the store.

use tenure::lease::{Answer, Input};

use super::*;

#[test]
fn no_proof_is_called_worthless_from_an_outdated_record() {
    let (mut world, first) = held_at_a(None);
    world.done(A, release(first.proof()));
    let second = world.done(A, acquire("b"));
    // B knows the first tenure only.
    for request in [heartbeat(second.proof()), release(second.proof())] {
        let who = world.done(B, request);
        assert!(matches!(who.answer(), Answer::Elsewhere(_)), "{who:?}");
    }
    let who = world.done(B, transfer(second.proof(), "c"));
    assert!(matches!(who.answer(), Answer::Elsewhere(_)), "{who:?}");
}

#[test]
fn a_home_that_was_found_dead_and_does_not_know_looks_as_well() {
    let (mut world, first) = held_at_a(None);
    world.nodes[A].up = false;
    world.run(4 * NODE_TTL_MS);
    assert!(world.is_terminal(A));
    world.done(B, release(first.proof()));
    let second = world.done(B, acquire("b"));
    for request in [heartbeat(second.proof()), release(second.proof())] {
        let who = world.done(A, request);
        assert!(!matches!(who.answer(), Answer::Lost(_) | Answer::Released(_)), "{who:?}");
        assert!(!matches!(who.answer(), Answer::NotHolder(_)), "{who:?}");
    }
}

#[test]
fn who_really_lost_is_told_so_after_the_look() {
    let (mut world, first) = held_at_a(None);
    world.done(A, release(first.proof()));
    let lost = world.ask(B, heartbeat(first.proof()));
    assert_eq!(world.nodes[B].reads.len(), 0, "the record that B knows still says so");
    assert!(matches!(lost.answer(), Answer::Elsewhere(_)));
    world.news(B);
    let lost = world.ask(B, heartbeat(first.proof()));
    assert!(lost.waits());
    world.settle(B);
    assert!(matches!(lost.answer(), Answer::Lost(_)), "{lost:?}");
}

#[test]
fn many_who_ask_share_one_look() {
    let (mut world, first) = held_at_a(None);
    world.done(A, release(first.proof()));
    world.news(B);
    let asked: Vec<_> = (0..3).map(|_| world.ask(B, heartbeat(first.proof()))).collect();
    assert_eq!(world.nodes[B].reads.len(), 1);
    world.settle(B);
    assert!(asked.iter().all(|who| matches!(who.answer(), Answer::Lost(_))));
}

#[test]
fn a_look_that_a_write_crossed_says_nothing() {
    let mut world = pair();
    let stranger = tenure::lease::ClusterSecret::new(&[9; 32])
        .lease_id(&tenure::lease::Key::new("x").unwrap(), tenure::lease::Nonce(1));
    let lost = world.ask(B, heartbeat(stranger));
    let nothing_yet = world.cell.load();
    // Meanwhile the key is made: what the look saw is older than what is known.
    let grant = world.ask(B, acquire("b"));
    world.commit(B);
    grant.grant();
    let look = world.nodes[B].reads.pop_front().expect("a look is under way");
    world.input(B, Input::Loaded(look, Ok(nothing_yet)));
    world.settle(B);
    assert!(matches!(lost.answer(), Answer::Lost(_)), "{lost:?}");
    alive(&world.done(B, heartbeat(grant.proof())));
}

#[test]
fn the_late_read_of_a_write_in_doubt_answers_no_look() {
    let mut world = pair();
    world.ask(B, acquire("b").id(7, 0));
    world.lose_reply(B, true);
    world.pass(1_000);
    world.input(B, Input::Tick);
    assert_eq!(world.nodes[B].reads.len(), 2, "the first read seems lost");
    let late = world.cell.load();
    world.read_back(B);
    let slow = world.nodes[B].reads.pop_front().expect("a read is under way");
    let first = world.done(B, acquire("b").id(7, 0));
    world.done(B, release(first.proof()));
    let second = world.done(A, acquire("a"));
    let beat = world.ask(B, heartbeat(second.proof()));
    assert_eq!(world.nodes[B].reads.len(), 1);
    world.input(B, Input::Loaded(slow, Ok(late)));
    assert!(beat.waits(), "the read began before the tenure: {beat:?}");
    world.settle(B);
    assert!(matches!(beat.answer(), Answer::Elsewhere(_)), "{beat:?}");
}

#[test]
fn a_refusal_is_looked_up_unless_the_caller_allows_stale_ones() {
    let (mut world, first) = held_at_a(None);
    world.done(A, release(first.proof()));
    let mut allow_stale = acquire("b");
    allow_stale.0.allow_stale = true;
    let refused = world.done(B, allow_stale);
    assert!(matches!(refused.answer(), Answer::Refused(..)), "{refused:?}");
    world.done(B, acquire("b")).grant();
}

#[test]
fn a_failed_look_refuses_nobody_for_good() {
    let (mut world, first) = held_at_a(None);
    world.done(A, release(first.proof()));
    world.news(B);
    let asked = world.ask(B, heartbeat(first.proof()));
    world.outage = true;
    world.read_back(B);
    assert!(matches!(asked.answer(), Answer::Store(_)), "{asked:?}");
    world.outage = false;
    let asked = world.done(B, heartbeat(first.proof()));
    assert!(matches!(asked.answer(), Answer::Lost(_)), "{asked:?}");
}

#[test]
fn a_failed_look_refuses_no_call_that_had_arrived_before_it() {
    let (mut world, first) = held_at_a(None);
    world.news(B);
    world.done(A, release(first.proof()));
    let second = world.done(A, acquire("b"));
    let received = world.clock(B);
    world.pass(1);
    // Before the node comes to the call, it hears of the change, and cannot read it.
    world.input(B, Input::Stale(world.latest()));
    world.outage = true;
    world.read_back(B);
    world.outage = false;
    let beat = world.ask_late(B, heartbeat(second.proof()), received);
    world.settle(B);
    assert!(matches!(beat.answer(), Answer::Elsewhere(_)), "{beat:?}");
}

#[test]
fn a_pin_that_waits_for_a_look_is_not_set_after_a_later_unpin() {
    let (mut world, _) = held_at_a(None);
    world.done(A, pin("ops"));
    world.pass(1);
    let first = world.ask(A, pin("ops"));
    assert!(first.waits(), "its pin may have been taken back by another node: {first:?}");
    world.pass(1);
    let last = world.ask(A, unpin("ops"));
    world.settle(A);
    for who in [first, last] {
        assert!(matches!(who.answer(), Answer::Done(_)), "{who:?}");
    }
    assert!(world.record().pins.is_empty());
}
