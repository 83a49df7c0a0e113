//! §2: clocks.

use super::mutant::{Mutant, Rules};
use crate::lease::primitives::{Moment, NODE_DRIFT};

impl Rules {
    /// §2: LB, what another node's clock shows at least. This node read its reading `written` when its own clock showed
    /// `read`.
    #[must_use]
    pub fn another_clock_shows_at_least(written: Moment, read: Moment, now: Moment) -> Moment {
        written + NODE_DRIFT.shrink(now.since(read))
    }

    /// §2: the moment on this node's clock from which the other clock has certainly reached `instant`.
    #[must_use]
    pub fn another_clock_has_reached(written: Moment, read: Moment, instant: Moment) -> Moment {
        if instant <= written { read } else { read + NODE_DRIFT.stretch(instant.since(written)) }
    }

    /// §2: a reading of another clock is paired with a reading of this node's clock from after the record was read.
    #[must_use]
    pub fn a_reading_is_paired_with(self, asked: Moment, read: Moment) -> Moment {
        if self.breaks(Mutant::RivalCountsFromBeforeItsRead) { asked } else { read }
    }

    /// §2: after a hidden stop, a node continues as another incarnation, or every tenure gets one more ttl.
    #[must_use]
    pub fn a_hidden_stop_is_handled(self) -> bool {
        !self.breaks(Mutant::ClockStopIgnored)
    }

    /// §2: after a hidden stop, nobody reads the clock again before the stop is handled.
    #[must_use]
    pub fn a_jump_is_handled_before_the_next_reading(self) -> bool {
        !self.breaks(Mutant::JumpHandledAfterTheReading)
    }
}
