//! What a record or a change says about a key of a pool.

use std::time::Duration;

use crate::lease::{Change, ChangeKind, KeyState, Nonce, Record, Revision, Token};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Nobody,
    Session(Nonce),
    /// The holder of a lease that no session keeps.
    Other,
}

/// What a record or a change says about a key.
#[derive(Clone, Copy, Debug)]
pub struct Fact {
    pub by: By,
    /// Facts about a key are ordered by these two.
    pub token: Token,
    pub seq: u64,
    /// The holder was asked to hand it over.
    pub asked: bool,
    /// Nobody can be granted it now: its last tenure is being fenced, or its lock-delay is not over.
    pub shut: bool,
    pub cooling: Cooling,
}

/// What a fact says about a key's lock-delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cooling {
    /// The key stays shut for this time, which its policy sets for such an end.
    Begins(Duration),
    /// Nothing: a lock-delay that began continues.
    Unchanged,
    Over,
}

/// Whether a record says that its holder was asked to hand over. For a session's record, this means all its leases.
pub fn was_asked(record: &Record) -> bool {
    record.handover.is_some()
}

impl Fact {
    pub fn of_record(record: &Record, revision: Revision) -> Self {
        let by = match (record.state, record.session_ref()) {
            (KeyState::Held, Some(session_ref)) => By::Session(session_ref.session),
            (KeyState::Held, None) => By::Other,
            _ => By::Nobody,
        };
        let asked = was_asked(record);
        let shut = matches!(record.state, KeyState::Fencing | KeyState::Cooling);
        let (token, seq) = (record.token(revision), record.seq);
        Self { by, token, seq, asked, shut, cooling: Cooling::Over }
    }

    /// Whether others than this session hold the key.
    pub fn is_of_another(&self, digest: Nonce) -> bool {
        self.by != By::Nobody && self.by != By::Session(digest)
    }

    /// `None` if the change says nothing about who holds the key. `policy` is the lock-delay of the key's policy. A
    /// lock-delay that a session set for its own leases is not known here.
    pub fn of_change(change: &Change, policy: Duration) -> Option<Self> {
        let held = || change.session.map_or(By::Other, By::Session);
        let (by, asked, shut) = match change.kind {
            ChangeKind::Granted => (held(), false, false),
            ChangeKind::HandoverRequested => (held(), true, false),
            ChangeKind::Fencing => (By::Nobody, false, true),
            // A fence may also be confirmed when another tenure has begun.
            kind if kind.ends_tenure() || kind.may_open() && change.owner.is_none() => {
                (By::Nobody, false, false)
            }
            _ => return None,
        };
        let cooling = match change.kind {
            ChangeKind::Expired | ChangeKind::SessionEnded => Cooling::Begins(policy),
            ChangeKind::Fencing | ChangeKind::Fenced => Cooling::Unchanged,
            _ => Cooling::Over,
        };
        Some(Self { by, token: change.token, seq: change.seq, asked, shut, cooling })
    }
}
