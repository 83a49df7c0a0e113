//! A reading of the clock on which promises are decided beside the actors.

use crate::lease::Moment;

/// A reading of the node's clock that the wall clock checked: it was taken after every stop of the clock that was noticed
/// so far was handled. Promises may be decided on it at any later time, however long the thread was stopped meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided(Moment);

impl Decided {
    pub(super) fn new(checked: Moment) -> Self {
        Self(checked)
    }

    /// The reading.
    #[must_use]
    pub fn moment(self) -> Moment {
        self.0
    }
}
