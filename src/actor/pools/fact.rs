//! What a record or a change says about a key of a pool.

use std::time::Duration;

use crate::lease::{Change, ChangeKind, KeyState, Nonce, Owner, Record, Revision, Token};

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
    /// It is not over, and the feed will tell of its end.
    Stands,
    Over,
}

/// Whether a record says that its holder was asked to hand over. For a session's record, this means all its leases.
pub fn was_asked(record: &Record) -> bool {
    record.handover.is_some()
}

/// For how long a key stays shut to others than its last owner.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delays {
    /// After an expiry, or the end of a session.
    pub lock_delay: Duration,
    /// After a member of the pool went.
    pub rejoin: Duration,
}

/// Whether the holder offered the key to its own owner, to take it again later.
fn is_to_itself(change: &Change) -> bool {
    let to = change.reason.as_deref().and_then(|reason| reason.strip_prefix("to "));
    let (Some(to), Some((owner, _))) = (to, &change.previous) else { return false };
    // The holder may have said why.
    to.strip_prefix(owner.as_str()).is_some_and(|why| why.is_empty() || why.starts_with(": "))
}

/// The owner of a key: who holds it, or who held it last.
pub fn owner_of(change: &Change) -> Option<&Owner> {
    let previous = || change.previous.as_ref().map(|(owner, _)| owner);
    change.owner.as_ref().or_else(previous)
}

/// The same, as a record says.
pub fn owner_in(record: &Record) -> Option<&Owner> {
    let previous = || record.previous.as_ref().map(|ended| &ended.tenure.owner);
    record.tenure.as_ref().map(|tenure| &tenure.owner).or_else(previous)
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
        let is_cooling = record.state == KeyState::Cooling;
        let cooling = if is_cooling { Cooling::Stands } else { Cooling::Over };
        Self { by, token, seq, asked, shut, cooling }
    }

    /// Whether another fact says the same about the same tenure.
    pub fn says_the_same(&self, other: Self) -> bool {
        let said = |fact: &Self| (fact.by, fact.token, fact.seq, fact.asked, fact.shut);
        said(self) == said(&other)
    }

    /// Whether others than this session hold the key.
    pub fn is_of_another(&self, digest: Nonce) -> bool {
        self.by != By::Nobody && self.by != By::Session(digest)
    }

    /// `None` if the change says nothing about who holds the key. `delays` are those of the key's policy and pool. A
    /// lock-delay that a session set for its own leases is not known here.
    pub fn of_change(change: &Change, delays: Delays) -> Option<Self> {
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
            ChangeKind::Expired => Cooling::Begins(delays.lock_delay),
            ChangeKind::SessionEnded => Cooling::Begins(delays.lock_delay.max(delays.rejoin)),
            ChangeKind::Transferred if is_to_itself(change) => Cooling::Begins(delays.rejoin),
            ChangeKind::Fencing | ChangeKind::Fenced => Cooling::Unchanged,
            _ => Cooling::Over,
        };
        Some(Self { by, token: change.token, seq: change.seq, asked, shut, cooling })
    }
}
