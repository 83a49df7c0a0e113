//! Claiming a lease, waiting for it, and asking again for one's own.

use std::time::Duration;

use super::{
    Acquire, Answer, Caller, Change, ChangeKind, Effect, Env, Grant, Lease, MAX_REQUEST_MARKS,
    Moment, Mutant, Record, Refusal, RequestMark, Revision, State, Tenure, Token,
    ending::End,
    machine::{Effects, Flight},
    valid_for,
    waiters::Waiter,
};

impl<C: Caller> Lease<C> {
    /// Nobody's promise stands in the way of ending the tenure.
    pub(super) fn run_out(&self, now: Moment) -> bool {
        now >= self.tenure_deadline()
    }

    /// Whether a caller could be granted the key now.
    fn open_to(&self, acquire: &Acquire, now: Moment) -> bool {
        match self.record.state {
            State::Free => true,
            State::Held => self.run_out(now),
            State::Offered => {
                now >= self.offered_until
                    || self.record.offer.as_ref().is_some_and(|offer| offer.to == acquire.owner)
            }
        }
    }

    pub(super) fn acquire(&mut self, waiter: Waiter<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        if waiter.caller.is_gone() {
            return;
        }
        if let Some(refusal) = self.repeated(&waiter.acquire) {
            return match refusal {
                None => self.grant_again(waiter, env, out),
                Some(refusal) => self.refuse(waiter, refusal, env, out),
            };
        }
        let mine = self.record.tenure.as_ref().is_some_and(|t| t.owner == waiter.acquire.owner);
        if mine && waiter.acquire.reclaim && !self.run_out(env.now) {
            if waiter.caller.claim() {
                self.grant(waiter, Some(End::of(ChangeKind::Reclaimed)), env, out);
            }
        } else if mine && !self.run_out(env.now) {
            self.refuse(waiter, Refusal::HeldByYou, env, out);
        } else if self.open_to(&waiter.acquire, env.now) {
            if waiter.caller.claim() {
                let end = (self.record.state == State::Held).then(|| self.due_end());
                self.grant(waiter, end, env, out);
            }
        } else if waiter.deadline() <= env.now {
            self.refuse(waiter, Refusal::Held, env, out);
        } else if self.waiters_len() >= env.terms.waiters_per_key {
            out.push(Effect::Reply(waiter.caller, Answer::Busy));
        } else {
            self.waiters().park(waiter);
        }
    }

    /// Whether this request was granted before: `Some(None)` when that grant still stands.
    fn repeated(&self, acquire: &Acquire) -> Option<Option<Refusal>> {
        let nonce = match acquire.mark {
            None => acquire.grant_nonce,
            Some((id, body)) => match self.record.request_marks.iter().find(|mark| mark.id == id) {
                Some(mark) if mark.body != body => return Some(Some(Refusal::RequestReused)),
                Some(mark) => mark.grant_nonce,
                None => acquire.grant_nonce,
            },
        };
        if self.record.tenure.as_ref().is_some_and(|tenure| tenure.grant_nonce == nonce) {
            return Some(None);
        }
        let previous = self.record.previous.as_ref().filter(|p| p.tenure.grant_nonce == nonce);
        let spent = nonce != acquire.grant_nonce || previous.is_some();
        let how = previous.map(|previous| previous.reason);
        spent.then_some(Some(Refusal::RequestSpent(how)))
    }

