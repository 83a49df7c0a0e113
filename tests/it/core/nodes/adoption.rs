//! R4 and R5: leases of a dead node end when every promise of its ran out, or are adopted.

use tenure::lease::{
    Answer, Heartbeat, Input, NodeState, Nonce, Request, Revision, Settled, StoreError,
};

use super::*;

#[test]
fn a_lease_is_taken_over_when_everything_that_its_home_promised_ran_out() {
    let (mut world, _) = held_at_a(None);
    let home = world.home();
    alive_until_it_dies(&mut world);
    let next = acquire("b").waiting_until(world.clock(B) + ms(100_000));
    let next = world.home_unreachable(B, next);
    world.run_until(50_000, |_| !next.waits());
    let bound = world.records[&home].1.until + ms(TTL_MS);
    assert!(
        world.clock(A) >= bound,
        "{:?} is before {bound:?} on the home's clock",
        world.clock(A)
    );
    assert!(world.clock(A).since(bound) < ms(500), "and not much later");
    next.grant();
    assert_eq!(world.events(), ["granted", "expired", "granted"]);
}

/// The home promises as late as it may, then dies.
fn alive_until_it_dies(world: &mut World) {
    world.run(NODE_TTL_MS);
    world.crash(A);
}

#[test]
fn an_adoption_keeps_owner_and_token_and_writes_the_floor() {
    let (mut world, holder) = orphaned(None);
    let home = world.home();
    let tombstone = world.records[&home].1.clone();
    let before = world.record();
    let beat = world.ask(B, heartbeat(holder.proof()));
    assert!(beat.waits(), "it is answered after the commit only");
    world.commit(B);
    alive(&beat);

    let record = world.record();
    assert_eq!(record.tenure.as_ref().unwrap().owner, before.tenure.as_ref().unwrap().owner);
    assert_eq!(record.token(world.cell.revision()).0, holder.token());
    assert_eq!(record.node, world.incarnation(B));
    // F on the adopter's clock is no earlier than D + ttl on the dead node's.
    let left = (tombstone.until + ms(TTL_MS)).since(world.clock(A));
    assert!(ms(record.floor_ms) >= left, "{} ms is less than {left:?}", record.floor_ms);
    assert_eq!(world.events(), ["granted"], "an adoption is no change of hands");
}

#[test]
fn a_repeated_request_is_adopted_for_as_well() {
    let mut world = pair();
    let first = world.done(A, acquire("a").id(7, 0));
    world.news(B);
    world.crash(A);
    world.run(4 * NODE_TTL_MS);
    assert!(world.is_terminal(A));
    let again = world.done(B, acquire("a").id(7, 0));
    assert_eq!((again.token(), again.proof()), (first.token(), first.proof()));
    assert_eq!(world.home(), world.incarnation(B));
}

#[test]
fn an_adoption_in_doubt_is_settled_before_anything_is_promised() {
    for landed in [true, false] {
        let (mut world, holder) = orphaned(None);
        let beat = world.ask(B, heartbeat(holder.proof()));
        world.lose_reply(B, landed);
        assert!(matches!(beat.answer(), Answer::Store(_)), "{beat:?}");
        let beat = world.ask(B, heartbeat(holder.proof()));
        assert!(matches!(beat.answer(), Answer::Store(_)), "{beat:?}");
        world.settle(B);
        alive(&world.done(B, heartbeat(holder.proof())));
        assert_eq!(world.home(), world.incarnation(B));
        assert_eq!(world.owner().as_deref(), Some("a"));
    }
}

#[test]
fn a_chain_of_two_adoptions_carries_the_floor() {
    let (mut world, holder) = held_at_a(None);
    let first = world.home();
    // A sleeps with a long promise behind it, and is found dead at once by its successor.
    world.nodes[A].up = false;
    world.start(B, "http://a");
    world.tell(B);
    alive(&world.done(B, heartbeat(holder.proof())));
    let second = world.home();
    // So is that; the third process adopts on the clock of the second.
    world.start(B, "http://a");
    world.tell(B);
    assert_eq!(world.state_of(second), Some(NodeState::Dead));
    alive(&world.done(B, heartbeat(holder.proof())));

    // The sleeper wakes: D has not passed, and its last promise counts.
    world.pass(700);
    let woken = world.ask(A, heartbeat(holder.proof()));
    let until = world.records[&first].1.until + ms(TTL_MS);
    let next = acquire("b").waiting_until(world.clock(B) + ms(100_000));
    let next = world.home_unreachable(B, next);
    world.run_until(60_000, |_| !next.waits());
    next.grant();
    assert!(matches!(woken.answer(), Answer::Alive { .. }), "{woken:?}");
    assert!(world.clock(A) >= until);
}

