//! The outcomes of a write: durable, overtaken, refused, or unknown.

use std::time::Duration;

use super::{
    context::Env,
    flight::Flight,
    lease::{Home, Lease, RETRY},
    repeat::repeated,
    waiters::Waiter,
};
use crate::lease::{
    message::{
        Alarm, Answer, Call, Caller, Effect, Effects, Loaded, ReadFor, Request, Settled,
        StoreError, WriteEffect,
    },
    primitives::{Moment, Revision},
    records::{KeyState, Record},
    rules::LATE,
};

impl<C: Caller> Lease<C> {
    pub(super) fn settle(&mut self, settled: Settled, env: &mut Env<'_>, out: &mut Effects<C>) {
        let Some(mut flight) = self.busy().flight.take() else { return };
        match settled {
            Settled::Committed(revision) => self.committed(flight, revision, env, out),
            Settled::Conflict(loaded) => self.conflict(flight, loaded, env, out),
            // An earlier copy of the write may still land, so it may have been written after all.
            Settled::Refused(error) if flight.outcome_unknown => {
                out.push(Effect::Alarm(Alarm::WriteNotAccepted(error)));
                self.look_again(flight, env);
            }
            Settled::Refused(error) => self.refused(flight, &error, env, out),
            Settled::Unknown(error) => {
                self.answer_unknown(&mut flight, &error, env, out);
                flight.outcome_unknown = true;
                out.push(Effect::Read(ReadFor::Outcome));
                self.look_again(flight, env);
            }
        }
    }

    /// Reads the store when the retry is due, unless an answer comes earlier.
    fn look_again(&mut self, mut flight: Flight<C>, env: &Env<'_>) {
        flight.reading = true;
        self.busy().retry_at = env.now + RETRY;
        self.busy().flight = Some(flight);
    }

    /// §1: settles a write of unknown outcome by its nonce, or by sending it once more under the same expected
    /// revision. Whichever copy lands, it is one write.
    pub(super) fn loaded(
        &mut self,
        loaded: Result<Loaded, StoreError>,
        env: &mut Env<'_>,
        out: &mut Effects<C>,
    ) {
        // When two reads are made for one such write, the slower one finds it settled or in flight again.
        let Some(flight) = self.busy().flight.take_if(|flight| flight.reading) else { return };
        let Ok(loaded) = loaded else { return self.look_again(flight, env) };
        if matches!(&loaded, Loaded::Record(revision, _) if *revision < flight.write.expected) {
            // A stale read proves nothing.
            return self.look_again(flight, env);
        }
        self.busy().retry_at = Moment::ZERO;
        let Some(expected) = env.context.rules.a_write_is_sent_again_over(&flight.write, &loaded)
        else {
            return self.conflict(flight, loaded, env, out);
        };
        let write = WriteEffect { expected, ..flight.write };
        self.launch(Flight { write, reading: false, ..flight }, out);
    }

