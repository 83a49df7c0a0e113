//! The times of a guard, and the check that they fit together.

use std::time::Duration;

/// The times and counts of a guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// R: the time between the starts of two health checks.
    pub round: Duration,
    /// F: this many consecutive failed checks end the activation.
    pub failures: u32,
    /// C: this many healthy checks under the lease come before the activation.
    pub confirmations: u32,
    pub ttl: Duration,
    /// The time-out of a health check.
    pub check_timeout: Duration,
    /// The time-out of the fence script.
    pub fence_timeout: Duration,
    pub activate_timeout: Duration,
    pub deactivate_timeout: Duration,
    /// Reserve for starting processes on a busy machine.
    pub margin: Duration,
    /// Whether there is a fence script.
    pub fence: bool,
    /// Whether the activate and deactivate scripts run in every round, instead of on change only.
    pub every_round: bool,
}

/// Why the times do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    #[error("{0} must not be 0")]
    Zero(&'static str),
    /// A check may take longer than the rounds in which it must fail.
    #[error(
        "--healthcheck-timeout {timeout:?} is longer than R*F = {limit:?}: \
         F failed checks would not end an activation in time"
    )]
    Check {
        /// The time-out that was set.
        timeout: Duration,
        /// The longest time-out that fits.
        limit: Duration,
    },
    /// The ttl leaves no time for a deactivation.
    #[error(
        "--deactivate-timeout {timeout:?} and the margin {margin:?} exceed half of the ttl {ttl:?}: \
         a single late heartbeat would end the activation; raise --ttl, or lower the time-out"
    )]
    Deactivation { timeout: Duration, margin: Duration, ttl: Duration },
}

/// The longest rest, as a multiple of the first one.
const LONGEST_REST: u32 = 16;

impl Settings {
    /// The defaults for R, F and C. The ttl is R·F: a silent holder is replaced after the same time as an unhealthy
    /// one. The time-out of the deactivation is R, or a third of the ttl if that is less.
    #[must_use]
    pub fn of(round: Duration, failures: u32, confirmations: u32) -> Self {
        Self::with_ttl(round, failures, confirmations, round.saturating_mul(failures))
    }

    /// The defaults for R, F and C, with another ttl.
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

    /// Checks that the times fit together.
    ///
    /// # Errors
    /// [`Misfit`], if they do not.
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

    /// The time that must be left of the guarantee when a deactivation starts.
    #[must_use]
    pub fn reserve(&self) -> Duration {
        self.deactivate_timeout.saturating_add(self.margin)
    }

    /// How long to rest after this many consecutive activations that ended in failure.
    #[must_use]
    pub fn rest(&self, failed: u32) -> Duration {
        let doubled = 1u32.checked_shl(failed.saturating_sub(1)).unwrap_or(LONGEST_REST);
        self.round.saturating_mul(self.failures).saturating_mul(doubled.min(LONGEST_REST))
    }
}
