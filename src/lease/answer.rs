//! What a lease answers.

use super::{ChangeKind, Key, LeaseId, Nonce, Owner, SessionSpec, State, Token};

/// The public view of a lease: nothing in it authorises anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// What the key is now; a lapsed offer shows as free.
    pub state: State,
    /// Whether the key has a record.
    pub known: bool,
    /// The record cannot be judged; the key counts as held by somebody unknown.
    pub quarantined: bool,
    /// The incarnation of the node at which it is at home, when somebody holds it.
    pub node: Option<Nonce>,
    /// That is another node, which lives: it knows more.
    pub elsewhere: bool,
    /// Who holds it.
    pub owner: Option<Owner>,
    /// The present token, or the last one; 0 for a key that was never held.
    pub token: Token,
    /// Milliseconds that a heartbeat keeps the lease.
    pub ttl_ms: Option<u64>,
    /// Milliseconds until the tenure or the offer ends if nothing happens; `None` when it does not.
    pub expires_in_ms: Option<u64>,
    /// Wall clock at the grant, milliseconds since 1970.
    pub acquired_at_ms: Option<u64>,
    /// The key's value.
    pub value: Option<Box<str>>,
    /// What the session says whose key this is, while it lives.
    pub spec: Option<Box<SessionSpec>>,
    /// How many callers wait in the queue.
    pub waiters: usize,
    /// Who keeps the key from expiring.
    pub pins: Box<[Box<str>]>,
    /// For whom it is kept.
    pub offered_to: Option<Owner>,
    /// Who held it before, under which token, and how that ended.
    pub previous: Option<(Owner, Token, ChangeKind)>,
    /// The session that keeps the tenure.
    pub session: Option<Nonce>,
    /// The plugins that have not confirmed a fence of an earlier tenure.
    pub fences: Box<[Box<str>]>,
    /// One of them failed for good.
    pub fence_failed: bool,
    /// The latest granted request ids: digest of the id, and whether its grant still stands.
    pub marks: Box<[(u128, bool)]>,
    /// The digest of the request id of a grant that is on its way.
    pub granting: Option<u128>,
}

/// What the holder gets.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The public part.
    pub view: View,
    /// The secret that authorises heartbeat, release and transfer.
    pub lease_id: LeaseId,
    /// The holder's window: milliseconds from before it sent the request, on its own clock.
    pub valid_for_ms: u64,
}

/// Why an acquire was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Somebody else holds it, or it is kept for somebody else.
    Held,
    /// The caller's owner holds it already.
    HeldByYou,
    /// Its tenure ended, and the lock-delay is not over.
    Cooling,
    /// Its tenure ended, and a fence has yet to be confirmed.
    Fencing,
    /// The request id was used with another request.
    RequestReused,
    /// The request id was granted, and that tenure is over; how it ended, where that is remembered.
    RequestSpent(Option<ChangeKind>),
}

/// Why a proof is no longer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Its tenure ended like this.
    Ended(ChangeKind),
    /// Its tenure ran out, and its resource was fenced.
    Fenced,
    /// No tenure that is remembered has this id.
    UnknownLease,
}

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum StoreError {
    /// No room; nothing was written. It goes on by itself once there is room.
    #[error("the store has no room left: {0}")]
    Full(String),
    /// The store holds as many keys as it may.
    #[error("the store holds {0} keys, which is its limit")]
    TooManyKeys(u64),
    /// The store holds as many sessions as it may.
    #[error(
        "the store holds {0} sessions, ended ones of the last minutes included, which is its limit"
    )]
    TooManySessions(u64),
    /// As many keys exist as the policy of the new one allows.
    #[error("the policy of the prefix {prefix:?} has keys = {keys}, and as many keys of it exist")]
    PolicyFull {
        /// The policy's prefix.
        prefix: Box<str>,
        /// How many keys it allows.
        keys: u64,
    },
    /// The store is out of reach, or broke.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
}

impl StoreError {
    /// Refuses a new key, or session: so many are there.
    #[must_use]
    pub fn too_many(key: &Key, most: u64) -> Self {
        if key.is_session() { Self::TooManySessions(most) } else { Self::TooManyKeys(most) }
    }

    /// Whether a bound on the number of keys forbids a new one: it stands until keys are forgotten.
    pub(super) fn is_too_many_keys(&self) -> bool {
        matches!(self, Self::TooManyKeys(_) | Self::TooManySessions(_) | Self::PolicyFull { .. })
    }
}

/// The answer to a [`super::Call`].
#[derive(Clone, Debug)]
pub enum Answer {
    /// The caller owns the key.
    Granted(Box<Grant>),
    /// It does not.
    Refused(Refusal, Box<View>),
    /// The heartbeat was absorbed.
    Alive {
        /// The tenure's token.
        token: Token,
        /// The holder's window.
        valid_for_ms: u64,
        /// The tenure had run out, and goes on.
        revived: bool,
    },
    /// The proof is worth nothing any more; nor will it ever be.
    Lost(Lost),
    /// Whether this call ended the tenure.
    Released(bool),
    /// Somebody else holds the key.
    NotHolder(Box<View>),
    /// Done: a transfer, pin or unpin, and the lease after it.
    Done(Box<View>),
    /// The tenure ends in so many milliseconds at the latest; 0: it has ended.
    Revoked(u64),
    /// A session keeps the lease under this token: only the session's heartbeat, or its end, can answer.
    KeptBySession(Nonce, Token),
    /// No fence of the key waits to be confirmed.
    NotFencing(Box<View>),
    /// The key is not free, or something is kept of it that somebody may need.
    NotForgotten(Box<View>),
    /// Nobody holds the key.
    NotHeld(Box<View>),
    /// The key is pinned: it does not end without `immediately`.
    Pinned(Box<View>),
    /// As many pins as a key may have.
    TooManyPins,
    /// The public view.
    Viewed(Box<View>),
    /// Too many calls wait for this key.
    Busy,
    /// The lease is at home at this other node, which lives.
    Elsewhere(Nonce),
    /// This node may not promise anything now: its own record ran out.
    Lapsed,
    /// Nothing is granted: the store went backwards.
    Frozen,
    /// The record cannot be judged.
    Quarantined(Box<str>),
    /// The store did not write it, or it is not known whether it did.
    Store(StoreError),
}
