//! How a pool is spread over its members: the sums, and what moves when members come and go, by number, by load and by
//! labels. Versions, returning members, guards, preparations and orders need the whole pool of a coordinator:
//! `src/actor/pools/tests_deploys` simulates three of them.

mod load;
mod pool;
mod sites;
mod standing;

use pool::{DAMPING, Planner, Pool};
use proptest::prelude::*;
use tenure::lease::{
    Moment, Nonce,
    balance::{self, Damping, Member, Plan, Unheld, band, choose, targets},
};

const KEYS: usize = 1000;
const MEMBERS: u32 = 20;

fn member(id: u128, weight: u32, held: usize) -> Member {
    Member { id: Nonce(id), weight, capacity: usize::MAX, held, asked: 0, draining: false }
}

/// A plan for a pool whose free keys will be taken soon.
fn plan(members: &[Member], free: usize, damping: Damping) -> Plan {
    balance::plan(members, Unheld { keys: free, fresh: free }, damping, |member| member.id)
}

#[test]
fn who_has_more_keeps_the_odd_one() {
    let members = [member(1, 1, 3), member(2, 1, 4), member(3, 1, 3)];
    assert_eq!(targets(&members, 10), [3, 4, 3]);
    let weighted = [member(1, 1, 0), member(2, 2, 0), member(3, 1, 0)];
    assert_eq!(targets(&weighted, 10), [3, 5, 2]);
    let mut leaving = members;
    leaving[1].draining = true;
    assert_eq!(targets(&leaving, 10), [5, 0, 5]);
    leaving.iter_mut().for_each(|member| member.draining = true);
    assert_eq!(targets(&leaving, 10), [0, 0, 0]);
    assert_eq!(targets(&[], 10), [0; 0]);
}

#[test]
fn free_keys_are_waited_for_and_nothing_is_moved_in_their_place() {
    // The third has just come, and takes the free keys one by one.
    for taken in 0..=4 {
        let members = [member(1, 1, 4), member(2, 1, 4), member(3, 1, taken)];
        assert_eq!(plan(&members, 4 - taken, DAMPING).asks, [0, 0, 0]);
    }
    let members = [member(1, 1, 7), member(2, 1, 7), member(3, 1, 1)];
    assert_eq!(plan(&members, 0, DAMPING).asks, [2, 2, 0]);
    // What was asked for already is on its way.
    let asked = members.map(|member| Member { asked: member.held / 6, ..member });
    assert_eq!(plan(&asked, 0, DAMPING).asks, [1, 1, 0]);
}

#[test]
fn for_who_has_nothing_yet_one_lease_is_asked_for_whatever_its_weight() {
    let asks = |members: &[Member], keys, fresh, first: u128| {
        let order = |member: &Member| (member.id.0 < first, member.id);
        balance::plan(members, Unheld { keys, fresh }, DAMPING, order).asks
    };
    let heavy = member(9, 1000, 0);
    assert_eq!(asks(&[member(1, 1, 10), heavy], 0, 0, 0), [1, 0]);
    // It is asked for once, and while the key waits for the newcomer no other is.
    assert_eq!(asks(&[Member { asked: 1, ..member(1, 1, 10) }, heavy], 0, 0, 0), [0, 0]);
    assert_eq!(asks(&[member(1, 1, 9), heavy], 1, 1, 0), [0, 0]);
    // A key that nobody can take is none that the newcomer gets.
    assert_eq!(asks(&[member(1, 1, 9), heavy], 1, 0, 0), [1, 0]);
    assert_eq!(asks(&[member(1, 1, 9), member(9, 1000, 1)], 0, 0, 0), [9, 0]);
    // One lease for each of them, beside what others are short of.
    let two = [member(1, 1, 30), member(2, 1, 30), heavy, member(8, 1000, 0)];
    assert_eq!(asks(&two, 0, 0, 0).iter().sum::<usize>(), 2);
    let with_known = [member(1, 1, 30), member(2, 1, 2), member(3, 1, 0)];
    assert_eq!(asks(&with_known, 0, 0, 0), [10, 0, 0]);

    // Of equals, who is first is asked; but while one is asked, no other is beside it.
    let mut equals: Vec<Member> = (1..=8).map(|id| member(id, 1, 1)).chain([heavy]).collect();
    let asked = |first| asks(&equals, 0, 0, first).iter().position(|ask| *ask == 1);
    assert_eq!([1, 2, 8].map(asked), [Some(0), Some(1), Some(7)]);
    equals[4].asked = 1;
    assert!((1..=8).all(|first| asks(&equals, 0, 0, first).iter().sum::<usize>() == 0));
}

