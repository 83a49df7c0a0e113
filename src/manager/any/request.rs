//! What a caller of acquire-any asks for.

use crate::{
    lease::{CandidateOrder, Key, Owner, SessionId},
    manager::error::Invalid,
};

/// The most keys that one acquire-any may name. Of the keys that match a prefix or pool, it tries this many at a time.
pub const MAX_CANDIDATES: usize = 10_000;

/// The keys of an acquire-any.
#[derive(Clone, Debug)]
pub enum Candidates {
    /// These keys. None of them may occur twice.
    Keys(Vec<Key>),
    /// All keys with a record that begin with this prefix.
    Prefix(String),
    /// All keys with a record that belong to this pool.
    Pool(String),
}

impl Candidates {
    /// The pool that is named, if one is.
    pub(super) fn pool(&self) -> Option<&str> {
        match self {
            Self::Pool(pool) => Some(pool),
            Self::Keys(_) | Self::Prefix(_) => None,
        }
    }
}

/// How many leases an acquire-any takes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// At most this many: 1 to [`MAX_CANDIDATES`].
    UpTo(usize),
    /// As many as the session lacks of its share of its pool.
    Fair,
}

impl Count {
    pub(crate) fn check(self) -> Result<(), Invalid> {
        match self {
            Self::UpTo(count) if !(1..=MAX_CANDIDATES).contains(&count) => {
                let detail = format!("is {count}; it must be from 1 to {MAX_CANDIDATES}");
                Err(Invalid { field: "count", detail })
            }
            Self::UpTo(_) | Self::Fair => Ok(()),
        }
    }
}

/// A request to own some of several keys.
#[derive(Clone, Debug)]
pub struct AcquireAny {
    /// The keys from which to choose.
    pub candidates: Candidates,
    /// The owner that acquires them.
    pub owner: Owner,
    /// Milliseconds that a grant or heartbeat keeps each lease.
    pub ttl_ms: u64,
    /// The session that keeps the leases. The session's ttl then replaces `ttl_ms`.
    pub session: Option<SessionId>,
    /// How many to acquire at most.
    pub count: Count,
    /// The order in which they are tried.
    pub order: CandidateOrder,
    /// How long to wait for one if none is free, in milliseconds.
    pub wait_ms: u64,
    /// Digests of the request id and of the rest of the request.
    pub mark: Option<(u128, u64)>,
}

impl AcquireAny {
    /// A request for one of an empty list of keys, in random order and without a wait, for leases that are kept by
    /// their own heartbeats.
    #[must_use]
    pub fn new(owner: Owner, ttl_ms: u64) -> Self {
        Self {
            candidates: Candidates::Keys(Vec::new()),
            owner,
            ttl_ms,
            session: None,
            count: Count::UpTo(1),
            order: CandidateOrder::Random,
            wait_ms: 0,
            mark: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_from_one_to_the_most_candidates() {
        for count in [Count::UpTo(1), Count::UpTo(MAX_CANDIDATES), Count::Fair] {
            assert_eq!(count.check(), Ok(()));
        }
        for count in [0, MAX_CANDIDATES + 1, usize::MAX] {
            assert!(Count::UpTo(count).check().is_err_and(|invalid| invalid.field == "count"));
        }
    }
}
