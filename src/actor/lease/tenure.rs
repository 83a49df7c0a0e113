//! Measures how long tenures and vacancies lasted.

use std::time::Duration;

use super::actor::LeaseActor;
use crate::lease::Moment;

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
                if held {
                    self.pool.vacant_for(Duration::ZERO);
                }
            } else {
                self.pool.vacant_for(span);
            }
        }
        (self.held, self.token, self.since) = (held, token, now);
    }
}
