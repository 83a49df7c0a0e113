//! The state of a key, and its current and previous tenures.

use serde::{Deserialize, Serialize};

use super::{change::ChangeKind, session_ref::SessionRef};
use crate::lease::primitives::{Nonce, Owner, Token};

/// The state of a key, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KeyState {
    /// The key is not held.
    Free,
    /// `tenure` holds the key.
    Held,
    /// The key is offered to the owner that `offer` names.
    Offered,
    /// The last tenure ended, and a fence is not confirmed yet.
    Fencing,
    /// The last tenure ended, and the lock-delay or its minimum hold is not over.
    Cooling,
}

impl KeyState {
    /// The name of the state in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Held => "held",
            Self::Offered => "offered",
            Self::Fencing => "fencing",
            Self::Cooling => "cooling",
        }
    }
}

/// The time from a grant to its end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tenure {
    /// The nonce of the grant. The lease id is derived from it.
    pub grant_nonce: Nonce,
    /// The worker that holds the key.
    pub owner: Owner,
    /// The fencing token, or [`Token::OF_THIS_WRITE`] in the record of the grant itself.
    pub token: Token,
    /// The ttl in milliseconds: how long a grant or heartbeat keeps the lease.
    pub ttl_ms: u64,
    /// Wall clock at the grant, milliseconds since 1970; for people only.
    pub acquired_at_ms: u64,
    /// The session that keeps the tenure in place of its own heartbeats.
    pub session_ref: Option<Box<SessionRef>>,
}

/// A tenure that is over. It is kept so that its holder can be told why, and so that it can be revived.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ended {
    /// The tenure as it was.
    pub tenure: Tenure,
    /// The change that ended it, such as [`ChangeKind::Released`].
    pub reason: ChangeKind,
    /// Wall clock at the end, milliseconds since 1970; for people only.
    pub ended_at_ms: u64,
    /// Its resource was fenced or may have been, so it cannot be revived.
    pub fenced: bool,
}
