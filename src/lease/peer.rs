//! Nodes: their records, and what follows from them.
//!
//! A node keeps one record alive in the store. Wall clocks are never compared. A record that was read gives a pair of
//! readings: the writer's and this node's own. The pair gives a lower bound of the writer's clock from then on (§2).

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use super::{CodecError, Epoch, Moment, NODE_DRIFT, Nonce, Record, State, codec};

/// The longest accepted time to live of a node's record, in milliseconds.
pub const MAX_NODE_TTL_MS: u64 = 60_000;

/// The version of the records' form.
const VERSION: u8 = 4;

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NodeState {
    /// The node keeps its record alive.
    Alive,
    /// The node left by itself. Terminal.
    Drained,
    /// Other nodes found that the node let its record run out. Terminal.
    Dead,
}

impl NodeState {
    /// The name of the state in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Drained => "drained",
            Self::Dead => "dead",
        }
    }
}

impl NodeState {
    /// Whether no other state follows.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        self != Self::Alive
    }
}

/// The durable record of one incarnation of a node. Its instants are readings of that node's clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Names this write.
    pub nonce: Nonce,
    /// Random. Drawn at the start of the process, and again after the node was found dead or its clock had stood still.
    pub incarnation: Nonce,
    /// The node's state.
    pub state: NodeState,
    /// The address at which clients and other nodes reach it.
    pub url: Box<str>,
    /// The program's version.
    pub version: Box<str>,
    /// The number of leases whose home node it is.
    pub load: u32,
    /// The epoch under which it grants.
    pub epoch: Epoch,
    /// How long after `written` the node may promise, in milliseconds.
    pub ttl_ms: u64,
    /// U: the node's clock before it sent its latest own write.
    pub written: Moment,
    /// D: the node promises nothing once its clock shows this.
    pub until: Moment,
    /// Another node made the record because a lease named a node that had none. Its instants say nothing.
    pub unseen: bool,
    /// A digest of the machine's boot and of its network namespace: within these, a loopback address names one node. 0
    /// where this is not known.
    pub place: u64,
    /// A digest of the policies and plugins that the node uses; 0 where this is not known.
    pub rules: u64,
}

impl NodeRecord {
    /// The record that makes this one terminal. Only the state changes, so that D remains what the node itself last
    /// committed.
    #[must_use]
    pub fn terminal(&self, state: NodeState, nonce: Nonce) -> Self {
        Self { nonce, state, ..self.clone() }
    }

    /// The record of an incarnation that leases name and that has no record.
    #[must_use]
    pub fn unseen(incarnation: Nonce, nonce: Nonce) -> Self {
        Self {
            nonce,
            incarnation,
            state: NodeState::Dead,
            url: Box::default(),
            version: Box::default(),
            load: 0,
            epoch: Epoch::default(),
            ttl_ms: MAX_NODE_TTL_MS,
            written: Moment::ZERO,
            until: Moment::ZERO,
            unseen: true,
            place: 0,
            rules: 0,
        }
    }

    /// Appends the self-checking form, like that of a lease's [`Record`].
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        codec::encode(VERSION, self, out);
    }

    /// Reads what [`Self::encode_into`] wrote.
    ///
    /// # Errors
    /// [`CodecError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        match codec::checked(bytes)? {
            (VERSION, content) => codec::parse(content),
            // Version 3 lacked `place` and `rules`. It is still read, because tombstones that leases name are kept for
            // a long time.
            (3, content) => codec::parse(&[content, &[0, 0]].concat()),
            (version, _) => Err(CodecError::Version(version)),
        }
    }
}

/// What this node knows of another incarnation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// The record as last read.
    pub record: NodeRecord,
    /// The pair (U, x) that gives the best bound of its clock: its reading, and this node's reading after U was read.
    pub pair: (Moment, Moment),
    /// When the current record was first read.
    pub since: Moment,
    /// It is a former incarnation of this very node.
    own: bool,
}

impl Peer {
    /// A node whose record was read for the first time, at `now`.
    #[must_use]
    pub fn new(record: NodeRecord, now: Moment) -> Self {
        Self { pair: (record.written, now), record, since: now, own: false }
    }

