//! R3: when a node is found dead, and what its tombstone says.

use tenure::lease::{MAX_NODE_TTL_MS, Membership, Moment, NODE_DRIFT, NodeState};

use super::*;

#[test]
fn a_node_is_found_dead_once_its_record_ran_out_on_its_own_clock() {
    let (mut world, _) = held_at_a(None);
    let home = world.home();
    world.crash(A);
    let until = world.records[&home].1.until;
    let died = world.run_until(10 * NODE_TTL_MS, |w| w.state_of(home) == Some(NodeState::Dead));
    assert!(died);
    assert!(world.clock(A) >= until, "its own clock shows {:?}", world.clock(A));
}

#[test]
fn a_tombstone_keeps_what_its_node_last_said() {
    let (mut world, _) = held_at_a(None);
    let home = world.home();
    let last = world.records[&home].1.clone();
    world.crash(A);
    world.run(4 * NODE_TTL_MS);
    let tombstone = &world.records[&home].1;
    assert_eq!(tombstone.state, NodeState::Dead);
    assert_eq!((tombstone.written, tombstone.until), (last.written, last.until));
    let terminal = last.terminal(NodeState::Dead, tombstone.nonce);
    assert_eq!(*tombstone, terminal, "the state alone changes");
}

#[test]
fn nobody_is_found_dead_after_an_outage_of_the_store() {
    let (mut world, holder) = held_at_a(None);
    world.outage = true;
    world.run(10 * NODE_TTL_MS);
    world.outage = false;
    // B renews first, and looks often: A is late, and must not be blamed.
    world.renew(B);
    for _ in 0..20 {
        world.watch(B);
        world.pass(100);
    }
    world.renew(A);
    world.run(4 * NODE_TTL_MS);
    assert!(!world.is_terminal(A) && !world.is_terminal(B));
    alive(&world.done(A, heartbeat(holder.proof())));
}

#[test]
fn who_judges_was_itself_renewed_without_a_gap_for_a_whole_ttl() {
    let (mut world, _) = held_at_a(None);
    world.crash(A);
    // B can read the others' records, and cannot write its own.
    for _ in 0..40 {
        world.pass(750);
        world.watch(B);
    }
    assert!(!world.is_terminal(A));
    world.renew(B);
    for _ in 0..5 {
        world.pass(500);
        world.renew(B);
        world.watch(B);
        assert!(!world.is_terminal(A));
    }
    world.pass(600);
    world.renew(B);
    world.watch(B);
    assert!(world.is_terminal(A));
}

#[test]
fn a_record_that_was_renewed_meanwhile_is_not_marked_dead() {
    let (mut world, _) = held_at_a(None);
    let stale: Vec<_> = world.records.values().cloned().collect();
    for _ in 0..8 {
        world.pass(750);
        world.renew(A);
        world.renew(B);
    }
    // An old reading says that A ran out; the compare-and-set knows better.
    world.watch_as(B, world.clock(B), &stale);
    assert!(!world.is_terminal(A));
}

#[test]
fn a_restarted_process_finds_its_predecessor_dead_at_once_and_waits_for_its_promises() {
    let (mut world, holder) = held_at_a(None);
    let home = world.home();
    // The predecessor sleeps; its successor has the other clock.
    world.nodes[A].up = false;
    world.start(B, "http://a");
    assert_eq!(world.state_of(home), Some(NodeState::Dead));

    // It wakes, and may go on promising until its record runs out: nothing overlaps.
    world.pass(500);
    alive(&world.done(A, heartbeat(holder.proof())));
    let next = acquire("b").waiting_until(world.clock(B) + ms(100_000));
    let next = world.done(B, next);
    world.run(NODE_TTL_MS + TTL_MS + 1_000);
    next.grant();
}

#[test]
fn a_node_that_was_found_dead_goes_on_as_another_and_adopts_its_own_leases() {
    let (mut world, holder) = held_at_a(None);
    let home = world.home();
    world.nodes[A].up = false;
    world.run(3 * NODE_TTL_MS);
    assert_eq!(world.state_of(home), Some(NodeState::Dead));
    world.nodes[A].up = true;
    world.renew(A);
    world.renew(A);
    assert_ne!(world.incarnation(A), home);
    alive(&world.done(A, heartbeat(holder.proof())));
    assert_eq!(world.home(), world.incarnation(A));
    assert_eq!(world.cell.there.as_ref().unwrap().1.token(world.cell.revision()).0, holder.token());
}

#[test]
fn an_unknown_node_is_made_dead_and_its_leases_wait_for_the_longest_record() {
    let (mut world, _) = held_at_a(None);
    let home = world.home();
    world.crash(A);
    world.records.remove(&home);
    // A process that has never heard of A.
    world.start(B, "http://b");
    world.tell(B);
    world.watch(B);
    let record = &world.records[&home].1;
    assert!(record.unseen && record.state == NodeState::Dead);

    let began = world.clock(B);
    let wait = NODE_DRIFT.stretch(ms(MAX_NODE_TTL_MS + TTL_MS));
    let next = acquire("b").waiting_until(began + 2 * wait);
    let next = world.done(B, next);
    world.run_until(200_000, |_| !next.waits());
    next.grant();
    assert!(world.clock(B) >= began + wait, "{:?}", world.clock(B).since(began));
}

#[test]
fn a_record_that_vanished_while_this_node_did_not_look_is_asked_for_by_name() {
    let (mut world, _) = held_at_a(None);
    let home = world.home();
    world.crash(A);
    world.records.remove(&home);
    world.run(NODE_TTL_MS);
    assert!(world.records[&home].1.unseen, "the lease must not stay at a home that nobody finds");
}

/// What a membership knows of itself, without a world.
fn membership() -> (Membership, Moment) {
    let mut membership = Membership::new(tenure::lease::Nonce(1), "", "0", NODE_TTL_MS, EPOCH);
    let (_, record) = membership.renewal(START, tenure::lease::Nonce(2), 0);
    membership.renewed(record, tenure::lease::Revision(5), START);
    (membership, START)
}

#[test]
fn the_end_of_its_own_record_never_goes_back() {
    let (mut membership, now) = membership();
    let (_, older) = membership.renewal(now, tenure::lease::Nonce(3), 0);
    let (_, newer) = membership.renewal(now + ms(1_000), tenure::lease::Nonce(4), 0);
    let until = newer.until;
    membership.renewed(newer, tenure::lease::Revision(9), now + ms(1_000));
    membership.renewed(older, tenure::lease::Revision(7), now + ms(1_001));
    assert_eq!(membership.until(), until);
    membership.reborn(tenure::lease::Nonce(8), EPOCH, now + ms(1_002));
    let own = membership.peers().get(tenure::lease::Nonce(1)).unwrap();
    assert_eq!(own.record.until, until, "what was promised is reckoned with");
}
