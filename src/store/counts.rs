//! How many records a store holds.

use crate::lease::Key;

/// How many records a store holds. Sessions and keys have separate limits: neither takes room from the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub keys: u64,
    /// Sessions. An ended session counts until its record is removed: five minutes after a search found none of its
    /// leases.
    pub sessions: u64,
}

impl Counts {
    /// One record, of the kind that this key is.
    #[must_use]
    pub fn one(key: &Key) -> Self {
        let session = u64::from(key.is_session());
        Self { keys: 1 - session, sessions: session }
    }

    /// How many records there are of the kind that this key is.
    #[must_use]
    pub fn of(self, key: &Key) -> u64 {
        if key.is_session() { self.sessions } else { self.keys }
    }
}

impl std::ops::Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { keys: self.keys + other.keys, sessions: self.sessions + other.sessions }
    }
}
