//! The calls that a lease handles.

use std::sync::Arc;

use crate::lease::{
    primitives::{LeaseId, Moment, Nonce, Owner, Token},
    records::{SessionRef, SessionSpec},
};

/// One request, its caller, and when it arrived.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call<C> {
    /// The caller that waits for the answer.
    pub caller: C,
    /// The node's clock when the request arrived, before it waited in any queue.
    pub received: Moment,
    /// What the caller asks of the lease.
    pub request: Request,
    /// R5: the lease's home node is alive and was asked, but does not answer.
    pub home_unreachable: bool,
}

/// Everything that a lease can be asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Become the owner, at once or after a wait in the queue.
    Acquire(Box<Acquire>),
    /// Remain the owner for one more ttl.
    Heartbeat(Heartbeat),
    /// End the tenure before its ttl runs out.
    Release(Release),
    /// End a tenure that no answer named.
    GiveBack(GiveBack),
    /// Hand the key over to a successor.
    Transfer(Box<Transfer>),
    /// An administrator ends the tenure.
    Revoke(Box<Revoke>),
    /// An administrator keeps the tenure from expiring.
    Pin(Box<str>, Box<str>),
    /// An administrator skips the fences that are not confirmed: the reason, and the administrator.
    FenceSkip(Box<str>, Box<str>),
    /// Runs the fences that failed for good once more: those of this plugin, or of every plugin.
    FenceRetry(Option<Box<str>>),
    /// Asks the holder to hand the lease over; asks a session to hand over everything it keeps.
    AskHandover(Box<AskHandover>),
    /// Writes the tombstone of a session that has no record.
    WriteTombstone,
    /// An administrator forgets a free key: the reason, and the administrator.
    Forget(Box<str>, Box<str>),
    /// Removes a pin: the pin's name, and the administrator who removes it.
    Unpin(Box<str>, Box<str>),
    /// Show what everybody may see of the lease.
    View,
}

/// A request to own the key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquire {
    /// The worker that wants the key.
    pub owner: Owner,
    /// The ttl in milliseconds: how long a grant or heartbeat keeps the lease.
    pub ttl_ms: u64,
    /// A new value for the key.
    pub value: Option<Box<str>>,
    /// Take the key even from the same owner: the earlier tenure ends.
    pub reclaim: bool,
    /// Answer from what this node knows, without asking the store whether it is still current.
    pub allow_stale: bool,
    /// Until when to wait in the queue; `None` for no wait.
    pub wait_until: Option<Moment>,
    /// From when the caller waits, if that was before the request arrived: an earlier call under the same request id had
    /// this place in the queue. Otherwise [`Moment::NEVER`].
    pub since: Moment,
    /// Names the new grant. A call that is repeated under the same nonce finds the same grant.
    pub grant_nonce: Nonce,
    /// The digests of the caller's request id and of the rest of its request.
    pub mark: Option<(u128, u64)>,
    /// The session that will keep the lease. The sender checks that the session is alive before it sends this call, and
    /// again before it tells the caller of the grant. The answer itself promises nothing.
    pub session_ref: Option<SessionRef>,
    /// For how long from the grant nobody else is granted the key, in milliseconds, even if the lease is released.
    pub min_hold_ms: u64,
    /// What the session specified, when this is a session's key.
    pub spec: Option<Box<SessionSpec>>,
    /// This is a place in the queue for a caller at another node. When its turn comes, the key is offered to the owner,
    /// who acquires it at that node.
    pub place: bool,
    /// The key was a permit when the caller asked for it: it is granted only as a permit.
    pub permit: bool,
    /// The pool among whose keys the caller was offered this one. The key is granted only while it belongs to that pool.
    pub pool: Option<Arc<str>>,
}

/// The holder's request to keep the lease for one more ttl.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Heartbeat {
    /// Proves that the caller is the holder.
    pub lease_id: LeaseId,
    /// A new value for the key.
    pub value: Option<Box<str>>,
    /// A new ttl in milliseconds.
    pub ttl_ms: Option<u64>,
    /// R11: the heartbeat may revive a tenure that expired. Without that, it only keeps a tenure that goes on.
    pub may_revive: bool,
    /// The node itself keeps the lease, for a call that has not been answered: only the incarnation that granted the lease
    /// does, and only while it is the home node.
    pub granter: Option<Nonce>,
}

impl Heartbeat {
    /// A heartbeat that keeps or revives the lease and changes nothing else.
    #[must_use]
    pub fn new(lease_id: LeaseId) -> Self {
        Self { lease_id, value: None, ttl_ms: None, may_revive: true, granter: None }
    }
}

/// A release: the holder ends the tenure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Release {
    /// Proves that the caller is the holder.
    pub lease_id: LeaseId,
    /// A last value for the successor.
    pub value: Option<Box<str>>,
    /// Why the holder gives the lease back, for people.
    pub reason: Option<Box<str>>,
}

impl Release {
    /// A release that leaves no value and says nothing.
    #[must_use]
    pub fn new(lease_id: LeaseId) -> Self {
        Self { lease_id, value: None, reason: None }
    }
}

/// Gives back a grant that no answer named. The tenure ends like a released one, and leaves no minimum hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GiveBack {
    /// The grant.
    pub lease_id: LeaseId,
    /// The incarnation that granted it, if the caller may repeat its call. Another node may have told a repeated call of
    /// the lease since then.
    pub granter: Option<Nonce>,
    /// The call that was granted it goes on, and may be granted the key again under its request id.
    pub goes_on: bool,
}

impl GiveBack {
    /// Gives back a grant whose caller cannot ask for it again.
    #[must_use]
    pub fn unmarked(lease_id: LeaseId) -> Self {
        Self { lease_id, granter: None, goes_on: false }
    }
}

/// A transfer: the holder ends the tenure in favour of a successor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Transfer {
    /// Proves that the caller is the holder.
    pub lease_id: LeaseId,
    /// The successor; `None` for the first caller in the queue, or, when the queue is empty, the next caller.
    pub to: Option<Owner>,
    /// How long the key is offered to a named successor, in milliseconds; `None` for the tenure's ttl.
    pub offer_ms: Option<u64>,
    /// A last value for the successor.
    pub value: Option<Box<str>>,
    /// Why the holder hands the lease over, for people.
    pub reason: Option<Box<str>>,
}

/// A request to hand the lease over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AskHandover {
    /// Why the lease must be handed over, for people.
    pub reason: Box<str>,
    /// Who asks for the hand-over, for people.
    pub actor: Box<str>,
    /// How long the holder has, in milliseconds.
    pub timeout_ms: u64,
}

/// An administrator's request to end the tenure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Revoke {
    /// Why the administrator ends the tenure, for people.
    pub reason: Box<str>,
    /// The administrator who ends the tenure, for people.
    pub actor: Box<str>,
    /// Do not wait for the holder's last promise. Its window may overlap that of the next holder.
    pub immediately: bool,
    /// Revoke only if this owner holds the key.
    pub owner: Option<Owner>,
    /// Revoke only the tenure with this token.
    pub token: Option<Token>,
    /// For a lease that a session keeps: when the session's promises that cover it have run out.
    pub floor: Option<Moment>,
}
