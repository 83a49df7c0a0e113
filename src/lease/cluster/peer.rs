//! What this node knows of another node.
//!
//! Wall clocks are never compared. A record that was read gives a pair of readings: the writer's and this node's own. The
//! pair gives a lower bound of the writer's clock from then on (§2).

use std::time::Duration;

use crate::lease::{
    primitives::Moment,
    records::{KeyState, NodeRecord, Record},
    rules::Rules,
};

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

    /// A former incarnation of this very node, whose clock is this node's clock.
    pub(super) fn own(record: NodeRecord, now: Moment) -> Self {
        Self { pair: (now, now), since: now, own: true, record }
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
        Rules::another_clock_shows_at_least(written, read, now)
    }

    /// The moment on this node's clock from which its clock has certainly reached `instant`.
    #[must_use]
    pub fn reaches(&self, instant: Moment) -> Moment {
        let (written, read) = self.pair;
        Rules::another_clock_has_reached(written, read, instant)
    }

    /// R4, R5: when, on this node's clock, every promise that the node made under a lease's record before it was gone has
    /// run out.
    pub(in crate::lease) fn promises_end(&self, record: &Record) -> Moment {
        let ttl = match (record.state, &record.tenure) {
            (KeyState::Held, Some(tenure)) => Duration::from_millis(tenure.ttl_ms),
            _ => Duration::ZERO,
        };
        let floor = Duration::from_millis(record.span_ms());
        if self.record.unseen {
            // Its instants say nothing. But whatever it wrote and promised came before this record was made.
            return self.since + Rules::an_unseen_node_is_waited_for(ttl, floor);
        }
        let floor = record.written + floor;
        self.reaches(Rules::a_dead_nodes_promises_end_at(self.record.until, ttl, floor))
    }

    /// When, on this node's clock, the time for which the record shuts the key to others has passed on the writer's
    /// clock, whether the writer is alive or not.
    pub(in crate::lease) fn shut_end(&self, record: &Record) -> Moment {
        if self.record.unseen {
            return Moment::NEVER;
        }
        self.reaches(record.written + Duration::from_millis(record.shut_ms()))
    }
}
