//! The end of a tenure: when it is due, and the write that ends it.

use super::{
    context::Env,
    draft::{Draft, End},
    flight::Flight,
    lease::{Home, Lease, proof_of},
};
use crate::lease::{
    message::{Call, Caller, Effects, Lost},
    primitives::{LeaseId, Moment},
    records::{Behavior, Change, ChangeKind, Ended, KeyState, Offer, Record, Revocation},
    rules::Rules,
};

impl<C: Caller> Lease<C> {
    /// max(S, F) of the current tenure; [`Moment::NEVER`] when it is pinned, or kept by a session that is alive.
    pub(super) fn tenure_deadline(&self) -> Moment {
        let pinned = !self.record.pins.is_empty();
        let expires_at = Rules::a_tenure_expires_at(self.latest_promise(), self.floor, pinned);
        if pinned || self.record.session_ref().is_none() {
            return expires_at;
        }
        let revoked_here = self.record.revocation.is_some() && self.home == Home::Here;
        Rules::a_kept_tenure_ends_at(self.over().is_some(), revoked_here, expires_at)
    }

    /// Whether every promise that keeps the tenure from ending has run out.
    pub(super) fn run_out(&self, now: Moment) -> bool {
        now >= self.tenure_deadline()
    }

    /// When the lease must act without a call.
    pub(super) fn own_deadline(&self) -> Moment {
        if self.quarantine.is_some() {
            return Moment::NEVER;
        }
        match self.record.state {
            KeyState::Held => self.tenure_deadline(),
            // The home node writes this end. If callers wait here, this node acts as well and grants the key then.
            _ if self.home == Home::Living && self.waiters_len() == 0 => Moment::NEVER,
            KeyState::Offered | KeyState::Cooling => self.opens_at,
            KeyState::Free if self.waiters_len() > 0 => Moment::ZERO,
            _ => Moment::NEVER,
        }
    }

    /// R2: ends the tenure once the clock reached max(S, F), by compare-and-set on the revision that was judged.
    pub(super) fn expire(&mut self, env: &mut Env<'_>, out: &mut Effects<C>) {
        if self.record.state != KeyState::Held
            || self.quarantine.is_some()
            || self.retrying(env.now)
        {
            return;
        }
        let due = env.context.rules.a_tenure_is_due_at(self.tenure_deadline(), self.floor);
        if env.now >= due {
            self.end(self.due_end(), None, env, out);
        }
    }

    /// The end of a tenure whose deadline passed: a revocation if an administrator ordered one, otherwise an expiry.
    pub(super) fn due_end(&self) -> End {
        let due = Some(self.tenure_deadline());
        if let Some(over) = self.over() {
            return self.session_end(over);
        }
        match &self.record.revocation {
            Some(order) => End {
                reason: Some(order.reason.clone()),
                actor: Some(order.actor.clone()),
                due,
                ..End::of(ChangeKind::Revoked)
            },
            None => End { due, unheard: self.unheard, ..End::of(ChangeKind::Expired) },
        }
    }

    /// Ends the tenure; the same write grants the key to the first caller in the queue.
    pub(super) fn end(
        &mut self,
        end: End,
        cause: Option<Call<C>>,
        env: &mut Env<'_>,
        out: &mut Effects<C>,
    ) {
        let due = end.due;
        let draft = self.ended(end, None, env);
        let next = if draft.is_open(env) { self.next_waiter(env) } else { None };
        let mut flight = match next {
            Some(waiter) => self.granting(draft, waiter, env),
            None => Flight::new(draft.record, self.revision, draft.changes),
        };
        flight.ends = true;
        flight.due = due;
        flight.cause = cause;
        self.launch(flight, out);
    }

    /// A record in which the tenure has ended, with the fences and the lock-delay that its end causes.
    pub(super) fn ended(&mut self, end: End, offer: Option<Offer>, env: &mut Env<'_>) -> Draft {
        let mut draft = Draft { record: self.successor(env), changes: Vec::with_capacity(2) };
        let (kind, unheard) = (end.kind, end.unheard);
        if end.goes_on {
            self.forget_mark(&mut draft.record);
        }
        self.write_end(&mut draft, end, env);
        draft.record.offer = offer.map(Box::new);
        self.write_fences_and_delay(&mut draft, kind, unheard, env);
        draft
    }

    /// The request id of the tenure may be granted the key again.
    fn forget_mark(&self, record: &mut Record) {
        let Some(tenure) = &self.record.tenure else { return };
        let mut marks = std::mem::take(&mut record.request_marks).into_vec();
        marks.retain(|mark| mark.grant_nonce != tenure.grant_nonce);
        record.request_marks = marks.into();
    }

    /// Makes the record's tenure its previous one.
    fn write_end(&self, Draft { record, changes }: &mut Draft, end: End, env: &Env<'_>) {
        let Some(mut tenure) = record.tenure.take() else { return };
        tenure.token = self.token;
        // An administrator had revoked the tenure. That must not be lost, however the tenure ended.
        let order = record.revocation.as_deref();
        let by_holder = matches!(
            end.kind,
            ChangeKind::Released | ChangeKind::Transferred | ChangeKind::Reclaimed
        );
        let actor = end.actor.or_else(|| order.map(|order| order.actor.clone()));
        let actor = actor.or_else(|| tenure.owner.actor().filter(|_| by_holder));
        let reason = end.reason.or_else(|| order.map(|order| order.reason.clone()));
        record.seq += 1;
        record.floor_ms = 0;
        if let Some(value) = end.value {
            record.value = Some(value);
        }
        let session_ref = tenure.session_ref.as_ref();
        if end.kind == ChangeKind::SessionEnded
            && session_ref.is_some_and(|b| b.behavior == Behavior::Delete)
        {
            record.value = None;
        }
        let change = Change {
            kind: end.kind,
            seq: record.seq,
            owner: None,
            token: self.token,
            previous: Some((tenure.owner.clone(), self.token)),
            reason,
            actor,
            session: session_ref.map(|session_ref| session_ref.session),
        };
        record.revocation = None;
        record.handover = None;
        record.spec = None;
        if env.key.is_session()
            && let (Some(reason), Some(actor)) = (&change.reason, &change.actor)
        {
            // The tombstone says who revoked the session, so that its leases are told even after a crash.
            let order = Revocation { reason: reason.clone(), actor: actor.clone() };
            record.revocation = Some(Box::new(order));
        }
        changes.push(change);
        let ended = Ended { tenure, reason: end.kind, ended_at_ms: env.wall_ms, fenced: false };
        record.previous = Some(Box::new(ended));
    }

    /// Why a lease id is no longer valid.
    pub(super) fn lost(&self, proof: LeaseId, env: &Env<'_>) -> Lost {
        match &self.record.previous {
            Some(ended) if env.context.rules.proves(proof_of(&ended.tenure, env), proof) => {
                let fenced = ended.fenced || self.record.state == KeyState::Fencing;
                match ended.reason {
                    ChangeKind::Expired if fenced => Lost::Fenced,
                    reason => Lost::Ended(reason),
                }
            }
            _ => Lost::UnknownLease,
        }
    }
}
