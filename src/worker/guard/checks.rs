//! What the guard knows of its health checks.

use super::interface::RunId;
use crate::lease::Moment;

/// The health checks of a guard.
#[derive(Clone, Debug, Default)]
pub(super) struct Checks {
    pub(super) running: Option<Round>,
    pub(super) next: Moment,
    /// Whether the last check of this standby succeeded.
    pub(super) healthy: bool,
    /// Whether any check has ended so far.
    pub(super) done: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) run: RunId,
    pub(super) began: Moment,
    /// Whether it started under the present lease.
    pub(super) counts: bool,
}

impl Checks {
    /// Whether this run is the check in progress.
    pub(super) fn ends(&self, run: RunId) -> bool {
        self.running.is_some_and(|round| round.run == run)
    }

    /// Resets the checks: the service has a new state, whose health is not known yet.
    pub(super) fn begin_anew(&mut self, at: Moment) {
        (self.healthy, self.next) = (false, at);
    }
}
