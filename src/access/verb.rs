//! What a call does, as far as rights are concerned.

use std::{fmt, str::FromStr};

/// What a call does. Each call of the HTTP API needs one verb; a few need two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Acquire, keep, release and transfer leases, and open sessions.
    Hold,
    /// See leases, sessions, pools and events.
    Read,
    /// Check whether a token is current.
    Check,
    /// Revoke after the holder's time, drain, pin and forget.
    Admin,
    /// Revoke at once, and skip fences: both end what the protocol assures a holder.
    Break,
    /// Attach health checks to sessions.
    Probe,
    /// See the nodes and the metrics.
    Observe,
    /// Revoke principals, tokens and certificates, and end that.
    Access,
}

impl Verb {
    /// Every verb.
    pub const ALL: [Self; 8] = [
        Self::Hold,
        Self::Read,
        Self::Check,
        Self::Admin,
        Self::Break,
        Self::Probe,
        Self::Observe,
        Self::Access,
    ];

    /// The verb as a file has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Read => "read",
            Self::Check => "check",
            Self::Admin => "admin",
            Self::Break => "break",
            Self::Probe => "probe",
            Self::Observe => "observe",
            Self::Access => "access",
        }
    }

    /// Whether a right with this verb is for the keys with a prefix.
    #[must_use]
    pub const fn has_keys(self) -> bool {
        !matches!(self, Self::Probe | Self::Observe | Self::Access)
    }

    /// Every verb, for people.
    #[must_use]
    pub fn list() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Verb {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|verb| verb.as_str() == text);
        named.ok_or_else(|| format!("{text:?} is no verb: use one of {}", Self::list()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_read_as_it_is_written() {
        for (at, verb) in Verb::ALL.into_iter().enumerate() {
            assert_eq!((verb.as_str().parse(), verb as usize), (Ok(verb), at));
        }
        for odd in ["", "Hold", "hold ", "write", "*"] {
            assert!(odd.parse::<Verb>().unwrap_err().contains("hold, read"), "{odd:?}");
        }
    }
}
