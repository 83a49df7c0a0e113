//! R9: callers that wait.

use super::mutant::{Mutant, Rules};
use crate::lease::{message::Caller, primitives::Moment};

/// R9: how long the key is offered to a caller at another node whose turn has come, in milliseconds.
pub const TURN_MS: u64 = 2000;

impl Rules {
    /// R9: before each grant the node checks that the caller is still there. A caller that waits on several keys is
    /// granted one: the actor that takes its claim first grants the key.
    #[must_use]
    pub fn a_caller_may_be_granted<C: Caller>(self, caller: &C) -> bool {
        match () {
            () if self.breaks(Mutant::GrantToACallerThatLeft) => true,
            () if self.breaks(Mutant::ClaimIgnored) => caller.claim() || !caller.is_gone(),
            () => caller.claim(),
        }
    }

    /// R9: from when a call has its place in the queue, that was received at this moment. An earlier call under the same
    /// request id may have had a place since before.
    #[must_use]
    pub fn a_place_is_had_since(self, earlier: Moment, received: Moment) -> Moment {
        if self.breaks(Mutant::PlaceForgotten) { received } else { earlier.min(received) }
    }

    /// R9: a grant that no answer names, and that no request id can ask for, is released at once.
    #[must_use]
    pub fn a_grant_is_released_unheard(self, caller_is_gone: bool, has_request_id: bool) -> bool {
        caller_is_gone && !has_request_id && !self.breaks(Mutant::GrantToACallerThatLeft)
    }

    /// R9: while the outcome of its grant is unknown, a caller that waits on several keys keeps its places.
    #[must_use]
    pub fn an_unknown_grant_keeps_the_callers_places(self, waits_on_several: bool) -> bool {
        waits_on_several && !self.breaks(Mutant::ClaimKeptAfterUnknown)
    }

    /// R9: a caller that would wait does so at the key's home node while that node lives. A caller that waits on
    /// several keys waits here, and so does one that the home node did not answer.
    #[must_use]
    pub fn a_caller_waits_at_home(
        home_lives: bool,
        home_unreachable: bool,
        waits_on_several: bool,
    ) -> bool {
        home_lives && !home_unreachable && !waits_on_several
    }
}
