//! An administrator ends the tenure, or withdraws an offer.

use super::{context::Env, draft::End, flight::Flight, lease::Lease};
use crate::lease::{
    message::{Answer, Call, Caller, Effect, Effects, Request},
    primitives::Moment,
    records::{Change, ChangeKind, KeyState, Revocation},
};

impl<C: Caller> Lease<C> {
    /// A revocation. A graceful one only stops promises, and the end waits for max(S, F).
    pub(super) fn revoke(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        let Request::Revoke(revoke) = &call.request else { return };
        let holder = self.record.tenure.as_ref().map(|tenure| &tenure.owner);
        let other =
            revoke.owner.as_ref().is_some_and(|of| !holder.is_some_and(|it| it.has_name_of(of)))
                || revoke.token.is_some_and(|token| token != self.token);
        let unheld = holder.is_none();
        let rules = env.context.rules;
        let withdraws = unheld
            && rules.a_revocation_withdraws_the_offer(revoke.token.is_some())
            && self.offer_stands(env.now);
        if other || (unheld && !withdraws) {
            let view = Box::new(self.view(env.now));
            out.push(Effect::Reply(call.caller, Answer::NotHeld(view)));
        } else if unheld {
            self.withdraw_offer(call, env, out);
        } else if rules.a_revocation_ends_the_tenure(
            revoke.immediately,
            self.run_out(env.now),
            self.record.handover.is_some(),
        ) {
            let end = End {
                reason: Some(revoke.reason.clone()),
                actor: Some(revoke.actor.clone()),
                ..End::of(ChangeKind::Revoked)
            };
            self.end(end, Some(call), env, out);
        } else if !self.record.pins.is_empty() {
            let view = Box::new(self.view(env.now));
            out.push(Effect::Reply(call.caller, Answer::Pinned(view)));
        } else {
            let order = Revocation { reason: revoke.reason.clone(), actor: revoke.actor.clone() };
            self.floor = self.floor.max(revoke.floor.unwrap_or(Moment::ZERO));
            let mut record = self.successor(env);
            record.floor_ms = self.promise_left_ms(env.now);
            record.revocation = Some(Box::new(order));
            let mut flight = Flight::new(record, self.revision, Vec::new());
            flight.ends = true;
            flight.cause = Some(call);
            self.launch_as_home(flight, env, out);
        }
    }

    fn withdraw_offer(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        let Request::Revoke(revoke) = &call.request else { return };
        let mut record = self.successor(env);
        record.state = KeyState::Free;
        record.offer = None;
        record.seq += 1;
        let change = Change {
            kind: ChangeKind::Revoked,
            seq: record.seq,
            owner: None,
            token: self.token,
            previous: None,
            reason: Some(revoke.reason.clone()),
            actor: Some(revoke.actor.clone()),
            session: None,
        };
        let flight = Flight::new(record, self.revision, vec![change]).for_call(call);
        self.launch(flight, out);
    }
}