#[test]
fn within_the_dead_band_nothing_moves_and_beyond_it_everything_does() {
    assert_eq!([0, 19, 20, 50, 1000].map(band), [0, 0, 1, 2, 50]);
    let pool = |short: usize| [member(1, 1, 50 + short), member(2, 1, 50 - short)];
    assert_eq!(plan(&pool(2), 0, DAMPING).asks, [0, 0]);
    assert_eq!(plan(&pool(2), 0, DAMPING).moves, 2);
    assert_eq!(plan(&pool(3), 0, DAMPING).asks, [3, 0]);
    // A small pool has no band: every lease counts.
    let small = [member(1, 1, 5), member(2, 1, 3)];
    assert_eq!(plan(&small, 0, DAMPING).asks, [1, 0]);
}

#[test]
fn a_member_gives_up_half_of_its_leases_at_a_time_and_one_that_leaves_all() {
    let mut members = [member(1, 1, 100), member(2, 9, 1)];
    assert_eq!(plan(&members, 0, DAMPING).asks, [50, 0]);
    members[0].asked = 50;
    assert_eq!(plan(&members, 0, DAMPING).asks, [0, 0]);
    let few = [member(1, 1, 20), member(2, 9, 1)];
    assert_eq!(plan(&few, 0, DAMPING).asks, [16, 0]);
    members[0].draining = true;
    assert_eq!(plan(&members, 0, DAMPING).asks, [50, 0]);
    // Also when nobody is short.
    let alone = [Member { draining: true, ..member(1, 1, 7) }];
    assert_eq!(plan(&alone, 0, DAMPING).asks, [7]);
}

#[test]
fn the_youngest_are_asked_for_and_none_that_is_too_young() {
    let second = |at: u64| Moment(at * 1_000_000_000);
    let leases = vec![("a", second(1)), ("b", second(5)), ("c", second(9)), ("d", second(5))];
    let now = second(16);
    assert_eq!(choose(leases.clone(), 2, now, DAMPING), ["b", "d"]);
    assert_eq!(choose(leases.clone(), 9, now, DAMPING), ["b", "d", "a"]);
    assert_eq!(choose(leases, 9, second(10), DAMPING), [""; 0]);
}

#[test]
fn what_is_beyond_a_members_capacity_falls_to_the_others() {
    let with = |id, capacity| Member { capacity, ..member(id, 1, 0) };
    assert_eq!(targets(&[with(1, 10), member(2, 1, 0)], 100), [10, 90]);
    assert_eq!(targets(&[with(1, 30), member(2, 1, 0), member(3, 1, 0)], 100), [30, 35, 35]);
    // Full only because another one is.
    assert_eq!(targets(&[with(1, 10), with(2, 40), member(3, 1, 0)], 100), [10, 40, 50]);
    // Nobody has room for the rest.
    assert_eq!(targets(&[with(1, 10), with(2, 20)], 100), [10, 20]);
    // Who takes more than it can gives it up.
    let many = [Member { capacity: 10, ..member(1, 1, 50) }, member(2, 1, 50)];
    assert_eq!(plan(&many, 0, DAMPING).asks, [25, 0]);
}

fn members() -> impl Strategy<Value = Vec<Member>> {
    let one = (1u32..50, 0usize..80, 0u8..8);
    prop::collection::vec(one, 1..24).prop_map(|all| {
        let member = |(id, (weight, held, dice)): (usize, (u32, usize, u8))| Member {
            draining: dice == 0,
            ..member(id as u128, weight, held)
        };
        all.into_iter().enumerate().map(member).collect()
    })
}

