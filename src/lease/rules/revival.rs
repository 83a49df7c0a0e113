//! R11: revival.

use super::mutant::{Mutant, Rules};
use crate::lease::{
    message::Lost,
    records::{ChangeKind, State},
};

impl Rules {
    /// R11: a heartbeat revives a tenure that expired, while nobody took the key and no fence of it was begun.
    #[must_use]
    pub fn a_tenure_may_be_revived(self, state: State, lost: Lost) -> bool {
        self.nobody_took_the_key(state) && self.the_tenure_only_expired(lost)
    }

    fn nobody_took_the_key(self, state: State) -> bool {
        match state {
            State::Free | State::Cooling => true,
            State::Fencing => self.breaks(Mutant::RevivalAfterFence),
            State::Held | State::Offered => false,
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
        assert!(revived(State::Free, expired) && revived(State::Cooling, expired));
        assert!(!revived(State::Fencing, expired) && !revived(State::Held, expired));
        assert!(!revived(State::Free, Lost::Fenced) && !revived(State::Free, Lost::UnknownLease));
        assert!(!revived(State::Free, Lost::Ended(ChangeKind::Released)));
    }
}
