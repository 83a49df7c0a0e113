//! Permits, and lists of keys: what a call may wait for while it keeps others, and what it keeps when it is refused.

use super::mutant::{Mutant, Rules};
use crate::lease::{
    policy::{Named, Policy},
    primitives::{Key, Nonce},
};

impl Rules {
    /// A call that needs `missing` more of the `permits` of a key may wait for the one with this number. It leaves at
    /// least as many above that number as it then still needs. So of all calls that wait, the one with the highest
    /// permit waits for a permit that none of the others has, and no two calls wait for each other.
    #[must_use]
    pub fn a_call_waits_for_permit(self, number: u32, missing: u32, permits: u32) -> bool {
        number + missing <= permits + 1 || self.breaks(Mutant::AnyPermitAwaited)
    }

    /// A key is granted only if the policy that is in force at that moment makes it a lease: a permit if the caller asked
    /// for one, and in the pool that the caller named, if it named one. A caller may have waited since before a change of
    /// the policies.
    #[must_use]
    pub fn a_key_may_be_granted(
        self,
        policy: &Policy,
        key: &Key,
        permit: bool,
        pool: Option<&str>,
    ) -> bool {
        if key.is_internal() || self.breaks(Mutant::FormerPolicyObeyed) {
            return true;
        }
        let is_of_pool = pool.is_none_or(|pool| *policy.pool == *pool);
        let is_permit = policy.permits > 1;
        is_of_pool && (is_permit || !permit) && policy.named(key.as_str()) == Named::Lease
    }

    /// How many of the permits that a call has, the lowest first, it keeps when their number has changed. It keeps what a
    /// call for `count` of `permits` may have while it waits for the others. It gives back the rest. Otherwise it could
    /// wait for a call that waits for it.
    #[must_use]
    pub fn a_call_keeps_permits(self, lowest_first: &[u32], count: u32, permits: u32) -> usize {
        let numbered = (1..).zip(lowest_first);
        let fits = |(place, number): &(u32, &u32)| **number + count <= permits + place;
        match () {
            () if self.breaks(Mutant::AnyPermitKept) => {
                lowest_first.iter().filter(|number| **number <= permits).count().min(count as usize)
            }
            () => numbered.take_while(fits).count().min(count as usize),
        }
    }

    /// A call for several leases is answered only if the policies that are in force at that moment name the leases that
    /// it has.
    #[must_use]
    pub fn a_list_is_checked_before_it_is_answered(self) -> bool {
        !self.breaks(Mutant::FormerNumberAnswered)
    }

    /// A call for a list of keys that is refused gives back what it has taken, before it is answered.
    #[must_use]
    pub fn a_refused_list_is_given_back(self) -> bool {
        !self.breaks(Mutant::PartOfAListKept)
    }

    /// A refused call for a list keeps what an earlier call with the same request id was granted (`again`): its caller may
    /// hold that.
    #[must_use]
    pub fn a_refused_list_keeps(self, again: bool) -> bool {
        again && !self.breaks(Mutant::RepeatGivenBack)
    }

    /// The request id of a refused call for a list is in flight until everything that the call had is released. So a
    /// repeated call is not told of a lease that is about to end.
    #[must_use]
    pub fn a_refused_list_is_in_flight_until_it_is_released(self) -> bool {
        !self.breaks(Mutant::RefusedListRepeated)
    }

