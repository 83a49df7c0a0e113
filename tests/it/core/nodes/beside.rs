//! Heartbeats that are absorbed beside the actors of two nodes.

use tenure::lease::{Answer, Heartbeat, Request};

use super::*;

impl World {
    /// A heartbeat that arrives at a node and finds the promise cell of its lease. `None`: the actor is to be asked.
    pub fn beside(&mut self, at: usize, holder: &Who) -> Option<Who> {
        let beat = Heartbeat::new(holder.proof());
        let now = self.clock(at);
        let node = &self.nodes[at];
        let absorbed = node.context.absorb_in(node.lease.promise_cell()?, &beat, now, now)?;
        let (token, valid_for_ms) = (absorbed.token, absorbed.valid_for_ms);
        let answer = Answer::Alive { token, valid_for_ms, revived: false };
        let who = Who::new(self.real, Request::Heartbeat(beat));
        self.reply(at, &who, &answer);
        Some(who)
    }
}

#[test]
fn a_node_promises_beside_the_actor_until_its_record_runs_out() {
    let (mut world, holder) = held_at_a(None);
    world.renew(A);
    world.pass(NODE_TTL_MS - 100);
    alive(&world.beside(A, &holder).expect("it is absorbed"));
    world.pass(100);
    assert!(world.beside(A, &holder).is_none());
    assert!(matches!(world.done(A, heartbeat(holder.proof())).answer(), Answer::Lapsed));
}

#[test]
fn a_node_that_leaves_promises_nothing_beside_the_actor() {
    let (mut world, holder) = held_at_a(None);
    assert!(world.beside(A, &holder).is_some());
    world.leave(A);
    assert!(world.beside(A, &holder).is_none());
}

#[test]
fn the_node_that_adopts_a_lease_makes_its_own_cell() {
    let (mut world, holder) = orphaned(None);
    assert!(world.beside(B, &holder).is_none());
    for _ in 0..2 {
        world.pass(500);
        alive(&world.done(B, heartbeat(holder.proof())));
    }
    world.pass(500);
    alive(&world.beside(B, &holder).expect("it is absorbed"));
}

/// A is found dead, and goes on as another incarnation before its actor hears of that. The rival waits at B.
fn reborn(mutant: Option<Mutant>) -> World {
    let (mut world, holder) = held_at_a(mutant);
    world.nodes[A].up = false;
    let next = acquire("b").waiting_until(world.clock(B) + ms(300_000));
    let next = world.home_unreachable(B, next);
    assert!(world.run_until(4 * NODE_TTL_MS, |world| world.is_terminal(A)));
    world.run(500);
    let former = world.incarnation(A);
    world.renew(A);
    world.renew(A);
    assert_ne!(world.incarnation(A), former);
    assert!(world.clock(A) < world.nodes[A].context.until);
    let absorbed = world.beside(A, &holder);
    assert_eq!(absorbed.is_some(), mutant.is_some());
    world.run(2 * TTL_MS);
    assert!(!next.waits());
    world
}

#[test]
fn a_cell_of_another_incarnation_is_noticed() {
    assert_eq!(reborn(None).word(), Ok(()), "nothing is broken");
    let objection = reborn(Some(Mutant::CellOfAnotherIncarnation)).word();
    let objection = objection.expect_err("the judge does not notice");
    assert!(objection.starts_with("I1") || objection.starts_with("R2"), "{objection}");
}
