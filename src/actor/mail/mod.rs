//! The mail of lease actors, and where their answers go.

pub(in crate::actor) mod gate;
mod reply;
mod traced;

use actix::Message;
use tokio::sync::oneshot;

use self::gate::Permit;
pub use self::{
    reply::{AnyReceiver, AnyWait, Place, Reply, Vacated},
    traced::TracedCall,
};
use crate::{
    lease::{Call, Elsewhere, FenceReport, Moment, SessionOver},
    store::WriteOutcome,
};

#[derive(Debug)]
pub enum Mail {
    Call(Call<Reply>),
    /// Asks for a random permutation of `0..n` from the key's own source, for an acquire-any whose first key this is.
    Shuffle(usize, oneshot::Sender<Vec<usize>>),
    /// What this node knows of the nodes changed.
    Nudge,
    /// A plugin reports on a fence.
    Fenced(FenceReport),
    /// The tombstone of a session is durable.
    SessionOver(SessionOver),
    /// Another node, or an earlier actor of the key, changed the key, or may have changed it.
    Stale(Elsewhere),
    /// The store may have gone backwards: start again from what it holds.
    Reload,
    /// The store has answered a write.
    Landed(Landed),
    /// The gate of ends admits this actor.
    Turn(Permit),
    /// The gate of ends admits this actor, to end a lease that this session kept.
    OverTurn(Permit, SessionOver),
    /// Panics, for the tests of supervision.
    #[cfg(any(test, feature = "testing"))]
    Panic,
}

impl Message for Mail {
    type Result = ();
}

/// A write that is settled.
#[derive(Debug)]
pub struct Landed {
    pub(in crate::actor) outcome: WriteOutcome,
    /// The actor's generation: which of its readings of the store the write is based on.
    pub(in crate::actor) generation: u32,
    pub(in crate::actor) began: Moment,
}
