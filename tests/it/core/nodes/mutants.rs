//! Broken variants of the rules of several nodes, each in the story that shows the harm.

use super::{world::ShellFaults, *};

/// A story: nobody objects to it, unless a rule is broken.
#[track_caller]
fn noticed(
    story: impl Fn(Option<Mutant>, ShellFaults) -> World,
    (mutant, faults): (Option<Mutant>, ShellFaults),
    invariants: &[&str],
) {
    assert_eq!(story(None, ShellFaults::default()).word(), Ok(()), "nothing is broken");
    let objection = story(mutant, faults).word().expect_err("the judge does not notice");
    let named = invariants.iter().any(|invariant| objection.starts_with(invariant));
    assert!(named, "noticed for another reason: {objection}");
}

fn rule(mutant: Mutant) -> (Option<Mutant>, ShellFaults) {
    (Some(mutant), ShellFaults::default())
}

/// A rival asks at a node, and waits for as long as it takes.
fn rival(world: &mut World, at: usize) -> Who {
    let request = acquire("b").waiting_until(world.clock(at) + ms(300_000));
    world.home_unreachable(at, request)
}

/// The rival got the key.
fn was_granted(world: &World) -> bool {
    let owners = world.cell.history.iter().filter_map(|change| change.owner.as_ref());
    owners.into_iter().any(|owner| *owner == super::owner("b"))
}

/// A heartbeat whose answer, if there is one, is the judge's to judge.
fn beat(world: &mut World, at: usize, holder: &Who) {
    world.done(at, heartbeat(holder.proof()));
}

/// The home promises as late as it may, and sleeps from then on.
fn promises_late_and_sleeps(world: &mut World, at: usize, holder: &Who) {
    world.nodes[at].up = false;
    let until = world.records[&world.incarnation(at)].1.until;
    let left = until.since(world.clock(at));
    world.run(u64::try_from(left.as_millis()).unwrap() - 60);
    beat(world, at, holder);
}

#[test]
fn a_rival_that_counts_from_before_its_read_is_noticed() {
    let story = |_, faults| {
        let (mut world, holder) = held_at_a(None);
        world.faults = faults;
        // The reading takes two seconds; A's record in it is fresh.
        let asked = world.clock(B);
        world.run(1_950);
        world.renew(A);
        world.renew(B);
        let found: Vec<_> = world.records.values().cloned().collect();
        world.watch_as(B, asked, &found);
        world.faults = ShellFaults::default();
        promises_late_and_sleeps(&mut world, A, &holder);
        rival(&mut world, B);
        world.run(2 * TTL_MS);
        assert!(was_granted(&world));
        world
    };
    let faults = ShellFaults { counts_from_before: true, ..ShellFaults::default() };
    noticed(story, (None, faults), &["I1", "R2"]);
}

#[test]
fn a_promise_after_the_end_of_the_nodes_record_is_noticed() {
    let story = |mutant, _| {
        let (mut world, holder) = held_at_a(mutant);
        world.nodes[A].up = false;
        let next = rival(&mut world, B);
        world.run(2 * TTL_MS);
        assert!(!next.waits());
        beat(&mut world, A, &holder);
        world
    };
    noticed(story, rule(Mutant::PromiseAfterUntil), &["I1", "I3", "I7"]);
}

#[test]
fn a_take_over_without_a_tombstone_is_noticed() {
    let story = |mutant, _| {
        let (mut world, holder) = held_at_a(mutant);
        rival(&mut world, B);
        // B renews its record, and does not get to read those of others.
        for _ in 0..20 {
            world.pass(1_000);
            world.renew(A);
            world.renew(B);
            beat(&mut world, A, &holder);
            world.tell(B);
        }
        world
    };
    noticed(story, rule(Mutant::TakeOverWithoutTombstone), &["I1", "R2"]);
}

/// The home sleeps, its successor adopts; the home wakes, and promises until its record runs out.
fn a_predecessor_wakes(mutant: Option<Mutant>, _: ShellFaults) -> World {
    let (mut world, holder) = held_at_a(mutant);
    world.renew(A);
    world.nodes[A].up = false;
    world.start(B, "http://a");
    world.watch(B);
    beat(&mut world, B, &holder);
    rival(&mut world, B);
    promises_late_and_sleeps(&mut world, A, &holder);
    world.run(2 * TTL_MS);
    assert!(was_granted(&world));
    world
}

#[test]
fn an_adoption_without_floor_is_noticed() {
    noticed(a_predecessor_wakes, rule(Mutant::AdoptionWithoutFloor), &["I1", "R2"]);
}

/// A node says that it leaves, and goes on answering while its last record lasts: the floor of whoever
/// adopts covers that.
fn a_node_that_left_goes_on_answering(mutant: Option<Mutant>) -> World {
    let (mut world, holder) = held_at_a(mutant);
    world.renew(A);
    world.faults.drained_answers = true;
    world.leave(A);
    world.watch(B);
    beat(&mut world, B, &holder);
    rival(&mut world, B);
    promises_late_and_sleeps(&mut world, A, &holder);
    world.run(2 * TTL_MS);
    assert!(was_granted(&world));
    world
}

