//! Acquiring a lease: granting it, waiting for it, and answering a repeated call.

use std::time::Duration;

use super::{
    Acquire, Answer, Call, Caller, Change, ChangeKind, Effect, Env, Grant, Lease,
    MAX_REQUEST_MARKS, Moment, Mutant, NodeContext, Offer, Owner, Record, Refusal, RequestMark,
    Revision, State, StoreError, Tenure, Token,
    ending::{Draft, End},
    machine::{Effects, Flight, Home, RETRY},
    valid_for,
    waiters::Waiter,
};

/// How long the key is offered to a caller at another node whose turn has come, in milliseconds.
const TURN_MS: u64 = 2000;

impl<C: Caller> Lease<C> {
    /// Whether every promise that keeps the tenure from ending has run out.
    pub(super) fn run_out(&self, now: Moment) -> bool {
        now >= self.tenure_deadline()
    }

    /// Whether this caller may be granted the key now.
    pub(super) fn open_to(&self, acquire: &Acquire, now: Moment) -> bool {
        match self.record.state {
            State::Free => true,
            State::Held => self.run_out(now),
            State::Fencing => false,
            State::Cooling => self.opened(now) || takes_back(&self.record, acquire),
            State::Offered => {
                now >= self.opens_at
                    || self.record.offer.as_ref().is_some_and(|offer| offer.to == acquire.owner)
            }
        }
    }

    pub(super) fn acquire(&mut self, waiter: Waiter<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        if waiter.caller.is_gone() {
            return;
        }
        if self.is_frozen(env) {
            out.push(Effect::Reply(waiter.caller, Answer::Frozen));
            return;
        }
        if !env.terms.may_promise(env.now) {
            out.push(Effect::Reply(waiter.caller, Answer::Lapsed));
            return;
        }
        if let Some(refusal) = repeated(&self.record, &waiter.acquire) {
            return match refusal {
                None => self.grant_again(waiter, env, out),
                Some(refusal) => self.refuse(waiter, refusal, env, out),
            };
        }
        if self.is_spent_session(env) {
            return self.refuse(waiter, Refusal::RequestSpent(None), env, out);
        }
        let mine = self.record.tenure.as_ref().is_some_and(|t| t.owner == waiter.acquire.owner);
        let standing = mine && !self.run_out(env.now);
        let ordered = self.record.revocation.is_some();
        let outlived = Self::is_outlived(self.token, env) && !waiter.acquire.reclaim;
        if standing && (ordered || outlived) {
            // The tenure was revoked or belongs to an earlier epoch: its old owner waits like any other caller.
            self.queue_up(waiter, env, out);
        } else if standing && waiter.acquire.reclaim {
            if accepting(env.terms)(&waiter.caller) {
                self.grant(waiter, Some(End::of(ChangeKind::Reclaimed)), env, out);
            }
        } else if standing {
            self.refuse(waiter, Refusal::HeldByYou, env, out);
        } else if !self.open_to(&waiter.acquire, env.now) || self.would_overtake(env.now) {
            self.queue_up(waiter, env, out);
        } else if accepting(env.terms)(&waiter.caller) {
            let end = (self.record.state == State::Held).then(|| self.due_end());
            self.grant(waiter, end, env, out);
        }
    }

    /// Whether a caller in the queue is entitled to the key and will be granted it as soon as the store is asked again. A
    /// new caller must not overtake it.
    fn would_overtake(&self, now: Moment) -> bool {
        let shut = self.record.state == State::Cooling && !self.opened(now);
        !shut && !self.offer_stands(now) && self.is_awaited()
    }

    fn queue_up(&mut self, waiter: Waiter<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        if waiter.deadline() > env.now {
            if self.waiters().is_full(env.terms.waiters_per_key) {
                out.push(Effect::Reply(waiter.caller, Answer::Busy));
            } else {
                self.inquire_session(out);
                // An earlier actor of this key may have claimed the caller for a grant. That grant did not happen.
                waiter.caller.unclaim();
                self.waiters().park(waiter);
            }
        } else if self.record.state == State::Free {
            let why = "waiting callers are granted the key first, once the store accepts writes";
            let error = StoreError::Unavailable(why.into());
            out.push(Effect::Reply(waiter.caller, Answer::Store(error)));
        } else {
            self.inquire_session(out);
            let why = self.closed();
            self.refuse(waiter, why, env, out);
        }
    }

