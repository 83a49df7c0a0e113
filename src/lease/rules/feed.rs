//! I4: the stream of changes.

use super::mutant::{Mutant, Rules};

impl Rules {
    /// I4: subscribers are told of a gap in the store's feed.
    #[must_use]
    pub fn a_gap_is_told(self) -> bool {
        !self.breaks(Mutant::GapNotReported)
    }
}
