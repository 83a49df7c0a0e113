//! The times of a guard, and how they must fit together.

use std::time::Duration;

/// The times and counts of a guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// R: what lies between two rounds.
    pub round: Duration,
    /// F: so many failed checks in a row end the activation.
    pub failures: u32,
    /// C: so many healthy rounds under the lease come before the activation.
    pub confirmations: u32,
    /// The lease's time to live.
    pub ttl: Duration,
    /// How long a health check may take.
    pub check_timeout: Duration,
    /// How long the fence script may take.
    pub fence_timeout: Duration,
    /// How long an activation may take.
    pub activate_timeout: Duration,
    /// How long a deactivation may take.
    pub deactivate_timeout: Duration,
    /// For the start of processes, and a machine that is slow just then.
    pub margin: Duration,
    /// Whether there is a fence script.
    pub fence: bool,
    /// Whether activate and deactivate are run in every round, and not on change only.
    pub every_round: bool,
}

/// Why times do not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// A time of zero.
    #[error("{0} must not be 0")]
    Zero(&'static str),
    /// A check that takes longer than the rounds in which it has to fail.
    #[error(
        "--healthcheck-timeout {timeout:?} is longer than R*F = {limit:?}: \
         an activation would not end within its failures"
    )]
    Check {
        /// What was asked for.
        timeout: Duration,
        /// The most that fits.
        limit: Duration,
    },
    /// No time for a deactivation.
    #[error(
        "--deactivate-timeout {timeout:?} and the margin {margin:?} exceed half of the ttl {ttl:?}: \
         a single late heartbeat would end the activation; raise --ttl, or lower the time-out"
    )]
    Deactivation {
        /// The time-out.
        timeout: Duration,
        /// The margin.
        margin: Duration,
        /// The ttl.
        ttl: Duration,
    },
}

/// Longest rest, in rests of the first length.
const LONGEST_REST: u32 = 16;

impl Settings {
    /// What follows from R, F and C. The ttl is R·F: a holder that falls silent is replaced after as many
    /// rounds as one that is unhealthy. The deactivation has a third of that, or a round if that is less.
    #[must_use]
    pub fn of(round: Duration, failures: u32, confirmations: u32) -> Self {
        Self::with_ttl(round, failures, confirmations, round.saturating_mul(failures))
    }

    /// The same with another ttl.
    #[must_use]
    pub fn with_ttl(round: Duration, failures: u32, confirmations: u32, ttl: Duration) -> Self {
        Self {
            round,
            failures,
            confirmations,
            ttl,
            check_timeout: round,
            fence_timeout: ttl,
            activate_timeout: ttl,
            deactivate_timeout: round.min(ttl / 3),
            margin: crate::worker::margin(ttl),
            fence: false,
            every_round: false,
        }
    }

    /// # Errors
    /// When the times do not fit together.
    pub fn check(&self) -> Result<(), Misfit> {
        let spans = [
            ("-r", self.round),
            ("--ttl", self.ttl),
            ("--healthcheck-timeout", self.check_timeout),
            ("--fence-timeout", self.fence_timeout),
            ("--activate-timeout", self.activate_timeout),
            ("--deactivate-timeout", self.deactivate_timeout),
        ];
        if let Some((name, _)) = spans.into_iter().find(|(_, span)| span.is_zero()) {
            return Err(Misfit::Zero(name));
        }
        if self.failures == 0 {
            return Err(Misfit::Zero("-f"));
        }
        let limit = self.round.saturating_mul(self.failures);
        if self.check_timeout > limit {
            return Err(Misfit::Check { timeout: self.check_timeout, limit });
        }
        let (timeout, margin, ttl) = (self.deactivate_timeout, self.margin, self.ttl);
        if self.reserve() > ttl / 2 {
            return Err(Misfit::Deactivation { timeout, margin, ttl });
        }
        Ok(())
    }

    /// What must be left of the guarantee when a deactivation is decided.
    #[must_use]
    pub fn reserve(&self) -> Duration {
        self.deactivate_timeout.saturating_add(self.margin)
    }

    /// How long to rest after so many offices in a row that ended in failure.
    #[must_use]
    pub fn rest(&self, failed: u32) -> Duration {
        let doubled = 1u32.checked_shl(failed.saturating_sub(1)).unwrap_or(LONGEST_REST);
        self.round.saturating_mul(self.failures).saturating_mul(doubled.min(LONGEST_REST))
    }
}