    /// The same grant once more, with what is left of it; after a restart, when this home promised
    /// nothing yet, with a promise like a heartbeat's.
    fn grant_again(&mut self, waiter: Waiter<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        if self.promised <= waiter.received {
            if self.record.revocation.is_some() {
                let spent = Refusal::RequestSpent(Some(ChangeKind::Revoked));
                return self.refuse(waiter, spent, env, out);
            }
            self.promised = self.promised.max(env.now + self.ttl());
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

    /// Writes the grant to a caller whose claim was taken, and with it the end of the tenure before.
    pub(super) fn grant(
        &mut self,
        waiter: Waiter<C>,
        end: Option<End>,
        env: &mut Env<'_>,
        out: &mut Effects<C>,
    ) {
        let flight = self.granting(waiter, end, env);
        if env.terms.breaks(Mutant::ReplyBeforeDurable) {
            return self.reply_early(flight, env, out);
        }
        self.launch(flight, out);
    }

    pub(super) fn granting(
        &mut self,
        waiter: Waiter<C>,
        end: Option<End>,
        env: &mut Env<'_>,
    ) -> Flight<C> {
        let nonce = (env.nonces)();
        let mut record = self.successor(nonce, env);
        let mut changes = Vec::with_capacity(2);
        let before = self.record.tenure.as_ref().map(|tenure| (tenure.owner.clone(), self.token));
        let ends = end.is_some();
        let due = end.as_ref().and_then(|end| end.due);
        if let Some(end) = end {
            self.write_end(&mut record, &mut changes, end);
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
        });
        if env.terms.breaks(Mutant::TokenReused)
            && let Some(tenure) = &mut record.tenure
        {
            tenure.token = self.token;
        }
        let mut flight = Flight::new(record, self.revision, changes);
        flight.ends = ends;
        flight.due = due;
        flight.grantee = Some(waiter);
        flight
    }

    /// A write that grants was committed: the one moment at which a promise begins.
    pub(super) fn granted(&mut self, waiter: Waiter<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        self.floor = Moment::ZERO;
        self.promised = env.now + self.ttl();
        let ask = !env.terms.breaks(Mutant::GrantToACallerThatLeft);
        if ask && waiter.caller.is_gone() && waiter.acquire.mark.is_none() {
            // Nobody heard the lease id, and nobody will ask for it again.
            return self.end_unheard(env, out);
        }
        let valid = valid_for(waiter.received, env.now, self.ttl());
        let grant = self.grant_view(env, valid);
        if let Some(mark) = waiter.acquire.mark {
            for repeat in self.take_repeats(mark) {
                self.grant_again(repeat, env, out);
            }
        }
        out.push(Effect::Reply(waiter.caller, Answer::Granted(Box::new(grant))));
    }

    fn take_repeats(&mut self, mark: (u128, u64)) -> Vec<Waiter<C>> {
        if self.waiters_len() == 0 { Vec::new() } else { self.waiters().take_repeats(mark) }
    }

    pub(super) fn ttl(&self) -> Duration {
        Duration::from_millis(self.record.tenure.as_ref().map_or(0, |tenure| tenure.ttl_ms))
    }

    /// Grants an open key to the first caller in the queue that may have it.
    pub(super) fn serve_waiters(&mut self, env: &mut Env<'_>, out: &mut Effects<C>) {
        if self.waiters_len() == 0 || self.retrying(env.now) {
            return;
        }
        let ask = !env.terms.breaks(Mutant::GrantToACallerThatLeft);
        let next = match self.record.state {
            State::Held => return,
            State::Offered if env.now < self.offered_until => {
                let to = self.record.offer.as_ref().map(|offer| offer.to.clone());
                self.waiters().next(ask, |acquire| Some(&acquire.owner) == to.as_ref())
            }
            State::Free | State::Offered => self.waiters().next(ask, |_| true),
        };
        if let Some(waiter) = next {
            self.grant(waiter, None, env, out);
        }
    }

    /// Refuses everybody in the queue whose time to wait is over.
    pub(super) fn refuse_overdue(&mut self, env: &mut Env<'_>, out: &mut Effects<C>) {
        if self.waiters_len() == 0 {
            return;
        }
        for waiter in self.waiters().take_overdue(env.now) {
            self.refuse(waiter, Refusal::Held, env, out);
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

/// Makes the caller of `acquire` the record's owner.
fn install(record: &mut Record, acquire: &Acquire, env: &Env<'_>) {
    record.state = State::Held;
    record.seq += 1;
    record.offer = None;
    record.revocation = None;
    record.floor_ms = 0;
    record.tenure = Some(Tenure {
        grant_nonce: acquire.grant_nonce,
        owner: acquire.owner.clone(),
        token: Token::OF_THIS_WRITE,
        ttl_ms: acquire.ttl_ms,
        acquired_at_ms: env.wall_ms,
    });
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
