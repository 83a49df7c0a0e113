//! How many keys are in each state, and whose fences failed, kept as records change.

use std::collections::BTreeSet;

use crate::lease::{Condition, Key, KeyState};

/// How many keys there are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateCounts {
    /// A record that cannot be read counts as held.
    pub held: u64,
    pub free: u64,
    pub offered: u64,
    pub cooling: u64,
    pub fencing: u64,
}

impl StateCounts {
    /// The number of keys in this state.
    pub(crate) fn of(&mut self, state: KeyState) -> &mut u64 {
        match state {
            KeyState::Held => &mut self.held,
            KeyState::Free => &mut self.free,
            KeyState::Offered => &mut self.offered,
            KeyState::Cooling => &mut self.cooling,
            KeyState::Fencing => &mut self.fencing,
        }
    }
}

/// A census of a store's keys, without those of sessions and notifiers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub states: StateCounts,
    /// Keys with a fence that failed for good, and when the tenure before ended, in milliseconds since 1970.
    pub failed: Vec<(Key, Option<u64>)>,
    /// How many more of these keys there are.
    pub more_failed: usize,
}

/// The running census. It costs a key whose fence failed about 60 bytes, and other keys nothing.
#[derive(Debug, Default)]
pub(super) struct Census {
    states: StateCounts,
    failed: BTreeSet<Key>,
}

impl Census {
    /// A key has another record, or has none any more.
    pub fn change(&mut self, key: &Key, before: Option<Condition>, now: Option<Condition>) {
        if key.is_internal() || before == now {
            return;
        }
        if let Some(before) = before {
            *self.states.of(before.state) -= 1;
        }
        if let Some(now) = now {
            *self.states.of(now.state) += 1;
        }
        let failed = |condition: Option<Condition>| condition.is_some_and(|one| one.fence_failed);
        match (failed(before), failed(now)) {
            (false, true) => drop(self.failed.insert(key.clone())),
            (true, false) => drop(self.failed.remove(key)),
            _ => {}
        }
    }

    pub fn states(&self) -> StateCounts {
        self.states
    }

    /// Up to `most` keys whose fences failed, and how many others there are.
    pub fn failed(&self, most: usize) -> (Vec<Key>, usize) {
        let listed: Vec<_> = self.failed.iter().take(most).cloned().collect();
        let others = self.failed.len() - listed.len();
        (listed, others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_count_in_their_present_state_alone() {
        let mut census = Census::default();
        let key = |name: &str| Key::new(name).expect("a key");
        let of = |state| Condition { state, fence_failed: false };
        let failed = Condition { fence_failed: true, ..of(KeyState::Fencing) };
        for (name, now) in [
            ("a", of(KeyState::Held)),
            ("b", of(KeyState::Free)),
            ("c", failed),
            ("d", failed),
            ("e", of(KeyState::Cooling)),
            ("f", of(KeyState::Offered)),
        ] {
            census.change(&key(name), None, Some(now));
        }
        census.change(&Key::of_notifier("plugin"), None, Some(failed));
        let all = StateCounts { held: 1, free: 1, offered: 1, cooling: 1, fencing: 2 };
        assert_eq!((census.states(), census.failed(1)), (all, (vec![key("c")], 1)));
        census.change(&key("c"), Some(failed), Some(of(KeyState::Free)));
        census.change(&key("a"), Some(of(KeyState::Held)), None);
        let all = StateCounts { held: 0, free: 2, fencing: 1, ..all };
        assert_eq!((census.states(), census.failed(9)), (all, (vec![key("d")], 0)));
    }
}
