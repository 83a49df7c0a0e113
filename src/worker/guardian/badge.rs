//! Badges: programs that the agent starts itself, and that must end with it.

use std::sync::Arc;

use super::{
    process_tree,
    shared::{BADGES, GuardianShared, locked},
    wire::GuardianOrder,
};

/// A variable for the environment of a program. A program that carries it ends with this process, until the badge is
/// dropped.
#[derive(Debug)]
pub struct Badge {
    id: u64,
    shared: Arc<GuardianShared>,
}

impl Badge {
    pub(super) fn new(shared: &Arc<GuardianShared>) -> Self {
        let id = BADGES + shared.new_number();
        locked(&shared.badges).insert(id);
        shared.tell(GuardianOrder::Attend { id });
        Self { id, shared: shared.clone() }
    }

    /// The variable for the program's environment: name and value.
    #[must_use]
    pub fn variable(&self) -> (&'static str, String) {
        (process_tree::MARK, process_tree::mark(&self.shared.mark, self.id))
    }
}

impl Drop for Badge {
    fn drop(&mut self) {
        locked(&self.shared.badges).remove(&self.id);
        self.shared.tell(GuardianOrder::Leave { id: self.id });
    }
}
