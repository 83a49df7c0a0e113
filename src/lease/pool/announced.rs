//! What a member of a pool says of itself. Its session's record keeps it as the value.

use std::{cmp::Ordering, collections::BTreeMap};

use serde::{Deserialize, Serialize};

use super::load::Load;
use crate::lease::labels::Labels;

/// The longest version of a member, in bytes.
pub const MAX_VERSION_BYTES: usize = 64;

/// The longest address of a member, in bytes.
pub const MAX_ADDRESS_BYTES: usize = 256;

/// What a member of a pool says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Announced {
    /// The version of the program that it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Box<str>>,
    /// Where it serves its keys. It means nothing to tenure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Box<str>>,
    /// Its labels.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// The loads of its leases, by key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub loads: BTreeMap<Box<str>, Load>,
    /// The highest load that it accepts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_limit: Option<Load>,
    /// It takes no leases yet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unready: bool,
}

impl Announced {
    /// What a session's value says. Any other value says nothing.
    #[must_use]
    pub fn of_value(value: Option<&str>) -> Self {
        value.and_then(|value| serde_json::from_str(value).ok()).unwrap_or_default()
    }

    /// The value of the session's record; `None` if there is nothing to say.
    #[must_use]
    pub fn to_value(&self) -> Option<Box<str>> {
        let says = *self != Self::default();
        says.then(|| serde_json::to_string(self).unwrap_or_default().into())
    }
}

/// The order of two versions. Runs of digits compare as numbers, everything else by its characters: `1.10` is newer than
/// `1.9`. No version is older than any.
#[must_use]
pub fn compare_versions(a: Option<&str>, b: Option<&str>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => pieces(a).cmp(pieces(b)),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// A part of a version, whose parts are compared one after the other.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Piece<'a> {
    Text(&'a str),
    /// The number of digits without leading zeros, and the digits.
    Number(usize, &'a str),
}

fn pieces(version: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = version;
    std::iter::from_fn(move || {
        let is_digit = |c: char| c.is_ascii_digit();
        let is_number = rest.starts_with(is_digit);
        let end = rest.find(|c: char| is_digit(c) != is_number).unwrap_or(rest.len());
        let (piece, later) = rest.split_at(end);
        rest = later;
        let digits = piece.trim_start_matches('0');
        match (piece.is_empty(), is_number) {
            (true, _) => None,
            (false, true) => Some(Piece::Number(digits.len(), digits)),
            (false, false) => Some(Piece::Text(piece)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_versions_compare_as_numbers() {
        let sorted = [
            None,
            Some(""),
            Some("1.2"),
            Some("1.9"),
            Some("1.10"),
            Some("1.10.1"),
            Some("2"),
            Some("2024-09-30"),
            Some("2024-10-01"),
            Some("99999999999999999999999999999999999999999999"),
            Some("100000000000000000000000000000000000000000000"),
        ];
        for (at, a) in sorted.iter().enumerate() {
            for (other, b) in sorted.iter().enumerate() {
                assert_eq!(compare_versions(*a, *b), at.cmp(&other), "{a:?} {b:?}");
            }
        }
        assert_eq!(compare_versions(Some("v01"), Some("v1")), Ordering::Equal);
    }

    #[test]
    fn a_value_says_what_it_was_made_of_and_any_other_says_nothing() {
        let said = Announced {
            version: Some("1.2".into()),
            address: Some("a:1".into()),
            labels: Labels::from([("zone".into(), "a".into())]),
            loads: BTreeMap::from([("k".into(), 1_500_000)]),
            load_limit: Some(7),
            unready: true,
        };
        assert_eq!(Announced::of_value(said.to_value().as_deref()), said);
        assert_eq!(Announced::default().to_value(), None);
        for value in [None, Some(""), Some("row 7"), Some("[]"), Some("7")] {
            assert_eq!(Announced::of_value(value), Announced::default(), "{value:?}");
        }
    }
}
