//! Nodes: their records, and what may be concluded from them.
//!
//! A node keeps ONE record alive in the store. Nobody compares wall clocks: a record that was read
//! gives a pair of readings, the writer's and one's own, and from it a lower bound of the writer's
//! clock for ever after (§2).

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use super::{CodecError, Epoch, Moment, NODE_DRIFT, Nonce, Record, State, codec};

/// The longest time to live of a node's record that is accepted, in milliseconds.
pub const MAX_NODE_TTL_MS: u64 = 60_000;

/// The version of the form of their records.
const VERSION: u8 = 4;

/// Whether a node answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NodeState {
    /// It keeps its record alive.
    Alive,
    /// It left of its own accord. Terminal.
    Drained,
    /// Others found that it let its record run out. Terminal.
    Dead,
}

impl NodeState {
    /// The state as the API names it.
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
    /// Nothing follows it.
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
    /// Random per start of the process, and anew after it was found dead or its clock had stood still.
    pub incarnation: Nonce,
    /// Whether it answers.
    pub state: NodeState,
    /// Where clients and other nodes reach it.
    pub url: Box<str>,
    /// The program's version.
    pub version: Box<str>,
    /// How many leases call it home.
    pub load: u32,
    /// The generation of tokens that it grants under.
    pub epoch: Epoch,
    /// How long after `written` it may answer, in milliseconds.
    pub ttl_ms: u64,
    /// U: its clock before it sent the latest write of its own.
    pub written: Moment,
    /// D: it promises nothing at or after this reading of its clock.
    pub until: Moment,
    /// Somebody else made the record, because a lease named a node that had none: its instants say
    /// nothing.
    pub unseen: bool,
    /// A digest of the machine's boot and of its network namespace, where a loopback address leads; 0 where that
    /// is not known.
    pub place: u64,
    /// A digest of the policies and plugins that it goes by; 0 where that is not known.
    pub rules: u64,
}

impl NodeRecord {
    /// The record that makes this one terminal: the state alone changes, so that D stays what the node
    /// itself last committed.
    #[must_use]
    pub fn terminal(&self, state: NodeState, nonce: Nonce) -> Self {
        Self { nonce, state, ..self.clone() }
    }

    /// The record of an incarnation that leases name and that has none.
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
            // Place and rules were not there yet: tombstones that leases name are kept for long.
            (3, content) => codec::parse(&[content, &[0, 0]].concat()),
            (version, _) => Err(CodecError::Version(version)),
        }
    }
}

/// What is known of another incarnation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Its record as last read.
    pub record: NodeRecord,
    /// The pair (U, x) that bounds its clock best: its reading, and ours after that was read.
    pub pair: (Moment, Moment),
    /// When its present record was first read.
    pub since: Moment,
    /// A former incarnation of this very node.
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

    /// The record was read again, at `now`.
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

    /// LB: its clock shows at least this at our `now`.
    #[must_use]
    pub fn lower_bound(&self, now: Moment) -> Moment {
        let (written, read) = self.pair;
        written + NODE_DRIFT.shrink(now.since(read))
    }

    /// Since when, on our clock, its clock is sure to have reached an instant.
    #[must_use]
    pub fn reaches(&self, instant: Moment) -> Moment {
        let (written, read) = self.pair;
        if instant <= written { read } else { read + NODE_DRIFT.stretch(instant.since(written)) }
    }

    /// R4, R5: when, on our clock, everything that it may have promised under a lease's record has run
    /// out. `None` while it may still promise more.
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
            // Its instants say nothing; what it wrote and promised, it did before its record was made.
            let longest = Duration::from_millis(MAX_NODE_TTL_MS) + ttl.max(floor);
            return Some(self.since + NODE_DRIFT.stretch(longest));
        }
        Some(self.reaches((self.record.until + ttl).max(record.written + floor)))
    }
}

impl Peer {
    /// When, on our clock, the span that the record names has passed on the writer's, whether it lives or
    /// not.
    pub(super) fn span_end(&self, record: &Record) -> Moment {
        if self.record.unseen {
            return Moment::NEVER;
        }
        self.reaches(record.written + Duration::from_millis(record.span_ms()))
    }

    /// What [`Self::promises_end`] would be if the node were dead for certain; for a broken variant.
    pub(super) fn presumed_end(&self, record: &Record) -> Moment {
        let dead = NodeRecord { state: NodeState::Dead, ..self.record.clone() };
        Self { record: dead, ..self.clone() }.promises_end(record).unwrap_or(Moment::NEVER)
    }
}

/// What is known of the other nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Peers {
    known: BTreeMap<Nonce, Peer>,
}

impl Peers {
    /// One of them.
    #[must_use]
    pub fn get(&self, incarnation: Nonce) -> Option<&Peer> {
        self.known.get(&incarnation)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.known.values()
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.known.values_mut()
    }

    /// A node's record was read, at `now`.
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

    /// This node's own former incarnation: its clock is ours.
    pub fn bury_own(&mut self, record: NodeRecord, now: Moment) {
        let peer = Peer { pair: (now, now), since: now, own: true, record };
        self.known.insert(peer.record.incarnation, peer);
    }

    /// No lease names it any more.
    pub fn forget(&mut self, incarnation: Nonce) {
        self.known.remove(&incarnation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tombstones of nodes of an earlier program, which leases still name.
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