#[test]
fn the_floor_of_an_adopter_that_dies_binds_the_next() {
    let (mut world, holder) = held_at_a(None);
    alive(&world.done(A, heartbeat_with(holder.proof(), None, Some(60_000))));
    let first = world.home();
    alive_until_it_dies(&mut world);
    world.run_until(5 * NODE_TTL_MS, |world| world.is_terminal(A));
    // The adopter shortens at once: its own promises are short, the dead home's were not.
    let shorter = world.done(B, heartbeat_with(holder.proof(), None, Some(1_000)));
    alive(&shorter);
    let until = world.records[&first].1.until + ms(60_000);
    world.start(B, "http://b");
    world.tell(B);
    let next = acquire("b").waiting_until(world.clock(B) + ms(200_000));
    let next = world.home_unreachable(B, next);
    world.run_until(150_000, |_| !next.waits());
    next.grant();
    assert!(world.clock(A) >= until, "D + ttl of the first home counts");
}

#[test]
fn a_pinned_lease_is_not_taken_over() {
    let (mut world, holder) = held_at_a(None);
    world.done(A, pin("ops"));
    world.news(B);
    world.crash(A);
    let next = acquire("b").waiting_until(world.clock(B) + ms(500_000));
    let next = world.home_unreachable(B, next);
    world.run(100_000);
    assert!(next.waits() && world.is_terminal(A));
    assert_eq!(world.owner().as_deref(), Some("a"));
    alive(&world.done(B, heartbeat(holder.proof())));
    world.done(B, unpin("ops"));
    world.run(3 * TTL_MS);
    next.grant();
}

#[test]
fn a_dead_nodes_release_transfer_and_revoke_are_written_by_whoever_is_asked() {
    let (mut world, holder) = orphaned(None);
    assert!(matches!(world.done(B, release(holder.proof())).answer(), Answer::Released(true)));

    let (mut world, holder) = orphaned(None);
    assert!(matches!(world.done(B, transfer(holder.proof(), "b")).answer(), Answer::Done(_)));
    world.done(B, acquire("b")).grant();

    let (mut world, holder) = orphaned(None);
    let Answer::Revoked(left) = world.done(B, revoke()).answer() else { panic!() };
    assert!(left > 0, "the dead home's promises are waited for");
    assert_eq!(world.home(), world.incarnation(B));
    let lost = world.done(B, heartbeat(holder.proof()));
    assert!(matches!(lost.answer(), Answer::Lost(_)));
    world.run(left + 1_000);
    assert_eq!(world.owner(), None);
}

#[test]
fn a_grant_that_lands_after_the_tombstone_ends_in_time() {
    let mut world = pair();
    world.ask(A, acquire("a"));
    let home = world.incarnation(A);
    world.crash(A);
    world.run(4 * NODE_TTL_MS);
    assert_eq!(world.state_of(home), Some(NodeState::Dead));
    world.strays_land();
    assert_eq!(world.owner().as_deref(), Some("a"));
    world.news(B);
    world.run(TTL_MS + NODE_TTL_MS);
    assert_eq!(world.owner(), None);
}

#[test]
fn a_write_of_a_sleeping_home_loses_against_the_adoption() {
    let (mut world, holder) = held_at_a(None);
    let release = world.ask(A, release(holder.proof()));
    world.nodes[A].up = false;
    world.run(4 * NODE_TTL_MS);
    assert!(world.is_terminal(A));
    let again = world.done(B, heartbeat(holder.proof()));
    alive(&again);
    world.commit(A);
    world.settle(A);
    assert!(matches!(release.answer(), Answer::Elsewhere(home) if home == world.incarnation(B)));
    assert_ne!(world.cell.revision(), Revision::ABSENT);
    assert_ne!(world.home(), Nonce::default());
}

