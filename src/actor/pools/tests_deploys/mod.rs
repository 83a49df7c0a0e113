//! Deploys and failures of a pool with 20 members and 1 000 keys, on three nodes that hear of changes late.
//!
//! Shows: in a rolling restart with ids no key changes its member. In a rolling upgrade with versions each key moves once,
//! with preparations or without. After the loss of 40 % of the members at once, no other member is given more than its
//! former share until the guard ends; it ends by itself or by order. Whatever happens, the orders of operators hold, and
//! the pool comes to rest. Each test also shows that it fails when the rule behind it is broken.

mod world;

use std::time::Duration;

use self::world::{REJOIN, World, owner};
use crate::lease::{Mutant, Owner, PoolOrder, Rules, Warmups};

const KEYS: usize = 1_000;
const MEMBERS: usize = 20;
/// Seeds, with the most seconds that a node is late.
const RUNS: [(u64, u64); 3] = [(1, 0), (2, 1), (3, 3)];
const LATE: u64 = 3;

fn member(at: usize) -> Owner {
    owner(&format!("w{at:02}"))
}

/// A pool that has settled.
fn settled(seed: u64, late: u64, version: Option<&str>, rules: Rules) -> World {
    let mut world = World::new(seed, late, KEYS, rules);
    (0..MEMBERS).for_each(|at| world.join(&member(at), version));
    world.settle(60);
    world.run(20);
    world.moves.clear();
    world
}

/// Each member is restarted, one after the other: it stops, or it is killed and comes back before its session ends or
/// after that. With `version`, a new program starts.
fn rolling_restart(seed: u64, late: u64, version: Option<&str>, rules: Rules) -> World {
    let mut world = settled(seed, late, version.map(|_| "1"), rules);
    let before = world.assignment();
    for at in 0..MEMBERS {
        let session = world.session_of(&member(at)).expect("a member");
        match world.draw(3) {
            0 => world.stop(session),
            _ => world.crash(session),
        }
        let away = world.draw(REJOIN - 5);
        world.run(away);
        world.join(&member(at), version);
        let pause = world.draw(10);
        world.run(pause);
    }
    world.settle(60);
    if world.assignment() != before || world.moved() != (0, 0) {
        let (_, moved) = world.moved();
        world.faults.push(format!("{moved} keys changed their member"));
    }
    world.rest(60);
    world
}

/// For each member a new one joins, and then the old one leaves.
fn rolling_upgrade(seed: u64, late: u64, warmups: Option<Warmups>, rules: Rules) -> World {
    let mut world = settled(seed, late, Some("1.9"), rules);
    world.warmups = warmups;
    let (mut left, mut rounds) = (0, 0);
    for at in 0..MEMBERS {
        world.join(&member(MEMBERS + at), Some("1.10"));
        let pause = LATE + world.draw(6);
        world.run(pause);
        let session = world.session_of(&member(at)).expect("a member");
        world.drain(session);
        while world.session_of(&member(at)).is_some() && rounds < 4_000 {
            (rounds, left) = (rounds + 1, at + 1);
            world.step();
        }
    }
    world.place(30);
    let (most, moved) = world.moved();
    if (most, moved, left) != (1, KEYS, MEMBERS) {
        let fault = format!("{moved} moves, of one key {most} at most, {left} members left");
        world.faults.push(fault);
    }
    world.settle(60);
    world.rest(60);
    world
}

/// How a pool recovers that lost 40 % of its members at once.
#[derive(Clone, Copy, Debug)]
enum Recovery {
    /// They come back.
    Members,
    /// Others come in their place.
    Others,
    /// An operator ends the guard.
    Order,
}

fn mass_failure(seed: u64, late: u64, recovery: Recovery, rules: Rules) -> World {
    let mut world = settled(seed, late, None, rules);
    let before = world.assignment();
    world.most = Some(KEYS / MEMBERS);
    let lost = MEMBERS * 2 / 5;
    for at in 0..lost {
        let session = world.session_of(&member(at)).expect("a member");
        world.crash(session);
        let pause = world.draw(2);
        world.run(pause);
    }
    // Their sessions end, and their keys are not kept for them any longer.
    let time = match recovery {
        Recovery::Members => 40,
        Recovery::Others | Recovery::Order => REJOIN + 60,
    };
    world.run(time);
    if !world.is_guarded() {
        world.faults.push("no guard stands".into());
    }
    match recovery {
        Recovery::Members => (0..lost).for_each(|at| world.join(&member(at), None)),
        Recovery::Others => (0..lost).for_each(|at| world.join(&member(50 + at), None)),
        Recovery::Order => {
            world.order(&PoolOrder::EndGuard);
        }
    }
    world.settle(120);
    if world.guards != [1, 1] {
        world.faults.push(format!("guards began and ended: {:?}", world.guards));
    }
    if matches!(recovery, Recovery::Members) && world.assignment() != before {
        world.faults.push("members did not come back to their keys".into());
    }
    world.rest(60);
    world
}

