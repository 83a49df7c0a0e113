//! One step of the machine: inputs in, effects out.
//!
//! One compare-and-set is in flight at a time; a call that needs another one waits behind it.

use super::{
    context::Env,
    lease::{Home, Lease, Quarantine, RETRY},
    waiters::Waiter,
};
use crate::lease::{
    message::{Answer, Call, Caller, Effect, Effects, Input, ReadFor, Request, StoreError},
    primitives::Moment,
};

impl<C: Caller> Lease<C> {
    /// Handles one input. The effects must be performed in order.
    pub fn step(&mut self, input: Input<C>, env: &mut Env<'_>) -> Effects<C> {
        let mut out = Vec::new();
        self.close_cell();
        self.reckon(env, &mut out);
        match input {
            Input::Call(call) => self.admit(call, env, &mut out),
            Input::Settled(settled) => self.settle(settled, env, &mut out),
            Input::Loaded(ReadFor::Look, loaded) => self.looked(loaded, env, &mut out),
            Input::Loaded(ReadFor::Outcome, loaded) => self.loaded(loaded, env, &mut out),
            Input::Tick => self.tick(env, &mut out),
            Input::Stale(change) => self.stale(change, env, &mut out),
            Input::Fenced(report) => self.reported(report, env, &mut out),
            Input::SessionOver(over) => self.session_over(over, env, &mut out),
        }
        self.catch_up(env, &mut out);
        self.run_fences(env, &mut out);
        self.open_cell(env);
        out
    }

    /// When the lease needs an [`Input::Tick`]; [`Moment::NEVER`] when it needs none.
    pub fn next_wake(&self) -> Moment {
        let Some(busy) = &self.busy else { return self.own_deadline() };
        let own = match &busy.flight {
            Some(flight) if flight.reading => busy.retry_at,
            Some(flight) if flight.late => Moment::NEVER,
            Some(flight) => flight.late_at(),
            None if busy.retry_at != Moment::ZERO => busy.retry_at,
            None => self.own_deadline(),
        };
        own.min(busy.waiters.earliest())
    }

    fn admit(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        if matches!(call.request, Request::View) {
            let view = self.view(env.now);
            out.push(Effect::Reply(call.caller, Answer::Viewed(Box::new(view))));
            return;
        }
        if self.waiters_len() > 0 && self.flight().is_none() {
            // The queue is served first, even if the timer has not fired yet.
            self.tick(env, out);
        }
        let Some(flight) = self.flight() else { return self.handle(call, env, out) };
        let (ends, at_home) = (flight.ends, self.home == Home::Here);
        let absorbs = env.context.rules.a_heartbeat_is_absorbed_beside_a_write(ends, at_home);
        if absorbs && self.is_plain_heartbeat(&call.request, env) {
            self.handle(call, env, out);
        } else if flight.reading || flight.late {
            let error = StoreError::Unavailable("an earlier write is not settled yet".into());
            out.push(Effect::Reply(call.caller, Answer::Store(error)));
        } else if self.busy().deferred.len() >= env.context.inflight_per_key {
            out.push(Effect::Reply(call.caller, Answer::Busy));
        } else {
            self.busy().deferred.push_back(call);
        }
    }

    pub(super) fn handle(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        if let Some(Quarantine { why, until, .. }) = self.quarantine.as_deref() {
            if env.now >= *until {
                return self.look_for(call, env, out);
            }
            out.push(Effect::Reply(call.caller, Answer::Quarantined(why.clone())));
            return;
        }
        if self.belongs_home(&call, env) {
            out.push(Effect::Reply(call.caller, Answer::Elsewhere(self.record.node)));
            return;
        }
        if self.needs_look(&call, env) {
            return self.look_for(call, env, out);
        }
        let Some(call) = self.refuse_kept(call, env, out) else { return };
        match call.request {
            Request::Acquire(acquire) => {
                let Call { caller, received, home_unreachable, .. } = call;
                let waiter = Waiter { caller, received, acquire, home_unreachable };
                if self.queues_elsewhere(&waiter, env) {
                    let home = Answer::Elsewhere(self.record.node);
                    out.push(Effect::Reply(waiter.caller, home));
                    return;
                }
                self.acquire(waiter, env, out);
            }
            Request::Heartbeat(_) => self.heartbeat(call, env, out),
            Request::Release(_) => self.release(call, env, out),
            Request::GiveBack(_) => self.give_back(call, env, out),
            Request::Transfer(_) => self.transfer(call, env, out),
            Request::Revoke(_) => self.revoke(call, env, out),
            Request::Pin(..) | Request::Unpin(..) => self.pin(call, env, out),
            Request::FenceSkip(..) => self.skip_fences(call, env, out),
            Request::FenceRetry(_) => self.retry_fences(call, env, out),
            Request::AskHandover(_) => self.ask_handover(call, env, out),
            Request::Forget(..) => self.forget(call, env, out),
            Request::WriteTombstone => self.write_missing_tombstone(call, env, out),
            Request::View => {}
        }
    }

    /// Handles the calls that waited for the write in flight, until another write starts.
    fn catch_up(&mut self, env: &mut Env<'_>, out: &mut Effects<C>) {
        while let Some(busy) = &mut self.busy {
            if busy.flight.is_some() || busy.looking {
                return;
            }
            if busy.stale > self.record.seq && busy.retry_at <= env.now {
                self.look(env, out);
            } else if let Some(report) = busy.reports.pop_front() {
                self.confirm_fence(report, env, out);
            } else if let Some(call) = busy.deferred.pop_front() {
                self.handle(call, env, out);
            } else {
                // No call needs the result of the latest look any more.
                busy.looked = Moment::ZERO;
                let session_ref = self.record.session_ref().map(|session_ref| session_ref.session);
                busy.over.take_if(|over| Some(over.session) != session_ref);
                if self.home == Home::Living {
                    busy.retried.clear();
                }
                let record = &self.record;
                busy.retried.retain(|(token, plugin)| record.has_failed(*token, plugin));
                if busy.waiters.len() == 0
                    && busy.retry_at == Moment::ZERO
                    && busy.running.is_empty()
                    && busy.retried.is_empty()
                    && busy.over.is_none()
                {
                    self.busy = None;
                }
                return;
            }
        }
    }

    fn tick(&mut self, env: &mut Env<'_>, out: &mut Effects<C>) {
        self.refuse_misplaced(env, out);
        self.refuse_overdue(env, out);
        self.leave_late(env, out);
        if self.sits_out(env) {
            return;
        }
        if let Some(busy) = &mut self.busy
            && busy.retry_at != Moment::ZERO
            && busy.retry_at <= env.now
        {
            busy.retry_at = Moment::ZERO;
            if busy.flight.as_ref().is_some_and(|flight| flight.reading) {
                busy.retry_at = env.now + RETRY;
                out.push(Effect::Read(ReadFor::Outcome));
            }
        }
        if self.flight().is_none() {
            self.expire(env, out);
        }
        if self.flight().is_none() {
            self.serve_waiters(env, out);
        }
        if self.flight().is_none() && !self.retrying(env.now) {
            self.lapse(env, out);
        }
    }
}
