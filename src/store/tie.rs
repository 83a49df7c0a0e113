//! Which session keeps a lease, as records and changes say it.

use crate::lease::{Change, ChangeKind, Key, KeyState, Nonce, Record};

/// Whether a session keeps a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tie {
    pub key: Key,
    pub session: Nonce,
    /// The number of the key's change that made it so.
    pub seq: u64,
    /// `true`: the session keeps the lease. `false`: it no longer does.
    pub kept: bool,
}

impl Tie {
    /// The tie that a change of a lease makes or ends.
    #[must_use]
    pub fn of_change(key: &Key, change: &Change) -> Option<Self> {
        let kept = change.kind == ChangeKind::Granted;
        let tie = Self { key: key.clone(), session: change.session?, seq: change.seq, kept };
        (kept || change.kind.ends_tenure()).then_some(tie)
    }

    /// The tie that a record holds.
    #[must_use]
    pub fn of_record(key: &Key, record: &Record) -> Option<Self> {
        let session_ref = record.session_ref().filter(|_| record.state == KeyState::Held)?;
        Some(Self { key: key.clone(), session: session_ref.session, seq: record.seq, kept: true })
    }
}
