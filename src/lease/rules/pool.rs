//! Pools: when their keys stay where they are, and who is given one.

use super::mutant::{Mutant, Rules};

impl Rules {
    /// In a frozen pool nothing is balanced, and a fair call takes no key that another member had and was not asked for.
    #[must_use]
    pub fn a_frozen_pool_stays_as_it_is(self) -> bool {
        !self.breaks(Mutant::FreezeIgnored)
    }

    /// While a pool has members of several versions, nothing is balanced.
    #[must_use]
    pub fn an_upgrade_stops_the_balance(self) -> bool {
        !self.breaks(Mutant::UpgradeIgnored)
    }

    /// While a guard against a mass failure stands, nothing is balanced, and no member gets more than its former share.
    #[must_use]
    pub fn a_guard_holds_members_to_their_shares(self) -> bool {
        !self.breaks(Mutant::GuardIgnored)
    }

    /// A member that is not ready has no share.
    #[must_use]
    pub fn an_unready_member_has_no_share(self) -> bool {
        !self.breaks(Mutant::UnreadyCounted)
    }

    /// A fair call of a cordoned member takes no key that the member did not have.
    #[must_use]
    pub fn a_cordoned_member_gets_no_further_key(self) -> bool {
        !self.breaks(Mutant::CordonIgnored)
    }

    /// No fair call takes a paused key.
    #[must_use]
    pub fn a_paused_key_goes_to_nobody(self) -> bool {
        !self.breaks(Mutant::PauseIgnored)
    }

    /// After the end of a member's session, its keys stay shut for the rejoin window of its pool.
    #[must_use]
    pub fn keys_wait_for_their_member(self) -> bool {
        !self.breaks(Mutant::RejoinWindowSkipped)
    }

    /// A holder is asked for a key once the next one is prepared, or had its time for that.
    #[must_use]
    pub fn a_holder_is_asked_after_the_preparation(self, is_over: bool) -> bool {
        is_over || self.breaks(Mutant::PreparationSkipped)
    }

    /// So many keys of a pool are prepared for at a time.
    #[must_use]
    pub fn preparations_at_a_time(self, most: usize) -> usize {
        if self.breaks(Mutant::PreparationsUnbounded) { usize::MAX } else { most }
    }

    /// By load, a lease moves only for a gain that is worth it.
    #[must_use]
    pub fn a_lease_moves_for(self, gained: f64, least: f64) -> bool {
        gained >= least || self.breaks(Mutant::MovesWithoutGain)
    }
}
