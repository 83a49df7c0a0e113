//! What this node knows of the other nodes.

use std::collections::BTreeMap;

use super::peer::Peer;
use crate::lease::{
    primitives::{Moment, Nonce},
    records::NodeRecord,
};

/// What this node knows of the other nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Peers {
    known: BTreeMap<Nonce, Peer>,
}

impl Peers {
    #[must_use]
    pub fn get(&self, incarnation: Nonce) -> Option<&Peer> {
        self.known.get(&incarnation)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.known.values()
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.known.values_mut()
    }

    /// Enters a node's record that was read at `now`.
    pub fn read(&mut self, record: NodeRecord, now: Moment) {
        match self.known.entry(record.incarnation) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(Peer::new(record, now));
            }
            std::collections::btree_map::Entry::Occupied(mut entry) => {
                entry.get_mut().read(record, now);
            }
        }
    }

    /// Enters a former incarnation of this node, whose clock is this node's clock.
    pub fn mark_own_dead(&mut self, record: NodeRecord, now: Moment) {
        let peer = Peer::own(record, now);
        self.known.insert(peer.record.incarnation, peer);
    }

    /// Forgets a node that no lease names any more.
    pub fn forget(&mut self, incarnation: Nonce) {
        self.known.remove(&incarnation);
    }
}
