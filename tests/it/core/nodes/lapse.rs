//! R2 and R4 after this node could not promise for a while.

use tenure::lease::Answer;

use super::*;

#[test]
fn an_outage_of_the_store_costs_nobody_its_key() {
    let (mut world, holder) = held_at_a(None);
    let rival = acquire("b").waiting_until(world.clock(A) + ms(300_000));
    let rival = world.done(A, rival);
    world.outage = true;
    world.run(5 * TTL_MS);
    assert!(matches!(world.ask(A, heartbeat(holder.proof())).answer(), Answer::Lapsed));
    world.outage = false;
    world.run(TTL_MS - 1_000);
    assert_eq!(world.owner().as_deref(), Some("a"), "one ttl from when it could be heard again");
    alive(&world.done(A, heartbeat(holder.proof())));
    world.run(2 * TTL_MS);
    rival.grant();
}

#[test]
fn a_holder_that_is_not_heard_between_two_outages_gets_one_ttl_only() {
    let (mut world, _) = held_at_a(None);
    let rival = acquire("b").waiting_until(world.clock(A) + ms(300_000));
    let rival = world.done(A, rival);
    world.outage = true;
    world.run(2 * TTL_MS);
    world.outage = false;
    world.run(TTL_MS / 2);
    assert!(rival.waits());
    world.outage = true;
    world.run(2 * TTL_MS);
    world.outage = false;
    world.run(1_500);
    rival.grant();
}

#[test]
fn the_next_holder_gets_its_own_ttl_after_an_outage() {
    let (mut world, holder) = held_at_a(None);
    world.outage = true;
    world.run(2 * TTL_MS);
    world.outage = false;
    world.run(1_500);
    world.done(A, release(holder.proof()));
    let next = world.done(A, acquire("b"));
    world.outage = true;
    world.run(2 * TTL_MS);
    world.outage = false;
    world.run(TTL_MS - 1_500);
    assert_eq!(world.owner().as_deref(), Some("b"));
    alive(&world.done(A, heartbeat(next.proof())));
}

#[test]
fn an_old_record_that_is_found_again_resumes_nothing() {
    let (mut world, holder) = held_at_a(None);
    world.nodes[A].up = false;
    world.run(2_000);
    world.nodes[B].up = false;
    // The store takes no writes, and can be read: what is found has run out itself.
    let home = world.home();
    let (revision, record) = world.records[&home].clone();
    for _ in 0..5 {
        world.pass(TTL_MS);
        world.renewed(A, record.clone(), revision);
        world.publish(A);
        world.wake(A);
        world.settle(A);
    }
    world.pass(TTL_MS / 2);
    world.nodes[A].up = true;
    world.run(TTL_MS - 1_000);
    assert_eq!(world.owner().as_deref(), Some("a"));
    alive(&world.done(A, heartbeat(holder.proof())));
}

#[test]
fn a_node_that_lapsed_waits_one_ttl_more_before_it_takes_over() {
    let (mut world, _) = held_at_a(None);
    world.crash(A);
    world.nodes[B].up = false;
    world.run(3 * TTL_MS);
    world.nodes[B].up = true;
    let next = acquire("b").waiting_until(world.clock(B) + ms(300_000));
    world.renew(B);
    let resumed = world.clock(B);
    let next = world.home_unreachable(B, next);
    world.run_until(100_000, |_| !next.waits());
    next.grant();
    assert!(world.clock(B) >= resumed + ms(TTL_MS));
}

/// A lease of 5 s that was one of 60 s a minute ago, known to both.
fn shortened_long_ago() -> World {
    let mut world = pair();
    let holder = world.done(A, acquire("a").ttl_ms(60_000));
    alive(&world.done(A, heartbeat_with(holder.proof(), None, Some(5_000))));
    for _ in 0..31 {
        world.run(2_000);
        alive(&world.done(A, heartbeat(holder.proof())));
    }
    world.news(B);
    world
}

#[test]
fn what_a_ttl_once_was_lengthens_no_grace() {
    let mut world = shortened_long_ago();
    let rival = acquire("b").waiting_until(world.clock(A) + ms(300_000));
    let rival = world.done(A, rival);
    world.outage = true;
    world.run(8_000);
    world.outage = false;
    world.run_until(6_000, |_| !rival.waits());
    rival.grant();
}

#[test]
fn what_a_ttl_once_was_delays_no_take_over() {
    let mut world = shortened_long_ago();
    world.crash(A);
    world.outage = true;
    world.run(8_000);
    world.outage = false;
    world.run(1_000);
    let rival = acquire("b").waiting_until(world.clock(B) + ms(300_000));
    let rival = world.home_unreachable(B, rival);
    world.run_until(6_000, |_| !rival.waits());
    rival.grant();
}
