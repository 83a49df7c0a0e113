//! The rules of the guard, each beside the variant that tests break on purpose.
//!
//! Each rule is a function of [`GuardRules`]. The state machine asks these functions, and nothing else asks about a
//! [`Mutant`].

use std::time::Duration;

use super::interface::ScriptOutcome;
use crate::lease::Moment;

/// The rules as they apply: all of them, or all but the one that a test breaks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GuardRules {
    #[cfg(any(test, feature = "testing"))]
    broken: Option<Mutant>,
}

impl GuardRules {
    /// The rules, one of which is broken on purpose.
    #[cfg(any(test, feature = "testing"))]
    pub(super) const fn breaking(broken: Option<Mutant>) -> Self {
        Self { broken }
    }

    #[cfg(any(test, feature = "testing"))]
    fn breaks(self, mutant: Mutant) -> bool {
        self.broken == Some(mutant)
    }

    #[cfg(not(any(test, feature = "testing")))]
    #[inline]
    const fn breaks(self, _: Mutant) -> bool {
        false
    }

    /// The first step deactivates the service: its state is unknown.
    pub(super) fn a_start_deactivates_first(self) -> bool {
        !self.breaks(Mutant::StartWithoutDeactivation)
    }

    /// Only a healthy machine campaigns.
    pub(super) fn a_standby_campaigns(self, healthy: bool) -> bool {
        healthy || self.breaks(Mutant::CampaignUnhealthy)
    }

    /// A lease that is granted after the campaign was withdrawn is given back.
    pub(super) fn a_granted_lease_is_wanted(self, withdrawn: bool) -> bool {
        !withdrawn || self.breaks(Mutant::KeepUnwanted)
    }

    /// A check confirms the lease only if it started under that lease.
    pub(super) fn a_check_counts_only_under_its_lease(self) -> bool {
        !self.breaks(Mutant::ConfirmByOldCheck)
    }

    /// The number of healthy rounds that must come before the activation.
    pub(super) fn an_activation_waits_for_rounds(self, confirmations: u32) -> u32 {
        confirmations.saturating_sub(u32::from(self.breaks(Mutant::ConfirmOnceLess)))
    }

    /// The activation waits until the fence succeeded.
    pub(super) fn an_activation_may_follow_the_fence(self, outcome: ScriptOutcome) -> bool {
        outcome == ScriptOutcome::Ok || self.breaks(Mutant::ActivateDespiteFence)
    }

    /// An activation starts only if a deactivation that starts now would be over in time.
    pub(super) fn an_activation_has_room(
        self,
        now: Moment,
        reserve: Duration,
        deadline: Moment,
    ) -> bool {
        now + reserve < deadline || self.breaks(Mutant::ActivateWithoutRoom)
    }

    /// The will is ordered before the activation.
    pub(super) fn a_will_comes_before_the_activation(self) -> bool {
        !self.breaks(Mutant::WillAfterActivation)
    }

    /// Each renewal moves the deadline of the will.
    pub(super) fn a_will_follows_the_deadline(self) -> bool {
        !self.breaks(Mutant::WillNotRenewed)
    }

    /// An activation ends once its will ran.
    pub(super) fn a_will_that_ran_ends_the_activation(self) -> bool {
        !self.breaks(Mutant::WillRanIgnored)
    }

    /// When an activation must end, so that its deactivation is over before the guarantee ends at `deadline`.
    pub(super) fn a_deactivation_starts_by(self, deadline: Moment, reserve: Duration) -> Moment {
        if self.breaks(Mutant::DeactivateAtDeadline) { deadline } else { deadline - reserve }
    }

    /// The lease is given back after the deactivation, not when the deactivation starts.
    pub(super) fn a_lease_outlasts_the_activation(self) -> bool {
        !self.breaks(Mutant::ReleaseBeforeDeactivation)
    }

    /// A deactivation is repeated until it succeeds.
    pub(super) fn a_deactivation_is_over(self, outcome: ScriptOutcome) -> bool {
        outcome == ScriptOutcome::Ok || self.breaks(Mutant::DeactivateOnce)
    }

    /// After a failed deactivation, the lease is left to expire. Another agent must be able to get the key, and the
    /// key's fences must run first. Neither may happen before the guarantee has ended.
    pub(super) fn a_failed_deactivation_abandons_the_lease(self) -> bool {
        !self.breaks(Mutant::ReleaseAfterFailedDeactivation)
    }

    /// A deactivation that may not be over in time raises an alarm.
    pub(super) fn a_late_deactivation_raises_an_alarm(self) -> bool {
        !self.breaks(Mutant::NoAlarmInTime)
    }

    /// The loss of the lease ends the activation at once.
    pub(super) fn a_loss_ends_the_activation(self) -> bool {
        !self.breaks(Mutant::LossIgnored)
    }

    /// Only failed checks without a success between them end the activation.
    pub(super) fn a_success_clears_the_failures(self) -> bool {
        !self.breaks(Mutant::FailuresNeverForgotten)
    }

    /// The campaign pauses after a failure: another machine may do better.
    pub(super) fn a_failure_pauses_the_campaign(self) -> bool {
        !self.breaks(Mutant::NoRest)
    }

    /// On SIGTERM, the service is deactivated before the process ends.
    pub(super) fn an_exit_deactivates_first(self) -> bool {
        !self.breaks(Mutant::ExitWithoutDeactivation)
    }

    /// On SIGTERM, the lease is given back before the process ends.
    pub(super) fn an_exit_waits_for_the_release(self) -> bool {
        !self.breaks(Mutant::ExitWithoutRelease)
    }
}

/// A broken variant of one rule of the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// The service is assumed to be inactive at the start.
    StartWithoutDeactivation,
    CampaignUnhealthy,
    /// A check that started before the grant counts as a confirmation.
    ConfirmByOldCheck,
    /// One healthy round fewer is required before the activation.
    ConfirmOnceLess,
    /// The activation does not wait for the fence's success.
    ActivateDespiteFence,
    /// The activation starts although no time for a deactivation is left.
    ActivateWithoutRoom,
    /// The will is ordered after the activation, instead of before it.
    WillAfterActivation,
    /// The will keeps the deadline that it was ordered with.
    WillNotRenewed,
    /// The deactivation starts at the deadline, instead of its time-out before it.
    DeactivateAtDeadline,
    /// The lease is given back when the deactivation starts.
    ReleaseBeforeDeactivation,
    /// The lease is given back though the deactivation failed.
    ReleaseAfterFailedDeactivation,
    /// A failed deactivation counts as a success.
    DeactivateOnce,
    /// A deactivation that hangs raises no alarm.
    NoAlarmInTime,
    /// A lost lease is noticed only at its deadline.
    LossIgnored,
    /// Failed checks of the active service add up, even if they are not consecutive.
    FailuresNeverForgotten,
    /// After a failure, the next campaign starts at once.
    NoRest,
    /// SIGTERM ends the process at once.
    ExitWithoutDeactivation,
    /// SIGTERM ends the process before the lease was given back.
    ExitWithoutRelease,
    /// A will that was run is not noticed.
    WillRanIgnored,
    /// A lease that was granted after the campaign was withdrawn is kept.
    KeepUnwanted,
}
