//! Which principal the names of a certificate name.
//!
//! Guarantees: a URI and a DNS name are never compared with each other. A pattern leaves nothing open that decides whose
//! a name is: neither the end of a DNS name, nor the trust domain of a URI.

use std::fmt;

use super::{broken::Broken, pattern::Pattern, patterns::Patterns};
use crate::clock::HashMap;

/// The alternative names of a verified certificate, by their kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateNames {
    /// Its URIs, as they are.
    pub uris: Vec<String>,
    /// Its DNS names.
    pub dns: Vec<String>,
}

impl CertificateNames {
    /// A certificate with this name alone.
    pub(super) fn of(pattern: &CertPattern) -> Self {
        let (mut names, name) = (Self::default(), pattern.to_string());
        if matches!(pattern, CertPattern::Uri(_)) { &mut names.uris } else { &mut names.dns }
            .push(name);
        names
    }

    /// Whether one of them is this exact name: a URI, which has a colon, or a DNS name.
    pub(super) fn has(&self, name: &str) -> bool {
        if name.contains(':') {
            return self.uris.iter().any(|uri| uri == name);
        }
        self.dns.iter().any(|dns| dns.eq_ignore_ascii_case(name))
    }
}

/// A name in certificates of a principal, or a pattern of such names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CertPattern {
    /// A URI, or all URIs with a common beginning that has the whole trust domain.
    Uri(Pattern),
    /// A DNS name, in lower case.
    Dns(Box<str>),
    /// All DNS names that have one label more than this domain, which is in lower case.
    Below(Box<str>),
}

impl CertPattern {
    /// Reads a URI, which has a colon, or a DNS name. A URI may end in a `*` after its third `/`, and the first label of
    /// a DNS name may be `*`.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.contains(':') {
            return Self::uri(text);
        }
        if let Some(domain) = text.strip_prefix("*.").filter(|domain| is_domain(domain)) {
            Pattern::parse(domain)?;
            return Ok(Self::Below(domain.to_ascii_lowercase().into()));
        }
        if text.contains('*') {
            return Err(format!(
                "{text:?} has a * that is not the whole first label of a DNS name, whose end decides whose it is: write \
                 \"*.pool.example\" for the names right below pool.example, and a URI with its trust domain, such as \
                 \"spiffe://prod/ns/*\""
            ));
        }
        Pattern::parse(text)?;
        Ok(Self::Dns(text.to_ascii_lowercase().into()))
    }

    fn uri(text: &str) -> Result<Self, String> {
        let pattern = Pattern::parse(text)?;
        if pattern.open && pattern.text.matches('/').count() < 3 {
            return Err(format!(
                "{text:?} has a * before its third /, so it has other trust domains too: write the trust domain whole, \
                 such as \"spiffe://prod/*\""
            ));
        }
        Ok(Self::Uri(pattern))
    }
}

/// Whether this can be what follows the first label of a DNS name.
fn is_domain(text: &str) -> bool {
    !text.contains('*') && text.split('.').all(|label| !label.is_empty())
}

impl fmt::Display for CertPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uri(pattern) => pattern.fmt(f),
            Self::Dns(name) => f.write_str(name),
            Self::Below(domain) => write!(f, "*.{domain}"),
        }
    }
}

/// The names of all principals' certificates, each with the principal's place in the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Certificates {
    uris: Patterns,
    dns: HashMap<Box<str>, usize>,
    /// By the domain.
    below: HashMap<Box<str>, usize>,
}

