//! Fences that were heard to have failed, with the reason that no record has.

use crate::{
    clock::HashMap,
    lease::{Change, ChangeKind, Key},
};

/// How many failed fences are remembered. More of them are found in the store, without the reason.
const ROOM: usize = 1024;

/// A fence that failed for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceFailure {
    /// The wall clock at the commit, in milliseconds since 1970.
    pub at_ms: u64,
    /// The plugin, and what it said.
    pub reason: Option<Box<str>>,
}

/// The keys whose fences failed, since this node heard of changes.
#[derive(Debug, Default)]
pub struct FenceFailures(HashMap<Key, FenceFailure>);

impl FenceFailures {
    /// Handles a change of a key.
    pub fn heard(&mut self, key: &Key, change: &Change, at_ms: u64) {
        match change.kind {
            ChangeKind::FenceFailed if self.0.len() < ROOM || self.0.contains_key(key) => {
                let reason = change.reason.clone();
                self.0.insert(key.clone(), FenceFailure { at_ms, reason });
            }
            ChangeKind::FenceSkipped | ChangeKind::Forgotten => {
                self.0.remove(key);
            }
            _ => {}
        }
    }

    /// The failures that are remembered. Some of them may be settled by now.
    #[must_use]
    pub fn all(&self) -> Vec<(Key, FenceFailure)> {
        self.0.iter().map(|(key, failure)| (key.clone(), failure.clone())).collect()
    }

    /// Forgets the failure at a key that was found to be settled, if it is still this one.
    pub fn settled(&mut self, key: &Key, failure: &FenceFailure) {
        if self.0.get(key) == Some(failure) {
            self.0.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Token;

    fn hear(failures: &mut FenceFailures, key: &str, kind: ChangeKind, at_ms: u64) {
        let change = Change {
            kind,
            seq: at_ms,
            owner: None,
            token: Token(1),
            previous: None,
            reason: Some("power: exit status 3".into()),
            actor: None,
            session: None,
        };
        failures.heard(&Key::new(key).expect("a key"), &change, at_ms);
    }

    fn keys(failures: &FenceFailures) -> Vec<String> {
        let mut keys: Vec<_> =
            failures.all().iter().map(|(key, _)| key.as_str().to_owned()).collect();
        keys.sort_unstable();
        keys
    }

    #[test]
    fn a_failure_is_remembered_with_its_reason_until_it_is_skipped_or_forgotten() {
        use ChangeKind::{Expired, FenceFailed, FenceSkipped, Forgotten};
        let mut failures = FenceFailures::default();
        for key in ["a", "b", "c"] {
            hear(&mut failures, key, Expired, 1);
            hear(&mut failures, key, FenceFailed, 7);
        }
        assert_eq!(keys(&failures), ["a", "b", "c"]);
        let (key, failure) = failures.all().swap_remove(0);
        assert_eq!((failure.at_ms, failure.reason.as_deref()), (7, Some("power: exit status 3")));
        hear(&mut failures, key.as_str(), FenceFailed, 8);
        failures.settled(&key, &failure);
        assert_eq!(keys(&failures).len(), 3, "another failure followed");
        hear(&mut failures, "a", FenceSkipped, 9);
        hear(&mut failures, "b", Forgotten, 9);
        assert_eq!(keys(&failures), ["c"]);
    }

    #[test]
    fn no_more_failures_are_remembered_than_there_is_room_for() {
        let mut failures = FenceFailures::default();
        for number in 0..2 * ROOM {
            hear(&mut failures, &format!("k/{number}"), ChangeKind::FenceFailed, 1);
        }
        assert_eq!(failures.all().len(), ROOM);
    }
}