proptest! {
    #[test]
    fn no_target_is_beyond_a_capacity_and_no_key_is_left_while_there_is_room(
        members in members(), capacities in prop::collection::vec(0usize..200, 24), keys in 0usize..3000,
    ) {
        let bounded: Vec<Member> = members.iter().zip(&capacities)
            .map(|(member, capacity)| Member { capacity: *capacity, ..*member }).collect();
        let found = targets(&bounded, keys);
        let room: usize = bounded.iter().filter(|m| !m.draining).map(|m| m.capacity).sum();
        prop_assert_eq!(found.iter().sum::<usize>(), keys.min(room));
        prop_assert!(bounded.iter().zip(&found).all(|(member, target)| *target <= member.capacity));
    }

    #[test]
    fn targets_add_up_follow_the_weights_and_do_not_depend_on_the_order(
        members in members(), keys in 0usize..3000, turn in 0usize..24,
    ) {
        let found = targets(&members, keys);
        let stay = |member: &&Member| !member.draining;
        let total: u64 = members.iter().filter(stay).map(|member| u64::from(member.weight)).sum();
        let sum: usize = found.iter().sum();
        prop_assert_eq!(sum, if total == 0 { 0 } else { keys });
        for (member, &target) in members.iter().zip(&found) {
            if member.draining {
                prop_assert_eq!(target, 0);
                continue;
            }
            let quota = keys as u64 * u64::from(member.weight);
            let (least, most) = (quota / total, quota.div_ceil(total));
            prop_assert!((least..=most).contains(&(target as u64)));
            for (other, &theirs) in members.iter().zip(&found).filter(|(m, _)| !m.draining) {
                prop_assert!(other.weight >= member.weight || theirs <= target);
            }
        }
        let mut turned: Vec<_> = members.iter().copied().zip(found).collect();
        turned.rotate_left(turn % members.len());
        let (turned, expected): (Vec<_>, Vec<_>) = turned.into_iter().unzip();
        prop_assert_eq!(targets(&turned, keys), expected);
    }

    /// Of equals, those that have more keep the odd leases: no other choice moves fewer.
    #[test]
    fn the_fewest_leases_move(held in prop::collection::vec(0usize..60, 1..20), free in 0usize..50) {
        let equals = |(id, held): (usize, &usize)| member(id as u128, 1, *held);
        let members: Vec<_> = held.iter().enumerate().map(equals).collect();
        let keys = held.iter().sum::<usize>() + free;
        let (floor, extra) = (keys / held.len(), keys % held.len());
        let above = held.iter().filter(|held| **held > floor).count();
        let fewest: usize = held.iter().map(|held| held.saturating_sub(floor)).sum::<usize>() - above.min(extra);
        prop_assert_eq!(plan(&members, free, DAMPING).moves, fewest);
    }

    /// What is asked for is short of somebody; once it has moved, every member has its target.
    #[test]
    fn a_plan_asks_for_what_must_move_and_no_more(members in members(), free in 0usize..200) {
        let all = Damping { at_once: usize::MAX, ..DAMPING };
        let planned = plan(&members, free, all);
        let asked: usize = planned.asks.iter().sum();
        prop_assert!(asked <= planned.moves);
        let leaving: usize = members.iter().filter(|m| m.draining).map(|m| m.held).sum();
        let newcomer = members.iter().any(|member| member.held == 0 && !member.draining);
        prop_assert!(newcomer || asked == planned.moves || asked == leaving);
        for ((member, ask), target) in members.iter().zip(&planned.asks).zip(&planned.targets) {
            prop_assert!(*ask == 0 || member.held - ask >= *target);
        }
        let settled: Vec<_> = members.iter().zip(&planned.targets)
            .map(|(member, target)| Member { held: *target, ..*member }).collect();
        let again = plan(&settled, 0, DAMPING);
        prop_assert!(again.moves == 0 && again.targets == planned.targets);
    }
}

/// A pool of 20 members that has settled, and whose leases are old enough to move.
fn settled(seed: u64, nodes: usize, late: (u64, u64)) -> Pool {
    let mut pool = Pool::new(seed, KEYS, nodes, late);
    pool.join_many(MEMBERS);
    pool.settle(3);
    pool.run(20);
    assert_eq!((pool.moved, pool.must_move()), (0, 0));
    pool
}

