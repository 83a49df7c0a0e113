//! The claims of a JWT whose signature is right, and the time for which it is valid.

use serde::{Deserialize, Deserializer, de::Error as _};

use super::{
    fault::JwtFault,
    parts::{object, present},
};
use crate::access::broken::Broken;

/// By how much the clocks of issuer and coordinator may differ, in milliseconds.
pub(super) const LEEWAY_MS: u64 = 30_000;
/// The end of the year 9999, in seconds since 1970.
const LAST_SECOND: f64 = 253_402_300_799.0;

/// The claims that matter.
#[derive(Deserialize)]
pub(super) struct Claims {
    pub(super) sub: String,
    aud: Audience,
    exp: Time,
    #[serde(default, deserialize_with = "present")]
    nbf: Option<Time>,
    #[serde(default, deserialize_with = "present")]
    iat: Option<Time>,
}

/// The one claim that is read before the signature is verified: it says by whose key.
#[derive(Deserialize)]
pub(super) struct Issued {
    pub(super) iss: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

/// A time in milliseconds since 1970. The claim has seconds.
#[derive(Clone, Copy)]
struct Time(u64);

/// From when to when a JWT is valid, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from_ms: u64,
    pub(super) until_ms: u64,
}

/// Reads the claims that matter.
pub(super) fn read<'c, T: Deserialize<'c>>(claims: &'c [u8]) -> Result<T, JwtFault> {
    object(claims).map_err(|error| JwtFault::Claims(error.to_string()))
}

impl Claims {
    /// Judges whom the JWT is for, and when.
    pub(super) fn judge(
        &self,
        audience: &str,
        max_age_ms: u64,
        now_ms: u64,
    ) -> Result<Span, JwtFault> {
        if !self.aud.has(audience) && !Broken::JwtOfAnyAudience.is_active() {
            return Err(JwtFault::Audience);
        }
        let begins = [self.nbf, self.iat].into_iter().flatten().map(|time| time.0).max();
        let span = Span {
            from_ms: begins.unwrap_or(0).saturating_sub(LEEWAY_MS),
            until_ms: self.exp.0 + LEEWAY_MS,
        };
        span.contains(now_ms)?;
        // Without iat, the rest of its time counts.
        let issued_ms = self.iat.map_or(now_ms, |time| time.0);
        if self.exp.0.saturating_sub(issued_ms) > max_age_ms {
            return Err(JwtFault::TooLongValid);
        }
        Ok(span)
    }
}

impl Span {
    /// Whether the JWT is valid at this time.
    pub(super) fn contains(&self, now_ms: u64) -> Result<(), JwtFault> {
        if now_ms >= self.until_ms {
            return Err(JwtFault::Expired);
        }
        if now_ms < self.from_ms {
            return Err(JwtFault::NotYet);
        }
        Ok(())
    }
}

impl Audience {
    fn has(&self, audience: &str) -> bool {
        match self {
            Self::One(one) => one == audience,
            Self::Several(several) => several.iter().any(|one| one == audience),
        }
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A number may have a fraction. Text is no number.
        let seconds = f64::deserialize(deserializer)?;
        if !(0.0..=LAST_SECOND).contains(&seconds) {
            return Err(D::Error::custom("a time is not from 1970 to 9999"));
        }
        Ok(Self((seconds * 1000.0) as u64))
    }
}
