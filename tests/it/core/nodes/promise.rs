//! R1: who answers with a promise, and until when.

use tenure::lease::{Answer, Behavior, Epoch, Input, NodeState, Nonce, SessionRef, Settled, Token};

use super::*;

#[test]
fn nothing_is_promised_at_or_after_the_end_of_the_nodes_record() {
    let (mut world, holder) = held_at_a(None);
    world.renew(A);
    let until = world.nodes[A].context.until;
    world.pass(NODE_TTL_MS - 100);
    assert!(world.clock(A) < until);
    assert!(alive(&world.done(A, heartbeat(holder.proof()))) > 0);

    world.pass(100);
    assert!(world.clock(A) >= until);
    let late = world.done(A, heartbeat(holder.proof()));
    assert!(matches!(late.answer(), Answer::Lapsed), "{late:?}");
    let late = world.done(A, acquire("b"));
    assert!(matches!(late.answer(), Answer::Lapsed), "{late:?}");
}

#[test]
fn a_grant_that_is_committed_after_the_end_of_the_nodes_record_is_told_to_nobody() {
    let mut world = pair();
    let late = world.ask(A, acquire("a").id(7, 0));
    world.pass(NODE_TTL_MS + 100);
    world.commit(A);
    assert!(matches!(late.answer(), Answer::Lapsed), "{late:?}");
    assert_eq!(world.owner().as_deref(), Some("a"), "its request id finds it again");

    world.renew(A);
    let again = world.done(A, acquire("a").id(7, 0));
    assert_eq!(again.grant().view.owner.unwrap().to_string(), "a");
}

#[test]
fn no_grant_is_sent_before_the_node_has_a_record() {
    let mut world = World::breaking(None);
    world.outage = true;
    world.start(A, "http://a");
    let early = world.ask(A, acquire("a"));
    assert!(matches!(early.answer(), Answer::Lapsed));
    world.outage = false;
    world.renew(A);
    world.done(A, acquire("a")).grant();
}

#[test]
fn a_leaving_node_promises_nothing_and_its_leases_are_adopted_at_once() {
    let (mut world, holder) = held_at_a(None);
    world.leave(A);
    let refused = world.done(A, heartbeat(holder.proof()));
    assert!(matches!(refused.answer(), Answer::Lapsed));
    world.renew(A);
    world.watch(B);
    alive(&world.done(B, heartbeat(holder.proof())));
    assert_eq!(world.home(), world.incarnation(B));
    assert_eq!(world.records.len(), 2, "a node that left does not come back");
}

#[test]
fn a_node_without_a_record_adopts_nothing() {
    let (mut world, holder) = orphaned(None);
    let former = world.home();
    let now = world.clock(B);
    world.nodes[B].membership.reborn(tenure::lease::Nonce(77), EPOCH, now);
    world.publish(B);
    let refused = world.done(B, heartbeat(holder.proof()));
    assert!(matches!(refused.answer(), Answer::Lapsed));
    for request in [pin("x"), revoke(), transfer(holder.proof(), "b")] {
        let refused = world.done(B, request);
        assert!(matches!(refused.answer(), Answer::Lapsed), "{refused:?}");
    }
    assert_eq!(world.home(), former);

    world.renew(B);
    assert_eq!(world.incarnation(B), tenure::lease::Nonce(77));
}

#[test]
fn a_grant_of_an_incarnation_that_this_node_no_longer_is_promises_nothing() {
    let mut world = pair();
    let asked = world.ask(A, acquire("a").id(7, 0));
    let former = world.incarnation(A);
    // A is found dead while its grant is on its way.
    let (revision, record) = world.records[&former].clone();
    let nonce = world.nonce();
    let dead = record.terminal(tenure::lease::NodeState::Dead, nonce);
    world.write_node(revision, dead).unwrap();
    world.renew(A);
    world.renew(A);
    assert_ne!(world.incarnation(A), former);
    world.commit(A);
    assert!(matches!(asked.answer(), Answer::Lapsed), "{asked:?}");
    assert_eq!(world.home(), former);

    let again = world.done(A, acquire("a").id(7, 0));
    assert_eq!(again.grant().view.node, Some(world.incarnation(A)), "adopted first");
}

#[test]
fn a_frozen_store_and_a_later_epoch_refuse_grants() {
    let mut world = pair();
    world.nodes[A].context.frozen = true;
    assert!(matches!(world.done(A, acquire("a")).answer(), Answer::Frozen));
    world.nodes[A].context.frozen = false;
    let first = world.done(A, acquire("a"));
    assert_eq!(Token(first.token()).epoch(), EPOCH);
    world.done(A, release(first.proof()));

    world.news(B);
    world.nodes[B].context.epoch = Epoch(EPOCH.0 - 1);
    let refused = world.done(B, acquire("b"));
    assert!(matches!(refused.answer(), Answer::Frozen), "{refused:?}");
    world.nodes[A].context.frozen = true;
    let parked = acquire("c").waiting_until(world.clock(A) + ms(60_000));
    assert!(matches!(world.done(A, parked).answer(), Answer::Frozen));
}

#[test]
fn a_heartbeat_is_not_absorbed_beside_the_write_that_shortens_its_ttl() {
    let (mut world, holder) = held_at_a(None);
    world.run(NODE_TTL_MS);
    let shorter = world.ask(A, heartbeat_with(holder.proof(), None, Some(1_000)));
    world.pass(1_500);
    let plain = world.ask(A, heartbeat(holder.proof()));
    assert!(plain.waits(), "{plain:?}");
    world.commit(A);
    assert!(alive(&shorter) <= 2_500);
    assert!(alive(&plain) <= 2_500);
    world.input(A, Input::Tick);
}

#[test]
fn a_grant_that_no_caller_knows_of_is_released_after_a_rebirth_of_its_node_too() {
    let mut world = pair();
    let session_ref =
        SessionRef { session: Nonce(0x5e55), lock_delay_ms: None, behavior: Behavior::Release };
    world.ask(A, acquire("a").kept_by(session_ref));
    world.lose_reply(A, true);
    world.read_back(A);
    world.nodes[A].flight.take().expect("the release");
    world.input(A, Input::Settled(Settled::Refused(full())));
    let former = world.incarnation(A);
    let (revision, record) = world.records[&former].clone();
    let nonce = world.nonce();
    world.write_node(revision, record.terminal(NodeState::Dead, nonce)).expect("A is found dead");
    world.renew(A);
    world.renew(A);
    assert_ne!(world.incarnation(A), former);
    assert_eq!(world.owner().as_deref(), Some("a"));
    let [lease_id] = world.nodes[A].given_back[..] else {
        panic!("the shell asks for its release")
    };
    let released = world.ask(A, release(lease_id));
    world.run(60_000);
    assert!(matches!(released.answer(), Answer::Released(_)), "{released:?}");
    assert_eq!(world.owner(), None);
}

#[test]
fn a_grant_that_is_given_back_is_not_told_to_the_request_that_made_it() {
    let mut world = pair();
    let late = world.ask(A, acquire("a"));
    world.pass(NODE_TTL_MS + 100);
    world.commit(A);
    assert!(matches!(late.answer(), Answer::GivenBack), "the caller must not repeat it: {late:?}");
    let [lease_id] = world.nodes[A].given_back[..] else {
        panic!("the shell asks for its release")
    };
    world.nodes[A].flight.take().expect("the release");
    world.input(A, Input::Settled(Settled::Refused(full())));
    world.renew(A);
    world.done(A, release(lease_id));
    assert_eq!(world.owner(), None);
}
