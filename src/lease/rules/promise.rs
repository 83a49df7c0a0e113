//! R1: promises.

use std::time::Duration;

use super::mutant::{Mutant, Rules};
use crate::lease::primitives::{CLIENT_DRIFT, Moment};

impl Rules {
    /// R1: no promise is decided at or after D of the node's last committed record.
    #[must_use]
    pub fn a_node_may_promise(self, now: Moment, until: Moment) -> bool {
        now < until || self.breaks(Mutant::PromiseAfterUntil)
    }

    /// R1: D counts from when the record is committed, not from when it is sent.
    #[must_use]
    pub fn a_record_counts_only_once_committed(self) -> bool {
        !self.breaks(Mutant::PromiseBySentRecord)
    }

    /// R1: a promise begins once the grant is durable, and the grant is not answered before.
    #[must_use]
    pub fn a_grant_is_answered_only_once_durable(self) -> bool {
        !self.breaks(Mutant::ReplyBeforeDurable)
    }

    /// R1: S := max(S, decided + ttl).
    #[must_use]
    pub fn a_promise_lasts_until(promised: Moment, decided: Moment, ttl: Duration) -> Moment {
        promised.max(decided + ttl)
    }

    /// R2: a step of the actor closes the promise cell before it reads S: what the step decides holds until its end.
    #[must_use]
    pub fn a_step_closes_the_cell(self) -> bool {
        !self.breaks(Mutant::CellOpenInAStep)
    }

    /// R2: the promise cell is closed from the moment a write that can end the tenure is sent until it is settled.
    #[must_use]
    pub fn a_cell_is_open_beside_a_write(self, can_end: bool) -> bool {
        !can_end || self.breaks(Mutant::CellOpenWhileEnding)
    }

    /// R1: a promise cell promises in the name of the incarnation and the epoch that opened it, and of no other.
    #[must_use]
    pub fn a_cell_promises(self, for_the_present_incarnation: bool) -> bool {
        for_the_present_incarnation || self.breaks(Mutant::CellOfAnotherIncarnation)
    }

    /// R10: the promise cell is closed when its actor dies or reads the store anew.
    #[must_use]
    pub fn a_cell_ends_with_its_actor(self) -> bool {
        !self.breaks(Mutant::CellOutlivesItsActor)
    }

    /// R1: the holder is told less than what was promised; see [`valid_for`].
    #[must_use]
    pub fn a_holder_is_told(self, received: Moment, decided: Moment, ttl: Duration) -> u64 {
        if self.breaks(Mutant::DriftIgnored) {
            return whole_ms(decided.since(received).saturating_add(ttl));
        }
        valid_for(received, decided, ttl)
    }
}

/// R1: what a caller is told when its request arrived at `received` and the promise of `ttl` was decided at `decided`:
/// ⌊(decided − received + ttl)·κ⌋ − 1 ms, which the caller counts on its own clock from before it sent the request.
#[must_use]
pub fn valid_for(received: Moment, decided: Moment, ttl: Duration) -> u64 {
    let promised = decided.since(received).saturating_add(ttl);
    whole_ms(CLIENT_DRIFT.shrink(promised)).saturating_sub(1)
}

fn whole_ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_told_less_and_the_rival_waits_longer() {
        let ttl = Duration::from_secs(10);
        let told = valid_for(Moment::ZERO, Moment::ZERO, ttl);
        assert_eq!(told, 10_000 * 990 / 1010 - 1);
        assert!(CLIENT_DRIFT.stretch(ttl) > ttl * 1010 / 990);
    }

    #[test]
    fn waiting_in_the_queue_costs_the_holder_nothing() {
        let ttl = Duration::from_secs(1);
        let parked = valid_for(Moment::ZERO, Moment::ZERO + Duration::from_secs(60), ttl);
        assert!(parked > 59_000);
    }
}
