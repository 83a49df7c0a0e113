//! The durable record of a node (§3).

use serde::{Deserialize, Serialize};

use super::{
    codec::{self, CodecError},
    level::Level,
};
use crate::lease::primitives::{Epoch, Moment, Nonce};

/// The longest accepted time to live of a node's record, in milliseconds.
pub const MAX_NODE_TTL_MS: u64 = 60_000;

/// The version of the records' form. What later programs add at its end is not read.
const VERSION: u8 = 5;
/// The form of the first level, which ends before [`NodeRecord::level`], and the form before it, which also lacks `place`
/// and `rules`.
const OF_FIRST_LEVEL: u8 = 4;
const BEFORE_PLACE: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NodeState {
    /// The node keeps its record alive.
    Alive,
    /// The node left in good order. Terminal.
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

    /// Whether no other state follows.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        self != Self::Alive
    }
}

/// Digests of what all nodes of a store should have in common. Nodes of one version compare them. 0 where one is not
/// known. The record holds both as one number, as it held a longer digest of the policies before it had that of the
/// access file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "u64", into = "u64")]
pub struct Common {
    /// Of the policies and plugins that the node uses.
    pub policies: u32,
    /// Of the access file. It is made with the store's secret, so nothing can be found out about the file from it.
    pub access: u32,
}

impl From<u64> for Common {
    fn from(both: u64) -> Self {
        let [policies, access] = [both >> 32, both & u64::from(u32::MAX)];
        // Each has 32 bits at most.
        let narrow = |half| u32::try_from(half).unwrap_or_default();
        Self { policies: narrow(policies), access: narrow(access) }
    }
}

impl From<Common> for u64 {
    fn from(Common { policies, access }: Common) -> Self {
        Self::from(policies) << 32 | Self::from(access)
    }
}

/// The durable record of one incarnation of a node. Its instants are readings of that node's clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Drawn anew for each write, so that no two writes are alike.
    pub nonce: Nonce,
    /// Random. Drawn at the start of the process, and again after the node was found dead or its clock had stood still.
    pub incarnation: Nonce,
    pub state: NodeState,
    /// The address at which clients and other nodes reach it.
    pub url: Box<str>,
    /// The version of the program that the node runs, and that of the seal which it knows.
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
    /// Digests of what all nodes should have in common.
    pub common: Common,
    /// The level of the program that the node runs.
    #[serde(skip)]
    pub level: Level,
}

/// The text between the version of a program and the newest version of the seal that it knows. Nodes of all versions
/// read it as a part of the version of the program, which they compare with nothing but their own.
const SEAL: &str = "+seal";

impl NodeRecord {
    /// The version of a program that knows this version of the seal on calls between nodes, as [`Self::version`] has it.
    #[must_use]
    pub fn version_with_seal(program: &str, seal: u8) -> Box<str> {
        // Programs that know the first version alone say nothing of it.
        if seal <= 1 { program.into() } else { format!("{program}{SEAL}{seal}").into() }
    }

    /// The version of the program that the node runs.
    #[must_use]
    pub fn program(&self) -> &str {
        self.version.split_once(SEAL).map_or(&self.version, |(program, _)| program)
    }

