//! What the tasks of a pool's member end with, and what a member waits for.

use super::{ClientError, Loss};

/// The task is done, and leaves no value for the next owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done;

/// What a task leaves to the next owner when it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handover {
    /// The value that the next owner reads.
    pub value: Option<String>,
}

impl From<Done> for Handover {
    fn from(_: Done) -> Self {
        Self::default()
    }
}

impl From<()> for Handover {
    fn from((): ()) -> Self {
        Self::default()
    }
}

impl From<String> for Handover {
    fn from(value: String) -> Self {
        Self { value: Some(value) }
    }
}

impl From<Option<String>> for Handover {
    fn from(value: Option<String>) -> Self {
        Self { value }
    }
}

/// How the task of one lease ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It finished, and its lease was handed over.
    Done,
    /// It finished, and its key is kept for this member, which stops and comes back.
    Kept,
    /// It failed or panicked, and its lease was released.
    Failed(String),
    /// Its lease was lost; the task was dropped unless it ended in time.
    Lost(Loss),
}

/// Why a member has nothing to do yet.
#[derive(Debug)]
pub enum Waiting<'a> {
    /// No server can be reached, or it refuses for now. The call is repeated.
    Failed(&'a ClientError),
    /// It has a session but no lease: other members have all of them, or they are closed.
    NoLease,
    /// It has a session, and the pool has no keys yet.
    NoKeys,
}