    /// A write was committed: its record is now the settled one.
    pub(super) fn committed(
        &mut self,
        flight: Flight<C>,
        revision: Revision,
        env: &mut Env<'_>,
        out: &mut Effects<C>,
    ) {
        let before = std::mem::replace(&mut self.record, flight.write.record);
        self.revision = revision;
        self.settled_on(env);
        self.reckon(env, out);
        if self.home == Home::Here && self.floor == Moment::NEVER {
            // The earlier home node was alive, so what was overwritten was no tenure. It may be a lock-delay that a
            // revival cuts.
            self.floor = Moment::ZERO;
        }
        if let Some(due) = flight.due {
            let late = env.now.since(due).as_nanos();
            let late = u64::try_from(late).unwrap_or(u64::MAX);
            out.push(Effect::Alarm(Alarm::EndedLate(late)));
        }
        self.note_tenure(&before);
        // Only the write that makes the offer, begins the lock-delay or grants the key starts the time for which the
        // key is shut to others; a pin does not.
        let ended = flight.ends && self.record.tenure.is_none();
        if ended || self.record.begins_minimum_hold(&before) {
            self.opens_at = env.now + Duration::from_millis(self.record.shut_ms());
        }
        if ended {
            self.promised = Moment::ZERO;
            self.floor = Moment::ZERO;
        }
        if flight.outcome_unknown && self.record.state == KeyState::Held {
            // The purpose of this write is not known any more. It may have been an unpin or a revival.
            self.floor = self.floor.max(env.now + self.ttl());
        }
        if self.record.session_ref().is_some() && self.record.revocation.is_some() {
            // What the lease's session promised, which only the revocation knows.
            let floor = Duration::from_millis(self.record.floor_ms);
            self.floor = self.floor.max(self.record.written + floor);
        }
        self.busy().store_error = None;
        if let Some(call) = flight.cause {
            self.answer_committed(call, env, out);
        }
        match (flight.grantee, flight.unheard) {
            (Some(waiter), _) => self.granted(waiter, env, out),
            (None, Some(marked)) => self.granted_unheard(marked, env, out),
            (None, None) => self.serve_waiters(env, out),
        }
    }

    /// Notes what a tenure that has just begun leaves behind if no answer names it.
    fn note_tenure(&mut self, before: &Record) {
        let nonce = |record: &Record| record.tenure.as_ref().map(|tenure| tenure.grant_nonce);
        if self.record.state == KeyState::Free {
            (self.unheard, self.shut_before) = (false, Moment::ZERO);
        }
        if self.record.tenure.is_none() || nonce(&self.record) == nonce(before) {
            return;
        }
        self.unheard = false;
        self.shut_before = if before.cooling_ms() > 0 { self.opens_at } else { Moment::ZERO };
    }

    fn answer_committed(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        let answer = match call.request {
            Request::Release(_) | Request::GiveBack(_) => Answer::Released(true),
            Request::Heartbeat(_) => return self.heartbeat_written(call, env, out),
            // The lease was adopted for this call: this node now answers with the grant again.
            Request::Acquire(_) => return self.busy().deferred.push_front(call),
            Request::Revoke(_) => {
                let held = self.record.revocation.is_some();
                if held && self.record.session_ref().is_none() {
                    out.push(Effect::TellRevoked(self.token));
                }
                Answer::Revoked(if held { self.promise_left_ms(env.now) } else { 0 })
            }
            Request::Forget(..) => Answer::Forgotten(self.record.seq),
            Request::WriteTombstone => Answer::Viewed(Box::new(self.view(env.now))),
            Request::Unpin(..) => {
                self.unpinned(env.now);
                Answer::Done(Box::new(self.view(env.now)))
            }
            _ => Answer::Done(Box::new(self.view(env.now))),
        };
        out.push(Effect::Reply(call.caller, answer));
    }

    fn conflict(
        &mut self,
        flight: Flight<C>,
        there: Loaded,
        env: &mut Env<'_>,
        out: &mut Effects<C>,
    ) {
        if let Loaded::Record(revision, record) = &there
            && record.nonce == flight.write.record.nonce
        {
            return self.committed(flight, *revision, env, out);
        }
        out.push(Effect::Alarm(Alarm::Conflict));
        self.rebase(there, env, out);
        if let Some(waiter) = flight.grantee {
            waiter.caller.unclaim();
            if waiter.acquire.wait_until.is_some() {
                self.waiters().put_back(waiter);
            } else {
                self.busy().deferred.push_front(waiter.into());
            }
        }
        if let Some(call) = flight.cause {
            self.busy().deferred.push_front(call);
        }
        if let Some(why) = self.quarantine.as_ref().map(|quarantine| quarantine.why.clone()) {
            for waiter in self.waiters().drain() {
                out.push(Effect::Reply(waiter.caller, Answer::Quarantined(why.clone())));
            }
            return;
        }
        self.recall_repeats();
        self.send_home(env, out);
        if self.flight().is_none() {
            self.serve_waiters(env, out);
        }
    }

