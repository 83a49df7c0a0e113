//! Notes that callers wait for a key that nobody holds.

use super::actor::LeaseActor;
use crate::lease::Moment;

impl LeaseActor {
    /// Follows whether callers wait although nobody holds the key and nothing keeps it shut.
    pub(super) fn note_stuck(&mut self, now: Moment) {
        let stuck = self.lease.as_ref().is_some_and(|lease| lease.is_stuck());
        if stuck != self.stuck {
            self.stuck = stuck;
            self.coordinator.stuck.note(self.key(), stuck.then_some(now));
        }
    }
}
