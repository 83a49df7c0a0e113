//! Whose pattern a name matches.

use super::pattern::Pattern;
use crate::clock::HashMap;

/// Patterns of names, each with its principal's place in the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Patterns {
    exact: HashMap<Box<str>, usize>,
    /// The beginnings, the longest first.
    open: Vec<(Box<str>, usize)>,
}

impl Patterns {
    pub(super) fn new<'p>(patterns: impl Iterator<Item = (usize, &'p Pattern)>) -> Self {
        let mut found = Self::default();
        for (at, pattern) in patterns {
            if pattern.open {
                found.open.push((pattern.text.clone(), at));
            } else {
                found.exact.insert(pattern.text.clone(), at);
            }
        }
        found.open.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        found
    }

    /// An exact name decides before a beginning, and a longer beginning before a shorter one.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let begins = |(text, _): &&(Box<str>, usize)| name.starts_with(&**text);
        let open = || self.open.iter().find(begins).map(|(_, at)| *at);
        self.exact.get(name).copied().or_else(open)
    }
}
