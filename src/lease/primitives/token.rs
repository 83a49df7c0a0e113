//! Fencing tokens, and the two numbers that they consist of.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of low bits of a token that hold the revision.
const REVISION_BITS: u32 = 43;

/// A store's number for a write. It strictly increases per key, and is never 0 for a write.
///
/// In the embedded store it is the global commit sequence. 0 stands for "the key has no record".
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Revision(pub u64);

impl Revision {
    /// The expected revision of a key without a record.
    pub const ABSENT: Self = Self(0);
}

/// The generation of a store, below 2^10. An operator raises it after the store went backwards.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u16);

/// A fencing token: `epoch · 2^43 + revision of the grant's write`. It is below 2^53, so that every JSON reader
/// represents it exactly.
///
/// It strictly increases per key, forever. It is public and authorises nothing.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(pub u64);

impl Token {
    /// In a record: the token is the revision of this very write, which is known once the write is committed.
    pub const OF_THIS_WRITE: Self = Self(0);

    /// The token of a grant that `revision` committed under `epoch`.
    #[must_use]
    pub fn of(epoch: Epoch, revision: Revision) -> Self {
        debug_assert!(epoch.0 < 1 << 10 && revision.0 < 1 << REVISION_BITS);
        Self((u64::from(epoch.0) << REVISION_BITS) | revision.0)
    }

    /// The epoch under which the token was granted.
    #[must_use]
    pub fn epoch(self) -> Epoch {
        Epoch(u16::try_from(self.0 >> REVISION_BITS).unwrap_or(u16::MAX))
    }

    /// This token or, where it is [`Self::OF_THIS_WRITE`], the token of `revision`.
    #[must_use]
    pub fn resolve(self, epoch: Epoch, revision: Revision) -> Self {
        if self == Self::OF_THIS_WRITE { Self::of(epoch, revision) } else { self }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_higher_epoch_beats_any_revision_and_stays_exact_in_json() {
        let last = Token::of(Epoch(3), Revision((1 << 43) - 1));
        assert!(Token::of(Epoch(4), Revision(1)) > last);
        assert!(Token::of(Epoch(1023), Revision((1 << 43) - 1)).0 < 1 << 53);
        assert_eq!(Token::OF_THIS_WRITE.resolve(Epoch(0), Revision(7)), Token(7));
        assert_eq!(Token(5).resolve(Epoch(9), Revision(7)), Token(5));
    }
}
