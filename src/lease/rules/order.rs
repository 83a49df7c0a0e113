//! Orders of operators for pools.

use super::mutant::{Mutant, Rules};

impl Rules {
    /// An order that changes something is acknowledged once it is stored.
    #[must_use]
    pub fn an_order_is_stored_before_its_answer(self) -> bool {
        !self.breaks(Mutant::OrderUnstored)
    }
}
