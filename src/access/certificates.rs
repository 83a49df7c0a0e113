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

/// A name in the form in which names are compared: DNS names in lower case, URIs as they are. A URI has a colon, and a
/// DNS name has none, so no name of one kind equals one of the other.
pub(super) fn normal(name: &str) -> String {
    if name.contains(':') { name.to_owned() } else { name.to_ascii_lowercase() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_compared_as_it_is_and_a_dns_name_without_regard_to_case() {
        for (name, expected) in [
            ("spiffe://Prod/Worker", "spiffe://Prod/Worker"),
            ("urn:x:Admin", "urn:x:Admin"),
            ("Worker.Example", "worker.example"),
        ] {
            assert_eq!(normal(name), expected);
        }
    }
}
