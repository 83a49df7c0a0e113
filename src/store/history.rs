//! The ordered history of committed changes, and the live feed of them.

use std::sync::Arc;

use crate::lease::{Change, Key, Nonce, Revision};

#[derive(Clone, Debug)]
pub struct Committed {
    /// Its place in the store's order.
    pub position: Position,
    pub key: Key,
    /// The incarnation that wrote it; zero in a store that only one process uses.
    pub node: Nonce,
    /// The change, with its token resolved.
    pub change: Change,
    /// Wall clock at the commit, milliseconds since 1970; for people only.
    pub at_ms: u64,
}

/// A place in the store's history, the same for every node on the store: the number of an entry, and the index of
/// a change in it. An entry is one write in stores with global revisions, and a batch of changes in the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The number of the entry.
    pub revision: Revision,
    /// The change's index in its entry.
    pub index: u32,
}

/// What a read of the store's history found.
#[derive(Clone, Debug)]
pub enum History {
    /// The changes after the position, oldest first, at most as many as the caller asked for. Empty if there are
    /// none yet.
    Changes(Vec<Committed>),
    /// The changes that followed the position are no longer kept. Continue after `resume`.
    Gap {
        /// The latest position when the store was asked.
        resume: Position,
    },
}

#[derive(Clone, Debug)]
pub enum FeedBatch {
    /// Committed changes, in the store's order.
    Changes(Arc<[Committed]>),
    /// Some changes before this position were lost. Listeners must be told.
    Gap {
        /// Everything after this position follows.
        resume: Position,
    },
}

/// Live batches of committed changes of all nodes, in the store's order. A receiver that lagged must read
/// [`LeaseStore::history`](super::LeaseStore::history).
pub type Feed = tokio::sync::broadcast::Receiver<FeedBatch>;