    /// Whether it is a former incarnation of this very node.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.own
    }

    /// Enters a record that was read again, at `now`.
    pub fn read(&mut self, record: NodeRecord, now: Moment) {
        if self.record.state.is_terminal() {
            return;
        }
        if self.record != record {
            self.since = now;
        }
        if self.lower_bound(now) < record.written {
            self.pair = (record.written, now);
        }
        self.record = record;
    }

    /// LB: its clock shows at least this when this node's clock shows `now`.
    #[must_use]
    pub fn lower_bound(&self, now: Moment) -> Moment {
        let (written, read) = self.pair;
        written + NODE_DRIFT.shrink(now.since(read))
    }

    /// The moment on this node's clock from which its clock has certainly reached `instant`.
    #[must_use]
    pub fn reaches(&self, instant: Moment) -> Moment {
        let (written, read) = self.pair;
        if instant <= written { read } else { read + NODE_DRIFT.stretch(instant.since(written)) }
    }

    /// R4, R5: when, on this node's clock, every promise that it may have made under a lease's record has run out.
    /// `None` while it may still promise more.
    #[must_use]
    pub fn promises_end(&self, record: &Record) -> Option<Moment> {
        if !self.record.state.is_terminal() {
            return None;
        }
        let ttl = match (record.state, &record.tenure) {
            (State::Held, Some(tenure)) => Duration::from_millis(tenure.ttl_ms),
            _ => Duration::ZERO,
        };
        let floor = Duration::from_millis(record.span_ms());
        if self.record.unseen {
            // Its instants say nothing. But whatever it wrote and promised came before this record was made.
            let longest = Duration::from_millis(MAX_NODE_TTL_MS) + ttl.max(floor);
            return Some(self.since + NODE_DRIFT.stretch(longest));
        }
        Some(self.reaches((self.record.until + ttl).max(record.written + floor)))
    }
}

impl Peer {
    /// When, on this node's clock, the time span in the record has passed on the writer's clock, whether the writer is
    /// alive or not.
    pub(super) fn span_end(&self, record: &Record) -> Moment {
        if self.record.unseen {
            return Moment::NEVER;
        }
        self.reaches(record.written + Duration::from_millis(record.span_ms()))
    }

    /// The value of [`Self::promises_end`] if the node were certainly dead; for a mutant.
    pub(super) fn presumed_end(&self, record: &Record) -> Moment {
        let dead = NodeRecord { state: NodeState::Dead, ..self.record.clone() };
        Self { record: dead, ..self.clone() }.promises_end(record).unwrap_or(Moment::NEVER)
    }
}

/// What this node knows of the other nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Peers {
    known: BTreeMap<Nonce, Peer>,
}

impl Peers {
    /// The node with this incarnation.
    #[must_use]
    pub fn get(&self, incarnation: Nonce) -> Option<&Peer> {
        self.known.get(&incarnation)
    }

    /// All nodes.
    pub fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.known.values()
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.known.values_mut()
    }

    /// Enters a node's record that was read at `now`.
    pub fn read(&mut self, record: NodeRecord, now: Moment) {
        match self.known.entry(record.incarnation) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(Peer::new(record, now));
            }
            std::collections::btree_map::Entry::Occupied(mut entry) => {
                entry.get_mut().read(record, now);
            }
        }
    }

    /// Enters a former incarnation of this node, whose clock is this node's clock.
    pub fn mark_own_dead(&mut self, record: NodeRecord, now: Moment) {
        let peer = Peer { pair: (now, now), since: now, own: true, record };
        self.known.insert(peer.record.incarnation, peer);
    }

    /// Forgets a node that no lease names any more.
    pub fn forget(&mut self, incarnation: Nonce) {
        self.known.remove(&incarnation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Leases still name tombstones that nodes of an earlier version of the program wrote.
    #[test]
    fn a_record_without_place_and_rules_is_read() {
        let record = NodeRecord {
            url: "http://10.0.0.1:7373".into(),
            written: Moment::ZERO + Duration::from_secs(7),
            unseen: false,
            ..NodeRecord::unseen(Nonce(1), Nonce(2))
        };
        let content = postcard::to_stdvec(&record).unwrap();
        let mut bytes = vec![3];
        bytes.extend_from_slice(content.strip_suffix(&[0, 0]).unwrap());
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        assert_eq!(NodeRecord::decode(&bytes).unwrap(), record);
        bytes[0] = 2;
        let end = bytes.len() - 4;
        let crc = crc32fast::hash(&bytes[..end]).to_le_bytes();
        bytes[end..].copy_from_slice(&crc);
        assert!(matches!(NodeRecord::decode(&bytes), Err(CodecError::Version(2))));
    }
}
