//! Conditional writes, and their outcomes.

use std::sync::Arc;

use super::found::Found;
use crate::lease::{Change, Key, Record, Revision, StoreError};

/// A compare-and-set of one key's record, with the changes that the record makes.
#[derive(Clone, Debug)]
pub struct Write {
    pub key: Key,
    /// The revision that the caller judged; [`Revision::ABSENT`] for a key without a record.
    pub expected: Revision,
    pub record: Arc<Record>,
    /// At most two: how the old tenure ended, and how the new one began.
    pub changes: Vec<Change>,
}

/// The outcome of a [`Write`].
#[derive(Clone, Debug)]
pub enum WriteOutcome {
    Committed(Revision),
    /// Not written: the key's record has another revision. The value is the record that was found instead.
    Conflict(Option<Found>),
    /// Not written, and never will be.
    Refused(StoreError),
    /// Written, or not, or written later: only a read tells.
    Unknown(StoreError),
}

/// The outcome of a write of a node's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeOutcome {
    Committed(Revision),
    /// Not written: the record has another revision.
    Conflict,
    /// Not written, and never will be.
    Refused(StoreError),
    /// Written, or not, or written later.
    Unknown(StoreError),
}
