//! R8: fences.

use super::mutant::{Mutant, Rules};
use crate::lease::{
    policy::{FencePlan, FenceWhen, OnFenceFailure, Policy},
    primitives::Token,
    records::{ChangeKind, Fence, KeyState, MAX_LATE_FENCES, Record},
};

impl Rules {
    /// R8: the write that ends a tenure names its fences. A tenure that its owner ended is fenced only where the policy
    /// says so.
    #[must_use]
    pub fn an_end_is_fenced_by(self, policy: &Policy, end: ChangeKind) -> Option<&FencePlan> {
        let willing = matches!(end, ChangeKind::Released | ChangeKind::Transferred);
        let plan = policy.fence.as_deref()?;
        let applies = !plan.plugins.is_empty() && (!willing || plan.on_release);
        (applies && !self.breaks(Mutant::FenceLost)).then_some(plan)
    }

    /// R8: a fence before the grant is due at once. One after the grant waits until the key is granted again.
    #[must_use]
    pub fn a_fence_is_due(fence: &Fence, token: Token) -> bool {
        fence.when == FenceWhen::BeforeGrant || fence.token != token
    }

    /// R8: nobody is granted the key until every fence before the grant is confirmed. A fence after the grant keeps the
    /// key shut once it failed for good and the policy says so.
    #[must_use]
    pub fn a_fence_keeps_the_key_shut(fence: &Fence) -> bool {
        fence.when == FenceWhen::BeforeGrant
            || (!fence.failed.is_empty() && fence.on_failure == OnFenceFailure::Block)
    }

    /// R8: with more than four tenures that wait to be fenced, the key is granted to nobody.
    #[must_use]
    pub fn fences_keep_the_key_shut(fences: &[Fence]) -> bool {
        fences.iter().any(Self::a_fence_keeps_the_key_shut) || fences.len() > MAX_LATE_FENCES
    }

    /// R8: the state of a key without a tenure: its fences come first, then an offer, then the lock-delay.
    #[must_use]
    pub fn a_key_without_a_tenure_is(record: &Record) -> KeyState {
        match () {
            () if Self::fences_keep_the_key_shut(record.fences()) => KeyState::Fencing,
            () if record.offer.is_some() => KeyState::Offered,
            () if record.cooling_ms() > 0 => KeyState::Cooling,
            () => KeyState::Free,
        }
    }

    /// R8: the write that ends a tenure may grant the key only where nothing keeps the key shut.
    #[must_use]
    pub fn a_key_is_open(self, state: KeyState) -> bool {
        state == KeyState::Free || self.breaks(Mutant::GrantWhileFencing)
    }

    /// R8: after a fence failed for good, the policy decides whether the key stays shut until an administrator skips
    /// the fence.
    #[must_use]
    pub fn a_failed_fence_keeps_the_key_shut(self, on_failure: OnFenceFailure) -> bool {
        on_failure == OnFenceFailure::Block && !self.breaks(Mutant::FailedFenceOpens)
    }

    /// R8: a fence that failed for good runs again only where an administrator, or a reload of the settings, says so.
    #[must_use]
    pub fn a_fence_runs(failed: bool, retried: bool) -> bool {
        !failed || retried
    }

    /// R8: the key's home node, whichever it is by then, runs again what is not confirmed durably.
    #[must_use]
    pub fn an_unconfirmed_fence_runs_again(self) -> bool {
        !self.breaks(Mutant::FenceNotTakenOver)
    }
}
