//! The answers of a lease.

use std::fmt;

use super::store_error::StoreError;
use crate::lease::{
    primitives::{LeaseId, Nonce, Owner, Token},
    records::{ChangeKind, KeyState, SessionSpec},
};

/// The public view of a lease. Nothing in it authorises anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The state of the key. An offer that ran out shows as free.
    pub state: KeyState,
    /// Whether the key has a record.
    pub known: bool,
    /// The record is quarantined, as it is unreadable or lost. The key counts as held by an unknown owner.
    pub quarantined: bool,
    /// The incarnation of the lease's home node, when the key is held.
    pub node: Option<Nonce>,
    /// The home node is another node and is alive: it knows more.
    pub elsewhere: bool,
    /// The owner of the present tenure, or `None` if the key is not held.
    pub owner: Option<Owner>,
    /// The token of the current tenure, or of the last one; 0 for a key that was never held.
    pub token: Token,
    /// The ttl in milliseconds: how long a heartbeat keeps the lease.
    pub ttl_ms: Option<u64>,
    /// Milliseconds until the tenure or the offer ends if nothing happens; `None` when it does not end.
    pub expires_in_ms: Option<u64>,
    /// Wall clock at the grant, milliseconds since 1970.
    pub acquired_at_ms: Option<u64>,
    /// The value that an owner left for its successor.
    pub value: Option<Box<str>>,
    /// What the session specified, when this is a session's key and the session is alive.
    pub spec: Option<Box<SessionSpec>>,
    /// How many callers wait in the queue.
    pub waiters: usize,
    /// The names of the pins that keep the key from expiring.
    pub pins: Box<[Box<str>]>,
    /// The owner to whom the key is offered.
    pub offered_to: Option<Owner>,
    /// The previous owner, its token, and how that tenure ended.
    pub previous: Option<(Owner, Token, ChangeKind)>,
    /// The session that keeps the tenure.
    pub session: Option<Nonce>,
    /// The plugins that have not confirmed a fence of an earlier tenure.
    pub fences: Box<[Box<str>]>,
    /// The owner that the oldest of these fences shuts out.
    pub fenced: Option<Owner>,
    /// One of these fences failed for good.
    pub fence_failed: bool,
    /// The latest granted request ids: the digest of each id, and whether its grant still stands.
    pub marks: Box<[(u128, bool)]>,
    /// The digest of the request id of the grant in flight.
    pub granting: Option<u128>,
}

/// What the holder is given.
#[derive(Clone, Debug)]
pub struct Grant {
    /// What everybody may see of the lease.
    pub view: View,
    /// The secret that authorises heartbeat, release and transfer.
    pub lease_id: LeaseId,
    /// The holder's window: milliseconds from before it sent the request, on its own clock.
    pub valid_for_ms: u64,
    /// An earlier call with the same request id was granted it, and may have been told.
    pub again: bool,
}

/// Why an acquire was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another owner holds the key, or it is offered to another owner.
    Held,
    /// The owner that the caller names already holds the key.
    HeldByYou,
    /// The last tenure ended, and the lock-delay or its minimum hold is not over.
    Cooling,
    /// The last tenure ended, and a fence is not confirmed yet.
    Fencing,
    /// The request id was used before with a different request.
    RequestReused,
    /// The request id was granted and that tenure is over; how it ended, where the record still says so.
    RequestSpent(Option<ChangeKind>),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Held => "another owner holds the key, or the key is offered to another owner",
            Self::HeldByYou => "the owner already holds the key",
            Self::Cooling => "the lock-delay after the last tenure is not over",
            Self::Fencing => "a fence of the last tenure is not confirmed yet",
            Self::RequestReused => "the request id was used for another request",
            Self::RequestSpent(how) => {
                let how = how.map_or("ended", ChangeKind::as_str);
                return write!(f, "the tenure that was granted for this request id is over: {how}");
            }
        })
    }
}

/// Why a lease id is no longer valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Its tenure ended in this way.
    Ended(ChangeKind),
    /// Its tenure expired, and the resource was fenced.
    Fenced,
    /// The record remembers no tenure with this id.
    UnknownLease,
}

impl Lost {
    /// How the tenure ended, if the record still says so.
    #[must_use]
    pub fn kind(self) -> Option<ChangeKind> {
        match self {
            Self::Ended(kind) => Some(kind),
            Self::Fenced => Some(ChangeKind::Expired),
            Self::UnknownLease => None,
        }
    }

    /// The name of the reason, as the API gives it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ended(kind) => kind.as_str(),
            Self::Fenced => "fenced",
            Self::UnknownLease => "unknown-lease",
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The answer to a [`super::Call`].
#[derive(Clone, Debug)]
pub enum Answer {
    /// The caller owns the key.
    Granted(Box<Grant>),
    /// The caller does not own the key.
    Refused(Refusal, Box<View>),
    /// The heartbeat was absorbed: the tenure goes on.
    Alive {
        /// The token of the tenure that goes on.
        token: Token,
        /// The holder's window: milliseconds from before it sent the heartbeat, on its own clock.
        valid_for_ms: u64,
        /// The tenure had expired and goes on.
        revived: bool,
    },
    /// The lease id is not valid any more and never will be again.
    Lost(Lost),
    /// Whether this call ended the tenure.
    Released(bool),
    /// Another owner holds the key.
    NotHolder(Box<View>),
    /// The transfer, pin or unpin is done; the lease after it.
    Done(Box<View>),
    /// The tenure ends within this many milliseconds; 0 when it has ended.
    Revoked(u64),
    /// A session keeps the lease under this token: only the session's heartbeat or its end can answer.
    KeptBySession(Nonce, Token),
    /// No fence of the key is waiting for confirmation.
    NotFencing(Box<View>),
    /// The policy of the key has changed: the key is no lease any more, or belongs to another pool than the caller
    /// asked for.
    NoLease,
    /// The key is not free, or its record holds something that may still be needed.
    NotForgotten(Box<View>),
    /// This node may not announce the grant, and has it released. The request must not be repeated under its nonce.
    GivenBack,
    /// The key is forgotten, by its change with this `seq`.
    Forgotten(u64),
    /// The key is not held.
    NotHeld(Box<View>),
    /// The key is pinned: it does not end without `immediately`.
    Pinned(Box<View>),
    /// The key has as many pins as it may have.
    TooManyPins,
    /// What everybody may see of the lease.
    Viewed(Box<View>),
    /// Too many calls wait for this key.
    Busy,
    /// The lease's home node is this other node, which is alive.
    Elsewhere(Nonce),
    /// This node may not promise anything now: its own record ran out.
    Lapsed,
    /// Nothing is granted: the store went backwards.
    Frozen,
    /// The record is quarantined: it is unreadable or lost; why.
    Quarantined(Box<str>),
    /// The store did not write, or the outcome of the write is unknown.
    Store(StoreError),
}
