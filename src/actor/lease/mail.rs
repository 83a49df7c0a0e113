//! What is sent to the actor of a key.

use actix::Message;

use super::super::{Reply, gate::Permit, outcomes::Landed};
use crate::lease::{Call, FenceReport, SessionOver};

/// Mail for a lease actor.
#[derive(Debug)]
pub enum Mail {
    /// A call of the protocol.
    Call(Call<Reply>),
    /// A permutation of `0..n` by the key's own chance, for an acquire-any that this key leads.
    Shuffle(usize, tokio::sync::oneshot::Sender<Vec<usize>>),
    /// What is known of the nodes changed.
    Nudge,
    /// A plugin ran a fence.
    Fenced(FenceReport),
    /// The tombstone of a session is durable.
    SessionOver(SessionOver),
    /// Another node changed the key; this is the number of its latest change.
    Stale(u64),
    /// The store is another one than before: start again from what it holds.
    Reload,
    /// A write is settled.
    Landed(Landed),
    /// The gate of ends lets this actor in.
    Turn(Permit),
    /// The gate of ends lets this actor in, to end what a session kept.
    OverTurn(Permit, SessionOver),
    /// Dies, for the tests of supervision.
    #[cfg(any(test, feature = "testing"))]
    Panic,
}

impl Message for Mail {
    type Result = ();
}
