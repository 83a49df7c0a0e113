//! Wakes a key's actor when something is due.

use actix::{ActorContext, AsyncContext};

use super::{actor::LeaseActor, context::LeaseContext};
use crate::{
    actor::mail::{
        Mail,
        gate::{self, Permit},
    },
    lease::{Input, Moment, SessionOver},
};

impl LeaseActor {
    /// Keeps one lazy timer. It is only moved when it would fire too late. When it fires early, it is set again.
    pub(super) fn rearm(&mut self, now: Moment, ctx: &mut LeaseContext) {
        let Some(lease) = &self.lease else { return };
        let wake = if lease.is_idle() {
            now + self.coordinator.limits.passivate_after
        } else {
            lease.next_wake()
        };
        if wake == Moment::NEVER {
            return;
        }
        if self.timer.is_none_or(|armed| wake < armed) {
            ctx.set_timer(wake.since(now));
            self.timer = Some(wake);
        }
    }

    pub(super) fn fired(&mut self, ctx: &mut LeaseContext) {
        let Some(armed) = self.timer.take() else { return };
        let now = self.coordinator.now();
        let Some(lease) = &self.lease else { return };
        // A write of an earlier actor may still land. This actor is the one that the feed tells of it.
        let is_unsettled = || self.coordinator.registry.is_unsettled(self.key().as_str());
        if lease.is_idle() && now >= armed && !is_unsettled() {
            self.retire(ctx);
        } else if now >= lease.next_wake() {
            self.tick(ctx);
        } else {
            self.rearm(now, ctx);
        }
    }

    /// Leaves memory. The actor leaves the registry first. Mail that is already in the mailbox is dropped with its
    /// reply channel; its sender asks again and finds another actor.
    fn retire(&mut self, ctx: &mut LeaseContext) {
        let (key, incarnation) = (self.exit_notice.key(), self.exit_notice.incarnation());
        // While the registry still has this actor: later, the entry may be that of the key's next actor.
        self.coordinator.registry.cells.remove(key.as_str());
        if self.coordinator.registry.retire(key, incarnation) {
            self.exit_notice.silence();
        }
        self.lease = None;
        ctx.stop();
    }

    /// Something is due. Ends that are due together take turns. An actor with a write in flight ends nothing, and
    /// serves its callers at once.
    fn tick(&mut self, ctx: &mut LeaseContext) {
        if self.lease.as_ref().is_some_and(|lease| lease.is_writing()) {
            self.step(Input::Tick, ctx);
            return self.leave_gate();
        }
        match gate::enter() {
            Some(permit) => self.take_turn(permit, ctx),
            None => {
                let me = ctx.address();
                gate::queue_up(move |permit| me.do_send(Mail::Turn(permit)));
            }
        }
    }

    /// The tombstone of a session is durable. The session may have kept ten thousand leases: their ends take turns with
    /// all others.
    pub(super) fn session_over(&mut self, over: SessionOver, ctx: &mut LeaseContext) {
        match gate::enter() {
            Some(permit) => self.end_kept(permit, over, ctx),
            None => {
                let me = ctx.address();
                gate::queue_up(move |permit| me.do_send(Mail::OverTurn(permit, over)));
            }
        }
    }

    pub(super) fn end_kept(&mut self, permit: Permit, over: SessionOver, ctx: &mut LeaseContext) {
        self.permit = Some(permit);
        self.step(Input::SessionOver(over), ctx);
        self.leave_gate();
    }

    pub(super) fn take_turn(&mut self, permit: Permit, ctx: &mut LeaseContext) {
        let reading = self.coordinator.reading();
        if self.lease.as_ref().is_some_and(|lease| reading.0 >= lease.next_wake()) {
            self.permit = Some(permit);
            self.step_at(reading, Input::Tick, ctx);
            self.leave_gate();
        }
    }

    /// An actor that waits long for an outcome admits the next one.
    pub(super) fn leave_gate(&mut self) {
        if !self.lease.as_ref().is_some_and(|lease| lease.is_writing_in_time()) {
            self.permit = None;
        }
    }
}
