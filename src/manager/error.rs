//! One error enum per operation. Each variant has what a person needs to act.

use std::time::Duration;

use crate::lease::{Answer, Lost, Nonce, Refusal, State, StoreError, View};

/// An argument that the interface does not permit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {detail}")]
pub struct Invalid {
    /// The argument.
    pub field: &'static str,
    /// What is wrong with it, and what is permitted.
    pub detail: String,
}

/// The home node of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The node's incarnation.
    pub node: Nonce,
    /// The node's address, if it is known.
    pub url: Option<Box<str>>,
}

/// What can go wrong with any operation without a mistake of the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// Too many calls wait for the key.
    #[error("too many calls wait for this key")]
    Busy,
    /// All places for waiting callers at this coordinator are taken.
    #[error("all places for waiting callers at this coordinator are taken (limits.waiting_places)")]
    Crowded,
    /// The key's record cannot be interpreted. The key counts as held by an unknown owner.
    #[error("the record of this key cannot be interpreted: {0}")]
    Quarantined(Box<str>),
    /// The store did not accept the operation. Whether a write happened is unknown, unless the error says so.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The key's actor died too often lately. The key accepts no calls for this long.
    #[error("the actor of this key failed repeatedly; it is started again in {0:?}")]
    Resting(Duration),
    /// The coordinator accepts no more work, or none yet.
    #[error("this coordinator accepts no work: it is starting or stopping")]
    Draining,
    /// Another, living node is the lease's home node. Ask there.
    #[error("the lease has another home node{}", .0.url.as_deref().map(|url| format!(", {url}")).unwrap_or_default())]
    Elsewhere(Home),
    /// This node could not renew its own record in the store, and may promise nothing.
    #[error("this node could not renew its record in the store, and may promise nothing for now")]
    Lapsed,
    /// The store went backwards. Nothing is granted until an operator raises the epoch.
    #[error("nothing is granted: the store went backwards, and its epoch has not been raised yet")]
    Frozen,
    /// Another call with this request id is being served.
    #[error("another call with this request_id is being served")]
    InFlight,
}

/// Why an acquire was not granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcquireError {
    /// Another owner holds the lease, this owner already holds it, or the request id was used before.
    #[error("not granted: {0:?}")]
    Refused(Refusal, Box<View>),
    /// The session that was to keep the lease cannot be used.
    #[error(transparent)]
    Session(#[from] Box<SessionError>),
    /// An argument is out of bounds.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The coordinator or its store is in trouble.
    #[error(transparent)]
    Trouble(#[from] Trouble),
}

/// Why a session was not made, kept or used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The session is over, or never existed.
    #[error("the session is over: {0:?}")]
    Lost(Lost),
    /// An argument is out of bounds.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The coordinator or its store is in trouble.
    #[error(transparent)]
    Trouble(#[from] Trouble),
}

/// How many of an acquire-any's keys were in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Availability {
    /// Keys that were tried.
    pub keys: usize,
    /// Held by other owners.
    pub held: usize,
    /// Held by the caller's owner already.
    pub held_by_you: usize,
    /// Offered to another owner.
    pub offered: usize,
    /// Shut by a lock-delay.
    pub cooling: usize,
    /// Shut until a fence is confirmed.
    pub fencing: usize,
    /// The shortest time until one of these states ends, in milliseconds.
    pub next_ms: Option<u64>,
}

impl Availability {
    /// Adds the counts of other keys.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            keys: self.keys + other.keys,
            held: self.held + other.held,
            held_by_you: self.held_by_you + other.held_by_you,
            offered: self.offered + other.offered,
            cooling: self.cooling + other.cooling,
            fencing: self.fencing + other.fencing,
            next_ms: self.next_ms.into_iter().chain(other.next_ms).min(),
        }
    }

    pub(super) fn add(&mut self, why: Refusal, view: &View) {
        match (why, view.state) {
            (Refusal::HeldByYou, _) => self.held_by_you += 1,
            (_, State::Offered) => self.offered += 1,
            (Refusal::Cooling, _) => self.cooling += 1,
            (Refusal::Fencing, _) => self.fencing += 1,
            _ => self.held += 1,
        }
        self.next_ms = self.next_ms.into_iter().chain(view.expires_in_ms).min();
    }
}

