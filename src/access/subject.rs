//! Whose JWTs a principal shows.

use std::fmt;

use super::{pattern::Pattern, quoted::quoted};

/// The subjects of an issuer's JWTs that are a principal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The issuer, as its JWTs have it in `iss`.
    pub issuer: Box<str>,
    /// What the JWTs have in `sub`.
    pub sub: Pattern,
}

/// As the file has it.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sub = quoted(&self.sub.to_string());
        write!(f, "{{ issuer = {}, sub = {sub} }}", quoted(&self.issuer))
    }
}
