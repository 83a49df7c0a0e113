//! R10: what outlives a restart.

use std::time::Duration;

use super::mutant::{Mutant, Rules};
use crate::lease::primitives::{CLIENT_DRIFT, Moment};

/// Since when an earlier home node can have made no more promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inherited {
    /// R10: an earlier process. It was gone at the latest when the store's lock was taken, at this moment.
    FromProcess(Moment),
    /// An earlier actor of this process, on this very clock. It was gone at this moment.
    FromActor(Moment),
}

impl Rules {
    /// R10: after a start, every held lease gets one full ttl/κ from the moment the lock was taken. An actor of the same
    /// process needs no κ.
    #[must_use]
    pub fn an_inherited_lease_stands_until(self, from: Inherited, promise: Duration) -> Moment {
        match () {
            () if self.breaks(Mutant::RestartWithEmptyPromises) => Moment::ZERO,
            () if self.breaks(Mutant::RestartGraceHalved) => {
                Self::a_span_is_over_at(from, promise / 2)
            }
            () => Self::a_span_is_over_at(from, promise),
        }
    }

    /// R10: offers, and lock-delays too, start again in full.
    #[must_use]
    pub fn a_span_is_over_at(from: Inherited, span: Duration) -> Moment {
        match from {
            Inherited::FromProcess(locked) => locked + CLIENT_DRIFT.stretch(span),
            Inherited::FromActor(gone) => gone + span,
        }
    }

    /// R10: an actor that replaces a dead one confirms the tenure by a write before it promises anything. A write of
    /// the dead actor may still land.
    #[must_use]
    pub fn a_rebuilt_tenure_is_confirmed_first(self) -> bool {
        !self.breaks(Mutant::PromiseUnconfirmed)
    }

    /// R10: the actor of a key knows the changes that it wrote. It hears of those that an earlier actor of the key may have
    /// left, as it hears of those of other nodes.
    #[must_use]
    pub fn an_actor_hears_of_writes_that_were_left(self) -> bool {
        !self.breaks(Mutant::LeftWriteUnheard)
    }
}
