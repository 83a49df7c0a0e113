//! Finds the promise cell of a key: for heartbeats that need not visit the key's actor.

use std::sync::Arc;

use crate::{
    clock::{DashMap, dash_map},
    lease::{Key, PromiseCell},
    telemetry::PoolMetrics,
};

/// The promise cell of a lease, and the metrics of its pool.
#[derive(Clone)]
pub struct CellEntry {
    pub(in crate::actor) cell: Arc<PromiseCell>,
    pub(in crate::actor) pool: Arc<PoolMetrics>,
}

/// The promise cells of this node's leases. An actor that dies leaves its entry behind, with a cell that is closed. The
/// entry goes when the key's next actor has another cell, or leaves memory.
pub struct Cells(DashMap<Key, CellEntry>);

impl Default for Cells {
    fn default() -> Self {
        Self(dash_map())
    }
}

impl Cells {
    /// Looks into the entry of a key, if there is one. `look` must not block.
    pub(in crate::actor) fn look<T>(
        &self,
        key: &str,
        look: impl FnOnce(&Key, &CellEntry) -> Option<T>,
    ) -> Option<T> {
        let entry = self.0.get(key)?;
        look(entry.key(), entry.value())
    }

    /// For tests: the entry of a key, as a thread has it that is stopped after it found the entry.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn find(&self, key: &str) -> Option<CellEntry> {
        self.look(key, |_, entry| Some(entry.clone()))
    }

    /// The actor of the key has this cell.
    pub(in crate::actor) fn put(&self, key: Key, entry: CellEntry) {
        self.0.insert(key, entry);
    }

    /// The actor of the key has no cell.
    pub(in crate::actor) fn remove(&self, key: &str) {
        self.0.remove(key);
    }
}
