//! Which principal the names of a certificate name.

use super::{pattern::Pattern, patterns::Patterns};

/// The names of all principals' certificates, each with the principal's place in the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Certificates(Patterns);

impl Certificates {
    pub(super) fn new<'p>(patterns: impl Iterator<Item = (usize, &'p Pattern)>) -> Self {
        Self(Patterns::new(patterns))
    }

    /// The principal that the names are of. None, if they are of several.
    pub(super) fn find(&self, names: &[String]) -> Option<usize> {
        let mut all = names.iter().filter_map(|name| self.0.find(&normal(name)));
        let first = all.next()?;
        all.all(|other| other == first).then_some(first)
    }
}

/// A name in the form in which names are compared: DNS names in lower case, URIs as they are.
pub(super) fn normal(name: &str) -> String {
    if name.contains("://") { name.to_owned() } else { name.to_ascii_lowercase() }
}