/// A change: what it is called, and what is done. Gives the rounds until a crash is known.
type Change = (&'static str, fn(&mut Pool) -> u64);

fn any_of(pool: &mut Pool) -> Nonce {
    let ids = pool.ids();
    ids[usize::try_from(pool.draw(ids.len() as u64)).expect("small")]
}

const CHANGES: [Change; 8] = [
    ("a member comes", |pool| {
        pool.join(1);
        0
    }),
    ("a member of weight 3 comes", |pool| {
        pool.join(3);
        0
    }),
    ("a member of weight 20 comes", |pool| {
        pool.join(20);
        0
    }),
    ("10 members come at once", |pool| {
        pool.join_many(10);
        0
    }),
    ("a member drains", |pool| {
        let id = any_of(pool);
        pool.drain(id);
        0
    }),
    ("a member closes its session", |pool| {
        let id = any_of(pool);
        pool.close(id);
        0
    }),
    ("a member crashes", |pool| {
        let id = any_of(pool);
        pool.crash(id, 15);
        16
    }),
    ("one drains, one comes", |pool| {
        let id = any_of(pool);
        pool.drain(id);
        pool.join(1);
        0
    }),
];

/// The table of docs/pools.md.
#[test]
fn what_moves_is_what_must_and_a_change_settles_within_three_rounds() {
    println!("| change | leases that must move | moved | rounds |");
    println!("| --- | --- | --- | --- |");
    for (name, change) in CHANGES {
        let (mut least, mut moves, mut rounds) = (Vec::new(), Vec::new(), Vec::new());
        for seed in 0..20 {
            let mut pool = settled(seed, 3, (0, 0));
            let wait = change(&mut pool);
            pool.run(wait);
            let must = pool.must_move();
            rounds.push(pool.settle(4));
            pool.run(30);
            assert!(pool.moved <= must, "{name}: {} moved, {must} must", pool.moved);
            least.push(must);
            moves.push(pool.moved);
        }
        let most = |found: &[usize]| *found.iter().max().expect("some");
        let slowest = *rounds.iter().max().expect("some");
        println!("| {name} | {} | {} | {slowest} |", most(&least), most(&moves));
        assert!(slowest <= 3, "{name} took {slowest} rounds");
    }
}

#[test]
fn a_steady_pool_moves_nothing_however_late_its_nodes_see_it() {
    for late in 0..4 {
        let mut pool = settled(late, 5, (late, 2));
        for _ in 0..1000 {
            pool.step();
            assert!(pool.is_settled());
        }
        assert_eq!(pool.moved, 0);
    }
}

/// Members of any weight that come, drain and crash, 40 times. Nothing moves when nothing happens. Returns how many
/// leases had to move, how many did, and how many rounds it took until each change had settled.
fn churn(seed: u64, planner: Planner, late: u64) -> (usize, usize, u64) {
    let mut pool = Pool::new(seed, KEYS, 3, (late, 2));
    pool.planner = planner;
    for _ in 0..MEMBERS {
        let weight = u32::try_from(1 + pool.draw(5)).expect("small");
        pool.join(weight);
    }
    pool.settle(5);
    let (mut must, mut moved, mut rounds) = (0, 0, 0);
    for _ in 0..40 {
        pool.run(30);
        assert!(pool.is_settled());
        let before = pool.moved;
        match pool.draw(4) {
            0 | 1 => {
                let weight = u32::try_from(1 + pool.draw(5)).expect("small");
                pool.join(weight);
            }
            2 if pool.ids().len() > 5 => {
                let id = any_of(&mut pool);
                pool.drain(id);
            }
            _ if pool.ids().len() > 5 => {
                let id = any_of(&mut pool);
                pool.crash(id, 5);
            }
            _ => {}
        }
        let least = pool.must_move();
        // A crash is known after five rounds, and news may be late by as much.
        pool.run(6);
        rounds += pool.settle(60);
        pool.run(6);
        rounds += pool.settle(60);
        let steady = pool.moved;
        pool.run(50);
        assert_eq!(pool.moved, steady, "seed {seed}: nothing happens, and leases move");
        (must, moved) = (must + least, moved + steady - before);
    }
    (must, moved, rounds)
}

#[test]
fn members_of_any_weight_that_come_and_go_never_set_leases_to_flapping() {
    for seed in 0..6 {
        let (must, moved, _) = churn(seed, Planner::Each, 2);
        println!("seed {seed}: {moved} moved, {must} must");
        assert!(moved <= must + must / 20, "seed {seed}: {moved} moved, {must} must");
    }
}

/// Whether one node should plan for all (ARCHITECTURE.md). The plans of three nodes move as few leases as that of one,
/// and settle no later, however late each sees the pool.
#[test]
fn the_plans_of_each_node_move_no_more_than_the_plan_of_one() {
    println!("| late by up to | planner | must move | moved | rounds |");
    println!("| --- | --- | --- | --- | --- |");
    for late in [0, 1, 3] {
        let [each, one] = [Planner::Each, Planner::One].map(|planner| {
            let runs = (0..2).map(|seed| churn(seed, planner, late));
            let sum =
                runs.fold((0, 0, 0), |sum, run| (sum.0 + run.0, sum.1 + run.1, sum.2 + run.2));
            println!("| {late} s | {planner:?} | {} | {} | {} |", sum.0, sum.1, sum.2);
            sum
        });
        let share = |(must, moved, _): (usize, usize, u64)| moved as f64 / must as f64;
        assert!(share(each) <= share(one) + 0.02, "{late}: {each:?} {one:?}");
        assert!(each.2 <= one.2 + one.2 / 10 + 20, "{late}: {each:?} {one:?}");
    }
}
