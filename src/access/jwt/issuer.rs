//! An issuer of JWTs that the file names.

use std::time::Duration;

use super::{fault::JwtFault, key::Key, parts::Parts, set::Keys};

/// An issuer, and what its JWTs must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::access) struct Issuer {
    pub(super) name: Box<str>,
    pub(super) audience: Box<str>,
    pub(super) max_age_ms: u64,
    keys: Keys,
}

impl Issuer {
    /// None without keys.
    pub(in crate::access) fn new(
        name: &str,
        audience: &str,
        max_age: Duration,
        keys: Option<Keys>,
    ) -> Option<Self> {
        let max_age_ms = u64::try_from(max_age.as_millis()).unwrap_or(u64::MAX);
        Some(Self { name: name.into(), audience: audience.into(), max_age_ms, keys: keys? })
    }

    /// The place of the key by which a JWT says that it is signed. The key has the algorithm that the header names, and its
    /// `kid`. Where the issuer has one key alone, the header need not name it.
    pub(super) fn key_of(&self, parts: &Parts<'_>) -> Result<usize, JwtFault> {
        let (header, keys) = (&parts.header, self.keys.all());
        if header.kid.is_none() && keys.len() > 1 {
            return Err(JwtFault::NoKey);
        }
        let named = |key: &Key| {
            let is_it = header.kid.as_deref().is_none_or(|kid| key.kid.as_deref() == Some(kid));
            is_it && key.algorithm() == header.alg
        };
        keys.iter().position(named).ok_or(JwtFault::UnknownKey)
    }

    /// Whether the key at this place has signed a JWT.
    pub(super) fn has_signed(&self, key: usize, parts: &Parts<'_>) -> bool {
        let key = self.keys.all().get(key);
        key.is_some_and(|key| key.verifies(parts.message, &parts.signature))
    }

    /// Whether this issuer still accepts what another reading of it accepted by the key at this place.
    pub(super) fn accepts_as(&self, other: &Self, key: usize) -> bool {
        let same_terms = self.audience == other.audience && self.max_age_ms == other.max_age_ms;
        let key = other.keys.all().get(key);
        same_terms && key.is_some_and(|key| self.keys.all().contains(key))
    }
}
