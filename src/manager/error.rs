//! One error enum per operation; each variant has what a person needs to act.

use std::time::Duration;

use crate::lease::{Answer, Lost, Nonce, Refusal, State, StoreError, View};

/// An argument that the contract does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {detail}")]
pub struct Invalid {
    /// Which argument.
    pub field: &'static str,
    /// What is wrong with it, and what would be right.
    pub detail: String,
}

/// The node at which a lease is at home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// Its incarnation.
    pub node: Nonce,
    /// Where it is reached, where that is known.
    pub url: Option<Box<str>>,
}

/// What can go wrong with any operation, through no fault of the caller's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// Too many calls wait for the key.
    #[error("too many calls wait for this key")]
    Busy,
    /// As many callers wait at this coordinator as it has places for.
    #[error("too many callers wait at this coordinator (limits.waiting_places)")]
    Crowded,
    /// The key's record cannot be judged; it counts as held by somebody unknown.
    #[error("the record of this key cannot be judged: {0}")]
    Quarantined(Box<str>),
    /// The store did not take it. Whether a write happened is not known, unless the error says so.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The key's actor died too often lately; the key rests for so long.
    #[error("the actor of this key failed repeatedly; it rests for {0:?}")]
    Resting(Duration),
    /// The coordinator takes no more work, or none yet.
    #[error("this coordinator is not taking work: it is starting or stopping")]
    Draining,
    /// The lease is at home at another node, which lives: ask there.
    #[error("the lease is at home at another node{}", .0.url.as_deref().map(|url| format!(", {url}")).unwrap_or_default())]
    Elsewhere(Home),
    /// This node could not renew its own record in the store, and may promise nothing.
    #[error("this node has lost touch with the store, and may promise nothing for now")]
    Lapsed,
    /// The store went backwards: nothing is granted until an operator raised the epoch.
    #[error("nothing is granted: the store went backwards, and its epoch was not raised yet")]
    Frozen,
    /// Another call with this request id is being served.
    #[error("a call with this request_id is being served")]
    InFlight,
}

/// Why an acquire was not granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcquireError {
    /// The lease has another owner, or this one already, or the request id was used before.
    #[error("not granted: {0:?}")]
    Refused(Refusal, Box<View>),
    /// The session that was to keep the lease.
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
    /// It is over, or never was.
    #[error("the session is over: {0:?}")]
    Lost(Lost),
    /// An argument is out of bounds.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The coordinator or its store is in trouble.
    #[error(transparent)]
    Trouble(#[from] Trouble),
}

/// How many of an acquire-any's keys were in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Availability {
    /// Keys that were looked at.
    pub keys: usize,
    /// Held by others.
    pub held: usize,
    /// Held by the caller's owner already.
    pub held_by_you: usize,
    /// Kept for somebody else.
    pub offered: usize,
    /// Shut for a lock-delay.
    pub cooling: usize,
    /// Shut until a fence is confirmed.
    pub fencing: usize,
    /// The shortest time until one of them ends, in milliseconds.
    pub next_ms: Option<u64>,
}

impl Availability {
    /// Of other keys too.
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
    /// None of the keys could be had.
    #[error("none of {} keys is available", .0.keys)]
    NoneAvailable(Availability),
    /// The session has its share of the pool, or none of the keys could be had.
    #[error("none of {} keys is available: the session has {} of its share of {}", .0.keys, .1.held, .1.share)]
    NoneOfShare(Availability, crate::actor::Share),
    /// The request id was used with another request, or its grants are over.
    #[error("not granted: {0:?}")]
    Refused(Refusal),
    /// The session that was to keep the leases.
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
    /// The caller is not the holder any more.
    #[error("the lease was lost: {0:?}")]
    Lost(Lost),
    /// A session keeps the lease: its heartbeat does, and nothing else.
    #[error("the lease is kept by the session {0}")]
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
    /// Somebody else holds the key.
    #[error("somebody else holds the lease")]
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
    /// No fence of the key waits to be confirmed.
    #[error("no fence of the key waits to be confirmed")]
    NotFencing(Box<View>),
    /// Nobody holds the key.
    #[error("nobody holds the lease")]
    NotHeld(Box<View>),
    /// The key is pinned, and the order was not `immediately`.
    #[error("the lease is pinned")]
    Pinned(Box<View>),
    /// The key has as many pins as it may.
    #[error("the key has {} pins, which is the limit", crate::lease::MAX_PINS)]
    TooManyPins,
    /// An argument is out of bounds.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The coordinator or its store is in trouble.
    #[error(transparent)]
    Trouble(#[from] Trouble),
}

/// Errors that may say that a lease is at home elsewhere.
pub trait Elsewhere {
    /// Where.
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
    /// Whether the call may have been granted what it asked for, or may be yet.
    pub(super) fn is_in_doubt(&self) -> bool {
        matches!(self, Self::Store(StoreError::Unavailable(_)) | Self::Lapsed | Self::Resting(_))
    }

    /// What an answer that no operation expects says about the coordinator.
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
