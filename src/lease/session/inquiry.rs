//! What follows for a lease from the record of the session that keeps it.

use crate::lease::{
    message::{Loaded, SessionOver},
    primitives::Nonce,
    records::KeyState,
};

/// What to do about a lease that names a session, after the session's record was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inquiry {
    Lives,
    /// The lease is told that its session is over. Where this node was the session's last home node, it looks for the
    /// other leases as well.
    Over {
        over: SessionOver,
        /// The node that wrote the tombstone.
        home: Nonce,
    },
    /// The session's tombstone must be written, and its record read again.
    WriteTombstone,
}

impl Inquiry {
    /// What follows from the record that was read under the session's key. A stale read never says that a live session
    /// is over, because nothing follows a tombstone.
    #[must_use]
    pub fn of(session: Nonce, there: &Loaded) -> Self {
        match there {
            Loaded::Absent => Self::WriteTombstone,
            Loaded::Record(_, record) if record.state != KeyState::Held => {
                Self::Over { over: SessionOver::of_record(session, record), home: record.node }
            }
            Loaded::Record(..) | Loaded::Quarantined(..) => Self::Lives,
        }
    }

    /// Whether the session's tombstone was read.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Over { .. })
    }
}
