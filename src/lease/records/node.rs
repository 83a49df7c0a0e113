//! The durable record of a node (§3).

use serde::{Deserialize, Serialize};

use super::codec::{self, CodecError};
use crate::lease::primitives::{Epoch, Moment, Nonce};

/// The longest accepted time to live of a node's record, in milliseconds.
pub const MAX_NODE_TTL_MS: u64 = 60_000;

/// The version of the records' form.
const VERSION: u8 = 4;

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
    /// The version of the program that the node runs.
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

    /// Appends the self-checking form, like that of a lease's [`super::Record`].
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
