//! R5: which calls only the home node answers, and what an adopter owes.

use super::mutant::{Mutant, Rules};
use crate::lease::primitives::Moment;

impl Rules {
    /// R5: an adopter writes F, the end of what the dead home node may have promised.
    #[must_use]
    pub fn an_adopter_keeps_the_floor(self, end: Moment, now: Moment) -> Moment {
        if self.breaks(Mutant::AdoptionWithoutFloor) { now } else { end }
    }

    /// R5: a holder's heartbeat is answered by the home node while that node lives.
    #[must_use]
    pub fn a_heartbeat_belongs_home(self, from_holder: bool) -> bool {
        from_holder && !self.breaks(Mutant::HeartbeatAnsweredElsewhere)
    }

    /// R5: a repeated acquire is answered by the home node while that node lives; so is an owner's `reclaim`.
    #[must_use]
    pub fn an_acquire_belongs_home(self, repeats_a_grant: bool, reclaims: bool) -> bool {
        (repeats_a_grant && !self.breaks(Mutant::RepeatAnsweredElsewhere)) || reclaims
    }

    /// R5: while the home node lives and cannot be reached, other nodes may write consent: a release, or a transfer
    /// that names no successor. Consent ends a tenure without regard to promises.
    #[must_use]
    pub fn consent_belongs_home(from_holder: bool, home_unreachable: bool) -> bool {
        from_holder && !home_unreachable
    }

    /// R5, acquire-any: while the outcome of a grant under a request id is unknown, no other key is granted in its
    /// place. The grant may exist, and a repeated call is told of it.
    #[must_use]
    pub fn an_unknown_grant_stops_acquire_any(self, has_request_id: bool) -> bool {
        has_request_id && !self.breaks(Mutant::AnyGoesOnAfterUnknown)
    }
}
