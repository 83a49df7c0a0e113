//! Permits, and lists of keys: what a call may wait for while it keeps others, and what it keeps when it is refused.

use super::mutant::{Mutant, Rules};

impl Rules {
    /// A call that needs `missing` more of the `permits` of a key may wait for the one with this number. It leaves at
    /// least as many above that number as it then still needs. So of all calls that wait, the one with the highest
    /// permit waits for a permit that none of the others has, and no two calls wait for each other.
    #[must_use]
    pub fn a_call_waits_for_permit(self, number: u32, missing: u32, permits: u32) -> bool {
        number + missing <= permits + 1 || self.breaks(Mutant::AnyPermitAwaited)
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
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const PERMITS: u32 = 5;
    const CALLS: usize = 3;

    /// What each of the calls has and needs. A permit is a bit.
    type World = [(u8, u32); CALLS];

    fn may_take(rules: Rules, world: World, call: usize) -> impl Iterator<Item = u32> {
        let taken = world.iter().fold(0, |taken, (has, _)| taken | has);
        let missing = world[call].1 - world[call].0.count_ones();
        let open = move |number: &u32| taken & 1 << number == 0;
        let awaited = move |number: &u32| rules.a_call_waits_for_permit(*number, missing, PERMITS);
        (1..=PERMITS).filter(open).filter(awaited).filter(move |_| missing > 0)
    }

    /// Every state that the calls reach in any order of events. A call that has all that it needs gives it back.
    fn states(rules: Rules, needs: [u32; CALLS]) -> BTreeSet<World> {
        let mut found = BTreeSet::new();
        let mut next = vec![needs.map(|need| (0, need))];
        while let Some(world) = next.pop() {
            if !found.insert(world) {
                continue;
            }
            for call in 0..CALLS {
                for number in may_take(rules, world, call) {
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

    fn is_stuck(rules: Rules, world: World) -> bool {
        let waits = |call: usize| world[call].0.count_ones() < world[call].1;
        (0..CALLS).all(|call| waits(call) && may_take(rules, world, call).next().is_none())
    }

    fn all_needs() -> impl Iterator<Item = [u32; CALLS]> {
        let three = |one| {
            (1..=PERMITS).flat_map(move |two| (1..=PERMITS).map(move |three| [one, two, three]))
        };
        (1..=PERMITS).flat_map(three)
    }

    #[test]
    fn calls_never_wait_for_each_other() {
        let mut states_seen = 0;
        for needs in all_needs() {
            let states = states(Rules::default(), needs);
            states_seen += states.len();
            let stuck = states.iter().find(|world| is_stuck(Rules::default(), **world));
            assert_eq!(stuck, None, "{needs:?}");
        }
        assert!(states_seen > 10_000, "{states_seen}");
    }

    #[test]
    fn calls_that_wait_for_any_permit_block_each_other() {
        let broken = Rules::breaking(Some(Mutant::AnyPermitAwaited));
        let blocks = |needs| states(broken, needs).into_iter().any(|world| is_stuck(broken, world));
        assert!(all_needs().any(blocks));
    }

    #[test]
    fn a_call_for_one_permit_waits_for_each_of_them() {
        let waits = |number| Rules::default().a_call_waits_for_permit(number, 1, PERMITS);
        assert!((1..=PERMITS).all(waits));
    }
}
