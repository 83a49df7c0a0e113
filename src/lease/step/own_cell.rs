//! The promise cell of a lease, in the hands of the lease.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use crate::lease::{
    primitives::Moment,
    promise_cell::{PromiseCell, PromiseTerms},
    rules::Rules,
};

/// A promise cell, which the lease opens and closes. It is closed when the lease is dropped: no promise outlives the
/// actor that knows of it. A copy of the lease gets a cell of its own.
#[derive(Debug)]
pub(super) struct OwnCell {
    cell: Arc<PromiseCell>,
    rules: Rules,
}

impl OwnCell {
    /// A closed cell.
    pub(super) fn new(terms: PromiseTerms, rules: Rules) -> Self {
        Self { cell: Arc::new(PromiseCell::new(terms)), rules }
    }

    pub(super) fn shared(&self) -> &Arc<PromiseCell> {
        &self.cell
    }

    pub(super) fn terms(&self) -> &PromiseTerms {
        self.cell.terms()
    }

    pub(super) fn promised(&self) -> Option<Moment> {
        self.cell.promised()
    }

    /// Changes S, if the cell is open.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn change(&self, change: impl FnOnce(&mut Moment)) {
        if let Some(mut promised) = self.cell.close() {
            change(&mut promised);
            self.cell.open(promised);
        }
    }

    /// From now on promises are made there. S is `promised`.
    pub(super) fn open(&self, promised: Moment) {
        self.cell.open(promised);
    }

    /// S, as a step reads it. From then on the actor alone promises. `None` if the cell was closed.
    pub(super) fn close(&self) -> Option<Moment> {
        if self.rules.a_step_closes_the_cell() { self.cell.close() } else { self.cell.promised() }
    }
}

impl Drop for OwnCell {
    fn drop(&mut self) {
        if self.rules.a_cell_ends_with_its_actor() {
            self.cell.close();
        }
    }
}

impl Clone for OwnCell {
    fn clone(&self) -> Self {
        let copy = Self::new(*self.terms(), self.rules);
        if let Some(promised) = self.promised() {
            copy.open(promised);
        }
        copy
    }
}

impl PartialEq for OwnCell {
    fn eq(&self, other: &Self) -> bool {
        (self.terms(), self.promised()) == (other.terms(), other.promised())
    }
}

impl Eq for OwnCell {}

impl Hash for OwnCell {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.terms(), self.promised()).hash(state);
    }
}
