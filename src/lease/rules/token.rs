//! R7: tokens and epochs.

use super::mutant::{Mutant, Rules};
use crate::lease::primitives::{Epoch, Token};

impl Rules {
    /// R7: the token of a grant is the revision of the grant's own write.
    #[must_use]
    pub fn a_grant_takes_the_token(self, previous: Token) -> Token {
        if self.breaks(Mutant::TokenReused) { previous } else { Token::OF_THIS_WRITE }
    }

    /// R7: a tenure of an earlier epoch promises nothing more. The store may have forgotten that it ended and who was
    /// then granted the key under a higher token. Of a session, it may have forgotten which leases it kept.
    #[must_use]
    pub fn a_tenure_outlived_its_epoch(self, token: Token, epoch: Epoch) -> bool {
        token.epoch() < epoch && !self.breaks(Mutant::TenureOutlivesEpoch)
    }

    /// R7: what is read after a gap in the feed replaces what a pool knew of its keys before the gap, also under a higher
    /// token. The store may have gone backwards.
    #[must_use]
    pub fn a_reading_replaces_what_a_pool_knew(self) -> bool {
        !self.breaks(Mutant::PoolRemembersLostTokens)
    }

    /// R7: the same for the keys that count for a principal.
    #[must_use]
    pub fn a_reading_replaces_what_counted(self) -> bool {
        !self.breaks(Mutant::QuotaRemembersLostTokens)
    }

    /// R7: nothing is granted in a frozen store, and no node grants over a token of a higher epoch than its own.
    #[must_use]
    pub fn nothing_is_granted_over(token: Token, epoch: Epoch, frozen: bool) -> bool {
        frozen || token.epoch() > epoch
    }

    /// R7: a node promises nothing before it has registered in the store's own record.
    #[must_use]
    pub fn a_node_registers_before_it_promises(self) -> bool {
        !self.breaks(Mutant::PromiseUnregistered)
    }
}
