//! Measures how long tenures and vacancies lasted.

use std::time::Duration;

use super::actor::LeaseActor;
use crate::{
    lease::Moment,
    telemetry::recent::Measure::{self, Hold, Vacancy},
};

impl LeaseActor {
    /// Whether the tenure is the one that was last observed.
    pub(super) fn is_same_tenure(&self) -> bool {
        self.lease.as_ref().map(|lease| lease.tenure_mark()) == Some((self.held, self.token))
    }

    /// Measures how long the tenure or vacancy lasted that has just ended.
    pub(super) fn observe_tenure(&mut self, now: Moment) {
        let Some(lease) = &self.lease else { return };
        let (held, token) = lease.tenure_mark();
        if held == self.held && token == self.token {
            return;
        }
        if self.since != Moment::ZERO {
            let span = now.since(self.since);
            if self.held {
                self.pool.held_for(span);
                self.measured(now, Hold, span);
                if held {
                    self.pool.vacant_for(Duration::ZERO);
                    self.measured(now, Vacancy, Duration::ZERO);
                }
            } else {
                self.pool.vacant_for(span);
                self.measured(now, Vacancy, span);
            }
        }
        (self.held, self.token, self.since) = (held, token, now);
    }

    fn measured(&self, now: Moment, what: Measure, span: Duration) {
        if !self.key().is_internal() {
            self.coordinator.recent.measured(now, what, span);
        }
    }
}