impl Certificates {
    pub(super) fn new<'p>(patterns: impl Iterator<Item = (usize, &'p CertPattern)>) -> Self {
        let (mut found, mut uris) = (Self::default(), Vec::new());
        for (at, pattern) in patterns {
            match pattern {
                CertPattern::Uri(pattern) => uris.push((at, pattern)),
                CertPattern::Dns(name) => drop(found.dns.insert(name.clone(), at)),
                CertPattern::Below(domain) => drop(found.below.insert(domain.clone(), at)),
            }
        }
        found.uris = Patterns::new(uris.into_iter());
        found
    }

    /// The principal that the names are of. None, if they are of several.
    pub(super) fn find(&self, names: &CertificateNames) -> Option<usize> {
        // A certificate with several URIs says of several workloads that it is theirs. SPIFFE refuses it, even if only one
        // of them is known here.
        let uri = match &*names.uris {
            [uri] => self.uris.find(uri),
            [first, ..] if Broken::SeveralUris.is_active() => self.uris.find(first),
            _ => None,
        };
        let dns = names.dns.iter().filter_map(|name| self.find_dns(&name.to_ascii_lowercase()));
        let mut all = uri.into_iter().chain(dns);
        let first = all.next()?;
        all.all(|other| other == first).then_some(first)
    }

    /// An exact name decides before a domain.
    fn find_dns(&self, name: &str) -> Option<usize> {
        let below = || {
            let (label, domain) = name.split_once('.')?;
            self.below.get(domain).filter(|_| !label.is_empty())
        };
        self.dns.get(name).or_else(below).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(patterns: &[&str], uris: &[&str], dns: &[&str]) -> Option<usize> {
        let patterns: Vec<_> =
            patterns.iter().map(|text| CertPattern::parse(text).expect(text)).collect();
        let texts = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let names = CertificateNames { uris: texts(uris), dns: texts(dns) };
        Certificates::new(patterns.iter().enumerate()).find(&names)
    }

    #[test]
    fn a_uri_is_compared_as_it_is_and_a_dns_name_without_regard_to_case() {
        assert_eq!(find(&["spiffe://Prod/Worker"], &["spiffe://Prod/Worker"], &[]), Some(0));
        assert_eq!(find(&["spiffe://Prod/Worker"], &["spiffe://prod/Worker"], &[]), None);
        assert_eq!(find(&["urn:x:Admin"], &["urn:x:admin"], &[]), None);
        assert_eq!(find(&["Worker.Example"], &[], &["wORKER.eXAMPLE"]), Some(0));
        assert_eq!(find(&["*.Pool.Example"], &[], &["A.pool.EXAMPLE"]), Some(0));
    }

    #[test]
    fn a_name_of_one_kind_is_no_name_of_the_other() {
        assert_eq!(find(&["spiffe://prod/w"], &[], &["spiffe://prod/w"]), None);
        assert_eq!(find(&["worker.example"], &["worker.example"], &[]), None);
        assert_eq!(find(&["*.example"], &["worker.example"], &[]), None);
    }

    #[test]
    fn a_star_is_one_label() {
        let below = |name: &str| find(&["*.pool.example"], &[], &[name]).is_some();
        assert!(below("a.pool.example") && below("*.pool.example"));
        for other in [
            "pool.example",
            "a.b.pool.example",
            ".pool.example",
            "apool.example",
            "a.pool.example.evil",
        ] {
            assert!(!below(other), "{other}");
        }
        let patterns = ["*.pool.example", "a.pool.example"];
        assert_eq!(find(&patterns, &[], &["a.pool.example"]), Some(1));
    }

    #[test]
    fn of_several_uris_none_counts() {
        let uris = ["spiffe://prod/w", "spiffe://prod/other"];
        assert_eq!(find(&["spiffe://prod/*"], &uris[..1], &[]), Some(0));
        assert_eq!(find(&["spiffe://prod/*"], &uris, &[]), None);
        assert_eq!(find(&["spiffe://prod/w"], &uris, &[]), None);
    }

    #[test]
    fn a_pattern_that_leaves_open_whose_a_name_is_has_a_fault() {
        for text in [
            "*",
            "spiffe*",
            "worker-*",
            "a.*",
            "*example",
            "w.*.example",
            "*.",
            "*..example",
            "*.*.example",
            "**",
        ] {
            let fault = CertPattern::parse(text).expect_err(text);
            assert!(fault.contains("\"*.pool.example\""), "{text}: {fault}");
        }
        for text in ["spiffe:*", "spiffe://*", "spiffe://prod*", "urn:x:*"] {
            let fault = CertPattern::parse(text).expect_err(text);
            assert!(fault.contains("\"spiffe://prod/*\""), "{text}: {fault}");
        }
        assert!(
            CertPattern::parse("spiffe://*/x")
                .expect_err("it is inside")
                .contains("not at its end")
        );
        for text in
            ["spiffe://prod/*", "spiffe://prod/ns/a", "urn:x:a", "w", "*.example", "w.example"]
        {
            assert_eq!(CertPattern::parse(text).expect(text).to_string(), text);
        }
    }
}
