//! Heartbeats: remaining the owner.

use std::time::Duration;

use super::{
    context::Env,
    flight::Flight,
    lease::{Home, Lease},
};
use crate::lease::{
    message::{Answer, Call, Caller, Effect, Effects, Heartbeat, Lost, Request},
    primitives::{Moment, Nonce, Token},
    records::ChangeKind,
    rules::Rules,
};

impl<C: Caller> Lease<C> {
    /// Whether this is a heartbeat that changes nothing in the record.
    pub(super) fn is_plain_heartbeat(&self, request: &Request, env: &Env<'_>) -> bool {
        let Request::Heartbeat(beat) = request else { return false };
        self.holds(beat.lease_id, env) && !self.changes_record(beat)
    }

    /// Whether the tenure of this token promises nothing more, because a later epoch began.
    pub(super) fn is_outlived(token: Token, env: &Env<'_>) -> bool {
        env.context.rules.a_tenure_outlived_its_epoch(token, env.context.epoch)
    }

    fn changes_record(&self, beat: &Heartbeat) -> bool {
        let ttl = self.record.tenure.as_ref().map(|tenure| tenure.ttl_ms);
        let value = self.record.value.as_deref();
        beat.value.as_deref().is_some_and(|new| Some(new) != value)
            || beat.ttl_ms.is_some_and(|new| Some(new) != ttl)
    }

    pub(super) fn heartbeat(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        let Request::Heartbeat(beat) = &call.request else { return };
        if beat.granter.is_some_and(|granter| !self.is_kept_by(granter, env)) {
            return out.push(Effect::Reply(call.caller, Answer::Lapsed));
        }
        if !self.holds(beat.lease_id, env) {
            return self.revive_or_refuse(call, env, out);
        }
        if self.record.revocation.is_some() {
            let lost = Answer::Lost(Lost::Ended(ChangeKind::Revoked));
            out.push(Effect::Reply(call.caller, lost));
        } else if Self::is_outlived(self.token, env) {
            out.push(Effect::Reply(call.caller, Answer::Lost(Lost::UnknownLease)));
        } else if self.changes_record(beat) {
            self.write_heartbeat(call, env, out);
        } else if self.home == Home::Gone {
            self.adopt_for(call, env, out);
        } else {
            self.absorb(call, false, env, out);
        }
    }

    /// Whether the incarnation that granted the lease to a call may still keep it for that call. Another node that was its
    /// home since then may have told a repeated call of it.
    fn is_kept_by(&self, granter: Nonce, env: &Env<'_>) -> bool {
        granter == env.context.node && granter == self.record.node
    }

    /// R1: decides on one reading of the clock, records the promise, and only then answers.
    fn absorb(&mut self, call: Call<C>, revived: bool, env: &Env<'_>, out: &mut Effects<C>) {
        if !env.context.may_promise(env.now) {
            out.push(Effect::Reply(call.caller, Answer::Lapsed));
            return;
        }
        (self.graced, self.unheard) = (false, false);
        self.promised = Rules::a_promise_lasts_until(self.promised, env.now, self.ttl());
        self.serve_beside(env);
        let valid_for_ms = env.context.rules.a_holder_is_told(call.received, env.now, self.ttl());
        let answer = Answer::Alive { token: self.token, valid_for_ms, revived };
        out.push(Effect::Reply(call.caller, answer));
    }

    /// Writes a heartbeat that changes the value or the ttl.
    fn write_heartbeat(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        let Request::Heartbeat(beat) = &call.request else { return };
        let mut record = self.successor(env);
        let Some(tenure) = &mut record.tenure else { return };
        if let Some(ttl_ms) = beat.ttl_ms {
            tenure.ttl_ms = ttl_ms;
        }
        if let Some(value) = &beat.value {
            record.value = Some(value.clone());
        }
        let rules = env.context.rules;
        // The old ttl may be promised until this write is sent, and by one process until it is durable.
        let left = self.promise_left_ms(env.now).max(self.ttl_ms());
        if left > tenure.ttl_ms && rules.a_floor_is_written() {
            record.floor_ms = left;
        }
        let shortens = tenure.ttl_ms < self.ttl_ms();
        if !rules.a_ttl_is_promised_only_once_written()
            && let Some(ttl_ms) = beat.ttl_ms
        {
            self.promised = env.now + Duration::from_millis(ttl_ms);
        }
        let mut flight = Flight::new(record, self.revision, Vec::new());
        flight.ends =
            rules.a_write_that_shortens_stops_heartbeats(shortens, env.context.peers.is_some());
        flight.cause = Some(call);
        self.launch_as_home(flight, env, out);
    }

    /// The record with the new ttl or value, or with the revival, is durable.
    pub(super) fn heartbeat_written(
        &mut self,
        call: Call<C>,
        env: &mut Env<'_>,
        out: &mut Effects<C>,
    ) {
        let Request::Heartbeat(beat) = &call.request else { return };
        if self.home != Home::Here {
            // It was written by an incarnation that this node no longer is.
            return self.busy().deferred.push_front(call);
        }
        let revived = self.promised == Moment::ZERO && self.floor == Moment::ZERO;
        debug_assert!(self.holds(beat.lease_id, env));
        self.floor = self.floor.max(self.promised);
        self.absorb(call, revived, env, out);
    }
}
