//! The schemes of URLs.

pub(super) const HTTP: [&str; 2] = ["http://", "https://"];

/// Whether a URL has one of the schemes, and something after it.
pub(super) fn has_scheme(url: &str, schemes: &[&str]) -> bool {
    schemes.iter().any(|scheme| url.len() > scheme.len() && url.starts_with(scheme))
}