/// Members come, leave, crash, come back, and are upgraded, and operators give orders.
fn anything(seed: u64, late: u64, rules: Rules) -> World {
    let mut world = settled(seed, late, None, rules);
    world.mixed_versions = Duration::from_secs(60);
    let (mut next, mut gone) = (MEMBERS, Vec::new());
    for change in 0..60 {
        let owners = world.owners();
        let one = owners[usize::try_from(world.draw(owners.len() as u64)).expect("small")].clone();
        let session = world.session_of(&one).expect("a member");
        let is_large = owners.len() > MEMBERS / 2;
        match world.draw(12) {
            0 | 1 => {
                next += 1;
                world.join(&member(next), None);
            }
            2 => {
                next += 1;
                world.join_unready(&member(next));
            }
            3 => world.all_ready(),
            4 if is_large => world.drain(session),
            5 if is_large => world.crash(session),
            6 | 7 if is_large => {
                world.crash(session);
                gone.push(one);
            }
            8 => {
                world.stop(session);
                world.join(&one, Some(&format!("1.{change}")));
            }
            9 => world.order(&PoolOrder::Freeze),
            10 => world.order(&PoolOrder::Cordon(one)),
            11 => {
                let key = world.any_key();
                world.order(&PoolOrder::Pause(key));
            }
            _ => {}
        }
        if change % 7 == 6 {
            gone.drain(..).for_each(|owner| world.join(&owner, None));
        }
        if change % 10 == 9 {
            world.all_ready();
            world.end_orders();
        }
        let pause = world.draw(12);
        world.run(pause);
    }
    world.all_ready();
    world.end_orders();
    world.settle(400);
    // A target may be one more than the number of keys by member.
    world.run(20);
    world.settle(60);
    world.rest(60);
    world
}

fn check(what: &str, run: impl Fn(u64, u64) -> World) {
    for (seed, late) in RUNS {
        let World { faults, .. } = run(seed, late);
        assert!(faults.is_empty(), "{what}, seed {seed}, late by {late} s: {faults:#?}");
    }
}

/// Some run has a fault if the rule is broken.
fn notices(mutant: Mutant, run: impl Fn(u64, u64, Rules) -> World) {
    let rules = Rules::breaking(Some(mutant));
    let found = (1..=20).any(|seed| !run(seed, seed % (LATE + 1), rules).faults.is_empty());
    assert!(found, "nothing shows {mutant:?}");
}

const WARMUPS: Warmups = Warmups { timeout_ms: 6_000, most: 8 };

#[test]
fn a_rolling_restart_with_ids_moves_nothing() {
    check("restart", |seed, late| rolling_restart(seed, late, None, Rules::default()));
    check("new program", |seed, late| rolling_restart(seed, late, Some("2"), Rules::default()));
    notices(Mutant::RejoinWindowSkipped, |seed, late, rules| {
        rolling_restart(seed, late, None, rules)
    });
}

#[test]
fn a_rolling_upgrade_with_versions_moves_each_key_once() {
    check("upgrade", |seed, late| rolling_upgrade(seed, late, None, Rules::default()));
    notices(Mutant::UpgradeIgnored, |seed, late, rules| rolling_upgrade(seed, late, None, rules));
}

#[test]
fn a_rolling_upgrade_with_preparations_moves_each_key_once() {
    check("upgrade", |seed, late| rolling_upgrade(seed, late, Some(WARMUPS), Rules::default()));
    for mutant in [Mutant::PreparationSkipped, Mutant::PreparationsUnbounded] {
        notices(mutant, |seed, late, rules| rolling_upgrade(seed, late, Some(WARMUPS), rules));
    }
}

#[test]
fn after_a_mass_failure_nobody_gets_more_than_its_former_share() {
    for recovery in [Recovery::Members, Recovery::Others, Recovery::Order] {
        let what = format!("{recovery:?}");
        check(&what, |seed, late| mass_failure(seed, late, recovery, Rules::default()));
    }
    notices(Mutant::GuardIgnored, |seed, late, rules| {
        mass_failure(seed, late, Recovery::Order, rules)
    });
}

#[test]
fn whatever_happens_orders_hold_and_the_pool_comes_to_rest() {
    check("anything", |seed, late| anything(seed, late, Rules::default()));
    let mutants = [
        Mutant::FreezeIgnored,
        Mutant::CordonIgnored,
        Mutant::PauseIgnored,
        Mutant::UnreadyCounted,
    ];
    for mutant in mutants {
        notices(mutant, anything);
    }
}
