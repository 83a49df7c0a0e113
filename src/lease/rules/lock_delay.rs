//! Lock-delay and minimum hold: how long a key stays shut after its tenure ended.

use super::mutant::{Mutant, Rules};
use crate::lease::records::ChangeKind;

impl Rules {
    /// Lock-delay: after an expiry or the end of a session, the key stays shut for as long as the policy or the session
    /// says, in milliseconds. No other end begins one.
    #[must_use]
    pub fn a_key_cools_for(self, end: ChangeKind, policy_ms: u32, session_ms: Option<u32>) -> u64 {
        match end {
            _ if self.breaks(Mutant::LockDelaySkipped) => 0,
            ChangeKind::Expired => policy_ms.into(),
            ChangeKind::SessionEnded => session_ms.unwrap_or(policy_ms).into(),
            _ => 0,
        }
    }

    /// Minimum hold: a key whose tenure ends before it is over stays shut for the rest of it, `left_ms`. That does not
    /// hold for a key that its holder offers to a successor by name, or whose tenure an administrator revoked.
    #[must_use]
    pub fn a_minimum_hold_outlasts(self, end: ChangeKind, is_offered: bool, left_ms: u64) -> u64 {
        let ordered = is_offered || end == ChangeKind::Revoked;
        if ordered || self.breaks(Mutant::MinimumHoldCut) { 0 } else { left_ms }
    }

    /// Minimum hold: a grant that no answer named begins none. Such a tenure leaves the key shut for as long as it was
    /// before the grant, `earlier_ms`: its last owner may have taken the key back. Any other tenure leaves it shut for
    /// `left_ms`.
    #[must_use]
    pub fn a_hold_counts_for(self, is_unheard: bool, left_ms: u64, earlier_ms: u64) -> u64 {
        if is_unheard && !self.breaks(Mutant::UnheardHoldKept) {
            left_ms.min(earlier_ms)
        } else {
            left_ms
        }
    }
}
