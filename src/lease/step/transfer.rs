//! The holder hands the key over to a successor.

use super::{
    acquire::{is_lease, may_be_granted},
    context::Env,
    draft::End,
    flight::Flight,
    lease::Lease,
};
use crate::lease::{
    message::{Answer, Call, Caller, Effect, Effects, Lost, Request},
    primitives::Owner,
    records::{ChangeKind, KeyState, Offer},
};

impl<C: Caller> Lease<C> {
    pub(super) fn transfer(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        let Request::Transfer(transfer) = &call.request else { return };
        // A holder that names a successor would decide about a key that an administrator took. One that names none
        // gives it up.
        let ordered = self.record.revocation.is_some() && transfer.to.is_some();
        if !self.holds(transfer.lease_id, env) || ordered {
            let lost = if self.holds(transfer.lease_id, env) {
                Lost::Ended(ChangeKind::Revoked)
            } else {
                self.lost(transfer.lease_id, env)
            };
            out.push(Effect::Reply(call.caller, Answer::Lost(lost)));
            return;
        }
        let end = End { value: transfer.value.clone(), ..End::of(ChangeKind::Transferred) };
        let Some(to) = transfer.to.clone() else {
            let reason = self.handed("any successor", transfer.reason.as_deref());
            return self.end(End { reason, ..end }, Some(call), env, out);
        };
        if !is_lease(env) {
            // The successor could not take it.
            out.push(Effect::Reply(call.caller, Answer::NoLease));
            return;
        }
        let reason = self.handed(to.as_str(), transfer.reason.as_deref());
        let end = End { reason, ..end };
        let span_ms = transfer.offer_ms.unwrap_or_else(|| self.offer_ms(&to, env));
        let offer = Offer { to: to.clone(), span_ms };
        let draft = self.ended(end, Some(offer), env);
        let offered = draft.record.state == KeyState::Offered;
        let rules = env.context.rules;
        let waiting = match self.waiters_len() {
            0 => None,
            _ if !offered || !self.may_grant(env) => None,
            _ => self
                .waiters()
                .next(rules, |a| rules.is_owner(&to, &a.owner) && may_be_granted(a, env)),
        };
        let mut flight = match waiting {
            Some(waiter) => self.granting(draft, waiter, env),
            None => Flight::new(draft.record, self.revision, draft.changes),
        };
        flight.ends = true;
        flight.cause = Some(call);
        self.launch_as_home(flight, env, out);
    }

    /// To whom the holder hands the key, and why if it says so.
    fn handed(&self, to: &str, reason: Option<&str>) -> Option<Box<str>> {
        let why = self.said(reason).map(|reason| format!(": {reason}"));
        Some(format!("to {to}{}", why.unwrap_or_default()).into())
    }

    /// How long an offer stands that does not say so: for the ttl. An offer to the holder's own owner, which comes back
    /// later, also stands for the rejoin window of its pool.
    fn offer_ms(&self, to: &Owner, env: &Env<'_>) -> u64 {
        let policies = &env.context.policies;
        let is_own = |owner: &Owner| env.context.rules.is_owner(owner, to);
        let window = match &self.record.tenure {
            Some(tenure) if is_own(&tenure.owner) => {
                policies.rejoin_window_ms(&policies.of(env.key.as_str()).pool)
            }
            _ => 0,
        };
        self.ttl_ms().max(window.into())
    }
}
