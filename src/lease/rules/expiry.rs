//! R2: expiry and revocation, and what a heartbeat may not undo.

use std::time::Duration;

use super::mutant::{Mutant, Rules};
use crate::lease::primitives::Moment;

impl Rules {
    /// R2: a tenure expires when the home node's clock reaches max(S, F). A pinned tenure does not expire.
    #[must_use]
    pub fn a_tenure_expires_at(promised: Moment, floor: Moment, pinned: bool) -> Moment {
        if pinned { Moment::NEVER } else { promised.max(floor) }
    }

    /// R2: the home node ends a tenure at its deadline, which covers the home node's own promises.
    #[must_use]
    pub fn a_tenure_is_due_at(self, deadline: Moment, floor: Moment) -> Moment {
        if self.breaks(Mutant::ExpiryIgnoresOwnPromises) { floor } else { deadline }
    }

    /// R2: from the moment a write that can end the tenure is sent until it is settled, no heartbeat is absorbed. R1:
    /// only the home node absorbs one.
    #[must_use]
    pub fn a_heartbeat_is_absorbed_beside_a_write(self, can_end: bool, at_home: bool) -> bool {
        (!can_end && at_home) || self.breaks(Mutant::HeartbeatAbsorbedWhileEnding)
    }

    /// R2: on a shared store, no heartbeat is absorbed while a write that shortens the ttl is in flight: its promise
    /// would outlast the floor in that write. One process absorbs it, because R10 counts from a later moment.
    #[must_use]
    pub fn a_write_that_shortens_stops_heartbeats(self, shortens: bool, shared: bool) -> bool {
        shortens && shared && !self.breaks(Mutant::HeartbeatAbsorbedWhileShortening)
    }

    /// R2: a longer ttl is promised only after it is written.
    #[must_use]
    pub fn a_ttl_is_promised_only_once_written(self) -> bool {
        !self.breaks(Mutant::PromiseBeforeLongerTtl)
    }

    /// R2, R5: the record of a tenure keeps, as its floor, the longest promise that may still run.
    #[must_use]
    pub fn a_floor_is_written(self) -> bool {
        !self.breaks(Mutant::FloorInMemoryOnly)
    }

    /// R2: a revocation only stops promises, and the end waits for max(S, F), unless the administrator said
    /// `immediately`. A holder that was asked to hand over is revoked in the same way.
    #[must_use]
    pub fn a_revocation_ends_the_tenure(
        self,
        immediately: bool,
        run_out: bool,
        asked: bool,
    ) -> bool {
        immediately
            || run_out
            || self.breaks(Mutant::RevokeCutsPromises)
            || (asked && self.breaks(Mutant::HandoverCutsPromises))
    }

    /// R11: a revocation that names a token is about that tenure. It withdraws no offer that followed the tenure, which
    /// would revoke what its holder may still revive.
    #[must_use]
    pub fn a_revocation_withdraws_the_offer(self, names_a_token: bool) -> bool {
        !names_a_token || self.breaks(Mutant::TokenWithdrawsOffer)
    }

    /// R2: after a lapse every tenure gets one ttl, counted from the moment at which the node may promise again.
    #[must_use]
    pub fn a_lapse_moves_the_floor_to(floor: Moment, resumed: Moment, ttl: Duration) -> Moment {
        floor.max(resumed + ttl)
    }
}
