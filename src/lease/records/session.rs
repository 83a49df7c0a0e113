//! What a session specifies when it is created.

use serde::{Deserialize, Serialize};

use super::{codec, session_ref::Behavior};
use crate::lease::primitives::{LeaseId, Nonce};

/// The most checks of one session.
pub const MAX_CHECKS: usize = 8;

/// What a session specified when it was created. Its record keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionSpec {
    /// What happens to the values of its keys when it ends.
    pub behavior: Behavior,
    /// How long its keys stay shut after its end, in milliseconds; `None` when their policies decide.
    pub lock_delay_ms: Option<u32>,
    /// The pool that it works for.
    pub pool: Option<Box<str>>,
    /// Its share of the pool's work, relative to other members.
    pub weight: u32,
    /// The most leases of the pool that it may have at a time.
    pub capacity: Option<u32>,
    /// The checks that must pass for the session to stay alive.
    pub checks: Vec<Check>,
}

/// A check that the session's home node runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Check {
    /// What must succeed: a request, a connection, a program, or a change of the progress.
    pub kind: CheckKind,
    /// Milliseconds from the end of one round to the next.
    pub interval_ms: u64,
    /// How long a round may take before it counts as failed, in milliseconds.
    pub timeout_ms: u64,
    /// How many failed rounds in a row end the session.
    pub fail_after: u32,
}

/// The kind of a check, and its target.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CheckKind {
    /// A GET of this URL answers with a 2xx.
    Http(Box<str>),
    /// This address (`host:port`) accepts a connection.
    Tcp(Box<str>),
    /// This program, with its arguments, exits with code 0.
    Exec(Vec<Box<str>>),
    /// The `progress` that heartbeats report changes within the interval.
    Progress,
}

/// The secret name of a session: its digest, which is public, and its proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionId {
    /// The public part, which lists and events show.
    pub digest: Nonce,
    /// The secret that authorises the session's heartbeat and end.
    pub proof: LeaseId,
}

/// The text is not a session id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is no session id: 64 hexadecimal digits, the first 32 in lower case")]
pub struct NotASessionId;

impl SessionSpec {
    /// How many bytes of a record it takes.
    #[must_use]
    pub fn stored_bytes(&self) -> usize {
        codec::size(self)
    }
}

impl CheckKind {
    /// The name of the kind in the API.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Tcp(_) => "tcp",
            Self::Exec(_) => "exec",
            Self::Progress => "progress",
        }
    }
}

impl SessionId {
    /// The id as text. Only the session's holder may see it.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{}{}", self.digest, self.proof.reveal())
    }
}

impl std::str::FromStr for SessionId {
    type Err = NotASessionId;

    fn from_str(text: &str) -> Result<Self, NotASessionId> {
        let (digest, proof) = text.split_at_checked(32).ok_or(NotASessionId)?;
        let proof = proof.parse().map_err(|_| NotASessionId)?;
        Ok(Self { digest: digest_of(digest)?, proof })
    }
}

/// A session's digest as written: 32 lower-case hexadecimal digits.
///
/// # Errors
/// [`NotASessionId`].
pub fn digest_of(text: &str) -> Result<Nonce, NotASessionId> {
    let hex = text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let number = hex.then(|| u128::from_str_radix(text, 16).ok()).flatten();
    number.map(Nonce).ok_or(NotASessionId)
}
