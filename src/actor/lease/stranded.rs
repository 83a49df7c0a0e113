//! Notes that callers wait for a key that nobody holds.

use super::actor::LeaseActor;
use crate::lease::Moment;

impl LeaseActor {
    /// Follows whether callers wait although nobody holds the key and nothing keeps it shut.
    pub(super) fn note_stranded(&mut self, now: Moment) {
        let stranded = self.lease.as_ref().is_some_and(|lease| lease.is_stranded());
        if stranded != self.stranded {
            self.stranded = stranded;
            self.coordinator.stranded.note(self.key(), stranded.then_some(now));
        }
    }
}
