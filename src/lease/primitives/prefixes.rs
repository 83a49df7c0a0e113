//! A set of keys, as the prefixes that they begin with.

/// A set of prefixes of keys. It is sorted and minimal: no prefix in it begins with another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Prefixes(Box<[Box<str>]>);

impl Prefixes {
    /// The set of every key.
    #[must_use]
    pub fn everything() -> Self {
        [""].into_iter().collect()
    }

    /// Whether the key begins with one of the prefixes.
    #[must_use]
    pub fn allows(&self, key: &str) -> bool {
        // Between a prefix and a key that begins with it, everything begins with that prefix. A minimal set has nothing
        // there, so the greatest prefix that is not greater than the key is the only candidate.
        let after = self.0.partition_point(|prefix| **prefix <= *key);
        after.checked_sub(1).is_some_and(|at| key.starts_with(&*self.0[at]))
    }

    /// Whether every key with this prefix begins with one of the prefixes.
    #[must_use]
    pub fn covers(&self, prefix: &str) -> bool {
        self.allows(prefix)
    }

    /// The prefixes of the keys that begin with `prefix` and are in the set.
    #[must_use]
    pub fn part_of(&self, prefix: &str) -> Vec<String> {
        if self.covers(prefix) {
            return vec![prefix.to_owned()];
        }
        self.iter().filter(|inner| inner.starts_with(prefix)).map(str::to_owned).collect()
    }

    /// Whether some key begins with a prefix of each of the two sets.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        let one_in = |all: &Self, set: &Self| all.iter().any(|prefix| set.covers(prefix));
        one_in(self, other) || one_in(other, self)
    }

    /// Whether every key is in the set.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.0.first().is_some_and(|prefix| prefix.is_empty())
    }

    /// Whether no key is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The prefixes, in ascending order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(|prefix| &**prefix)
    }
}

impl<S: Into<Box<str>>> FromIterator<S> for Prefixes {
    fn from_iter<I: IntoIterator<Item = S>>(prefixes: I) -> Self {
        let mut all: Vec<Box<str>> = prefixes.into_iter().map(Into::into).collect();
        all.sort_unstable();
        // A prefix sorts before everything that begins with it, and nothing else comes between them.
        all.dedup_by(|next, kept| next.starts_with(&**kept));
        Self(all.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set<const N: usize>(prefixes: [&str; N]) -> Prefixes {
        prefixes.into_iter().collect()
    }

    #[test]
    fn a_key_is_allowed_by_its_beginning_alone() {
        let jobs = set(["jobs/", "shards/a"]);
        assert!(jobs.allows("jobs/") && jobs.allows("jobs/1") && jobs.allows("shards/ab"));
        for other in ["", "job", "jobs", "my/jobs/1", "shards/", "shards/b", "z", "Jobs/1"] {
            assert!(!jobs.allows(other), "{other}");
        }
    }

    #[test]
    fn what_another_prefix_contains_is_left_out() {
        let kept = |set: &Prefixes| set.iter().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(kept(&set(["b", "a/x", "a/", "a/x/y", "b"])), ["a/", "b"]);
        assert_eq!(kept(&set(["a", "", "z"])), [""]);
        assert_eq!(set(["a", ""]), Prefixes::everything());
    }

    #[test]
    fn everything_and_nothing() {
        let (all, none) = (Prefixes::everything(), Prefixes::default());
        assert!(all.is_everything() && all.allows("") && all.allows("any") && all.covers(""));
        assert!(none.is_empty() && !none.is_everything() && !none.allows("") && !none.covers("a"));
        assert!(!set(["a"]).covers("") && !set(["a"]).is_everything());
    }

    #[test]
    fn two_sets_meet_where_a_prefix_of_one_contains_a_prefix_of_the_other() {
        let meet = |one: &Prefixes, other: &Prefixes| {
            assert_eq!(one.meets(other), other.meets(one));
            one.meets(other)
        };
        assert!(meet(&set(["a/", "c"]), &set(["b", "a/x"])));
        assert!(meet(&Prefixes::everything(), &set(["z"])));
        assert!(!meet(&set(["a/"]), &set(["a", "b"]).iter().skip(1).collect()));
        assert!(!meet(&Prefixes::default(), &Prefixes::everything()));
    }

    proptest! {
        #[test]
        fn it_is_what_any_of_the_prefixes_allows(
            prefixes in prop::collection::vec("[abü]{0,4}", 0..8),
            others in prop::collection::vec("[abü]{0,4}", 0..4),
            key in "[abü]{0,6}",
        ) {
            let set: Prefixes = prefixes.iter().map(String::as_str).collect();
            let allowed = prefixes.iter().any(|prefix| key.starts_with(prefix));
            prop_assert_eq!(set.allows(&key), allowed);
            prop_assert_eq!(set.covers(&key), allowed);
            let kept: Vec<&str> = set.iter().collect();
            prop_assert!(kept.is_sorted_by(|a, b| a < b && !b.starts_with(a)));
            let other: Prefixes = others.iter().map(String::as_str).collect();
            let meets = prefixes.iter().any(|one| {
                others.iter().any(|two| one.starts_with(two) || two.starts_with(one))
            });
            prop_assert_eq!(set.meets(&other), meets);
        }
    }
}