    /// Why no caller is granted the key now.
    fn closed(&self) -> Refusal {
        match self.record.state {
            State::Cooling => Refusal::Cooling,
            State::Fencing => Refusal::Fencing,
            State::Free | State::Held | State::Offered => Refusal::Held,
        }
    }

    /// Takes every caller out of the queue whose request the record already knows. Their calls are handled again
    /// instead.
    pub(super) fn recall_repeats(&mut self) {
        if self.waiters_len() == 0 {
            return;
        }
        let record = self.record.clone();
        let repeats = self.waiters().take(|waiter| repeated(&record, &waiter.acquire).is_some());
        for waiter in repeats.into_iter().rev() {
            self.busy().deferred.push_front(waiter.into());
        }
    }

    /// Answers with the same grant again, and with what is left of its promise. After a restart, when this home node
    /// has promised nothing yet, it makes a promise as for a heartbeat.
    fn grant_again(&mut self, waiter: Waiter<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        if self.home == Home::Gone {
            return self.adopt_for(waiter.into(), env, out);
        }
        if !env.terms.may_promise(env.now) {
            out.push(Effect::Reply(waiter.caller, Answer::Lapsed));
            return;
        }
        if Self::is_outlived(self.token, env) {
            return self.refuse(waiter, Refusal::RequestSpent(None), env, out);
        }
        if self.record.bond().is_none() && self.promised <= waiter.received {
            if self.record.revocation.is_some() {
                let spent = Refusal::RequestSpent(Some(ChangeKind::Revoked));
                return self.refuse(waiter, spent, env, out);
            }
            self.promised = self.promised.max(env.now + self.ttl());
            self.graced = false;
        }
        let left = self.promised.since(waiter.received);
        let valid = valid_for(Moment::ZERO, Moment::ZERO, left);
        let grant = self.grant_view(env, valid);
        out.push(Effect::Reply(waiter.caller, Answer::Granted(Box::new(grant))));
    }

    fn grant_view(&self, env: &Env<'_>, valid_for_ms: u64) -> Grant {
        let lease_id = self.lease_id.expect("a granted lease has a tenure");
        Grant { view: self.view(env.now), lease_id, valid_for_ms }
    }

    pub(super) fn refuse(
        &self,
        waiter: Waiter<C>,
        why: Refusal,
        env: &Env<'_>,
        out: &mut Effects<C>,
    ) {
        let view = Box::new(self.view(env.now));
        out.push(Effect::Reply(waiter.caller, Answer::Refused(why, view)));
    }

    /// Writes the grant to a caller whose claim was taken, together with the end of the previous tenure. If that end
    /// does not leave the key open, the write contains the end alone, and the call is handled again after it.
    pub(super) fn grant(
        &mut self,
        waiter: Waiter<C>,
        end: Option<End>,
        env: &mut Env<'_>,
        out: &mut Effects<C>,
    ) {
        let due = end.as_ref().and_then(|end| end.due);
        let ends = end.is_some();
        let draft = match end {
            Some(end) => self.ended(end, None, env),
            None => {
                let nonce = (env.nonces)();
                Draft { record: self.successor(nonce, env), changes: Vec::with_capacity(1) }
            }
        };
        let mut flight = if ends && !draft.is_open(env) {
            waiter.caller.unclaim();
            let mut flight = Flight::new(draft.record, self.revision, draft.changes);
            flight.cause = Some(waiter.into());
            flight
        } else {
            self.granting(draft, waiter, env)
        };
        (flight.ends, flight.due) = (flight.ends || ends, due);
        if env.terms.breaks(Mutant::ReplyBeforeDurable) && !keeps_a_place(&flight) {
            return self.reply_early(flight, env, out);
        }
        self.launch(flight, out);
    }

