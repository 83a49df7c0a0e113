//! A set of keys: all keys with a prefix, and single keys with their permits.

use super::key::{PERMIT, permit_of};

/// A set of keys. It is sorted and minimal: no prefix in it begins with another one, and no single key begins with a
/// prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeySet {
    prefixes: Box<[Box<str>]>,
    /// Each stands for itself and for its permits: `gpus/a` for `gpus/a`, `gpus/a#1`, `gpus/a#2` and so on.
    singles: Box<[Box<str>]>,
}

/// A part of all keys, which are in byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    /// Every key with this prefix.
    Under(String),
    /// This key alone.
    One(String),
}

impl Span {
    /// The prefix, or the key. No key of the span is before it.
    #[must_use]
    pub fn start(&self) -> &str {
        match self {
            Self::Under(start) | Self::One(start) => start,
        }
    }

    /// Whether no key of the span is after this key.
    #[must_use]
    pub fn is_over_after(&self, key: &str) -> bool {
        match self {
            Self::Under(prefix) => **prefix < *key && !key.starts_with(&**prefix),
            Self::One(one) => **one <= *key,
        }
    }
}

impl KeySet {
    /// The keys with one of these prefixes, and these single keys with their permits.
    pub fn new<S: Into<Box<str>>>(
        prefixes: impl IntoIterator<Item = S>,
        singles: impl IntoIterator<Item = S>,
    ) -> Self {
        let mut prefixes: Vec<Box<str>> = prefixes.into_iter().map(Into::into).collect();
        prefixes.sort_unstable();
        // A prefix sorts before everything that begins with it, and nothing else comes between them.
        prefixes.dedup_by(|next, kept| next.starts_with(&**kept));
        let mut set = Self { prefixes: prefixes.into(), singles: Box::default() };
        let mut singles: Vec<Box<str>> = singles.into_iter().map(Into::into).collect();
        singles.retain(|single| !set.covers(single));
        singles.sort_unstable();
        singles.dedup();
        set.singles = singles.into();
        set
    }

    /// The set of every key.
    #[must_use]
    pub fn everything() -> Self {
        Self::new([""], [])
    }

    /// Whether the key is in the set.
    #[must_use]
    pub fn allows(&self, key: &str) -> bool {
        let single = |key: &str| self.singles.binary_search_by(|one| (**one).cmp(key)).is_ok();
        self.covers(key) || single(key) || permit_of(key).is_some_and(|(name, _)| single(name))
    }

    /// Whether every key with this prefix is in the set. Single keys never make up a prefix.
    #[must_use]
    pub fn covers(&self, prefix: &str) -> bool {
        // Between a prefix and a key that begins with it, everything begins with that prefix. A minimal set has nothing
        // there, so the greatest prefix that is not greater than the key is the only candidate.
        let after = self.prefixes.partition_point(|one| **one <= *prefix);
        after.checked_sub(1).is_some_and(|at| prefix.starts_with(&*self.prefixes[at]))
    }

    /// Spans, in byte order and without a common key, that have every key of the set that begins with `prefix`. They may
    /// have other keys, which only [`Self::allows`] leaves out.
    #[must_use]
    pub fn part_of(&self, prefix: &str) -> Vec<Span> {
        if self.covers(prefix) {
            return vec![Span::Under(prefix.to_owned())];
        }
        let within = |start: &str| start.starts_with(prefix);
        let mut spans: Vec<Span> = Vec::new();
        let inner = self.prefixes.iter().filter(|inner| within(inner));
        spans.extend(inner.map(|inner| Span::Under(inner.to_string())));
        for single in &self.singles {
            let permits = format!("{single}{PERMIT}");
            if within(single) {
                spans.push(Span::One(single.to_string()));
                spans.push(Span::Under(permits));
            } else if begins_permit(prefix, single) {
                spans.push(Span::Under(prefix.to_owned()));
            }
        }
        spans.sort_by(|a, b| (a.start(), a.is_single()).cmp(&(b.start(), b.is_single())));
        spans.dedup_by(|next, kept| match kept {
            Span::Under(prefix) => next.start().starts_with(&**prefix),
            Span::One(_) => next == kept,
        });
        spans
    }

