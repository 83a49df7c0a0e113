//! The cluster, as the seal needs to know it.

use crate::{
    lease::{Level, Nonce},
    manager::Manager,
};

/// The nodes on the store.
pub trait Nodes: Send + Sync {
    /// Whether this is an incarnation that this process has or had.
    fn is_own(&self, incarnation: Nonce) -> bool;
    /// The newest version of the seal that a living node knows; `None` if no living node is known by this incarnation.
    fn seal_of(&self, incarnation: Nonce) -> Option<u8>;
    /// The level that every program on the store knows.
    fn level(&self) -> Level;
}

impl Nodes for Manager {
    fn is_own(&self, incarnation: Nonce) -> bool {
        // A node that has the store to itself takes every incarnation for its own.
        incarnation == self.incarnation()
            || (Self::is_shared(self) && Self::is_own(self, incarnation))
    }

    fn seal_of(&self, incarnation: Nonce) -> Option<u8> {
        Self::seal_of(self, incarnation)
    }

    fn level(&self) -> Level {
        Self::level(self)
    }
}