/// Who holds a lease after the node that granted it, and refused the call, was away. Meanwhile another node may have told
/// the repeated call of the lease, and died.
fn owner_after_a_late_give_back(mutant: Option<Mutant>, repeated: bool) -> Option<String> {
    let mut world = pair_breaking(mutant);
    let granted = world.done(A, acquire("a").id(7, 0));
    let granter = world.home();
    world.news(B);
    world.nodes[A].up = false;
    world.run(4 * NODE_TTL_MS);
    if repeated {
        world.done(B, acquire("a").id(7, 0)).grant();
    }
    let adopter = world.incarnation(B);
    world.crash(B);
    world.nodes[A].up = true;
    world.renew(A);
    world.run_until(4 * NODE_TTL_MS, |world| world.state_of(adopter) == Some(NodeState::Dead));
    let back = world.done(A, give_back_of(granted.proof(), granter));
    let owner = world.owner();
    assert!(matches!(back.answer(), Answer::Released(ended) if ended == owner.is_none()));
    owner
}

#[test]
fn a_late_give_back_ends_no_lease_that_a_repeated_call_was_told_of() {
    assert_eq!(owner_after_a_late_give_back(None, true).as_deref(), Some("a"));
    assert_eq!(owner_after_a_late_give_back(None, false), None);
    let broken = Some(Mutant::GivenBackElsewhere);
    assert_eq!(owner_after_a_late_give_back(broken, true), None, "the broken rule is noticed");
}

/// A call for several keys is kept waiting while its node becomes another incarnation. The new one does not adopt the lease
/// for the call, so what is given back is released.
#[test]
fn a_node_keeps_a_lease_for_a_call_under_one_incarnation_alone() {
    let mut world = pair();
    let granted = world.done(A, acquire("a").id(7, 0));
    let granter = world.home();
    let beat = Heartbeat { granter: Some(granter), ..Heartbeat::new(granted.proof()) };
    alive(&world.done(A, Request::Heartbeat(beat.clone())));
    world.news(B);
    world.nodes[A].up = false;
    world.run(3 * NODE_TTL_MS);
    assert_eq!(world.state_of(granter), Some(NodeState::Dead));
    world.nodes[A].up = true;
    world.renew(A);
    world.renew(A);
    assert_ne!(world.incarnation(A), granter);
    let beat = world.done(A, Request::Heartbeat(beat));
    assert!(matches!(beat.answer(), Answer::Lapsed), "{beat:?}");
    let back = world.done(A, give_back_of(granted.proof(), granter));
    assert!(matches!(back.answer(), Answer::Released(true)), "{back:?}");
    assert_eq!(world.owner(), None);
}

/// The adoption that a repeated, waiting acquire asks for comes to nothing, for now.
fn repeat_whose_adoption_fails(fail: impl FnOnce(&mut World)) {
    let mut world = pair();
    let first = world.done(A, acquire("a").id(7, 0));
    world.news(B);
    world.crash(A);
    world.run_until(4 * NODE_TTL_MS, |world| world.is_terminal(A));
    let until = world.clock(B) + ms(100_000);
    let repeat = world.ask(B, acquire("a").id(7, 0).waiting_until(until));
    while !world.nodes[B].reads.is_empty() {
        world.read_back(B);
    }
    fail(&mut world);
    world.settle(B);
    assert!(matches!(repeat.answer(), Answer::Store(_)), "{repeat:?}");
    let repeat = world.done(B, acquire("a").id(7, 0).waiting_until(until));
    assert_eq!(repeat.token(), first.token());
    assert_eq!(world.events(), ["granted"]);
}

#[test]
fn a_repeated_call_does_not_wait_for_the_end_of_its_own_tenure() {
    repeat_whose_adoption_fails(|world| world.lose_reply(B, true));
    repeat_whose_adoption_fails(|world| world.lose_reply(B, false));
    repeat_whose_adoption_fails(|world| {
        world.nodes[B].flight.take().expect("an adoption");
        let error = StoreError::Unavailable("no".into());
        world.input(B, Input::Settled(Settled::Refused(error)));
    });
}