    /// Whether some key is in both sets.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        let one_in = |all: &Self, set: &Self| {
            let permit_under =
                |single: &str| all.prefixes.iter().any(|one| begins_permit(one, single));
            all.prefixes.iter().any(|prefix| set.covers(prefix))
                || all.singles.iter().any(|single| set.allows(single))
                || set.singles.iter().any(|single| permit_under(single))
        };
        one_in(self, other) || one_in(other, self)
    }

    /// Whether every key is in the set.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.prefixes.first().is_some_and(|prefix| prefix.is_empty())
    }

    /// Whether no key is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty() && self.singles.is_empty()
    }

    /// The prefixes, in ascending order.
    pub fn prefixes(&self) -> impl ExactSizeIterator<Item = &str> {
        self.prefixes.iter().map(|prefix| &**prefix)
    }

    /// The single keys, in ascending order.
    pub fn singles(&self) -> impl ExactSizeIterator<Item = &str> {
        self.singles.iter().map(|single| &**single)
    }
}

impl Span {
    fn is_single(&self) -> bool {
        matches!(self, Self::One(_))
    }
}

/// Whether the key of a permit of `single` begins with `prefix`, which is longer than `single`.
fn begins_permit(prefix: &str, single: &str) -> bool {
    let number = prefix.strip_prefix(single).and_then(|rest| rest.strip_prefix(PERMIT));
    number.is_some_and(|number| number.is_empty() || permit_of(prefix).is_some())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set<const N: usize>(prefixes: [&str; N]) -> KeySet {
        KeySet::new(prefixes, [])
    }

    fn singles<const N: usize>(keys: [&str; N]) -> KeySet {
        KeySet::new([], keys)
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
        let kept = |set: &KeySet| set.prefixes().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(kept(&set(["b", "a/x", "a/", "a/x/y", "b"])), ["a/", "b"]);
        assert_eq!(kept(&set(["a", "", "z"])), [""]);
        assert_eq!(set(["a", ""]), KeySet::everything());
    }

    #[test]
    fn everything_and_nothing() {
        let (all, none) = (KeySet::everything(), KeySet::default());
        assert!(all.is_everything() && all.allows("") && all.allows("any") && all.covers(""));
        assert!(none.is_empty() && !none.is_everything() && !none.allows("") && !none.covers("a"));
        assert!(!set(["a"]).covers("") && !set(["a"]).is_everything());
    }

    #[test]
    fn two_sets_meet_where_a_prefix_of_one_contains_a_prefix_of_the_other() {
        let meet = |one: &KeySet, other: &KeySet| {
            assert_eq!(one.meets(other), other.meets(one));
            one.meets(other)
        };
        assert!(meet(&set(["a/", "c"]), &set(["b", "a/x"])));
        assert!(meet(&KeySet::everything(), &set(["z"])));
        assert!(!meet(&set(["a/"]), &set(["b"])));
        assert!(!meet(&KeySet::default(), &KeySet::everything()));
    }

    #[test]
    fn a_single_key_is_itself_and_its_permits_alone() {
        let lock = singles(["deploy/lock"]);
        assert!(lock.allows("deploy/lock") && lock.allows("deploy/lock#3"));
        for other in [
            "deploy/lock2",
            "deploy/lock/a",
            "deploy/loc",
            "deploy/lock#",
            "deploy/lock#x",
            "deploy/lock#0",
            "deploy/lock#1#2",
            "deploy/lock#03",
            "deploy/",
            "",
            "x/deploy/lock",
        ] {
            assert!(!lock.allows(other), "{other}");
        }
        assert!(!lock.covers("deploy/lock") && !lock.covers("deploy/lock#") && !lock.is_empty());
        assert_eq!(
            KeySet::new(["deploy/"], ["deploy/lock", "a"]).singles().collect::<Vec<_>>(),
            ["a"]
        );
    }

    #[test]
    fn single_keys_are_searched_by_themselves_and_by_their_permits() {
        let (one, under) =
            (|key: &str| Span::One(key.into()), |prefix: &str| Span::Under(prefix.into()));
        let set = KeySet::new(["a!", "b/"], ["a", "c"]);
        let all = [one("a"), under("a!"), under("a#"), under("b/"), one("c"), under("c#")];
        assert_eq!(set.part_of(""), all);
        assert_eq!(set.part_of("a#1"), [under("a#1")]);
        assert_eq!(set.part_of("a#"), [under("a#")]);
        assert_eq!(set.part_of("a#x"), []);
        assert_eq!(set.part_of("c"), [one("c"), under("c#")]);
        assert_eq!(set.part_of("d"), []);
        // A permit that is a single key of its own is in the span of the permits.
        assert_eq!(singles(["a", "a#2"]).part_of(""), [one("a"), under("a#")]);
        assert!(one("a").is_over_after("a") && !one("b").is_over_after("a"));
        assert!(under("a").is_over_after("b") && !under("a").is_over_after("ab"));
    }

    #[test]
    fn single_keys_meet_prefixes_and_each_other() {
        let meet = |one: &KeySet, other: &KeySet| {
            assert_eq!(one.meets(other), other.meets(one));
            one.meets(other)
        };
        assert!(meet(&singles(["a/1"]), &set(["a/"])));
        assert!(meet(&singles(["a"]), &set(["a#"])) && meet(&singles(["a"]), &set(["a#1"])));
        assert!(meet(&singles(["a"]), &singles(["a#1"])));
        assert!(!meet(&singles(["a"]), &set(["ab"])) && !meet(&singles(["a"]), &singles(["ab"])));
        assert!(!meet(&singles(["a"]), &set(["a#x"])));
    }

    proptest! {
        #[test]
        fn the_spans_of_a_set_have_each_of_its_keys_once(
            prefixes in prop::collection::vec("[a#1]{1,3}", 0..4),
            singles in prop::collection::vec("[a#1]{1,3}", 0..4),
            prefix in "[a#1]{0,3}",
            keys in prop::collection::vec("[a#1]{1,5}", 1..30),
        ) {
            let set = KeySet::new(prefixes.iter().map(String::as_str), singles.iter().map(String::as_str));
            let spans = set.part_of(&prefix);
            prop_assert!(spans.is_sorted_by(|a, b| a.start() < b.start()));
            let has = |span: &Span, key: &str| match span {
                Span::Under(prefix) => key.starts_with(&**prefix),
                Span::One(one) => one == key,
            };
            for key in &keys {
                let by_name = |one: &String| one == key || permit_of(key).is_some_and(|(name, _)| name == one);
                let allowed = prefixes.iter().any(|one| key.starts_with(one)) || singles.iter().any(by_name);
                prop_assert_eq!(set.allows(key), allowed);
                let times = spans.iter().filter(|span| has(span, key)).count();
                prop_assert!(times <= 1);
                if allowed && key.starts_with(&prefix) {
                    prop_assert_eq!(times, 1, "{} of {:?} in {:?}", key, set, spans);
                }
            }
        }

        #[test]
        fn it_is_what_any_of_the_prefixes_allows(
            prefixes in prop::collection::vec("[abü]{0,4}", 0..8),
            others in prop::collection::vec("[abü]{0,4}", 0..4),
            key in "[abü]{0,6}",
        ) {
            let set = KeySet::new(prefixes.iter().map(String::as_str), []);
            let allowed = prefixes.iter().any(|prefix| key.starts_with(prefix));
            prop_assert_eq!(set.allows(&key), allowed);
            prop_assert_eq!(set.covers(&key), allowed);
            let kept: Vec<&str> = set.prefixes().collect();
            prop_assert!(kept.is_sorted_by(|a, b| a < b && !b.starts_with(a)));
            let other = KeySet::new(others.iter().map(String::as_str), []);
            let meets = prefixes.iter().any(|one| {
                others.iter().any(|two| one.starts_with(two) || two.starts_with(one))
            });
            prop_assert_eq!(set.meets(&other), meets);
        }
    }
}
