//! The steps of a lease, and their effects.

use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, WrapFuture};

use super::{actor::LeaseActor, context::LeaseContext};
#[cfg(any(test, feature = "testing"))]
use crate::{
    actor::environment::{Observed, Promise},
    lease::Answer,
};
use crate::{
    actor::{
        environment::loaded,
        mail::{Landed, Reply},
        runtime::outcomes::Pending,
    },
    lease::{
        Alarm, Effect, Effects, GiveBack, Input, LeaseId, Moment, ReadFor, SessionOver, Settled,
        StoreError, WriteEffect,
    },
    store::{StoreFuture, Write, WriteOutcome},
    telemetry::{CasOutcome, recent::Measure},
};

impl LeaseActor {
    pub(super) fn step(&mut self, input: Input<Reply>, ctx: &mut LeaseContext) {
        self.step_at(self.coordinator.reading(), input, ctx);
    }

    pub(super) fn step_at(
        &mut self,
        reading: (Moment, u64),
        input: Input<Reply>,
        ctx: &mut LeaseContext,
    ) {
        let now = reading.0;
        let Some(lease) = &mut self.lease else { return };
        let lapses = self.coordinator.lapses();
        if lapses != self.lapses {
            self.lapses = lapses;
            lease.extend_by_one_ttl(self.coordinator.node_context().resumed.min(now));
        }
        let key = self.exit_notice.key();
        tracing::trace!(%key, node = %self.coordinator.node_context().node, ?now, ?input, ?lease, "step");
        let known_under = self.epoch;
        let effects = self.coordinator.with_env(key, reading, |env| {
            (env.context.epoch == known_under).then(|| lease.step(input, env))
        });
        // R7: the store may have gone backwards, and may assign again revisions that are known here.
        let Some(effects) = effects else { return self.reload(ctx) };
        tracing::trace!(%key, ?effects, "done");
        self.perform(now, effects, ctx);
        self.settled(now, ctx);
    }

    /// Follows every step: counts an adoption, notes a hand-over and callers that wait in vain, shows the promise cell,
    /// sets the timer.
    pub(super) fn settled(&mut self, now: Moment, ctx: &mut LeaseContext) {
        if self.follow_home() && self.is_same_tenure() {
            // The tenure did not change, only its home node: it was adopted from another node.
            self.pool.adoptions.increment(1);
            if !self.key().is_internal() {
                self.coordinator.recent.adopted(now);
            }
            #[cfg(any(test, feature = "testing"))]
            self.coordinator.tell(Observed::Adopted);
        }
        self.note_handover();
        self.note_stuck(now);
        self.show_cell();
        self.rearm(now, ctx);
    }

    /// Has a grant released whose caller cannot ask for it again.
    fn give_back(&self, lease_id: LeaseId) {
        self.coordinator.unheard.give_back(self.key().clone(), GiveBack::unmarked(lease_id), None);
    }

    pub(super) fn perform(&mut self, now: Moment, effects: Effects<Reply>, ctx: &mut LeaseContext) {
        for effect in effects {
            match effect {
                Effect::Write(write) => self.write(now, write, ctx),
                Effect::Reply(reply, answer) => {
                    #[cfg(any(test, feature = "testing"))]
                    self.tell_of_promise(now, &answer);
                    self.trace_answer(now, &reply, &answer);
                    if let Some(lease_id) = reply.send(answer) {
                        self.give_back(lease_id);
                    }
                }
                Effect::Read(read_for) => self.read_again(read_for, ctx),
                Effect::Inquire(node) => self.coordinator.inquire(node),
                Effect::InquireSession(digest) => {
                    self.coordinator.sessions.inquire(digest, [self.key().clone()]);
                }
                Effect::TellRevoked(token) => {
                    self.coordinator.followers.revoked(self.key(), token);
                }
                Effect::GiveBack(lease_id) => self.give_back(lease_id),
                Effect::Reissue(digest) => self.coordinator.sessions.reissue(digest, self.key()),
                Effect::Fence(run) => self.fence(run),
                Effect::Alarm(alarm) => self.alarm(alarm, now),
            }
        }
    }

