//! An issuer of JWTs that the file names.

use std::time::Duration;

use super::{fault::JwtFault, parts::Parts, set::Keys};

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

    /// The place of the key by which a JWT is signed. The key has the algorithm that the header names, and its `kid` if
    /// the header has one.
    pub(super) fn signer(&self, parts: &Parts<'_>) -> Result<usize, JwtFault> {
        let header = &parts.header;
        let mut fault = JwtFault::UnknownKey;
        for (at, key) in self.keys.all().iter().enumerate() {
            let named = header.kid.as_deref().is_none_or(|kid| key.kid.as_deref() == Some(kid));
            if !named || key.algorithm() != header.alg {
                continue;
            }
            if key.verifies(parts.message, &parts.signature) {
                return Ok(at);
            }
            fault = JwtFault::Signature;
        }
        Err(fault)
    }

    /// Whether this issuer still accepts what another reading of it accepted by the key at this place.
    pub(super) fn accepts_as(&self, other: &Self, key: usize) -> bool {
        let same_terms = self.audience == other.audience && self.max_age_ms == other.max_age_ms;
        let key = other.keys.all().get(key);
        same_terms && key.is_some_and(|key| self.keys.all().contains(key))
    }
}