/// Why an acquire-any granted nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcquireAnyError {
    /// None of the keys could be granted.
    #[error("none of {} keys is available", .0.keys)]
    NoneAvailable(Availability),
    /// The session has its share of the pool, or none of the keys could be granted.
    #[error("none of {} keys is available: the session has {} of its share of {}", .0.keys, .1.held, .1.share)]
    NoneOfShare(Availability, crate::actor::Share),
    /// The request id was used with another request, or its grants have ended.
    #[error("not granted: {0:?}")]
    Refused(Refusal),
    /// The session that was to keep the leases cannot be used.
    #[error(transparent)]
    Session(#[from] Box<SessionError>),
    /// An argument is out of bounds.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The coordinator or its store is in trouble.
    #[error(transparent)]
    Trouble(#[from] Trouble),
}

/// Why a heartbeat or a transfer was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HolderError {
    /// The caller is no longer the holder.
    #[error("the caller no longer holds the lease: {0:?}")]
    Lost(Lost),
    /// A session keeps the lease: only the session's heartbeat keeps it alive.
    #[error("the session {0} keeps the lease: send the session's heartbeat")]
    KeptBySession(Nonce),
    /// An argument is out of bounds.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The coordinator or its store is in trouble.
    #[error(transparent)]
    Trouble(#[from] Trouble),
}

/// Why a release was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// Another owner holds the key.
    #[error("another owner holds the lease")]
    NotHolder(Box<View>),
    /// An argument is out of bounds.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The coordinator or its store is in trouble.
    #[error(transparent)]
    Trouble(#[from] Trouble),
}

/// Why an administrator's order was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// No fence of the key awaits confirmation.
    #[error("no fence of the key awaits confirmation")]
    NotFencing(Box<View>),
    /// The key has no owner.
    #[error("the lease has no owner")]
    NotHeld(Box<View>),
    /// The key is pinned, and the order did not say `immediately`.
    #[error("the lease is pinned")]
    Pinned(Box<View>),
    /// The key has the highest number of pins.
    #[error("the key has {} pins, which is the limit", crate::lease::MAX_PINS)]
    TooManyPins,
    /// An argument is out of bounds.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The coordinator or its store is in trouble.
    #[error(transparent)]
    Trouble(#[from] Trouble),
}

/// Errors that may name another home node.
pub trait Elsewhere {
    /// The other home node.
    fn home(&self) -> Option<&Home>;
}

impl Elsewhere for Trouble {
    fn home(&self) -> Option<&Home> {
        match self {
            Self::Elsewhere(home) => Some(home),
            _ => None,
        }
    }
}

impl Elsewhere for HolderError {
    fn home(&self) -> Option<&Home> {
        match self {
            Self::Trouble(trouble) => trouble.home(),
            _ => None,
        }
    }
}

impl Elsewhere for SessionError {
    fn home(&self) -> Option<&Home> {
        match self {
            Self::Trouble(trouble) => trouble.home(),
            _ => None,
        }
    }
}

impl Elsewhere for ReleaseError {
    fn home(&self) -> Option<&Home> {
        match self {
            Self::Trouble(trouble) => trouble.home(),
            _ => None,
        }
    }
}

impl Trouble {
    /// Whether the outcome of the call is unknown: it may have been granted what it asked for, or may be yet.
    pub(super) fn is_in_doubt(&self) -> bool {
        matches!(self, Self::Store(StoreError::Unavailable(_)) | Self::Lapsed | Self::Resting(_))
    }

    /// Converts an answer that no operation expects into the coordinator's state that it shows.
    pub(super) fn of(answer: Answer) -> Self {
        match answer {
            Answer::Busy => Self::Busy,
            Answer::Quarantined(why) => Self::Quarantined(why),
            Answer::Store(error) => Self::Store(error),
            Answer::Lapsed => Self::Lapsed,
            Answer::Frozen => Self::Frozen,
            other => {
                debug_assert!(false, "the protocol does not answer this call with {other:?}");
                Self::Busy
            }
        }
    }
}
