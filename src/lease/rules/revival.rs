//! R11: revival.

use super::mutant::{Mutant, Rules};
use crate::lease::{
    message::Lost,
    records::{ChangeKind, KeyState},
};

impl Rules {
    /// R11: a heartbeat revives a tenure that expired, while nobody took the key and no fence of it was begun.
    #[must_use]
    pub fn a_tenure_may_be_revived(self, state: KeyState, lost: Lost) -> bool {
        self.nobody_took_the_key(state) && self.the_tenure_only_expired(lost)
    }

    fn nobody_took_the_key(self, state: KeyState) -> bool {
        match state {
            KeyState::Free | KeyState::Cooling => true,
            KeyState::Fencing => self.breaks(Mutant::RevivalAfterFence),
            KeyState::Held | KeyState::Offered => false,
        }
    }

    fn the_tenure_only_expired(self, lost: Lost) -> bool {
        lost == Lost::Ended(ChangeKind::Expired)
            || (lost == Lost::Fenced && self.breaks(Mutant::RevivalAfterFence))
            || (lost != Lost::UnknownLease && self.breaks(Mutant::RevivalOfAnyEnd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_tenure_that_expired_and_that_nobody_followed_is_revived() {
        let revived = |state, lost| Rules::default().a_tenure_may_be_revived(state, lost);
        let expired = Lost::Ended(ChangeKind::Expired);
        assert!(revived(KeyState::Free, expired) && revived(KeyState::Cooling, expired));
        assert!(!revived(KeyState::Fencing, expired) && !revived(KeyState::Held, expired));
        assert!(
            !revived(KeyState::Free, Lost::Fenced) && !revived(KeyState::Free, Lost::UnknownLease)
        );
        assert!(!revived(KeyState::Free, Lost::Ended(ChangeKind::Released)));
    }
}
