//! Figures of the answers about status and changes, as text for people.

use std::{cmp::Reverse, collections::BTreeMap};

use super::output::{dash, shown};

/// How often something happened by cause, the most frequent cause first: `expired 206, granted 206`.
pub(super) fn causes(changes: &BTreeMap<String, u64>) -> String {
    let mut listed: Vec<_> = changes.iter().collect();
    // Causes with the same count stay in the order of their names.
    listed.sort_by_key(|(_, count)| Reverse(**count));
    let words: Vec<String> =
        listed.iter().map(|(cause, count)| format!("{} {count}", shown(cause))).collect();
    if words.is_empty() { dash() } else { words.join(", ") }
}

/// A count with its error: `412–415`, or one number if it is exact.
pub(super) fn bounds(at_least: u64, at_most: u64) -> String {
    if at_least == at_most { at_least.to_string() } else { format!("{at_least}–{at_most}") }
}

/// `1 key`, `3 keys`.
pub(super) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_cause_comes_first() {
        let changes = [("released", 3), ("expired", 7), ("granted", 7)];
        let changes = changes.map(|(cause, count)| (cause.to_owned(), count)).into();
        assert_eq!(causes(&changes), "expired 7, granted 7, released 3");
        assert_eq!(causes(&BTreeMap::new()), "-");
    }

    #[test]
    fn an_exact_count_is_one_number() {
        assert_eq!((bounds(4, 4), bounds(4, 7)), ("4".to_owned(), "4–7".to_owned()));
        assert_eq!(
            (count(1, "key", "keys"), count(0, "key", "keys")),
            ("1 key".into(), "0 keys".into())
        );
    }
}
