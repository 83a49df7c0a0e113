//! What the shell must do. Effects are data; the shell performs them in order.

use std::sync::Arc;

use super::{answer::Answer, fencing::FenceRun, store_error::StoreError};
use crate::lease::{
    primitives::{LeaseId, Nonce, Revision, Token},
    records::{Change, CodecError, Record},
};

pub type Effects<C> = Vec<Effect<C>>;

/// One thing that the shell must do.
#[derive(Debug)]
pub enum Effect<C> {
    /// Compare-and-set the record; report as [`super::Input::Settled`]. At most one is in flight.
    Write(WriteEffect),
    /// Read the record; report as [`super::Input::Loaded`].
    Read(ReadFor),
    Reply(C, Answer),
    /// Find out about a node that a record names and that this node does not know.
    Inquire(Nonce),
    /// Find out whether the session that keeps the tenure is still alive; report its end as [`super::Input::SessionOver`].
    InquireSession(Nonce),
    /// Have the current home node of the session that keeps the tenure reissue the revocation: the node that ordered it
    /// is gone.
    Reissue(Nonce),
    /// Tell whoever keeps the tenure with this token by a stream: it is revoked, and ends when its last promise has run
    /// out. A session tells its holder by itself.
    TellRevoked(Token),
    /// No caller knows of the tenure with this lease id: have it released, also after this actor's death.
    GiveBack(LeaseId),
    /// Have a plugin run a fence; report as [`super::Input::Fenced`].
    Fence(FenceRun),
    /// Raise an alarm for people.
    Alarm(Alarm),
}

/// Why the record is read. An answer to one question says nothing about the other: its read may have begun earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadFor {
    /// What is known of the record is compared with the store: a look.
    Look,
    /// The outcome of a write is unknown.
    Outcome,
}

/// A compare-and-set of the record, together with its changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WriteEffect {
    pub expected: Revision,
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
    WriteNotAccepted(StoreError),
    FenceFailed(Box<str>),
}
