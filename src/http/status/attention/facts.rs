//! What may need a person.
//!
//! The facts have been filtered by the rights of the caller. What it may not read is only counted.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    api::NodeCounts,
    lease::{Moment, NodeState, Nonce},
    manager::{
        ChurningPool, FailedFences, FailingCheck, GuardedPool, ListTrouble, NodeView, StuckKeys,
        UnevenPool, UnplacedPool,
    },
    store::Health,
    telemetry::{
        NotInForce,
        audit::LostLines,
        recent::{Interruptions, SpansSummary},
    },
    tls::{Expiry, NamedCertificates},
};

/// What may need a person.
pub struct Facts {
    /// A reading of the node's clock, and one of the wall clock in milliseconds since 1970.
    pub now: Moment,
    pub wall_ms: u64,
    pub health: Health,
    /// Whether this node may promise.
    pub may_promise: bool,
    pub is_stopping: bool,
    pub fences: FailedFences,
    pub stuck: StuckKeys,
    /// The checks that fail whose sessions the caller may see, and how many there are beside them.
    pub checks: (Vec<FailingCheck>, usize),
    pub pools: Vec<UnevenPool>,
    /// The pools with keys that their members do not keep.
    pub churning: Vec<ChurningPool>,
    /// The frozen pools that have keys without an owner: how many, and for how long in milliseconds they are frozen.
    pub frozen: Vec<(Arc<str>, usize, u64)>,
    /// The pools with keys that no member can take.
    pub unplaced: Vec<UnplacedPool>,
    /// The pools whose guards against mass failures stand.
    pub guarded: Vec<GuardedPool>,
    pub nodes: Vec<NodeView>,
    /// Addresses of more than one living node.
    pub shared_addresses: BTreeSet<Box<str>>,
    /// Nodes with other policies or plugins.
    pub other_rules: BTreeSet<Nonce>,
    /// Nodes with another access file.
    pub other_access: BTreeSet<Nonce>,
    /// The files that are not in force.
    pub files: Vec<NotInForce>,
    /// Why the revocation list in force is not that of the store, and since when, in milliseconds since 1970.
    pub list_trouble: Option<(ListTrouble, u64)>,
    /// The settings that changed in their file and count after a restart.
    pub restart: Vec<String>,
    /// The certificates that are not valid, or soon will not be.
    pub certificates: Vec<(NamedCertificates, Expiry)>,
    /// How late tenures ended in the last minute.
    pub lateness: SpansSummary,
    /// How many tenures expired in each of the last minutes, the latest last.
    pub expired: Vec<u32>,
    /// Whether whoever reaches the port may do everything.
    pub open_door: bool,
    /// Lines that the audit log lost.
    pub audit: Option<LostLines>,
    /// Lines of the audit log that were written, and are gone.
    pub audit_gaps: Option<LostLines>,
    /// When this node promised nothing for a moment, in the last ten minutes.
    pub interruptions: Vec<Interruptions>,
}

impl Facts {
    /// The address of a node, also of one that is gone.
    pub(super) fn url_of(&self, incarnation: Nonce) -> Option<String> {
        let node = self.nodes.iter().find(|node| node.record.incarnation == incarnation);
        node.map(|node| node.record.url.to_string())
    }

    /// Whether a node at this address is alive.
    pub fn lives(&self, url: &str) -> bool {
        self.nodes
            .iter()
            .any(|node| node.record.state == NodeState::Alive && *node.record.url == *url)
    }

    /// How many nodes there are in each state. An incarnation whose node was started again is not counted.
    pub fn node_counts(&self) -> NodeCounts {
        let of = |state| self.nodes.iter().filter(move |node| node.record.state == state);
        let gone = |state| {
            let of_state = of(state).map(|node| &*node.record.url);
            of_state.filter(|url| url.is_empty() || !self.lives(url)).count() as u64
        };
        // A store that one process uses has no records of nodes.
        let alive = if self.nodes.is_empty() { 1 } else { of(NodeState::Alive).count() as u64 };
        NodeCounts { alive, drained: gone(NodeState::Drained), dead: gone(NodeState::Dead) }
    }
}
