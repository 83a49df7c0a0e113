//! Variants of the guard with one rule broken, so that tests can show that they detect each.

/// A broken variant of one rule of the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// The service is assumed to be inactive at the start.
    StartWithoutDeactivation,
    /// An unhealthy standby campaigns.
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
