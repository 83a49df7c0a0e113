//! Granting a key: the write, and the promise that begins once it is durable (R1).

use std::time::Duration;

use super::{
    context::Env,
    draft::{Draft, End},
    flight::Flight,
    lease::{Home, Lease},
    waiters::Waiter,
};
use crate::lease::{
    message::{Acquire, Answer, Caller, Effect, Effects, Grant},
    primitives::{Moment, Owner, Revision, Token},
    records::{
        Change, ChangeKind, KeyState, MAX_REQUEST_MARKS, Offer, Record, RequestMark, Tenure,
    },
    rules::{TURN_MS, valid_for},
};

impl<C: Caller> Lease<C> {
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
            None => Draft { record: self.successor(env), changes: Vec::with_capacity(1) },
        };
        let mut flight = if ends && !draft.is_open(env) {
            waiter.caller.unclaim();
            Flight::new(draft.record, self.revision, draft.changes).for_call(waiter.into())
        } else {
            self.granting(draft, waiter, env)
        };
        (flight.ends, flight.due) = (flight.ends || ends, due);
        if !env.context.rules.a_grant_is_answered_only_once_durable() && !keeps_a_place(&flight) {
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
        if self.record.state == KeyState::Cooling && self.opened(env.now) {
            self.write_cooled(&mut draft);
        }
        let Draft { mut record, mut changes } = draft;
        if waiter.acquire.place {
            keep_for(&mut record, &waiter.acquire.owner);
            let mut flight = Flight::new(record, self.revision, changes);
            (flight.grantee, flight.ends) = (Some(waiter), true);
            return flight;
        }
        let token = env.context.rules.a_grant_takes_the_token(self.token);
        install(&mut record, &waiter.acquire, token, env);
        changes.push(Change {
            kind: ChangeKind::Granted,
            seq: record.seq,
            owner: Some(waiter.acquire.owner.clone()),
            token: Token::OF_THIS_WRITE,
            previous: before.or_else(|| self.last_owner()),
            reason: None,
            actor: waiter.acquire.owner.actor(),
            session: waiter.acquire.session_ref.map(|session_ref| session_ref.session),
        });
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
        let marked = waiter.acquire.mark.is_some();
        self.unheard = marked && waiter.caller.is_gone();
        if !env.context.may_promise(env.now) || self.home != Home::Here {
            // The grant is durable, but this node may not announce it.
            let answer = if marked { Answer::Lapsed } else { Answer::GivenBack };
            out.push(Effect::Reply(waiter.caller, answer));
            return self.granted_unheard(marked, env, out);
        }
        if env.context.rules.a_grant_is_released_unheard(waiter.caller.is_gone(), marked) {
            return self.end_unheard(env, out);
        }
        let own = self.record.session_ref().is_none();
        let told = || env.context.rules.a_holder_is_told(waiter.received, env.now, self.ttl());
        let valid_for_ms = if own { told() } else { 0 };
        let grant = self.grant_view(env, valid_for_ms, false);
        if marked {
            self.recall_repeats();
        }
        out.push(Effect::Reply(waiter.caller, Answer::Granted(Box::new(grant))));
    }

    pub(super) fn grant_view(&self, env: &Env<'_>, valid_for_ms: u64, again: bool) -> Grant {
        let lease_id = self.lease_id.expect("a granted lease has a tenure");
        Grant { view: self.view(env.now), lease_id, valid_for_ms, again }
    }

    /// S of a tenure that begins; [`Moment::ZERO`] when a session keeps it.
    pub(super) fn first_promise(&self, now: Moment) -> Moment {
        if self.record.session_ref().is_some() { Moment::ZERO } else { now + self.ttl() }
    }

    /// A grant is durable whose caller was told that its outcome is unknown. A caller with a request id (`marked`) asks
    /// again. Another caller cannot.
    pub(super) fn granted_unheard(
        &mut self,
        marked: bool,
        env: &mut Env<'_>,
        out: &mut Effects<C>,
    ) {
        self.floor = Moment::ZERO;
        self.promised = self.first_promise(env.now);
        self.unheard = true;
        if marked {
            self.recall_repeats();
        } else {
            self.end_unheard(env, out);
        }
    }

    /// Releases a grant that no caller knows of. The shell repeats that until it is done: the store may refuse the write,
    /// and this actor may die.
    pub(super) fn end_unheard(&mut self, env: &mut Env<'_>, out: &mut Effects<C>) {
        out.extend(self.lease_id.map(Effect::GiveBack));
        self.end(End::unheard(), None, env, out);
    }

    /// Sends the answer with the write: what a broken rule does.
    fn reply_early(&mut self, mut flight: Flight<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        let Some(waiter) = flight.grantee.take() else { return };
        let token = Token::of(env.context.epoch, Revision(self.revision.0 + 1));
        let mut view = self.view(env.now);
        view.token = token;
        view.owner = Some(waiter.acquire.owner.clone());
        let lease_id = env.context.secret.lease_id(env.key, waiter.acquire.grant_nonce);
        let lease_id = lease_id.by(waiter.acquire.owner.principal_digest());
        let ttl = Duration::from_millis(waiter.acquire.ttl_ms);
        let valid_for_ms = valid_for(waiter.received, env.now, ttl);
        let grant = Grant { view, lease_id, valid_for_ms, again: false };
        self.promised = env.now + ttl;
        out.push(Effect::Reply(waiter.caller, Answer::Granted(Box::new(grant))));
        self.launch(flight, out);
    }
}

/// Whether the write offers the key to a caller at another node.
fn keeps_a_place<C>(flight: &Flight<C>) -> bool {
    flight.grantee.as_ref().is_some_and(|waiter| waiter.acquire.place)
}

/// Offers the key for a short time to an owner that acquires it at another node.
fn keep_for(record: &mut Record, to: &Owner) {
    record.state = KeyState::Offered;
    record.offer = Some(Box::new(Offer { to: to.clone(), span_ms: TURN_MS }));
    record.revocation = None;
    record.handover = None;
    record.floor_ms = 0;
    record.cool();
}

/// Makes the caller of `acquire` the record's owner.
fn install(record: &mut Record, acquire: &Acquire, token: Token, env: &Env<'_>) {
    record.state = KeyState::Held;
    record.seq += 1;
    record.offer = None;
    record.revocation = None;
    record.handover = None;
    record.floor_ms = 0;
    // Only the last owner is granted a key that is shut to others. It stays shut to them.
    record.shut_for(acquire.min_hold_ms.max(record.cooling_ms()));
    record.tenure = Some(Tenure {
        grant_nonce: acquire.grant_nonce,
        owner: acquire.owner.clone(),
        token,
        ttl_ms: acquire.ttl_ms,
        acquired_at_ms: env.wall_ms,
        session_ref: acquire.session_ref.map(Box::new),
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
