//! R4: when the tenure of a dead home node may be ended.

use std::time::Duration;

use super::mutant::{Mutant, Rules};
use crate::lease::{
    primitives::Moment,
    records::{NodeRecord, NodeState},
};

impl Rules {
    /// R3, R4: a lease is taken from its home node only once that node's record is terminal.
    #[must_use]
    pub fn a_lease_may_be_taken_from(self, home: NodeState) -> bool {
        home.is_terminal() || self.breaks(Mutant::TakeOverWithoutTombstone)
    }

    /// R4: the reading of the dead home node's own clock after which none of its promises runs: max(D + ttl, F).
    #[must_use]
    pub fn a_dead_nodes_promises_end_at(until: Moment, ttl: Duration, floor: Moment) -> Moment {
        (until + ttl).max(floor)
    }

    /// R4: a node that lapsed itself also waits one ttl from the moment at which it may promise again: it may have
    /// missed the holder. `resumed` is zero when the node never lapsed.
    #[must_use]
    pub fn a_rival_that_lapsed_waits_until(end: Moment, resumed: Moment, ttl: Duration) -> Moment {
        if resumed == Moment::ZERO { end } else { end.max(resumed + ttl) }
    }

    /// R4: D is taken from the terminal record, not from the copy that was `known` before it.
    #[must_use]
    pub fn a_terminal_record_counts_as_read(
        self,
        read: NodeRecord,
        known: Option<&NodeRecord>,
    ) -> NodeRecord {
        match known.filter(|known| read.state.is_terminal() && !known.unseen) {
            Some(known) if self.breaks(Mutant::EndOfHomeFromOlderCopy) => {
                NodeRecord { written: known.written, until: known.until, ..read }
            }
            _ => read,
        }
    }
}
