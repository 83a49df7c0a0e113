//! The holder gives the lease back, or the coordinator does so for a caller that no answer reached.

use super::{
    context::Env,
    draft::{Draft, End},
    fences_and_delay::settle_state,
    flight::Flight,
    lease::{Home, Lease, proof_of},
};
use crate::lease::{
    message::{Answer, Call, Caller, Effect, Effects, GiveBack, Lost, Request},
    primitives::ceil_ms,
    records::{ChangeKind, KeyState},
};

impl<C: Caller> Lease<C> {
    pub(super) fn release(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        let Request::Release(release) = &call.request else { return };
        if self.holds(release.lease_id, env) {
            let (value, reason) =
                (release.value.clone(), self.said(release.reason.as_deref()).map(Into::into));
            let end = End { value, reason, ..End::of(ChangeKind::Released) };
            return self.end(end, Some(call), env, out);
        }
        let gone = self.lost(release.lease_id, env) != Lost::UnknownLease;
        let answer = if gone || self.record.tenure.is_none() {
            Answer::Released(false)
        } else {
            Answer::NotHolder(Box::new(self.view(env.now)))
        };
        out.push(Effect::Reply(call.caller, answer));
    }

    /// What the holder says of the end. Where an administrator revoked the tenure, the order says why it ends.
    pub(super) fn said<'a>(&self, reason: Option<&'a str>) -> Option<&'a str> {
        reason.filter(|_| self.record.revocation.is_none())
    }

    /// Ends a tenure that no answer named. If it is over already, opens the key that it left shut. A tenure that moved to
    /// another home node goes on: a repeated call may have been told of it there.
    pub(super) fn give_back(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        let Request::GiveBack(back) = call.request else { return };
        if self.holds(back.lease_id, env) {
            if !env.context.rules.a_give_back_ends(back.granter, self.record.node) {
                out.push(Effect::Reply(call.caller, Answer::Released(false)));
                return;
            }
            let end = End { goes_on: back.goes_on, ..End::unheard() };
            return self.end(end, Some(call), env, out);
        }
        if !self.keeps_shut(back, env) {
            out.push(Effect::Reply(call.caller, Answer::Released(false)));
            return;
        }
        let record = self.successor(env);
        let mut draft = Draft { record, changes: Vec::new() };
        let earlier_ms = ceil_ms(self.shut_before.since(env.now));
        if earlier_ms == 0 {
            self.write_cooled(&mut draft);
        }
        let left_ms = draft.record.cooling_ms().min(earlier_ms);
        draft.record.shut_for(left_ms);
        settle_state(&mut draft.record);
        let flight = Flight::new(draft.record, self.revision, draft.changes).for_call(call);
        self.launch(Flight { ends: true, ..flight }, out);
    }

    /// Whether the key is shut to others because of this tenure, which is over, for longer than it was before.
    fn keeps_shut(&self, back: GiveBack, env: &Env<'_>) -> bool {
        let rules = env.context.rules;
        let last = self.record.previous.as_ref();
        last.is_some_and(|ended| rules.proves(proof_of(&ended.tenure, env), back.lease_id))
            && self.record.state == KeyState::Cooling
            && self.home != Home::Living
            && self.opens_at > self.shut_before.max(env.now)
            && rules.a_hold_counts_for(true, 1, 0) == 0
    }
}
