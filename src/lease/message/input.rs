//! What happens to a lease: the inputs of a step.

use std::sync::Arc;

use super::{
    call::Call, effect::ReadFor, fencing::FenceReport, session_over::SessionOver,
    store_error::StoreError,
};
use crate::lease::{
    primitives::{Revision, Token},
    records::{CodecError, Record},
};

#[derive(Debug)]
pub enum Input<C> {
    Call(Call<C>),
    /// The write in flight was settled.
    Settled(Settled),
    /// The store answered the read of the record, or failed.
    Loaded(ReadFor, Result<Loaded, StoreError>),
    /// The clock reached [`crate::lease::Lease::next_wake`], or what is known of the nodes changed.
    Tick,
    Fenced(FenceReport),
    /// The tombstone of a session is known to be durable.
    SessionOver(SessionOver),
    /// Another node, or an earlier actor of the key, changed the key, or may have changed it.
    Stale(Elsewhere),
}

/// A change that another node made, or an earlier actor of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    /// This one.
    Change {
        /// Its number among the key's changes. They begin anew if the record is removed by hand.
        seq: u64,
        /// The key's token after it. It never falls.
        token: Token,
    },
    /// There may be any number of changes that were not heard.
    Unheard,
}

/// The outcome of a write.
#[derive(Clone, Debug)]
pub enum Settled {
    Committed(Revision),
    /// Not written; the store holds this instead.
    Conflict(Loaded),
    /// Not written, and never will be written.
    Refused(StoreError),
    Unknown(StoreError),
}

/// What the store holds for a key.
#[derive(Clone, Debug)]
pub enum Loaded {
    /// The key has no record.
    Absent,
    /// A record and the revision of its write.
    Record(Revision, Arc<Record>),
    /// A record that cannot be read, its revision, and why.
    Quarantined(Revision, CodecError),
}
