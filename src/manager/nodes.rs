//! This node among the nodes on its store.

use std::{collections::BTreeSet, time::Duration};

use hmac::Mac as _;

use super::{Manager, error::Home};
use crate::{
    access::Access,
    actor::NodeView,
    lease::{Epoch, Level, NodeRecord, Nonce},
    telemetry::{Files, ShedClass},
};

/// How many writes one call has in flight over a network.
const WRITES_AT_ONCE: usize = 128;

/// How often a call that waits at another node checks whether that node still lives.
const LOOK_FOR_DEATHS: Duration = Duration::from_millis(250);

impl Manager {
    /// The nodes on the store, this node first. Empty if the store is not shared.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeView> {
        self.node.as_ref().map(|node| node.list()).unwrap_or_default()
    }

    /// The other living nodes, each with its address if that is known. Empty if the store is not shared.
    #[must_use]
    pub fn others(&self) -> Vec<Home> {
        let living = |view: &NodeView| !view.this && !view.record.state.is_terminal();
        let home = |view: NodeView| Home {
            node: view.record.incarnation,
            url: Some(view.record.url).filter(|url| !url.is_empty()),
        };
        self.nodes().into_iter().filter(living).map(home).collect()
    }

    /// Addresses that more than one living node claims. What is sent to one of these nodes arrives at another.
    #[must_use]
    pub fn shared_addresses(&self) -> BTreeSet<Box<str>> {
        let nodes = self.nodes();
        let living = nodes.iter().filter(|view| !view.record.state.is_terminal());
        let (mut seen, mut shared) = (BTreeSet::new(), BTreeSet::new());
        for url in living.map(|view| &view.record.url).filter(|url| !url.is_empty()) {
            if !seen.insert(url) {
                shared.insert(url.clone());
            }
        }
        shared
    }

    /// Other living nodes of the same version whose policies or plugins differ from this node's. The node that ends a
    /// tenure decides which fences it needs, and a fence waits on a node that does not have its plugin.
    #[must_use]
    pub fn nodes_with_other_rules(&self) -> BTreeSet<Nonce> {
        let nodes = self.nodes();
        let Some((own, others)) = nodes.split_first() else { return BTreeSet::new() };
        let others = others.iter().filter(|other| other.goes_by_others_than(own));
        others.map(|other| other.record.incarnation).collect()
    }

    /// Other living nodes of the same version whose access file differs from this node's. What a node answers by itself
    /// has the rights of its own file.
    #[must_use]
    pub fn nodes_with_other_access(&self) -> BTreeSet<Nonce> {
        let nodes = self.nodes();
        let Some((own, others)) = nodes.split_first() else { return BTreeSet::new() };
        let others = others.iter().filter(|other| other.has_other_access_than(own));
        others.map(|other| other.record.incarnation).collect()
    }

    /// Publishes a digest of this access file, or that there is none. The digest has a key, so it shows no more
    /// than which nodes have the same file.
    pub(crate) fn publish_access(&self, access: Option<&Access>) {
        let mut mac = self.coordinator.node_context().secret.key_of("tenure access file 1");
        mac.update(access.map(Access::content).as_deref().unwrap_or("none").as_bytes());
        let tag = mac.finalize().into_bytes();
        let digest = tag.first_chunk().map_or(0, |first| u32::from_le_bytes(*first));
        self.coordinator.set_access_digest(digest.max(1));
    }

    /// The digest of the access file that this node publishes.
    #[must_use]
    pub fn access_digest(&self) -> u32 {
        self.coordinator.access_digest()
    }

    /// Which files are in force.
    pub(crate) fn files(&self) -> &Files {
        &self.coordinator.metrics.files
    }

    /// The present incarnation of this node.
    #[must_use]
    pub fn incarnation(&self) -> Nonce {
        self.coordinator.node_context().node
    }

    /// The epoch of the tokens that this node grants.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.coordinator.node_context().epoch
    }

    /// Whether this is an incarnation of this node, the present one or an earlier one.
    #[must_use]
    pub fn is_own(&self, incarnation: Nonce) -> bool {
        self.coordinator.is_own(incarnation)
    }

    /// Whether other nodes may be on the store.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.node.is_some()
    }

    /// The newest version of the seal on calls between nodes that a living node knows; `None` if no other living node is
    /// known by this incarnation.
    #[must_use]
    pub fn seal_of(&self, node: Nonce) -> Option<u8> {
        let context = self.coordinator.node_context();
        let peer = context.peers.as_ref()?.get(node)?;
        let record = Some(&peer.record).filter(|record| !record.state.is_terminal());
        record.map(NodeRecord::seal)
    }

    /// The level that every program on the store knows.
    #[must_use]
    pub fn level(&self) -> Level {
        self.coordinator.node_context().level
    }

    /// A home node, with its address if the node is known.
    #[must_use]
    pub fn home(&self, node: Nonce) -> Home {
        Home { node, url: self.coordinator.url_of(node) }
    }

    /// How long after its death a node of this store counts as alive. `None` if the store is not shared.
    #[must_use]
    pub fn node_ttl(&self) -> Option<Duration> {
        self.node.as_ref().map(|node| node.ttl())
    }

    /// How many leases have this node as their home node, or have a home node that is gone and a session that is at home here.
    #[must_use]
    pub fn homed(&self) -> u32 {
        self.coordinator.homed()
    }

    /// Announces to the other nodes that this one leaves, so that they adopt its leases at once. From here on it
    /// promises nothing.
    pub async fn leave(&self) {
        if let Some(node) = &self.node {
            node.leave().await;
        }
    }

    /// Counts a call that was forwarded to another node, and whether that node answered.
    pub(crate) fn count_forwarded(&self, answered: bool) {
        self.coordinator.metrics.forwarded(answered);
    }

    /// How many writes of this node's leases the store has not settled.
    #[must_use]
    pub fn writes_waiting(&self) -> usize {
        self.coordinator.writes_waiting()
    }

    /// Counts a call that was refused because this node has too much to do.
    pub(crate) fn count_shed(&self, class: ShedClass) {
        self.coordinator.metrics.shed(class);
    }

    /// Waits until another node is known to be dead or to have left.
    pub async fn gone(&self, node: Nonce) {
        let gone = || {
            let context = self.coordinator.node_context();
            let peer = context.peers.as_ref().and_then(|peers| peers.get(node));
            peer.is_some_and(|peer| peer.record.state.is_terminal())
        };
        while !gone() {
            tokio::time::sleep(LOOK_FOR_DEATHS).await;
        }
    }

    /// How many writes one call has in flight. Where one sync takes all writes, there is no limit. Over a network,
    /// there are no more than keep a connection busy, so that none of them waits until its time-out.
    pub(super) fn at_once(&self) -> usize {
        if self.node.is_some() { WRITES_AT_ONCE } else { usize::MAX }
    }
}
