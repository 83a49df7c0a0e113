//! The ways in which a tenure ends: released, transferred, expired, revoked.

use super::{
    Answer, Behavior, Call, Caller, Change, ChangeKind, Effect, Ended, Env, Lease, LeaseId, Lost,
    Moment, Mutant, Offer, Owner, Record, Request, Revocation, State, Token,
    acquire::accepting,
    machine::{Effects, Flight, Home},
    waiters::Waiter,
};

/// How a tenure ends.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) kind: ChangeKind,
    pub(super) reason: Option<Box<str>>,
    pub(super) actor: Option<Box<str>>,
    pub(super) value: Option<Box<str>>,
    pub(super) due: Option<Moment>,
}

/// A record that is about to be written, and the changes that take effect with it.
pub(super) struct Draft {
    pub(super) record: Record,
    pub(super) changes: Vec<Change>,
}

impl End {
    pub(super) fn of(kind: ChangeKind) -> Self {
        Self { kind, reason: None, actor: None, value: None, due: None }
    }
}

impl<C: Caller> Lease<C> {
    /// max(S, F) of the current tenure; [`Moment::NEVER`] when it is pinned, or kept by a session that is alive.
    pub(super) fn tenure_deadline(&self) -> Moment {
        if !self.record.pins.is_empty() {
            return Moment::NEVER;
        }
        match (self.record.bond(), &self.record.revocation) {
            (Some(_), _) if self.over().is_some() => Moment::ZERO,
            (Some(_), None) => Moment::NEVER,
            // R6: only the node that announced the revocation knows which promises cover the lease.
            (Some(_), Some(_)) if self.home != Home::Here => Moment::NEVER,
            _ => self.promised.max(self.floor),
        }
    }

    /// When the lease must act without a call.
    pub(super) fn own_deadline(&self) -> Moment {
        if self.quarantine.is_some() {
            return Moment::NEVER;
        }
        match self.record.state {
            State::Held => self.tenure_deadline(),
            // The home node writes this end. If callers wait here, this node acts as well and grants the key then.
            _ if self.home == Home::Living && self.waiters_len() == 0 => Moment::NEVER,
            State::Offered | State::Cooling => self.opens_at,
            State::Free if self.waiters_len() > 0 => Moment::ZERO,
            _ => Moment::NEVER,
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
            None => End { due, ..End::of(ChangeKind::Expired) },
        }
    }

    pub(super) fn last_owner(&self) -> Option<(Owner, Token)> {
        let ended = self.record.previous.as_ref()?;
        Some((ended.tenure.owner.clone(), ended.tenure.token))
    }

    /// A record in which the tenure has ended, with the fences and the lock-delay that its end causes.
    pub(super) fn ended(&mut self, end: End, offer: Option<Offer>, env: &mut Env<'_>) -> Draft {
        let nonce = (env.nonces)();
        let mut draft =
            Draft { record: self.successor(nonce, env), changes: Vec::with_capacity(2) };
        let kind = end.kind;
        self.write_end(&mut draft, end, env);
        draft.record.offer = offer.map(Box::new);
        self.write_aftermath(&mut draft, kind, env);
        draft
    }

