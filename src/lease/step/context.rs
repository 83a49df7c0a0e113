//! The surroundings of a step: what is the same for every key of a node, and what is read for this step.

use std::sync::Arc;

use crate::lease::{
    cluster::Peers,
    policy::Policies,
    primitives::{ClusterSecret, Epoch, Key, Moment, Nonce},
    records::Level,
    rules::Rules,
};

/// The node context: what is currently the same for every key of an incarnation.
#[derive(Clone, Debug)]
pub struct NodeContext {
    /// The incarnation. Records name it as their home node.
    pub node: Nonce,
    /// R1: D of this node's last committed record. From then on nothing is promised or granted. [`Moment::NEVER`] where
    /// one process has the store to itself (R10).
    pub until: Moment,
    /// When this node's latest lapse ended; [`Moment::ZERO`] if it never lapsed.
    pub resumed: Moment,
    /// R7: the store went backwards, and nothing is granted.
    pub frozen: bool,
    /// The other nodes; `None` where one process has the store to itself (R10).
    pub peers: Option<Arc<Peers>>,
    pub epoch: Epoch,
    /// What every program on the store can read: a field that is newer than this level is left empty.
    pub level: Level,
    /// The secret from which lease ids are derived.
    pub secret: ClusterSecret,
    pub policies: Arc<Policies>,
    /// The most callers that may wait in one key's queue.
    pub waiters_per_key: usize,
    /// The most calls that may wait for one key's write in flight.
    pub inflight_per_key: usize,
    pub rules: Rules,
}

impl NodeContext {
    /// R1: whether a promise may be decided at this reading of the clock.
    #[must_use]
    pub fn may_promise(&self, now: Moment) -> bool {
        self.rules.a_node_may_promise(now, self.until)
    }
}

pub struct Env<'a> {
    /// The node's clock: one reading for the whole step.
    pub now: Moment,
    /// The wall clock in milliseconds since 1970; for people only.
    pub wall_ms: u64,
    pub key: &'a Key,
    /// What is the same for every key.
    pub context: &'a NodeContext,
    /// Returns a nonce that it never returned before.
    pub nonces: &'a mut dyn FnMut() -> Nonce,
}
