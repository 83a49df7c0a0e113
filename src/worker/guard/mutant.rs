//! The guard's rules, broken one at a time, so that the tests can show that they would notice.

/// A broken variant of one rule of the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// The service is taken for inactive at the start.
    StartWithoutDeactivation,
    /// A standby that is not healthy campaigns.
    CampaignUnhealthy,
    /// A check that began before the grant confirms.
    ConfirmByOldCheck,
    /// One round fewer before the activation.
    ConfirmOnceLess,
    /// The activation does not wait for the fence's success.
    ActivateDespiteFence,
    /// Activation begins although no time for a deactivation is left.
    ActivateWithoutRoom,
    /// The will is ordered when the activation is over, not before it begins.
    WillAfterActivation,
    /// The will keeps the deadline that it was ordered with.
    WillNotRenewed,
    /// Deactivation begins at the deadline, not its time-out before it.
    DeactivateAtDeadline,
    /// The lease is given back when the deactivation begins.
    ReleaseBeforeDeactivation,
    /// The lease is given back though the deactivation failed.
    ReleaseAfterFailedDeactivation,
    /// A failed deactivation is taken for a success.
    DeactivateOnce,
    /// A deactivation that hangs is waited for without an alarm.
    NoAlarmInTime,
    /// A lost lease is noticed at its deadline only.
    LossIgnored,
    /// Failed checks of an active service are counted, whatever lies between them.
    FailuresNeverForgotten,
    /// After a failure the next campaign begins at once.
    NoRest,
    /// SIGTERM ends the process at once.
    ExitWithoutDeactivation,
    /// SIGTERM ends the process before the lease was given back.
    ExitWithoutRelease,
    /// A will that was executed is not noticed.
    WillRanIgnored,
    /// A lease that was granted after the campaign was withdrawn is kept.
    KeepUnwanted,
}
