//! Replaces the reading of JWTs where this build lacks it. There is no issuer then, so no JWT is anybody's.

use std::time::Duration;

pub use crate::settings::NotBuilt as JwtFault;

use super::{allowance::Allowance, subject::Subject, token::TokenDigest};

const LACKING: JwtFault = JwtFault("jwt");

/// What proves that a JWT is valid: nothing.
#[derive(Clone, Debug)]
pub enum JwtProof {}

impl JwtProof {
    /// When the JWT ends.
    #[must_use]
    pub fn until_ms(&self) -> u64 {
        match *self {}
    }
}

/// The keys of an issuer: there are none.
pub(super) enum Keys {}

impl Keys {
    pub(super) fn read(_content: impl FnOnce() -> Result<String, String>) -> Result<Self, String> {
        Err(LACKING.to_string())
    }
}

/// An issuer: there is none.
pub(super) enum Issuer {}

impl Issuer {
    pub(super) fn new(
        _name: &str,
        _audience: &str,
        _max_age: Duration,
        keys: Option<Keys>,
    ) -> Option<Self> {
        keys.map(|keys| match keys {})
    }
}

/// All issuers of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Issuers;

impl Issuers {
    pub(super) fn new(_issuers: Vec<Issuer>, _subjects: &[(usize, &Subject)]) -> Self {
        Self
    }

    pub(super) fn judge(
        &self,
        _token: &str,
        _digest: TokenDigest,
        _now_ms: u64,
        _allowance: &dyn Allowance,
    ) -> Result<(usize, JwtProof), JwtFault> {
        Err(LACKING)
    }

    pub(super) fn find(&self, proof: &JwtProof) -> Option<usize> {
        match *proof {}
    }

    pub(super) fn content(&self) -> Vec<String> {
        Vec::new()
    }
}
