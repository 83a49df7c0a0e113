//! The inputs, effects, states and reports of the state machine.

use std::{fmt, time::Duration};

use crate::lease::Moment;

/// The number of one run of a script, unique within the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Script {
    /// Checks the health of the machine (on standby) or of the service (while active).
    Healthcheck {
        active: bool,
    },
    /// Keeps the previous holder from doing harm.
    Fence,
    Activate,
    Deactivate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScriptOutcome {
    /// Exit code 0.
    Ok,
    /// Another exit code, a signal, or a script that could not be started.
    Failed,
    /// The script took too long, and its process group was killed.
    TimedOut,
}

impl fmt::Display for ScriptOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "took too long and was killed",
        })
    }
}

/// An input of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The time for the next step came.
    Tick,
    Ended(RunId, ScriptOutcome),
    Granted {
        deadline: Moment,
    },
    /// The campaign ended without a lease: it was withdrawn or refused, or no server answered.
    NotGranted,
    /// A heartbeat extended the guarantee.
    Renewed {
        /// The new end of the guarantee.
        deadline: Moment,
    },
    Lost,
    /// The lease was given back, or the attempt failed for good.
    Released,
    /// The guardian ran the will, because this process stood still or was late.
    WillRan,
    /// SIGTERM or SIGINT arrived, or the guardian is gone.
    Terminate,
}

/// What the guard wants done. Effects must be performed in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Start a script. Its end is always reported: at the time-out, its process group is killed.
    Run { run: RunId, script: Script, timeout: Duration },
    /// Kill the process group of a run.
    Kill(RunId),
    /// Campaign for the lease until it is granted. The answer is `Granted` or `NotGranted`.
    Acquire,
    /// End the campaign. It is still answered.
    Withdraw,
    /// Give the lease back. The answer is `Released`.
    Release,
    /// Send no more heartbeats, and do not give the lease back.
    Abandon,
    /// Set the will: if this process dies or stands still, deactivate in time before the deadline.
    ArmWill { deadline: Moment },
    /// Cancel the will, because the service is inactive.
    DisarmWill,
    /// Inform people and the service manager.
    Report(Report),
    Exit {
        /// Whether the service is known to be inactive.
        inactive: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GuardState {
    /// The service is being deactivated, or its state is not known yet.
    Deactivating,
    /// The service is inactive. The guard campaigns if the machine is healthy.
    Standby,
    /// The lease is held, and this many of the rounds before the activation were healthy.
    Confirming(u32),
    Fencing,
    /// The service is being activated.
    Activating,
    Active,
    /// The guard ends: the service is inactive, and the lease is being given back.
    Leaving,
    Gone,
}

impl GuardState {
    /// Whether the service may be active, as far as this state tells.
    #[must_use]
    pub fn is_active(self) -> bool {
        matches!(self, Self::Activating | Self::Active)
    }
}

impl fmt::Display for GuardState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deactivating => "deactivating",
            Self::Standby => "standby",
            Self::Confirming(_) => "confirming",
            Self::Fencing => "fencing",
            Self::Activating => "activating",
            Self::Active => "active",
            Self::Leaving => "leaving",
            Self::Gone => "gone",
        })
    }
}

/// A report to people and the service manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// The guard has a new state.
    GuardState(GuardState),
    /// The first health check has ended.
    Ready,
    Unhealthy {
        /// The number of consecutive failures.
        failures: u32,
        outcome: ScriptOutcome,
    },
    /// The guard does not campaign for a while.
    Resting { why: Rest, pause: Duration },
    /// The service is being deactivated, for this reason.
    Leaving(Rest),
    /// The guard cannot help itself: a person must act.
    Alarm(Alarm),
}

/// Why an activation ended, or why the guard does not campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Too many consecutive health checks failed.
    Unhealthy,
    FenceFailed(ScriptOutcome),
    ActivateFailed(ScriptOutcome),
    /// Heartbeats are not answered, and the rest of the guarantee is needed for the deactivation.
    Unrenewed,
    Lost,
    /// The guardian ran the will, so the service is already inactive.
    WillRan,
    /// SIGTERM or SIGINT arrived, or the guardian is gone.
    Terminated,
}

impl fmt::Display for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unhealthy => f.write_str("too many health checks failed in a row"),
            Self::FenceFailed(outcome) => write!(f, "the fence {outcome}"),
            Self::ActivateFailed(outcome) => write!(f, "the activation {outcome}"),
            Self::Unrenewed => f.write_str("no server answers, and the lease is about to end"),
            Self::Lost => f.write_str("the lease is lost"),
            Self::WillRan => f.write_str("its guardian has deactivated the service"),
            Self::Terminated => f.write_str("the agent ends"),
        }
    }
}

/// A state that needs a person's attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// The deactivation failed, or is not over in time. It is repeated, and the lease expires.
    NotDeactivated {
        /// The number of failed tries so far.
        tries: u32,
        /// What is left of the guarantee, if there is one.
        left: Option<Duration>,
    },
    /// The guarantee has ended, and the service may still be active.
    Overrun,
}
