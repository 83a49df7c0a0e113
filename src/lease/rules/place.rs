//! Which members of a pool may have a key.

use super::mutant::{Mutant, Rules};

impl Rules {
    /// A fair call is granted a key only if the member `meets` what the key's policy requires.
    #[must_use]
    pub fn a_member_may_have(self, meets: bool) -> bool {
        meets || self.breaks(Mutant::RequireIgnored)
    }
}
