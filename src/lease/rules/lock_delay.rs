//! Lock-delay: how long a key stays shut after its tenure ended.

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
}