    pub(super) fn granting(
        &mut self,
        mut draft: Draft,
        waiter: Waiter<C>,
        env: &mut Env<'_>,
    ) -> Flight<C> {
        let before = self.record.tenure.as_ref().map(|tenure| (tenure.owner.clone(), self.token));
        if self.record.state == State::Cooling && self.opened(env.now) {
            self.write_cooled(&mut draft);
        }
        let Draft { mut record, mut changes } = draft;
        if waiter.acquire.place {
            keep_for(&mut record, &waiter.acquire.owner);
            let mut flight = Flight::new(record, self.revision, changes);
            (flight.grantee, flight.ends) = (Some(waiter), true);
            return flight;
        }
        install(&mut record, &waiter.acquire, env);
        changes.push(Change {
            kind: ChangeKind::Granted,
            seq: record.seq,
            owner: Some(waiter.acquire.owner.clone()),
            token: Token::OF_THIS_WRITE,
            previous: before.or_else(|| self.last_owner()),
            reason: None,
            actor: None,
            session: waiter.acquire.bond.map(|bond| bond.session),
        });
        if env.terms.breaks(Mutant::TokenReused)
            && let Some(tenure) = &mut record.tenure
        {
            tenure.token = self.token;
        }
        let mut flight = Flight::new(record, self.revision, changes);
        flight.grantee = Some(waiter);
        flight
    }

    /// A write with a grant was committed. Only at this moment does a promise begin.
    pub(super) fn granted(&mut self, waiter: Waiter<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        if waiter.acquire.place {
            // An offer promises nothing.
            let view = Box::new(self.view(env.now));
            out.push(Effect::Reply(waiter.caller, Answer::Done(view)));
            return;
        }
        self.floor = Moment::ZERO;
        self.promised = self.first_promise(env.now);
        self.graced = false;
        if !env.terms.may_promise(env.now) || self.home != Home::Here {
            // The grant is durable, but this node may not announce it.
            let marked = waiter.acquire.mark.is_some();
            out.push(Effect::Reply(waiter.caller, Answer::Lapsed));
            return self.granted_unheard(marked, env, out);
        }
        let ask = !env.terms.breaks(Mutant::GrantToACallerThatLeft);
        if ask && waiter.caller.is_gone() && waiter.acquire.mark.is_none() {
            // No caller knows the lease id, and none will ask for it again.
            return self.end_unheard(env, out);
        }
        let own = self.record.bond().is_none();
        let valid = if own { env.terms.valid_for(waiter.received, env.now, self.ttl()) } else { 0 };
        let grant = self.grant_view(env, valid);
        if waiter.acquire.mark.is_some() {
            self.recall_repeats();
        }
        out.push(Effect::Reply(waiter.caller, Answer::Granted(Box::new(grant))));
    }

    /// S of a tenure that begins; [`Moment::ZERO`] when a session keeps it.
    pub(super) fn first_promise(&self, now: Moment) -> Moment {
        if self.record.bond().is_some() { Moment::ZERO } else { now + self.ttl() }
    }

    pub(super) fn ttl(&self) -> Duration {
        Duration::from_millis(self.record.tenure.as_ref().map_or(0, |tenure| tenure.ttl_ms))
    }

    /// Grants an open key to the first caller in the queue that may have it.
    pub(super) fn serve_waiters(&mut self, env: &mut Env<'_>, out: &mut Effects<C>) {
        if self.waiters_len() == 0 {
            return;
        }
        if self.is_spent_session(env) {
            // They asked before the session's key was spent. They are refused now.
            let late: Vec<_> = self.waiters().drain().map(Call::from).collect();
            return self.busy().deferred.extend(late);
        }
        if self.retrying(env.now) {
            return;
        }
        if !self.may_grant(env) {
            self.busy().retry_at = env.now + RETRY;
            return;
        }
        let accepts = accepting(env.terms);
        let next = match self.record.state {
            State::Held | State::Fencing => return,
            State::Cooling if env.now < self.opens_at => {
                let record = self.record.clone();
                self.waiters().next(accepts, |acquire| takes_back(&record, acquire))
            }
            State::Offered if env.now < self.opens_at => {
                let to = self.record.offer.as_ref().map(|offer| offer.to.clone());
                self.waiters().next(accepts, |acquire| Some(&acquire.owner) == to.as_ref())
            }
            State::Free | State::Offered | State::Cooling => self.waiters().next(accepts, |_| true),
        };
        if let Some(waiter) = next {
            self.grant(waiter, None, env, out);
        }
    }

    /// Refuses every caller in the queue whose time to wait is over.
    pub(super) fn refuse_overdue(&mut self, env: &mut Env<'_>, out: &mut Effects<C>) {
        if self.waiters_len() == 0 {
            return;
        }
        let trouble = self.busy().trouble.clone();
        for waiter in self.waiters().take_overdue(env.now) {
            match &trouble {
                Some(error) => {
                    out.push(Effect::Reply(waiter.caller, Answer::Store(error.clone())));
                }
                None => self.refuse(waiter, self.closed(), env, out),
            }
        }
    }

