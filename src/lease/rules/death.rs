//! R3: nodes that are found dead.

use std::time::Duration;

use super::mutant::{Mutant, Rules};
use crate::lease::{
    primitives::{Moment, NODE_DRIFT},
    records::{MAX_NODE_TTL_MS, NodeRecord},
};

impl Rules {
    /// R3: a node let its record run out once the lower bound of its clock reached D.
    #[must_use]
    pub fn a_record_ran_out(lower_bound: Moment, until: Moment) -> bool {
        lower_bound >= until
    }

    /// R3: a node judges others only when its own renewals were committed without a gap for a whole time to live, the
    /// longer one of the two nodes, before it read the other's record once more.
    #[must_use]
    pub fn a_judge_was_in_touch(unbroken_since: Moment, asked: Moment, ttl: Duration) -> bool {
        unbroken_since != Moment::NEVER && asked >= unbroken_since + ttl
    }

    /// R3: a process that starts at the address of another node finds it dead at once. A loopback address counts as the
    /// same only on the same machine and in the same network namespace. An empty address identifies no process.
    #[must_use]
    pub fn a_process_replaces_a_node(own: &NodeRecord, other: &NodeRecord, loopback: bool) -> bool {
        let same_place = own.place != 0 && other.place == own.place;
        !own.url.is_empty() && other.url == own.url && (same_place || !loopback)
    }

    /// R3: how long the leases of a node that has no record are waited for, once a `dead` record was read in its place:
    /// (60 s + max(ttl, floor))/κ.
    #[must_use]
    pub fn an_unseen_node_is_waited_for(ttl: Duration, floor: Duration) -> Duration {
        NODE_DRIFT.stretch(Duration::from_millis(MAX_NODE_TTL_MS) + ttl.max(floor))
    }

    /// §3: a node that writes `dead` changes nothing but the state. `now` and `ttl` are the writing node's.
    #[must_use]
    pub fn a_tombstone_keeps_the_nodes_instants(
        self,
        tombstone: NodeRecord,
        now: Moment,
        ttl: Duration,
    ) -> NodeRecord {
        if self.breaks(Mutant::TombstoneWithAuthorsInstants) {
            return NodeRecord { written: now, until: now + ttl, ..tombstone };
        }
        tombstone
    }
}
