//! Keys that nobody holds although callers wait for them. Normally the write that frees a key grants it to the first of
//! them, so a key is here for the time of a write at most.

use crate::{
    clock::{DashMap, dash_map},
    lease::{Key, Moment},
};

/// Keys that nobody holds although callers wait for them, each with the moment since which that is so.
pub struct Stuck(DashMap<Key, Moment>);

impl Default for Stuck {
    fn default() -> Self {
        Self(dash_map())
    }
}

impl Stuck {
    /// Notes a key, or that it is no longer so.
    pub fn note(&self, key: &Key, since: Option<Moment>) {
        match since {
            Some(since) => {
                self.0.insert(key.clone(), since);
            }
            None => {
                self.0.remove(key);
            }
        }
    }

    /// The keys for which this has been so since this moment or longer, the longest first; `most` of them at most, and
    /// how many there are.
    #[must_use]
    pub fn since(&self, moment: Moment, most: usize) -> (Vec<(Key, Moment)>, usize) {
        let found = self.0.iter().filter(|one| *one.value() <= moment);
        let mut found: Vec<_> = found.map(|one| (one.key().clone(), *one.value())).collect();
        let all = found.len();
        found.sort_unstable_by(|(a, since), (b, other)| (since, a).cmp(&(other, b)));
        found.truncate(most);
        (found, all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_wait_longest_come_first_and_short_waits_are_left_out() {
        let stuck = Stuck::default();
        let key = |name: &str| Key::new(name).expect("a key");
        for (name, since) in [("c", 5), ("a", 3), ("b", 3), ("d", 9), ("gone", 1)] {
            stuck.note(&key(name), Some(Moment(since)));
        }
        stuck.note(&key("gone"), None);
        let (found, all) = stuck.since(Moment(5), 2);
        assert_eq!(found, [(key("a"), Moment(3)), (key("b"), Moment(3))]);
        assert_eq!(all, 3);
    }
}
