//! Reading the keys of a prefix backwards.

#[cfg(any(feature = "nats", feature = "dynamodb"))]
use std::{collections::BTreeMap, ops::Bound};

#[cfg(any(feature = "nats", feature = "dynamodb"))]
use crate::lease::Key;

/// The last keys of a sorted map that start with `prefix` and sort before `before`, in descending order, `limit` of them
/// at most.
#[cfg(any(feature = "nats", feature = "dynamodb"))]
pub(super) fn last_keys<T>(
    map: &BTreeMap<Key, T>,
    prefix: &str,
    before: Option<&str>,
    limit: usize,
) -> Vec<Key> {
    if before.is_some_and(|before| before <= prefix) {
        return Vec::new();
    }
    let end = before.map_or(Bound::Unbounded, Bound::Excluded);
    let keys = map.range::<str, _>((Bound::Included(prefix), end)).rev().map(|(key, _)| key);
    keys.take_while(|key| key.as_str().starts_with(prefix)).take(limit).cloned().collect()
}

/// The first text that sorts after all texts with this prefix; `None` if there is none.
#[must_use]
pub fn end_of_prefix(prefix: &str) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        // No character is from U+D800 to U+DFFF.
        let next = if last == '\u{d7ff}' { 0xe000 } else { u32::from(last) + 1 };
        if let Some(next) = char::from_u32(next) {
            end.push(next);
            return Some(end);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_comes_after_all_that_begins_with_it_and_before_all_else() {
        for (prefix, end) in [
            ("jobs/", Some("jobs0")),
            ("a\u{d7ff}", Some("a\u{e000}")),
            ("a\u{10ffff}", Some("b")),
            ("", None),
            ("\u{10ffff}", None),
        ] {
            assert_eq!(end_of_prefix(prefix).as_deref(), end, "{prefix:?}");
            if let Some(end) = end {
                assert!(*format!("{prefix}\u{10ffff}\u{10ffff}") < *end && *end > *prefix);
            }
        }
    }

    #[cfg(any(feature = "nats", feature = "dynamodb"))]
    #[test]
    fn the_last_keys_come_last_first() {
        let key = |name: &str| Key::new(name).expect("a key");
        let names = ["a", "b/1", "b/2", "b/3", "c"];
        let map: BTreeMap<Key, ()> = names.into_iter().map(|name| (key(name), ())).collect();
        let found = |prefix, before, limit| -> Vec<String> {
            let keys = last_keys(&map, prefix, before, limit);
            keys.iter().map(|key| key.as_str().to_owned()).collect()
        };
        assert_eq!(found("b/", Some("b0"), 2), ["b/3", "b/2"]);
        assert_eq!(found("b/", Some("b/2"), 9), ["b/1"]);
        assert_eq!(found("b/", Some("b/"), 9), [""; 0]);
        assert_eq!(found("", None, 2), ["c", "b/3"]);
    }
}
