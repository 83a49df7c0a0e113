//! Which principal the names of a certificate name.

use super::pattern::Pattern;
use crate::clock::HashMap;

/// The names of all principals' certificates, each with the principal's place in the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Certificates {
    exact: HashMap<Box<str>, usize>,
    /// The beginnings, the longest first.
    open: Vec<(Box<str>, usize)>,
}

impl Certificates {
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

    /// The principal that the names are of. None, if they are of several.
    pub(super) fn find(&self, names: &[String]) -> Option<usize> {
        let mut all = names.iter().filter_map(|name| self.find_one(&normal(name)));
        let first = all.next()?;
        all.all(|other| other == first).then_some(first)
    }

    /// An exact name decides before a beginning, and a longer beginning before a shorter one.
    fn find_one(&self, name: &str) -> Option<usize> {
        let begins = |(text, _): &&(Box<str>, usize)| name.starts_with(&**text);
        let open = || self.open.iter().find(begins).map(|(_, at)| *at);
        self.exact.get(name).copied().or_else(open)
    }
}

/// A name in the form in which names are compared: DNS names in lower case, URIs as they are.
pub(super) fn normal(name: &str) -> String {
    if name.contains("://") { name.to_owned() } else { name.to_ascii_lowercase() }
}
