//! What the machine is told, and what it orders.

use std::{fmt, time::Duration};

use crate::lease::Moment;

/// One run of a script; no two of a process have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(pub u64);

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Script {
    /// Is the service, or this machine, in order?
    Healthcheck {
        /// Whether the service is to be active now.
        active: bool,
    },
    /// Keeps the predecessor from doing harm.
    Fence,
    /// Makes the service active.
    Activate,
    /// Makes the service inactive.
    Deactivate,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Exit code 0.
    Ok,
    /// Another code, a signal, or it could not be started.
    Failed,
    /// It took too long, and its process group was killed.
    TimedOut,
}

/// What happens to the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Time passed.
    Tick,
    /// A run is over.
    Ended(RunId, Outcome),
    /// The lease is held, with this guarantee.
    Granted {
        /// Until when.
        deadline: Moment,
    },
    /// The campaign ended without a lease: withdrawn, refused, or nobody answers.
    NotGranted,
    /// A heartbeat moved the guarantee's end.
    Renewed {
        /// To where.
        deadline: Moment,
    },
    /// The lease is lost.
    Lost,
    /// The lease was given back, or that was given up.
    Released,
    /// The will was executed, because this process stood still or was late.
    WillRan,
    /// SIGTERM.
    Terminate,
}

/// What the guard wants done, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Start a script. Its end is always reported: when the time is over its process group is killed.
    Run {
        /// Names the run.
        run: RunId,
        /// What to run.
        script: Script,
        /// For how long at most.
        timeout: Duration,
    },
    /// Kill the process group of a run.
    Kill(RunId),
    /// Campaign for the lease until it is granted; answered by `Granted` or `NotGranted`.
    Acquire,
    /// End the campaign; it is answered all the same.
    Withdraw,
    /// Give the lease back; answered by `Released`.
    Release,
    /// Send no more heartbeats, and do not give the lease back.
    Abandon,
    /// Should this process die or stand still: deactivate, so that it is over before the deadline.
    ArmWill {
        /// When the guarantee ends.
        deadline: Moment,
    },
    /// The service is inactive: nothing is left to be done by the will.
    DisarmWill,
    /// Tell people.
    Report(Report),
    /// The end.
    Exit {
        /// Whether the service is known to be inactive.
        inactive: bool,
    },
}

/// Where the guard is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The service is being deactivated, or nothing is known of it yet.
    Deactivating,
    /// Inactive; campaigning if healthy.
    Standby,
    /// The lease is held, and so many of the rounds before activation were healthy.
    Confirming(u32),
    /// The fence script runs.
    Fencing,
    /// The service is being activated.
    Activating,
    /// The service is active.
    Active,
    /// On the way out: inactive, giving back what is held.
    Leaving,
    /// Over.
    Gone,
}

impl State {
    /// Whether the service may be active, as far as this state tells.
    #[must_use]
    pub fn is_active(self) -> bool {
        matches!(self, Self::Activating | Self::Active)
    }
}

impl fmt::Display for State {
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

/// What people and the service manager are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// The guard came to another state.
    State(State),
    /// The first round is done.
    Ready,
    /// A check failed: so many in a row now.
    Unhealthy {
        /// In a row.
        failures: u32,
        /// How this one ended.
        outcome: Outcome,
    },
    /// No campaign for a while.
    Resting {
        /// Why.
        why: Rest,
        /// For how long.
        pause: Duration,
    },
    /// The activation is left.
    Leaving(Rest),
    /// Somebody must look.
    Alarm(Alarm),
}

/// Why the activation was left, or is not sought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// The health check failed too often.
    Unhealthy,
    /// The fence script failed.
    FenceFailed(Outcome),
    /// The activation failed.
    ActivateFailed(Outcome),
    /// Heartbeats are not answered, and what is left of the guarantee is needed for deactivation.
    Unrenewed,
    /// The lease is lost.
    Lost,
    /// The will was executed: the service is inactive without our doing.
    WillRan,
    /// SIGTERM.
    Terminated,
}

/// What must not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// The deactivation failed, or is not over when it should be. It is repeated; the lease runs out.
    NotDeactivated {
        /// How often it was tried so far.
        tries: u32,
        /// What is left of the guarantee, if there was one.
        left: Option<Duration>,
    },
    /// The guarantee has ended, and the service may still be active.
    Overrun,
}
