//! What a caller of acquire-all asks for.

use std::fmt;

use crate::{
    lease::{Key, Owner, SessionId},
    manager::{
        acquire::AcquireOne,
        availability::Availability,
        error::{AcquireError, Invalid},
    },
};

/// The most leases that one acquire-all takes. An exclusive key counts as all its permits.
pub const MAX_TAKEN: usize = 256;

/// How many permits of a key a caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// This many. A key without permits counts as one permit.
    Permits(u32),
    /// All of them: nobody else has a permit meanwhile.
    All,
}

/// A key that a caller wants, and how much of it.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The key.
    pub key: Key,
    /// How many of its permits.
    pub take: Take,
}

/// A request to own every key of a list.
#[derive(Clone, Debug)]
pub struct AcquireAll {
    /// The keys. Each is named once, and together they stand for 1 to [`MAX_TAKEN`] leases.
    pub keys: Vec<Wanted>,
    /// The owner that acquires them.
    pub owner: Owner,
    /// Milliseconds that a grant or heartbeat keeps each lease.
    pub ttl_ms: u64,
    /// The session that keeps the leases. The session's ttl then replaces `ttl_ms`.
    pub session: Option<SessionId>,
    /// How long to wait for all of them, in milliseconds.
    pub wait_ms: u64,
    /// Digests of the request id and of the rest of the request.
    pub mark: Option<(u128, u64)>,
    /// A new value for each of the leases.
    pub value: Option<Box<str>>,
    /// For how long from its grant nobody else is granted each lease, in milliseconds, even if it is released.
    pub min_hold_ms: u64,
}

impl AcquireAll {
    /// A request for these keys without a wait, for leases that are kept by their own heartbeats.
    #[must_use]
    pub fn new(keys: Vec<Wanted>, owner: Owner, ttl_ms: u64) -> Self {
        Self {
            keys,
            owner,
            ttl_ms,
            session: None,
            wait_ms: 0,
            mark: None,
            value: None,
            min_hold_ms: 0,
        }
    }

    /// A request for one of the permits of a key.
    ///
    /// # Errors
    /// The request says `reclaim`, which names no permit.
    pub fn permit(one: &AcquireOne) -> Result<Self, Invalid> {
        if one.reclaim {
            let detail = "is not possible for a key with permits: name the permit".into();
            return Err(Invalid { field: "reclaim", detail });
        }
        let keys = vec![Wanted { key: one.key.clone(), take: Take::Permits(1) }];
        Ok(Self {
            session: one.session,
            wait_ms: one.wait_ms,
            mark: one.mark,
            value: one.value.clone(),
            min_hold_ms: one.min_hold_ms,
            ..Self::new(keys, one.owner.clone(), one.ttl_ms)
        })
    }
}

/// Why an acquire-all got nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAll {
    /// The key that is in the way, if it is one key. An argument that is not valid is one of this key.
    pub key: Option<Key>,
    /// Why it is.
    pub error: AcquireError,
}

impl NotAll {
    /// This key is in the way.
    pub(super) fn at(key: &Key, error: impl Into<AcquireError>) -> Self {
        Self { key: Some(key.clone()), error: error.into() }
    }
}

impl fmt::Display for NotAll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.error, &self.key) {
            (AcquireError::NoneAvailable(counts), Some(key)) => {
                let Availability { keys, held, held_by_you, .. } = counts;
                let detail = format_args!(
                    "of its {keys} permits, others hold {held} and the owner {held_by_you}"
                );
                write!(f, "too few permits of {key:?} are available: {detail}")?;
                if counts.behind {
                    f.write_str("; earlier calls wait for the others")?;
                }
                Ok(())
            }
            (error, _) => error.fmt(f),
        }
    }
}

impl std::error::Error for NotAll {}

impl<E: Into<AcquireError>> From<E> for NotAll {
    fn from(error: E) -> Self {
        Self { key: None, error: error.into() }
    }
}
