//! The nodes, as shown to operators.

use std::time::Duration;

use super::node::Node;
use crate::lease::{Common, Moment, NodeRecord, NodeState};

/// A node as shown to operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Its record as last read.
    pub record: NodeRecord,
    /// Whether it is this node.
    pub this: bool,
    /// The time until its record runs out, in milliseconds, by this node's clock. 0 if it ran out.
    pub runs_out_in_ms: u64,
    /// When this node first read the record as it is, by this node's clock.
    pub since: Moment,
}

impl NodeView {
    /// Whether this other living node has policies or plugins that differ from those of `own`. `false` for a node of
    /// another version, and for one that does not publish them.
    #[must_use]
    pub fn goes_by_others_than(&self, own: &Self) -> bool {
        self.differs_from(own, |common| common.policies)
    }

    /// The same for its access file.
    #[must_use]
    pub fn has_other_access_than(&self, own: &Self) -> bool {
        self.differs_from(own, |common| common.access)
    }

    fn differs_from(&self, own: &Self, part: impl Fn(Common) -> u32) -> bool {
        let (theirs, ours) = (&self.record, &own.record);
        let is_judged =
            !self.this && theirs.state == NodeState::Alive && theirs.version == ours.version;
        let (theirs, ours) = (part(theirs.common), part(ours.common));
        is_judged && theirs != 0 && ours != 0 && theirs != ours
    }
}

impl Node {
    /// This node and the nodes that it knows, this one first.
    #[must_use]
    pub fn list(&self) -> Vec<NodeView> {
        let now = self.coordinator.clock.now();
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        self.with(|membership| {
            let (own, until) = (membership.record(), membership.until());
            let drained =
                self.coordinator.node_context().until == Moment::ZERO && until == Moment::ZERO;
            let state =
                if drained && own.until != Moment::ZERO { NodeState::Drained } else { own.state };
            let mut views = vec![NodeView {
                record: NodeRecord { state, ..own.clone() },
                this: true,
                runs_out_in_ms: millis(until.since(now)),
                since: now,
            }];
            views.extend(membership.peers().iter().filter(|peer| !peer.is_own()).map(|peer| {
                NodeView {
                    this: false,
                    runs_out_in_ms: millis(peer.record.until.since(peer.lower_bound(now))),
                    record: peer.record.clone(),
                    since: peer.since,
                }
            }));
            views[1..].sort_by_key(|view| (view.record.state as u8, view.record.url.clone()));
            views
        })
    }
}
