//! What is asked of one lease.

use super::{Bond, LeaseId, Moment, Nonce, Owner, SessionSpec, Token};

/// Who waits for an answer; opaque to the protocol but for three questions.
pub trait Caller {
    /// Whether nobody listens any more. A caller that is gone is never granted anything (R9).
    fn is_gone(&self) -> bool;

    /// Takes the caller's one claim before a grant is written for it. `false` when the caller is
    /// gone, or (a registration on several keys) when another key is already being granted to it.
    fn claim(&self) -> bool;

    /// Gives the claim back, if it was taken here: the write did not happen.
    fn unclaim(&self);

    /// Whether it is a registration on several keys, which hears of its grant and of nothing else.
    fn is_registration(&self) -> bool {
        false
    }
}

/// One request, with who asked and when it arrived.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call<C> {
    /// Who waits for the answer.
    pub caller: C,
    /// The node's clock when the request arrived, before any queue.
    pub received: Moment,
    /// What is asked.
    pub request: Request,
    /// R5: the node at which the lease is at home lives, was asked, and does not answer.
    pub owner_unreachable: bool,
}

/// Everything that can be asked of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Become the owner.
    Acquire(Box<Acquire>),
    /// Stay the owner.
    Heartbeat(Heartbeat),
    /// Stop being the owner.
    Release(Release),
    /// Hand the key over to a successor.
    Transfer(Box<Transfer>),
    /// An administrator ends the tenure.
    Revoke(Box<Revoke>),
    /// An administrator keeps the tenure from expiring.
    Pin(Box<str>, Box<str>),
    /// An administrator strikes the fences that are not confirmed: why, and who.
    FenceSkip(Box<str>, Box<str>),
    /// The holder is to hand the lease over; a session, all that it keeps.
    AskHandover(Box<AskHandover>),
    /// Makes the tombstone of a session that has no record.
    Bury,
    /// An administrator forgets a free key: why, and who.
    Forget(Box<str>, Box<str>),
    /// Takes back a pin: by whom it was set, and which administrator does it.
    Unpin(Box<str>, Box<str>),
    /// The public view.
    View,
}

/// A request to own the key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquire {
    /// Who wants it.
    pub owner: Owner,
    /// Milliseconds that a grant or heartbeat keeps the lease.
    pub ttl_ms: u64,
    /// A new value for the key.
    pub value: Option<Box<str>>,
    /// Take it also from oneself: the old tenure ends.
    pub reclaim: bool,
    /// Be answered from what this node knows: do not ask the store whether that is still so.
    pub allow_stale: bool,
    /// Until when to wait in the queue; `None`: not at all.
    pub wait_until: Option<Moment>,
    /// Names the grant to be. Asking again under the same nonce finds the same grant.
    pub grant_nonce: Nonce,
    /// Digest of the caller's request id, and of the rest of its request.
    pub mark: Option<(u128, u64)>,
    /// The session that is to keep the lease. Whoever asks saw it alive, and sees to it again before the
    /// grant is told: the answer promises nothing.
    pub bond: Option<Bond>,
    /// What a session says, whose key this is.
    pub spec: Option<Box<SessionSpec>>,
    /// It is a place in the queue for a caller at another node: when its turn comes, the key is kept for its owner,
    /// who takes it there.
    pub place: bool,
}

/// A sign of life.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Heartbeat {
    /// Proof of being the holder.
    pub lease_id: LeaseId,
    /// A new value for the key.
    pub value: Option<Box<str>>,
    /// A new ttl in milliseconds.
    pub ttl_ms: Option<u64>,
}

/// A voluntary end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Release {
    /// Proof of being the holder.
    pub lease_id: LeaseId,
    /// A last value for the successor.
    pub value: Option<Box<str>>,
}

/// A voluntary end in favour of a successor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Transfer {
    /// Proof of being the holder.
    pub lease_id: LeaseId,
    /// The successor; `None`: whoever is first in the queue, and without a queue whoever comes.
    pub to: Option<Owner>,
    /// How long the key is kept for a named one, in milliseconds; the tenure's ttl when not said.
    pub offer_ms: Option<u64>,
    /// A last value for the successor.
    pub value: Option<Box<str>>,
}

/// A request to the holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AskHandover {
    /// Why.
    pub reason: Box<str>,
    /// Who asks.
    pub actor: Box<str>,
    /// How long the holder has, in milliseconds.
    pub timeout_ms: u64,
}

/// An administrator's end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Revoke {
    /// Why.
    pub reason: Box<str>,
    /// Which administrator.
    pub actor: Box<str>,
    /// Do not wait for the holder's last promise: its window may overlap the next one's.
    pub immediately: bool,
    /// Only if this owner holds the key.
    pub owner: Option<Owner>,
    /// Only the tenure with this token.
    pub token: Option<Token>,
    /// Of a lease that a session keeps: when the promises of the session that cover it have run out.
    pub floor: Option<Moment>,
}
