//! Moves what is known of the nodes through time, so that a model checker recognises equal states as equal.

use std::time::Duration;

use super::membership::Membership;
use crate::lease::{primitives::Moment, records::NodeRecord};

impl NodeRecord {
    /// The same for a node's record; D − U stays. D lies before U only where a test broke a rule.
    pub fn age(&mut self, by: Duration, oldest: Moment) {
        let (span, before) = (self.until.since(self.written), self.written.since(self.until));
        if self.until != Moment::ZERO {
            self.written = (self.written - by).max(oldest);
            self.until = self.written + span - before;
        }
    }
}

impl Membership {
    /// The same for a membership. Where only the fact matters that a moment is long past, the moment becomes `recent`,
    /// or is cleared if it is `recent` already. When a record was first read matters only for records marked `unseen`,
    /// and next to reads that take time. In all other cases `heard` caps that moment.
    pub fn age(&mut self, by: Duration, oldest: Moment, recent: Moment, heard: Moment) {
        let aged = |moment: &mut Moment, oldest: Moment| {
            if *moment != Moment::ZERO && *moment != Moment::NEVER {
                *moment = (*moment - by).max(oldest);
            }
        };
        self.record.age(by, oldest);
        aged(&mut self.unbroken_since, recent);
        aged(&mut self.resumed, recent);
        if self.resumed == recent {
            self.resumed = Moment::ZERO;
        }
        for peer in self.peers.iter_mut() {
            peer.record.age(by, oldest);
            aged(&mut peer.pair.0, oldest);
            aged(&mut peer.pair.1, oldest);
            if !peer.record.unseen {
                aged(&mut peer.since, recent);
                peer.since = peer.since.min(heard);
            }
        }
    }
}