#[test]
fn a_drained_node_that_goes_on_answering_is_covered_by_the_floor_alone() {
    let story = |mutant, _| a_node_that_left_goes_on_answering(mutant);
    noticed(story, rule(Mutant::AdoptionWithoutFloor), &["I1", "R2"]);
}

#[test]
fn a_floor_kept_in_memory_only_is_noticed() {
    let story = |mutant, _| {
        let (mut world, holder) = held_at_a(mutant);
        world.start(C, "http://c");
        world.news(C);
        // B's record is older than A's last when it takes A for its predecessor, adopts and leaves.
        world.boot(B, "http://a");
        world.renew(B);
        world.watch(C);
        world.pass(1_500);
        world.renew(A);
        world.nodes[A].up = false;
        world.watch(B);
        beat(&mut world, B, &holder);
        assert_eq!(world.home(), world.incarnation(B));
        world.leave(B);
        world.crash(B);
        world.renew(C);
        world.watch(C);
        world.news(C);
        rival(&mut world, C);
        promises_late_and_sleeps(&mut world, A, &holder);
        world.run(2 * TTL_MS);
        assert!(was_granted(&world));
        world
    };
    noticed(story, rule(Mutant::FloorInMemoryOnly), &["I1", "R2"]);
}

#[test]
fn a_repeated_request_answered_by_another_node_is_noticed() {
    let story = |mutant, _| {
        let mut world = pair_breaking(mutant);
        world.done(A, acquire("a").id(7, 0));
        world.news(B);
        rival(&mut world, A);
        world.run(TTL_MS - 500);
        world.done(B, acquire("a").id(7, 0));
        world.run(TTL_MS);
        world
    };
    noticed(story, rule(Mutant::RepeatAnsweredElsewhere), &["I1", "R2"]);
}

#[test]
fn a_heartbeat_answered_by_another_node_is_noticed() {
    let story = |mutant, _| {
        let (mut world, holder) = held_at_a(mutant);
        rival(&mut world, A);
        world.run(TTL_MS - 500);
        beat(&mut world, B, &holder);
        world.run(TTL_MS);
        world
    };
    noticed(story, rule(Mutant::HeartbeatAnsweredElsewhere), &["I1", "R2"]);
}

#[test]
fn a_tombstone_with_its_authors_instants_is_noticed() {
    let story = |_, faults| {
        let mut world = pair();
        world.faults = faults;
        let holder = world.done(B, acquire("a"));
        world.news(A);
        world.run(NODE_TTL_MS);
        promises_late_and_sleeps(&mut world, B, &holder);
        // A's clock is years behind: by it, nothing that B promised can still run.
        rival(&mut world, A);
        world.run(2 * TTL_MS);
        assert!(was_granted(&world));
        world
    };
    let faults = ShellFaults { own_instants: true, ..ShellFaults::default() };
    noticed(story, (None, faults), &["I1", "R2"]);
}

#[test]
fn the_end_of_a_dead_node_from_an_older_copy_is_noticed() {
    let story = |_, faults| {
        let (mut world, holder) = held_at_a(None);
        world.faults = faults;
        // B does not get to read the nodes' records, while A renews its own and then leaves.
        for _ in 0..3 {
            world.pass(1_000);
            world.renew(A);
            world.renew(B);
        }
        world.nodes[A].up = false;
        world.pass(2_000);
        world.renew(B);
        world.pass(900);
        beat(&mut world, A, &holder);
        world.leave(A);
        world.watch(B);
        rival(&mut world, B);
        world.run(2 * TTL_MS);
        assert!(was_granted(&world));
        world
    };
    let faults = ShellFaults { older_copy: true, ..ShellFaults::default() };
    noticed(story, (None, faults), &["I1", "R2"]);
}

#[test]
fn a_conditional_write_that_is_retried_blindly_is_noticed() {
    let story = |_, faults| {
        let mut world = pair();
        world.faults = faults;
        world.ask(A, acquire("a"));
        world.done(B, acquire("b")).grant();
        world.lose_reply(A, false);
        world.settle(A);
        world
    };
    let faults = ShellFaults { retries_blindly: true, ..ShellFaults::default() };
    noticed(story, (None, faults), &["I1", "I2", "I4"]);
}

#[test]
fn a_heartbeat_absorbed_beside_the_write_that_shortens_is_noticed() {
    let story = |mutant, _| {
        let (mut world, holder) = held_at_a(mutant);
        world.done(A, heartbeat_with(holder.proof(), None, Some(30_000)));
        world.news(B);
        world.renew(A);
        world.nodes[A].up = false;
        world.ask(A, heartbeat_with(holder.proof(), None, Some(1_000)));
        world.run(NODE_TTL_MS - 100);
        world.ask(A, heartbeat(holder.proof()));
        // The write lands, and its author dies.
        world.crash(A);
        world.strays_land();
        world.news(B);
        rival(&mut world, B);
        world.run(40_000);
        assert!(was_granted(&world));
        world
    };
    noticed(story, rule(Mutant::HeartbeatAbsorbedWhileShortening), &["I1", "R2"]);
}
