//! R3: keeps this node's own record alive, and judges the records of other nodes.
//!
//! This module only decides; the shell reads and writes. It decides from what the store is known to hold.

use std::{collections::BTreeMap, time::Duration};

use super::{address::is_loopback, peer::Peer, peers::Peers};
use crate::lease::{
    primitives::{Epoch, Moment, Nonce, Revision},
    records::{Common, LEVEL, Level, NodeRecord, NodeState},
    rules::Rules,
};

/// The membership of one incarnation of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Membership {
    /// The node's own record as last known to be committed. Before the first commit: the record that it starts from.
    pub(super) record: NodeRecord,
    revision: Revision,
    /// Whether a record was ever committed.
    committed: bool,
    /// Since when its renewals were committed without a gap.
    pub(super) unbroken_since: Moment,
    /// The node could not promise for a while, and its record was not renewed since.
    lapsed: bool,
    /// When its latest lapse ended; zero if it never lapsed.
    pub(super) resumed: Moment,
    leaving: bool,
    pub(super) peers: Peers,
    revisions: BTreeMap<Nonce, Revision>,
    /// The other nodes' records were read at least once.
    looked_around: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The node may promise as before, or still may not.
    Unbroken,
    /// The node could not promise for a while, and now can again.
    Resumed,
}

/// What to do after the other nodes' records were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Nodes whose record is terminal, which was not known before.
    pub gone: Vec<Nonce>,
    /// Tombstones to write over these revisions: nodes that this node finds dead.
    pub dead: Vec<(Revision, NodeRecord)>,
    /// Nodes that were alive when last heard of and now have no record. They must be asked for by name.
    pub lost: Vec<Nonce>,
}

impl Membership {
    /// A node that has no record yet.
    #[must_use]
    pub fn new(incarnation: Nonce, url: &str, version: &str, ttl_ms: u64, epoch: Epoch) -> Self {
        let record = NodeRecord {
            nonce: Nonce::default(),
            incarnation,
            state: NodeState::Alive,
            url: url.into(),
            version: version.into(),
            load: 0,
            epoch,
            ttl_ms,
            written: Moment::ZERO,
            until: Moment::ZERO,
            unseen: false,
            place: 0,
            common: Common::default(),
            level: LEVEL,
        };
        Self {
            record,
            revision: Revision::ABSENT,
            committed: false,
            unbroken_since: Moment::NEVER,
            lapsed: false,
            resumed: Moment::ZERO,
            leaving: false,
            peers: Peers::default(),
            revisions: BTreeMap::new(),
            looked_around: false,
        }
    }

    /// The same node at this place, see [`NodeRecord::place`].
    #[must_use]
    pub fn at(mut self, place: u64) -> Self {
        self.record.place = place;
        self
    }

    /// The same node, run by a program of this level.
    #[must_use]
    pub fn of_level(mut self, level: Level) -> Self {
        self.record.level = level;
        self
    }

    /// The level that this node and all others that may be alive know, as far as this node has read their records;
    /// `None` while it has not.
    #[must_use]
    pub fn level(&self) -> Option<Level> {
        let others = self.peers.iter().filter(|peer| !peer.is_own());
        let alive = others.map(|peer| &peer.record).filter(|record| !record.state.is_terminal());
        let levels = alive.map(|record| record.level);
        self.looked_around.then(|| levels.fold(self.record.level, Level::min))
    }

    #[must_use]
    pub fn incarnation(&self) -> Nonce {
        self.record.incarnation
    }

    /// The node's record as last known to be committed.
    #[must_use]
    pub fn record(&self) -> &NodeRecord {
        &self.record
    }

    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// R1: D of the last committed record. From then on nothing may be promised.
    #[must_use]
    pub fn until(&self) -> Moment {
        if self.committed && !self.leaving { self.record.until } else { Moment::ZERO }
    }

    /// When the node's latest lapse ended; [`Moment::ZERO`] if it never lapsed.
    #[must_use]
    pub fn resumed(&self) -> Moment {
        self.resumed
    }