    /// [`Mutant::ReplyBeforeDurable`]: the answer leaves with the write.
    fn reply_early(&mut self, mut flight: Flight<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        let Some(waiter) = flight.grantee.take() else { return };
        let token = Token::of(env.terms.epoch, Revision(self.revision.0 + 1));
        let mut view = self.view(env.now);
        view.token = token;
        view.owner = Some(waiter.acquire.owner.clone());
        let lease_id = env.terms.secret.lease_id(env.key, waiter.acquire.grant_nonce);
        let ttl = Duration::from_millis(waiter.acquire.ttl_ms);
        let grant =
            Grant { view, lease_id, valid_for_ms: valid_for(waiter.received, env.now, ttl) };
        self.promised = env.now + ttl;
        out.push(Effect::Reply(waiter.caller, Answer::Granted(Box::new(grant))));
        self.launch(flight, out);
    }
}

/// Gives the function that takes a caller's claim before a grant is written for it.
pub(super) fn accepting<C: Caller>(terms: &NodeContext) -> fn(&C) -> bool {
    if terms.breaks(Mutant::GrantToACallerThatLeft) {
        |_| true
    } else if terms.breaks(Mutant::ClaimIgnored) {
        |caller| caller.claim() || !caller.is_gone()
    } else {
        C::claim
    }
}

/// Whether the last owner reclaims its key while no other caller may have it.
fn takes_back(record: &Record, acquire: &Acquire) -> bool {
    let ended = record.previous.as_ref();
    acquire.reclaim
        && !acquire.place
        && ended.is_some_and(|ended| ended.tenure.owner == acquire.owner)
}

/// Whether this request was granted before; `Some(None)` when that grant still stands.
pub(super) fn repeated(record: &Record, acquire: &Acquire) -> Option<Option<Refusal>> {
    let known = match acquire.mark {
        None => None,
        Some((id, body)) => match record.request_marks.iter().find(|mark| mark.id == id) {
            Some(mark) if mark.body != body => return Some(Some(Refusal::RequestReused)),
            known => known,
        },
    };
    let nonce = known.map_or(acquire.grant_nonce, |mark| mark.grant_nonce);
    if record.tenure.as_ref().is_some_and(|tenure| tenure.grant_nonce == nonce) {
        return Some(None);
    }
    let previous = record.previous.as_ref().filter(|p| p.tenure.grant_nonce == nonce);
    let spent = known.is_some() || previous.is_some();
    spent.then_some(Some(Refusal::RequestSpent(previous.map(|previous| previous.reason))))
}

/// Whether the write offers the key to a caller at another node.
fn keeps_a_place<C>(flight: &Flight<C>) -> bool {
    flight.grantee.as_ref().is_some_and(|waiter| waiter.acquire.place)
}

/// Offers the key for a short time to an owner that acquires it at another node.
fn keep_for(record: &mut Record, to: &Owner) {
    record.state = State::Offered;
    record.offer = Some(Box::new(Offer { to: to.clone(), span_ms: TURN_MS }));
    record.revocation = None;
    record.handover = None;
    record.floor_ms = 0;
    record.cool();
}

/// Makes the caller of `acquire` the record's owner.
fn install(record: &mut Record, acquire: &Acquire, env: &Env<'_>) {
    record.state = State::Held;
    record.seq += 1;
    record.offer = None;
    record.revocation = None;
    record.handover = None;
    record.floor_ms = 0;
    record.cool();
    record.tenure = Some(Tenure {
        grant_nonce: acquire.grant_nonce,
        owner: acquire.owner.clone(),
        token: Token::OF_THIS_WRITE,
        ttl_ms: acquire.ttl_ms,
        acquired_at_ms: env.wall_ms,
        bond: acquire.bond.map(Box::new),
    });
    record.spec.clone_from(&acquire.spec);
    if let Some(value) = &acquire.value {
        record.value = Some(value.clone());
    }
    if let Some((id, body)) = acquire.mark {
        let mut marks = std::mem::take(&mut record.request_marks).into_vec();
        if marks.len() == MAX_REQUEST_MARKS {
            marks.remove(0);
        }
        marks.push(RequestMark { id, body, grant_nonce: acquire.grant_nonce });
        record.request_marks = marks.into();
    }
}
