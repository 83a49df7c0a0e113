//! Two nodes, seldom three, on one store, driven by hand: clocks that differ by years and run at different rates, node
//! records kept by [`tenure::lease::Membership`], one key's lease on each. One test per rule of several nodes.

mod adoption;
mod beside;
mod death;
mod elsewhere;
mod fences_and_delay;
mod lapse;
mod mutants;
mod outdated;
mod promise;
mod queue;
mod shell;
mod world;

use tenure::lease::{Answer, Mutant};
pub use world::World;

use crate::core::harness::*;

/// The nodes.
pub const A: usize = 0;
pub const B: usize = 1;
pub const C: usize = 2;

/// A node's record lives so long.
pub const NODE_TTL_MS: u64 = 3_000;

/// Two nodes that have known each other for a while.
pub fn pair() -> World {
    pair_breaking(None)
}

pub fn pair_breaking(mutant: Option<Mutant>) -> World {
    let mut world = World::breaking(mutant);
    world.start(A, "http://a");
    world.start(B, "http://b");
    world.run(2 * NODE_TTL_MS);
    world
}

/// A key that `name` holds, at home at A.
pub fn held_at_a(mutant: Option<Mutant>) -> (World, Who) {
    let mut world = pair_breaking(mutant);
    let holder = world.done(A, acquire("a"));
    world.run(NODE_TTL_MS);
    world.done(A, heartbeat(holder.proof()));
    world.news(B);
    (world, holder)
}

/// The same, and A is dead for certain, which B knows.
pub fn orphaned(mutant: Option<Mutant>) -> (World, Who) {
    let (mut world, holder) = held_at_a(mutant);
    world.crash(A);
    world.run_until(4 * NODE_TTL_MS, |world| world.is_terminal(A));
    (world, holder)
}

#[track_caller]
pub fn alive(who: &Who) -> u64 {
    match who.answer() {
        Answer::Alive { valid_for_ms, .. } => valid_for_ms,
        other => panic!("not alive: {other:?}"),
    }
}