    /// Whether the node ever had a record.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        self.committed
    }

    /// Whether the node announced that it leaves. It then has nothing to renew.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// The other nodes, and this node's former incarnations.
    #[must_use]
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// The compare-and-set that renews the node's record. `now` is read before the write is sent.
    #[must_use]
    pub fn renewal(&self, now: Moment, nonce: Nonce, load: u32) -> (Revision, NodeRecord) {
        let until = now + Duration::from_millis(self.record.ttl_ms);
        let record = NodeRecord { nonce, load, written: now, until, ..self.record.clone() };
        (self.revision, record)
    }

    /// The compare-and-set that announces that the node leaves. From here on it promises nothing.
    #[must_use]
    pub fn leave(&mut self, nonce: Nonce) -> Option<(Revision, NodeRecord)> {
        self.leaving = true;
        self.committed.then(|| (self.revision, self.record.terminal(NodeState::Drained, nonce)))
    }

    /// A write of this node was committed, or was found in the store.
    pub fn renewed(&mut self, record: NodeRecord, revision: Revision, now: Moment) -> Renewal {
        if revision < self.revision {
            // This was read before a write that is known to be committed. D never goes back.
            return Renewal::Unbroken;
        }
        if !self.committed || now >= self.record.until {
            self.unbroken_since = Moment::NEVER;
            self.lapsed |= self.committed;
        }
        self.committed = true;
        self.record = record;
        self.revision = revision;
        if now >= self.record.until {
            // The record that was found has run out as well: nothing can be promised yet.
            return Renewal::Unbroken;
        }
        if self.unbroken_since == Moment::NEVER {
            self.unbroken_since = now;
        }
        if !std::mem::take(&mut self.lapsed) {
            return Renewal::Unbroken;
        }
        self.resumed = now;
        Renewal::Resumed
    }

    /// The node's record was found terminal, or its clock had stood still. It continues as a new incarnation, which has
    /// no record yet. It knows on its own clock what the old one promised.
    pub fn reborn(&mut self, incarnation: Nonce, epoch: Epoch, now: Moment) {
        let old = self.record.terminal(NodeState::Dead, self.record.nonce);
        if self.committed {
            self.peers.mark_own_dead(old, now);
        }
        self.record.incarnation = incarnation;
        self.record.epoch = epoch;
        (self.record.written, self.record.until) = (Moment::ZERO, Moment::ZERO);
        self.revision = Revision::ABSENT;
        self.lapsed |= self.committed;
        self.committed = false;
        self.leaving = false;
    }

    /// The records of all nodes were read. `asked` and `now` are this node's clock before and after the read.
    pub fn read(
        &mut self,
        found: &[(Revision, NodeRecord)],
        asked: Moment,
        now: Moment,
        mut nonce: impl FnMut() -> Nonce,
    ) -> Findings {
        let mut findings = Findings::default();
        for (revision, record) in found {
            if record.incarnation == self.record.incarnation {
                continue;
            }
            let before = self.peers.get(record.incarnation);
            if before.is_some_and(|peer| peer.record.state.is_terminal()) {
                self.revisions.insert(record.incarnation, *revision);
                continue;
            }
            self.peers.read(record.clone(), now);
            self.revisions.insert(record.incarnation, *revision);
            if record.state.is_terminal() {
                findings.gone.push(record.incarnation);
            } else if self.is_predecessor(record) || self.ran_out(record, asked, now) {
                findings.dead.push((*revision, record.terminal(NodeState::Dead, nonce())));
            }
        }
        self.looked_around = true;
        findings.lost = self.forget_absent(found, asked);
        findings
    }

    /// Forgets nodes whose record is gone from the store, except those that were heard of since the read began. Returns
    /// those among them that were alive when last heard of: other nodes found them dead and removed their records while
    /// this node did not look.
    fn forget_absent(&mut self, found: &[(Revision, NodeRecord)], asked: Moment) -> Vec<Nonce> {
        let absent = |peer: &&Peer| {
            let there =
                |(_, record): &(_, NodeRecord)| record.incarnation == peer.record.incarnation;
            !peer.is_own() && peer.since < asked && !found.iter().any(there)
        };
        let gone: Vec<_> = self.peers.iter().filter(absent).map(|peer| &peer.record).collect();
        let gone: Vec<_> = gone.iter().map(|r| (r.incarnation, r.state.is_terminal())).collect();
        for (incarnation, _) in &gone {
            self.peers.forget(*incarnation);
            self.revisions.remove(incarnation);
        }
        gone.into_iter().filter(|(_, terminal)| !terminal).map(|(node, _)| node).collect()
    }

    /// Whether the record belongs to a process that had this very address before this process, and so is gone. An empty
    /// address identifies no process. A loopback address does so only within its place.
    fn is_predecessor(&self, record: &NodeRecord) -> bool {
        let own = &self.record;
        !self.looked_around && Rules::a_process_replaces_a_node(own, record, is_loopback(&own.url))
    }

    /// R3: whether the node let D pass on its own clock. This node could reach the store all along, and read the record
    /// again after a whole time to live.
    fn ran_out(&self, record: &NodeRecord, asked: Moment, now: Moment) -> bool {
        let Some(peer) = self.peers.get(record.incarnation) else { return false };
        let ttl = Duration::from_millis(self.record.ttl_ms.max(record.ttl_ms));
        let alive = self.committed && now < self.record.until;
        alive
            && Rules::a_judge_was_in_touch(self.unbroken_since, asked, ttl)
            && Rules::a_record_ran_out(peer.lower_bound(now), record.until)
    }

    /// The tombstone that this node wrote is durable, or it read a tombstone that names no instants.
    pub fn marked_dead(&mut self, record: NodeRecord, revision: Revision, now: Moment) {
        self.revisions.insert(record.incarnation, revision);
        self.peers.read(record, now);
    }

    /// The known tombstones, with their revisions and since when they have been known.
    pub fn tombstones(&self) -> impl Iterator<Item = (Nonce, Revision, Moment)> {
        self.peers.iter().filter_map(|peer| {
            let incarnation = peer.record.incarnation;
            let revision = *self.revisions.get(&incarnation)?;
            peer.record.state.is_terminal().then_some((incarnation, revision, peer.since))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(incarnation: u128, url: &str, place: u64) -> Membership {
        Membership::new(Nonce(incarnation), url, "0", 10_000, Epoch(1)).at(place)
    }

    /// Whether the second of two nodes takes the first for its predecessor.
    fn marks_dead(before: &Membership, mut after: Membership) -> bool {
        let (_, record) = before.renewal(Moment::ZERO, Nonce(9), 0);
        let now = Moment::ZERO;
        let findings = after.read(&[(Revision(1), record)], now, now, || Nonce(8));
        !findings.dead.is_empty()
    }

    #[test]
    fn the_level_is_that_of_the_node_that_knows_least_and_rises_when_it_leaves() {
        let mut this = node(1, "http://a", 1).of_level(Level(3));
        assert_eq!(this.level(), None, "it has not looked around");
        let now = Moment::ZERO;
        let mut sees = |url: &str, level: u8, state: NodeState| {
            let other = node(u128::from(level) + 10, url, 1).of_level(Level(level));
            let (_, record) = other.renewal(now, Nonce(9), 0);
            let record = NodeRecord { state, ..record };
            this.read(&[(Revision(1), record)], now, now, || Nonce(8));
            this.level()
        };
        assert_eq!(
            sees("http://b", 4, NodeState::Alive),
            Some(Level(3)),
            "it knows no more itself"
        );
        assert_eq!(sees("http://c", 2, NodeState::Alive), Some(Level(2)));
        assert_eq!(sees("http://c", 2, NodeState::Drained), Some(Level(3)));
    }

    #[test]
    fn only_who_had_the_same_address_at_the_same_place_is_a_predecessor() {
        let url = "http://10.0.0.1:7373";
        assert!(marks_dead(&node(1, url, 1), node(2, url, 2)), "one address, at any place");
        assert!(!marks_dead(&node(1, url, 1), node(2, "http://10.0.0.2:7373", 1)));
        assert!(!marks_dead(&node(1, "", 1), node(2, "", 1)), "nodes without an address");
        for url in ["http://127.0.0.1:7373", "http://[::1]:7373", "http://localhost:7373/"] {
            assert!(marks_dead(&node(1, url, 1), node(2, url, 1)), "{url}, started again");
            assert!(!marks_dead(&node(1, url, 1), node(2, url, 2)), "{url} of two machines");
            assert!(
                !marks_dead(&node(1, url, 0), node(2, url, 0)),
                "{url} of machines that are not known"
            );
        }
    }
}
