//! The session reference of a tenure.

use serde::{Deserialize, Serialize};

use crate::lease::primitives::Nonce;

/// What happens to a key's value when the session that kept the key ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Behavior {
    /// The value stays, so that the next owner can read it.
    Release,
    /// The value is deleted. The token is not.
    Delete,
}

/// The session reference of a tenure: the session that keeps it, and what the session specified for its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionRef {
    /// The session's digest, which is its public name.
    pub session: Nonce,
    /// How long the key stays shut after the session's end, in milliseconds; `None` when the key's policy decides.
    pub lock_delay_ms: Option<u32>,
    /// What happens to the key's value.
    pub behavior: Behavior,
}
