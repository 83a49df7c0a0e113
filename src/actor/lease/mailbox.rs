//! What a lease actor does with its mail.

use actix::{Actor, Handler};

use super::{actor::LeaseActor, context::LeaseContext};
use crate::{
    actor::mail::{Mail, Reply},
    lease::{Answer, Call, Input, Request, StoreError},
};

impl Actor for LeaseActor {
    type Context = LeaseContext;

    fn started(&mut self, ctx: &mut LeaseContext) {
        self.coordinator.metrics.lease_actors.increment(1.0);
        self.started = true;
        self.load(ctx);
    }
}

impl Handler<Mail> for LeaseActor {
    type Result = ();

    fn handle(&mut self, mail: Mail, ctx: &mut LeaseContext) {
        match mail {
            Mail::Call(call) => self.call(call, ctx),
            Mail::Nudge => self.step(Input::Tick, ctx),
            Mail::Stale(change) => self.step(Input::Stale(change), ctx),
            Mail::Fenced(report) => self.step(Input::Fenced(report), ctx),
            Mail::SessionOver(over) => self.session_over(over, ctx),
            Mail::OverTurn(permit, over) => self.end_kept(permit, over, ctx),
            Mail::Reload => self.reload(ctx),
            Mail::Landed(landed) => self.landed(landed, ctx),
            Mail::Turn(permit) => self.take_turn(permit, ctx),
            Mail::Shuffle(n, reply) => drop(reply.send(self.chance.permutation(n))),
            #[cfg(any(test, feature = "testing"))]
            Mail::Panic => panic!("a panic was injected into the actor of {}", self.key()),
        }
    }
}

impl LeaseActor {
    fn call(&mut self, call: Call<Reply>, ctx: &mut LeaseContext) {
        let Some(lease) = &self.lease else { return refuse(call, ctx) };
        if let Request::Heartbeat(beat) = &call.request
            && let Some(ratio) = lease.margin(beat.lease_id, call.received)
        {
            self.pool.margin(ratio);
        }
        self.step_for(call, ctx);
    }
}

/// The actor is retiring, or the store could not be read. When it is retiring, the dropped channel makes the caller ask
/// again.
fn refuse(call: Call<Reply>, ctx: &LeaseContext) {
    if !ctx.is_stopped() {
        let error = StoreError::Unavailable("the lease could not be read".into());
        call.caller.send(Answer::Store(error));
    }
}