    /// The newest version of the seal on calls between nodes that the node knows.
    #[must_use]
    pub fn seal(&self) -> u8 {
        self.version.split_once(SEAL).and_then(|(_, seal)| seal.parse().ok()).unwrap_or(1)
    }

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
            common: Common::default(),
            level: Level::FIRST,
        }
    }

    /// The level that all nodes know that may be alive, by the records of all nodes. `None` if one of the records cannot be
    /// read, or if no node is alive: then nothing is known.
    #[must_use]
    pub fn level_of_all<'n, E: 'n>(
        nodes: impl IntoIterator<Item = &'n Result<Self, E>>,
    ) -> Option<Level> {
        let mut all: Option<Level> = None;
        for record in nodes {
            let record = record.as_ref().ok()?;
            if !record.state.is_terminal() {
                all = Some(all.map_or(record.level, |all| all.min(record.level)));
            }
        }
        all
    }

    /// Appends the self-checking form, like that of a lease's [`super::Record`]: the oldest one that can say it, since
    /// nodes of an earlier version must be able to read it.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        if self.level == Level::FIRST {
            codec::encode(OF_FIRST_LEVEL, self, out);
        } else {
            codec::encode(VERSION, &(self, self.level), out);
        }
    }

    /// Reads what [`Self::encode_into`] wrote.
    ///
    /// # Errors
    /// [`CodecError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        match codec::checked(bytes)? {
            (VERSION, content) => {
                let (record, level) = codec::parse_first(content)?;
                Ok(Self { level, ..record })
            }
            (OF_FIRST_LEVEL, content) => codec::parse(content),
            // It is still read, because tombstones that leases name are kept for a long time.
            (BEFORE_PLACE, content) => codec::parse(&[content, &[0, 0]].concat()),
            (version, _) => Err(CodecError::Version(version)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_lowest_level_of_the_living_is_known_to_all() {
        let (alive, gone) = (NodeState::Alive, NodeState::Drained);
        let node = |state, level| {
            let level = Level(level);
            Ok(NodeRecord { state, level, ..NodeRecord::unseen(Nonce(1), Nonce(2)) })
        };
        let known = |nodes: &[Result<NodeRecord, CodecError>]| NodeRecord::level_of_all(nodes);
        assert_eq!(known(&[node(alive, 3), node(alive, 2)]), Some(Level(2)));
        assert_eq!(known(&[node(alive, 3), node(gone, 1)]), Some(Level(3)), "it is gone");
        assert_eq!(known(&[node(alive, 3), node(NodeState::Dead, 1)]), Some(Level(3)));
        assert_eq!(known(&[node(gone, 3)]), None, "nobody lives");
        assert_eq!(known(&[]), None);
        let unread = Err(CodecError::Version(9));
        assert_eq!(known(&[node(alive, 3), unread]), None, "it may know less");
    }

    #[test]
    fn the_version_of_the_seal_stands_behind_that_of_the_program() {
        for (version, program, seal) in
            [("0.1.0", "0.1.0", 1), ("0.2.0+seal2", "0.2.0", 2), ("1.0.0+sealx", "1.0.0", 1)]
        {
            let node =
                NodeRecord { version: version.into(), ..NodeRecord::unseen(Nonce(1), Nonce(2)) };
            assert_eq!((node.program(), node.seal()), (program, seal));
        }
        for (seal, written) in [(1, "0.1.0"), (2, "0.1.0+seal2")] {
            assert_eq!(&*NodeRecord::version_with_seal("0.1.0", seal), written);
        }
    }

    fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// Nodes of the version before levels read the records of nodes that know no more than they do.
    #[test]
    fn a_record_of_the_first_level_is_written_as_before_levels() {
        let record = NodeRecord { load: 7, ..NodeRecord::unseen(Nonce(1), Nonce(2)) };
        let mut bytes = Vec::new();
        record.encode_into(&mut bytes);
        let before = [vec![OF_FIRST_LEVEL], postcard::to_stdvec(&record).unwrap()].concat();
        assert_eq!(bytes, sealed(before));
        assert_eq!(NodeRecord::decode(&bytes).unwrap(), record);
    }

    #[test]
    fn a_level_is_read_and_what_later_programs_add_is_not() {
        let record = NodeRecord { level: Level(3), ..NodeRecord::unseen(Nonce(1), Nonce(2)) };
        let mut bytes = Vec::new();
        record.encode_into(&mut bytes);
        assert_eq!((bytes[0], NodeRecord::decode(&bytes).unwrap()), (VERSION, record.clone()));
        let mut later = bytes[..bytes.len() - 4].to_vec();
        later.extend_from_slice(b"added");
        assert_eq!(NodeRecord::decode(&sealed(later)).unwrap(), record);
        let cut = sealed(bytes[..bytes.len() - 5].to_vec());
        assert!(matches!(NodeRecord::decode(&cut), Err(CodecError::Malformed(_))));
    }

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