    /// Makes the record's tenure its previous one.
    fn write_end(&self, Draft { record, changes }: &mut Draft, end: End, env: &Env<'_>) {
        let Some(mut tenure) = record.tenure.take() else { return };
        tenure.token = self.token;
        // An administrator had revoked the tenure. That must not be lost, however the tenure ended.
        let order = record.revocation.as_deref();
        let actor = end.actor.or_else(|| order.map(|order| order.actor.clone()));
        let reason = end.reason.or_else(|| order.map(|order| order.reason.clone()));
        record.seq += 1;
        record.floor_ms = 0;
        if let Some(value) = end.value {
            record.value = Some(value);
        }
        let bond = tenure.bond.as_ref();
        if end.kind == ChangeKind::SessionEnded
            && bond.is_some_and(|b| b.behavior == Behavior::Delete)
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
            session: bond.map(|bond| bond.session),
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

    /// The first caller in the queue that may be granted a key which is open to all callers.
    pub(super) fn next_waiter(&mut self, env: &Env<'_>) -> Option<Waiter<C>> {
        if self.waiters_len() == 0 || !self.may_grant(env) || self.is_spent_session(env) {
            return None;
        }
        self.waiters().next(accepting(env.terms), |_| true)
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

    /// R2: ends the tenure once the clock reached max(S, F), by compare-and-set on the revision that was judged.
    pub(super) fn expire(&mut self, env: &mut Env<'_>, out: &mut Effects<C>) {
        if self.record.state != State::Held || self.quarantine.is_some() || self.retrying(env.now) {
            return;
        }
        let due = if env.terms.breaks(Mutant::ExpiryIgnoresOwnPromises) {
            self.floor
        } else {
            self.tenure_deadline()
        };
        if env.now >= due {
            self.end(self.due_end(), None, env, out);
        }
    }

    /// A write of unknown outcome did grant the key, after its caller was told that the outcome is unknown. With a
    /// request id the caller will ask again; without one it cannot.
    pub(super) fn granted_unheard(
        &mut self,
        marked: bool,
        env: &mut Env<'_>,
        out: &mut Effects<C>,
    ) {
        self.floor = Moment::ZERO;
        self.promised = self.first_promise(env.now);
        if marked {
            self.recall_repeats();
        } else {
            self.end_unheard(env, out);
        }
    }

    /// Releases a grant that no caller knows of.
    pub(super) fn end_unheard(&mut self, env: &mut Env<'_>, out: &mut Effects<C>) {
        let reason = Some("the caller had left".into());
        self.end(End { reason, ..End::of(ChangeKind::Released) }, None, env, out);
    }

    pub(super) fn holds(&self, proof: LeaseId) -> bool {
        self.lease_id == Some(proof)
    }

    /// Why a lease id is no longer valid.
    pub(super) fn lost(&self, proof: LeaseId, env: &Env<'_>) -> Lost {
        match &self.record.previous {
            Some(ended)
                if env.terms.secret.lease_id(env.key, ended.tenure.grant_nonce) == proof =>
            {
                let fenced = ended.fenced || self.record.state == State::Fencing;
                match ended.reason {
                    ChangeKind::Expired if fenced => Lost::Fenced,
                    reason => Lost::Ended(reason),
                }
            }
            _ => Lost::UnknownLease,
        }
    }

    pub(super) fn release(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        let Request::Release(release) = &call.request else { return };
        if self.holds(release.lease_id) {
            let value = release.value.clone();
            let end = End { value, ..End::of(ChangeKind::Released) };
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

    pub(super) fn transfer(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        let Request::Transfer(transfer) = &call.request else { return };
        // A holder that names a successor would decide about a key that an administrator took. One that names none
        // gives it up.
        let ordered = self.record.revocation.is_some() && transfer.to.is_some();
        if !self.holds(transfer.lease_id) || ordered {
            let lost = if self.holds(transfer.lease_id) {
                Lost::Ended(ChangeKind::Revoked)
            } else {
                self.lost(transfer.lease_id, env)
            };
            out.push(Effect::Reply(call.caller, Answer::Lost(lost)));
            return;
        }
        let end = End { value: transfer.value.clone(), ..End::of(ChangeKind::Transferred) };
        let Some(to) = transfer.to.clone() else {
            let reason = Some("to any successor".into());
            return self.end(End { reason, ..end }, Some(call), env, out);
        };
        let end = End { reason: Some(format!("to {to}").into()), ..end };
        let span_ms = transfer.offer_ms.unwrap_or_else(|| self.ttl_ms());
        let offer = Offer { to: to.clone(), span_ms };
        let draft = self.ended(end, Some(offer), env);
        let offered = draft.record.state == State::Offered;
        let waiting = match self.waiters_len() {
            0 => None,
            _ if !offered || !self.may_grant(env) => None,
            _ => self.waiters().next(accepting(env.terms), |a| a.owner == to),
        };
        let mut flight = match waiting {
            Some(waiter) => self.granting(draft, waiter, env),
            None => Flight::new(draft.record, self.revision, draft.changes),
        };
        flight.ends = true;
        flight.cause = Some(call);
        self.launch_as_home(flight, env, out);
    }

    pub(super) fn ttl_ms(&self) -> u64 {
        self.record.tenure.as_ref().map_or(0, |tenure| tenure.ttl_ms)
    }

    /// A revocation. A graceful one only stops promises, and the end waits for max(S, F).
    pub(super) fn revoke(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        let Request::Revoke(revoke) = &call.request else { return };
        let holder = self.record.tenure.as_ref().map(|tenure| &tenure.owner);
        let other = (revoke.owner.is_some() && revoke.owner.as_ref() != holder)
            || revoke.token.is_some_and(|token| token != self.token);
        let unheld = holder.is_none();
        if other || (unheld && !self.offer_stands(env.now)) {
            let view = Box::new(self.view(env.now));
            out.push(Effect::Reply(call.caller, Answer::NotHeld(view)));
        } else if unheld {
            self.withdraw_offer(call, env, out);
        } else if revoke.immediately
            || self.run_out(env.now)
            || env.terms.breaks(Mutant::RevokeCutsPromises)
            || (self.record.handover.is_some() && env.terms.breaks(Mutant::HandoverCutsPromises))
        {
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
            let nonce = (env.nonces)();
            let mut record = self.successor(nonce, env);
            record.floor_ms = self.promise_left_ms(env.now);
            record.revocation = Some(Box::new(order));
            let mut flight = Flight::new(record, self.revision, Vec::new());
            flight.ends = true;
            flight.cause = Some(call);
            self.launch_as_home(flight, env, out);
        }
    }

    pub(super) fn offer_stands(&self, now: Moment) -> bool {
        self.record.state == State::Offered && now < self.opens_at
    }

    /// Frees the key after an offer that was not taken or a lock-delay that is over. The key's actor may then leave
    /// memory.
    pub(super) fn lapse(&mut self, env: &mut Env<'_>, out: &mut Effects<C>) {
        let passing = matches!(self.record.state, State::Offered | State::Cooling);
        if passing && self.opened(env.now) && self.home != Home::Living {
            let nonce = (env.nonces)();
            let record = self.successor(nonce, env);
            let mut draft = Draft { record, changes: Vec::new() };
            self.write_cooled(&mut draft);
            draft.record.state = State::Free;
            draft.record.offer = None;
            self.launch(Flight::new(draft.record, self.revision, draft.changes), out);
        }
    }

    /// Ends the lock-delay with this write, if there is one.
    pub(super) fn write_cooled(&self, Draft { record, changes }: &mut Draft) {
        if record.state != State::Cooling {
            return;
        }
        record.cool();
        record.seq += 1;
        changes.push(Change {
            kind: ChangeKind::Cooled,
            seq: record.seq,
            owner: None,
            token: self.token,
            previous: self.last_owner(),
            reason: None,
            actor: None,
            session: None,
        });
    }

    fn withdraw_offer(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        let Request::Revoke(revoke) = &call.request else { return };
        let nonce = (env.nonces)();
        let mut record = self.successor(nonce, env);
        record.state = State::Free;
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
        let mut flight = Flight::new(record, self.revision, vec![change]);
        flight.cause = Some(call);
        self.launch(flight, out);
    }

    /// In later writes of the tenure, the record contains its token as a number.
    pub(super) fn settle_token(&self, record: &mut Record) {
        if let Some(tenure) = &mut record.tenure {
            tenure.token = self.token;
        }
    }

    /// How long a promise may still run, in whole milliseconds, rounded up.
    pub(super) fn promise_left_ms(&self, now: Moment) -> u64 {
        super::bounds::ceil_ms(self.promised.max(self.floor).since(now))
    }
}
