//! What the shell must do. Effects are data; the shell performs them in order.

use std::{sync::Arc, time::Duration};

use super::{
    Answer, Change, CodecError, Epoch, FenceReport, FenceRun, Moment, Nonce, Peers, Policies,
    Record, Revision, SessionOver, StoreError,
};
use super::{ClusterSecret, Key};

/// One thing to do.
#[derive(Debug)]
pub enum Effect<C> {
    /// Compare-and-set the record; report as [`Input::Settled`]. At most one is in flight.
    Write(WriteEffect),
    /// Read the record; report as [`Input::Loaded`].
    Read,
    /// Answer a caller.
    Reply(C, Answer),
    /// Find out about a node that a record names and that this node does not know.
    Inquire(Nonce),
    /// Find out whether the session that keeps the tenure is still alive; report its end as [`Input::SessionOver`].
    InquireSession(Nonce),
    /// Have the current home node of the session that keeps the tenure reissue the revocation: the node that ordered it
    /// is gone.
    Reorder(Nonce),
    /// Have a plugin run a fence; report as [`Input::Fenced`].
    Fence(FenceRun),
    /// Raise an alarm for people.
    Alarm(Alarm),
}

/// A compare-and-set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WriteEffect {
    /// The revision that was judged.
    pub expected: Revision,
    /// The new record.
    pub record: Arc<Record>,
    /// The changes that take effect with it.
    pub changes: Vec<Change>,
}

/// Something that people must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// A tenure ended this many nanoseconds after it was due, counted until the shell was told that the end is durable.
    EndedLate(u64),
    /// The record is quarantined: it is unreadable.
    Quarantined(CodecError),
    /// Another writer changed the key's record.
    Conflict,
    /// The store did not accept a write that no caller waits for.
    StoreTrouble(StoreError),
    /// A fence failed for good.
    FenceFailed(Box<str>),
}

/// What happens to a lease.
#[derive(Debug)]
pub enum Input<C> {
    /// A call arrived.
    Call(super::Call<C>),
    /// The write in flight was settled.
    Settled(Settled),
    /// The read was answered.
    Loaded(Result<Loaded, StoreError>),
    /// The clock reached [`super::Lease::next_wake`], or what is known of the nodes changed.
    Tick,
    /// A fence was run.
    Fenced(FenceReport),
    /// The tombstone of a session is known to be durable.
    SessionOver(SessionOver),
    /// Another node changed the key; the number of its latest change.
    Stale(u64),
}

/// What became of a write.
#[derive(Clone, Debug)]
pub enum Settled {
    /// Durable.
    Committed(Revision),
    /// Not written; the store holds this instead.
    Conflict(Loaded),
    /// Not written, and never will be written.
    Refused(StoreError),
    /// The outcome is unknown.
    Unknown(StoreError),
}

/// What the store holds for a key.
#[derive(Clone, Debug)]
pub enum Loaded {
    /// Nothing.
    Absent,
    /// A record and the revision of its write.
    Record(Revision, Arc<Record>),
    /// Something unreadable.
    Quarantined(Revision, CodecError),
}

/// The node context: what is currently the same for every key of an incarnation.
#[derive(Clone, Debug)]
pub struct NodeContext {
    /// The incarnation. Records name it as their home node.
    pub node: Nonce,
    /// R1: D of this node's last committed record. From then on nothing is promised or granted. [`Moment::NEVER`] where
    /// one process has the store to itself (R10).
    pub until: Moment,
    /// The last moment at which this node could promise again after it could not; [`Moment::ZERO`] when it always
    /// could.
    pub resumed: Moment,
    /// R7: the store went backwards, and nothing is granted.
    pub frozen: bool,
    /// The other nodes; `None` where one process has the store to itself (R10).
    pub peers: Option<Arc<Peers>>,
    /// The epoch of new tokens.
    pub epoch: Epoch,
    /// The secret from which lease ids are derived.
    pub secret: ClusterSecret,
    /// The policies of the keys.
    pub policies: Arc<Policies>,
    /// The most callers that may wait in one key's queue.
    pub waiters_per_key: usize,
    /// The most calls that may wait for one key's write in flight.
    pub inflight_per_key: usize,
    /// The active mutant: the rule that is broken on purpose, so that the tests themselves can be tested.
    #[cfg(any(test, feature = "testing"))]
    pub broken: Option<super::Mutant>,
}

impl NodeContext {
    /// R1: whether a promise may be decided at this reading of the clock.
    #[must_use]
    pub fn may_promise(&self, now: Moment) -> bool {
        now < self.until || self.breaks(super::Mutant::PromiseAfterUntil)
    }

    /// R1: the window that a caller is told; see [`super::valid_for`].
    pub(super) fn valid_for(&self, received: Moment, decided: Moment, ttl: Duration) -> u64 {
        if self.breaks(super::Mutant::DriftIgnored) {
            let span = decided.since(received).saturating_add(ttl);
            return u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        }
        super::valid_for(received, decided, ttl)
    }

    /// Whether this mutant is active. Never outside of tests.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn breaks(&self, mutant: super::Mutant) -> bool {
        self.broken == Some(mutant)
    }

    /// Whether this mutant is active. Never outside of tests.
    #[cfg(not(any(test, feature = "testing")))]
    #[inline]
    #[must_use]
    pub const fn breaks(&self, _: super::Mutant) -> bool {
        false
    }
}

/// The surroundings of one step.
pub struct Env<'a> {
    /// The node's clock: one reading for the whole step.
    pub now: Moment,
    /// The wall clock in milliseconds since 1970; for people only.
    pub wall_ms: u64,
    /// The key of the lease.
    pub key: &'a Key,
    /// What is the same for every key.
    pub terms: &'a NodeContext,
    /// Returns a nonce that it never returned before.
    pub nonces: &'a mut dyn FnMut() -> Nonce,
}
