//! Why a store did not do what it was asked.

use crate::lease::primitives::Key;

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum StoreError {
    /// The store has no room; nothing was written. It continues by itself once there is room.
    #[error("the store has no room left: {0}")]
    Full(String),
    /// The store holds as many keys as its limit allows.
    #[error("the store holds {0} keys, which is its limit")]
    TooManyKeys(u64),
    /// The store holds as many sessions as its limit allows.
    #[error(
        "the store holds {0} sessions, its limit; those that ended in the last minutes count too"
    )]
    TooManySessions(u64),
    /// As many keys exist under the new key's policy as that policy allows.
    #[error("the policy of the prefix {prefix:?} allows keys = {keys}, and that many exist")]
    PolicyFull {
        /// The prefix of the policy that is full.
        prefix: Box<str>,
        /// The number of keys that the policy allows.
        keys: u64,
    },
    /// The store can never hold this record; nothing was written.
    #[error("the record is too long for the store: {0}")]
    TooLong(String),
    /// The store is out of reach or failed.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
}

impl StoreError {
    /// The error for a new key or session when the store already holds `most` of them.
    #[must_use]
    pub fn too_many(key: &Key, most: u64) -> Self {
        if key.is_session() { Self::TooManySessions(most) } else { Self::TooManyKeys(most) }
    }

    /// Whether a limit on the number of keys forbids a new one. The limit applies until keys are forgotten.
    pub(in crate::lease) fn is_too_many_keys(&self) -> bool {
        matches!(self, Self::TooManyKeys(_) | Self::TooManySessions(_) | Self::PolicyFull { .. })
    }
}
