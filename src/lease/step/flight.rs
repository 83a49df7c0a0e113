//! The write in flight.

use std::sync::Arc;

use super::waiters::Waiter;
use crate::lease::{
    message::{Call, WriteEffect},
    primitives::{Moment, Revision},
    records::{Change, Record},
    rules::Rules,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flight<C> {
    pub(super) write: WriteEffect,
    /// The write can end the settled tenure, or makes its promises too long. No heartbeat is absorbed while it is in
    /// flight.
    pub(super) ends: bool,
    /// The call that asked for it.
    pub(super) cause: Option<Call<C>>,
    /// The caller that the write grants the key to.
    pub(super) grantee: Option<Waiter<C>>,
    /// When the end that it writes was due.
    pub(super) due: Option<Moment>,
    /// Its grantee was told that the outcome is unknown; whether that caller gave a request id.
    pub(super) unheard: Option<bool>,
    /// The outcome was unknown at some time: a copy of the write may land until the revision has moved on.
    pub(super) outcome_unknown: bool,
    /// The outcome is unknown, and the store is being read.
    pub(super) reading: bool,
    /// It took so long that no caller waits for it any more (§1).
    pub(super) late: bool,
}

impl<C> Flight<C> {
    pub(super) fn new(record: Record, expected: Revision, changes: Vec<Change>) -> Self {
        let write = WriteEffect { expected, record: Arc::new(record), changes };
        Self {
            write,
            ends: false,
            cause: None,
            grantee: None,
            due: None,
            unheard: None,
            outcome_unknown: false,
            reading: false,
            late: false,
        }
    }

    /// The same write, which this call asked for.
    pub(super) fn for_call(self, call: Call<C>) -> Self {
        Self { cause: Some(call), ..self }
    }

    /// When callers stop waiting for the write.
    pub(super) fn late_at(&self) -> Moment {
        Rules::callers_wait_for_a_write_until(self.write.record.written)
    }
}
