//! The content of the layers, before any value is checked.

use config::Value;

use super::{
    fault::{Fault, Origin},
    listed::ListedTable,
};

#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) path: String,
    pub(super) value: Value,
    pub(super) origin: Origin,
}

#[derive(Default)]
pub(super) struct Layers {
    /// All leaves, weakest layer first.
    pub(super) leaves: Vec<Leaf>,
    /// The tables of the lists, in their order.
    pub(super) tables: Vec<ListedTable>,
    /// The faults of what could not be read at all.
    pub(super) faults: Vec<Fault>,
}