    fn refused(
        &mut self,
        flight: Flight<C>,
        error: &StoreError,
        env: &mut Env<'_>,
        out: &mut Effects<C>,
    ) {
        let unattended = flight.cause.is_none();
        if let Some(waiter) = flight.grantee {
            waiter.caller.unclaim();
            let passing = !error.is_too_many_keys();
            if passing && waiter.acquire.wait_until.is_some_and(|until| until > env.now) {
                self.waiters().put_back(waiter);
            } else {
                out.push(Effect::Reply(waiter.caller, Answer::Store(error.clone())));
            }
        } else if unattended {
            out.push(Effect::Alarm(Alarm::WriteNotAccepted(error.clone())));
        }
        if let Some(call) = flight.cause
            && let Err(call) = self.park_again(call, env.now)
        {
            out.push(Effect::Reply(call.caller, Answer::Store(error.clone())));
        }
        let busy = self.busy();
        busy.retry_at = env.now + RETRY;
        busy.store_error = Some(error.clone());
    }

    /// Puts a caller that has time to wait back at the head of the queue when the write that was to precede its grant
    /// did not happen. A caller that repeats a granted request does not go back: there it would be granted the key
    /// again.
    fn park_again(&mut self, call: Call<C>, now: Moment) -> Result<(), Call<C>> {
        let Call { caller, received, request, home_unreachable } = call;
        match request {
            Request::Acquire(acquire)
                if acquire.wait_until.is_some_and(|until| until > now)
                    && repeated(&self.record, &acquire).is_none() =>
            {
                self.waiters().put_back(Waiter { caller, received, acquire, home_unreachable });
                Ok(())
            }
            request => Err(Call { caller, received, request, home_unreachable }),
        }
    }

    /// §1: bounds the time for which callers wait for a write. For them, the outcome of a late write is unknown. The
    /// write stays the one in flight, and nothing else is written until its outcome is known.
    pub(super) fn leave_late(&mut self, env: &Env<'_>, out: &mut Effects<C>) {
        let Some(busy) = &mut self.busy else { return };
        let late = |flight: &mut Flight<C>| !flight.late && flight.late_at() <= env.now;
        let Some(mut flight) = busy.flight.take_if(late) else { return };
        flight.late = true;
        if !env.context.rules.callers_are_told_of_a_late_write() {
            busy.flight = Some(flight);
            return;
        }
        let deferred = std::mem::take(&mut busy.deferred);
        let why = format!("the outcome of a write is unknown after {} s", LATE.as_secs());
        let error = StoreError::Unavailable(why);
        self.answer_unknown(&mut flight, &error, env, out);
        for call in deferred {
            out.push(Effect::Reply(call.caller, Answer::Store(error.clone())));
        }
        flight.outcome_unknown = true;
        self.busy().flight = Some(flight);
    }

    /// Tells the callers of a write at once that its outcome is unknown. The key stays shut until the write is settled.
    /// A registration that stays is granted this key or, when the write did not happen, may be granted another.
    fn answer_unknown(
        &mut self,
        flight: &mut Flight<C>,
        error: &StoreError,
        env: &Env<'_>,
        out: &mut Effects<C>,
    ) {
        let now = env.now;
        let rules = env.context.rules;
        let leaves = |waiter: &mut Waiter<C>| {
            !rules.an_unknown_grant_keeps_the_callers_places(waiter.caller.is_registration())
        };
        let grantee = flight.grantee.take_if(leaves);
        if let Some(waiter) = &grantee
            && !waiter.acquire.place
        {
            flight.unheard = Some(waiter.acquire.mark.is_some());
        }
        let grantee = grantee.map(|waiter| waiter.caller);
        let cause = flight.cause.take().and_then(|call| self.park_again(call, now).err());
        let cause = cause.map(|call| call.caller);
        for caller in grantee.into_iter().chain(cause) {
            out.push(Effect::Reply(caller, Answer::Store(error.clone())));
        }
    }
}