    /// For tests: reports the promise that a grant or an absorbed heartbeat makes.
    #[cfg(any(test, feature = "testing"))]
    fn tell_of_promise(&self, now: Moment, answer: &Answer) {
        let token = match answer {
            Answer::Granted(grant) => grant.view.token,
            Answer::Alive { token, .. } => *token,
            _ => return,
        };
        // A lease that a session keeps makes no promise of its own.
        let view = self.lease.as_ref().map(|lease| lease.view(now));
        if let Some(view) = view.filter(|view| view.session.is_none()) {
            let ttl_ms = view.ttl_ms.unwrap_or(0);
            let (key, until) = (self.key(), self.coordinator.node_context().until);
            let promise = Promise { key, token, decided: now, ttl_ms, until };
            self.coordinator.tell(Observed::Promised(promise));
        }
    }

    /// Reads the record while the actor goes on.
    fn read_again(&self, read_for: ReadFor, ctx: &mut LeaseContext) {
        let generation = self.generation;
        let read = self.read().into_actor(self);
        ctx.spawn(read.map(move |read, actor, ctx| {
            if actor.generation == generation {
                actor.step(Input::Loaded(read_for, read), ctx);
            }
        }));
    }

    fn write(&mut self, began: Moment, write: WriteEffect, ctx: &mut LeaseContext) {
        self.trace_write(&write.changes);
        let protocol = self.coordinator.protocol;
        if let Some(session) = protocol.a_session_that_is_over_once_sent(self.key(), &write.changes)
        {
            self.coordinator.sessions.left(SessionOver::unknown(session));
        }
        let outcome = self.send(write);
        let to = ctx.address().recipient();
        self.coordinator.outcomes.report(Pending::new(outcome, to, self.generation, began));
    }

    fn send(&self, write: WriteEffect) -> StoreFuture<WriteOutcome> {
        let WriteEffect { expected, record, changes } = write;
        let store = &self.coordinator.store;
        if record.epoch < store.meta().epoch {
            // R7: the write may be based on a state that the store no longer has.
            let error = StoreError::Unavailable("the epoch was raised".into());
            return Box::pin(std::future::ready(WriteOutcome::Refused(error)));
        }
        store.compare_and_set(Write { key: self.key().clone(), expected, record, changes })
    }

    /// A write is settled. One of an earlier generation is ignored.
    pub(super) fn landed(&mut self, landed: Landed, ctx: &mut LeaseContext) {
        let Landed { outcome, generation, began } = landed;
        if self.generation != generation {
            return;
        }
        let (label, settled) = match outcome {
            WriteOutcome::Committed(revision) => {
                self.coordinator.registry.settle(self.key());
                (CasOutcome::Committed, Settled::Committed(revision))
            }
            WriteOutcome::Conflict(found) => {
                (CasOutcome::Conflict, Settled::Conflict(loaded(found)))
            }
            WriteOutcome::Refused(error) => (CasOutcome::Error, Settled::Refused(error)),
            WriteOutcome::Unknown(error) => (CasOutcome::Error, Settled::Unknown(error)),
        };
        let reading = self.coordinator.reading();
        let now = reading.0;
        self.coordinator.metrics.store_cas(label, now.since(began));
        self.step_after_write((began, label), reading, Input::Settled(settled), ctx);
        self.observe_tenure(now);
        self.leave_gate();
    }

    fn alarm(&self, alarm: Alarm, now: Moment) {
        let key = self.key().as_str();
        match alarm {
            Alarm::EndedLate(nanos) => {
                let late = Duration::from_nanos(nanos);
                self.coordinator.metrics.ended_late(late);
                self.coordinator.recent.measured(now, Measure::Lateness, late);
            }
            Alarm::Quarantined(error) => {
                tracing::warn!(key, %error, "cannot interpret the record of this key; it counts as held");
            }
            Alarm::Conflict => {
                tracing::warn!(
                    key,
                    "another writer changed the record of this key; continuing with that record"
                );
            }
            Alarm::WriteNotAccepted(error) => {
                tracing::warn!(key, %error, "the store did not accept a write of this key; retrying");
            }
            Alarm::FenceFailed(why) => {
                tracing::warn!(
                    key,
                    why = &*why,
                    "a fence of this key failed for good; its policy decides what follows"
                );
            }
        }
    }
}
