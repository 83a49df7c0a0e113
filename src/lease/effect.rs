//! What the shell is to do. Effects are data; the shell performs them in order.

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
    /// Find out about a node that a record names and that is not known.
    Inquire(Nonce),
    /// Find out whether a session that keeps the tenure still lives; report its end as
    /// [`Input::SessionOver`].
    InquireSession(Nonce),
    /// Have the present home of the session that keeps the tenure order its end anew: whoever ordered it is
    /// gone.
    Reorder(Nonce),
    /// Have a plugin fence; report as [`Input::Fenced`].
    Fence(FenceRun),
    /// Tell people.
    Alarm(Alarm),
}

/// A compare-and-set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WriteEffect {
    /// The revision that was judged.
    pub expected: Revision,
    /// The record to be.
    pub record: Arc<Record>,
    /// What becomes true with it.
    pub changes: Vec<Change>,
}

/// Something that people should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// A tenure ended this long after its due moment, in nanoseconds, counted when the shell was told
    /// that the end is durable.
    EndedLate(u64),
    /// The record cannot be judged.
    Quarantined(CodecError),
    /// Somebody else wrote the key's record.
    Conflict,
    /// The store did not take a write that nobody waits for.
    StoreTrouble(StoreError),
    /// A fence failed for good.
    FenceFailed(Box<str>),
}

/// What happens to a lease.
#[derive(Debug)]
pub enum Input<C> {
    /// Somebody asks.
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
    /// Another node changed the key; this is the number of its latest change.
    Stale(u64),
}

/// What became of a write.
#[derive(Clone, Debug)]
pub enum Settled {
    /// Durable.
    Committed(Revision),
    /// Not written; this is there instead.
    Conflict(Loaded),
    /// Not written, and never will be.
    Refused(StoreError),
    /// Perhaps written.
    Unknown(StoreError),
}

/// What the store holds for a key.
#[derive(Clone, Debug)]
pub enum Loaded {
    /// Nothing.
    Absent,
    /// A record and the revision of its write.
    Record(Revision, Arc<Record>),
    /// Something that cannot be judged.
    Quarantined(Revision, CodecError),
}

/// What is the same for every key of an incarnation, as it is known now.
#[derive(Clone, Debug)]
pub struct NodeContext {
    /// The incarnation, which records name as their home.
    pub node: Nonce,
    /// R1: D of this node's last committed record: nothing is promised or granted from then on.
    /// [`Moment::NEVER`] where one process has the store to itself (R10).
    pub until: Moment,
    /// When this node could promise again after it could not; [`Moment::ZERO`] when it always could.
    pub resumed: Moment,
    /// R7: the store went backwards, and nothing is granted.
    pub frozen: bool,
    /// The other nodes; `None` where one process has the store to itself (R10).
    pub peers: Option<Arc<Peers>>,
    /// The generation of tokens.
    pub epoch: Epoch,
    /// What lease ids are derived from.
    pub secret: ClusterSecret,
    /// What holds for which keys.
    pub policies: Arc<Policies>,
    /// Most callers that may wait in one key's queue.
    pub waiters_per_key: usize,
    /// Most calls that may wait for one key's write in flight.
    pub inflight_per_key: usize,
    /// The rule that is broken on purpose, for the tests of the tests.
    #[cfg(any(test, feature = "testing"))]
    pub broken: Option<super::Mutant>,
}

impl NodeContext {
    /// R1: whether a promise may be decided at a reading of the clock.
    #[must_use]
    pub fn may_promise(&self, now: Moment) -> bool {
        now < self.until || self.breaks(super::Mutant::PromiseAfterUntil)
    }

    /// R1: what a caller is told; see [`super::valid_for`].
    pub(super) fn valid_for(&self, received: Moment, decided: Moment, ttl: Duration) -> u64 {
        if self.breaks(super::Mutant::DriftIgnored) {
            let span = decided.since(received).saturating_add(ttl);
            return u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        }
        super::valid_for(received, decided, ttl)
    }

    /// Whether a rule is broken on purpose. Never, outside of tests.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn breaks(&self, mutant: super::Mutant) -> bool {
        self.broken == Some(mutant)
    }

    /// Whether a rule is broken on purpose. Never, outside of tests.
    #[cfg(not(any(test, feature = "testing")))]
    #[inline]
    #[must_use]
    pub const fn breaks(&self, _: super::Mutant) -> bool {
        false
    }
}

/// The surroundings of one step.
pub struct Env<'a> {
    /// The node's clock: ONE reading for the whole step.
    pub now: Moment,
    /// The wall clock, milliseconds since 1970; for people only.
    pub wall_ms: u64,
    /// Whose lease it is.
    pub key: &'a Key,
    /// What is the same for every key.
    pub terms: &'a NodeContext,
    /// Gives a nonce that was never given before.
    pub nonces: &'a mut dyn FnMut() -> Nonce,
}