    /// A lease that a refused call had is released, unless the lease has another home node by now. That node may have told
    /// a repeated call of the lease. Without a request id (`granter` is `None`), nobody repeats the call.
    #[must_use]
    pub fn a_give_back_ends(self, granter: Option<Nonce>, home: Nonce) -> bool {
        granter.is_none_or(|granter| granter == home) || self.breaks(Mutant::GivenBackElsewhere)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const PERMITS: u32 = 5;
    const CALLS: usize = 3;
    /// The most permits of a key whose number changes.
    const MOST: u32 = 4;

    /// What each of the calls has and needs. A permit is a bit.
    type World = [(u8, u32); CALLS];

    fn may_take(
        rules: Rules,
        world: World,
        call: usize,
        permits: u32,
    ) -> impl Iterator<Item = u32> {
        let taken = world.iter().fold(0, |taken, (has, _)| taken | has);
        let missing = world[call].1 - world[call].0.count_ones();
        let open = move |number: &u32| taken & 1 << number == 0;
        let awaited = move |number: &u32| rules.a_call_waits_for_permit(*number, missing, permits);
        (1..=permits).filter(open).filter(awaited).filter(move |_| missing > 0)
    }

    fn states(rules: Rules, needs: [u32; CALLS]) -> BTreeSet<World> {
        states_from(rules, [needs.map(|need| (0, need))], PERMITS)
    }

    /// Every state that the calls reach from these in any order of events. A call that has all that it needs gives it
    /// back.
    fn states_from(
        rules: Rules,
        begin: impl IntoIterator<Item = World>,
        permits: u32,
    ) -> BTreeSet<World> {
        let mut found = BTreeSet::new();
        let mut next: Vec<World> = begin.into_iter().collect();
        while let Some(world) = next.pop() {
            if !found.insert(world) {
                continue;
            }
            for call in 0..CALLS {
                for number in may_take(rules, world, call, permits) {
                    let mut after = world;
                    after[call].0 |= 1 << number;
                    next.push(after);
                }
                if world[call].0.count_ones() == world[call].1 {
                    let mut after = world;
                    after[call].0 = 0;
                    next.push(after);
                }
            }
        }
        found
    }

    fn is_stuck(rules: Rules, world: World, permits: u32) -> bool {
        let waits = |call: usize| world[call].0.count_ones() < world[call].1;
        (0..CALLS).all(|call| waits(call) && may_take(rules, world, call, permits).next().is_none())
    }

    fn all_needs(permits: u32) -> impl Iterator<Item = [u32; CALLS]> {
        let three = move |one| {
            (1..=permits).flat_map(move |two| (1..=permits).map(move |three| [one, two, three]))
        };
        (1..=permits).flat_map(three)
    }

    #[test]
    fn calls_never_wait_for_each_other() {
        let mut states_seen = 0;
        for needs in all_needs(PERMITS) {
            let states = states(Rules::default(), needs);
            states_seen += states.len();
            let stuck = states.iter().find(|world| is_stuck(Rules::default(), **world, PERMITS));
            assert_eq!(stuck, None, "{needs:?}");
        }
        assert!(states_seen > 10_000, "{states_seen}");
    }

    #[test]
    fn calls_that_wait_for_any_permit_block_each_other() {
        let broken = Rules::breaking(Some(Mutant::AnyPermitAwaited));
        let blocks =
            |needs| states(broken, needs).into_iter().any(|world| is_stuck(broken, world, PERMITS));
        assert!(all_needs(PERMITS).any(blocks));
    }

    /// What calls do when the number of permits changes: each keeps what the rule allows, and may have that many fewer or
    /// more.
    fn adapted(rules: Rules, world: World, permits: u32) -> World {
        world.map(|(has, count)| {
            let count = count.min(permits);
            let held: Vec<u32> = (1..=MOST).filter(|number| has & 1 << number != 0).collect();
            let kept = rules.a_call_keeps_permits(&held, count, permits);
            (held[..kept].iter().fold(0, |has, number| has | 1 << number), count)
        })
    }

    /// Whether calls that reached some state of `before` permits block each other once there are `after`.
    fn blocks_after_a_change(rules: Rules, needs: [u32; CALLS], before: u32, after: u32) -> bool {
        let worlds = states_from(rules, [needs.map(|need| (0, need))], before);
        let changed = worlds.into_iter().map(|world| adapted(rules, world, after));
        // Of those that kept more than others may have now, each goes on until it has what it needs.
        let reached = states_from(rules, changed, after);
        reached.into_iter().any(|world| is_stuck(rules, world, after))
    }

    fn changes() -> impl Iterator<Item = (u32, u32)> {
        (1..=MOST).flat_map(|before| (1..=MOST).map(move |after| (before, after)))
    }

    #[test]
    fn calls_never_wait_for_each_other_after_a_change_of_the_number() {
        for (before, after) in changes() {
            for needs in all_needs(before.min(after)) {
                let blocks = blocks_after_a_change(Rules::default(), needs, before, after);
                assert!(!blocks, "{needs:?} of {before}, then {after}");
            }
        }
    }

    #[test]
    fn calls_that_keep_any_permit_block_each_other_after_a_change_of_the_number() {
        let broken = Rules::breaking(Some(Mutant::AnyPermitKept));
        let blocks = |(before, after): (u32, u32)| {
            all_needs(before.min(after))
                .any(|needs| blocks_after_a_change(broken, needs, before, after))
        };
        assert!(changes().any(blocks));
    }

    #[test]
    fn a_call_keeps_what_it_might_have_taken_of_the_new_number() {
        let kept = |held: &[u32], count, permits| {
            Rules::default().a_call_keeps_permits(held, count, permits)
        };
        assert_eq!(kept(&[1, 2], 4, 4), 2, "of all permits, the first ones");
        assert_eq!(kept(&[1, 2, 3], 2, 2), 2, "no more than it needs");
        assert_eq!(kept(&[3], 2, 3), 0, "two permits above it would be missing");
        assert_eq!(kept(&[2, 4], 2, 4), 2);
        assert_eq!(kept(&[1, 4], 2, 2), 1, "#4 is no permit any more");
    }

    #[test]
    fn a_key_is_granted_as_its_policy_names_it_now() {
        let policy = |permits| Policy { permits, pool: "gpus".into(), ..Policy::default() };
        let may = |permits, key: &str, permit, pool| {
            let key = Key::new(key).unwrap();
            Rules::default().a_key_may_be_granted(&policy(permits), &key, permit, pool)
        };
        assert!(may(1, "a", false, None) && may(1, "a#3", false, None));
        assert!(may(2, "a#2", false, None) && may(2, "a#2", true, None));
        assert!(!may(2, "a", false, None) && !may(2, "a#3", false, None));
        assert!(!may(1, "a#2", true, None), "it is a key of its own now");
        assert!(may(1, "a", false, Some("gpus")) && !may(1, "a", false, Some("cpus")));
        let session = Key::of_session(crate::lease::Nonce(1));
        assert!(Rules::default().a_key_may_be_granted(&policy(2), &session, false, None));
    }

    #[test]
    fn a_call_for_one_permit_waits_for_each_of_them() {
        let waits = |number| Rules::default().a_call_waits_for_permit(number, 1, PERMITS);
        assert!((1..=PERMITS).all(waits));
    }
}
