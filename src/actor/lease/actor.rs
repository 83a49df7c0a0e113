//! The actor of one key. It carries out what the core (`crate::lease`) decides.

use std::{sync::Arc, time::Duration};

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, SpawnHandle, WrapFuture,
};

use super::outcomes::{Landed, Pending};
use crate::{
    actor::{
        mail::{Mail, Reply, gate::Permit},
        runtime::exit_notice::ExitNotice,
        session::checks::HealthChecks,
        world::World,
    },
    clock::Chance,
    lease::{
        Alarm, Answer, Call, Effect, Effects, Epoch, Inherited, Input, Lease, Loaded, Moment,
        Mutant, Nonce, Request, SessionOver, Settled, State, StoreError, Token, View, WriteEffect,
    },
    store::{Found, Outcome, Write},
    telemetry::PoolMetrics,
};

/// How long an actor waits before it reads the store again. A random time of up to the same length is added.
const READ_RETRY: Duration = Duration::from_millis(100);

pub(in crate::actor) struct LeaseActor {
    pub(in crate::actor) world: Arc<World>,
    pub(in crate::actor) lease: Option<Box<Lease<Reply>>>,
    pub(in crate::actor) chance: Chance,
    pub(in crate::actor) timer: Option<(Moment, SpawnHandle)>,
    /// When the key last changed hands. [`Moment::ZERO`] while that is not known.
    pub(in crate::actor) since: Moment,
    pub(in crate::actor) token: Token,
    /// The last tenure that was asked to hand over.
    pub(in crate::actor) asked: Token,
    pub(in crate::actor) lapses: u32,
    /// The epoch under which the lease was read.
    pub(in crate::actor) epoch: Epoch,
    /// An earlier actor of this process may have made promises.
    pub(in crate::actor) restarted: bool,
    pub(in crate::actor) held: bool,
    /// The metrics of the key's pool, by the policies of this version.
    pub(in crate::actor) pool: Arc<PoolMetrics>,
    pub(in crate::actor) policies: u64,
    /// The lease is held, and this node is its home node.
    pub(in crate::actor) homed: bool,
    pub(in crate::actor) started: bool,
    /// How often the actor read the lease again from the start. Outcomes of writes of an earlier generation are
    /// dropped.
    pub(in crate::actor) generation: u32,
    /// Kept while an end that is due is being written.
    pub(in crate::actor) permit: Option<Permit>,
    /// Runs the checks of a session.
    pub(in crate::actor) health_checks: Option<Box<HealthChecks>>,
    /// Must be the last field: its drop reports the death of the actor.
    pub(in crate::actor) exit_notice: ExitNotice,
}

impl LeaseActor {
    pub fn new(world: Arc<World>, restarted: bool, exit_notice: ExitNotice) -> Self {
        let chance = Chance::of(world.seed, exit_notice.key().as_str());
        let lapses = world.lapses();
        let rules = world.rules();
        let (policies, pool) = (rules.version(), rules.of(exit_notice.key().as_str()).1.clone());
        drop(rules);
        Self {
            world,
            lease: None,
            chance,
            timer: None,
            since: Moment::ZERO,
            token: Token::default(),
            asked: Token::default(),
            lapses,
            epoch: Epoch::default(),
            restarted,
            held: false,
            pool,
            policies,
            homed: false,
            started: false,
            generation: 0,
            permit: None,
            health_checks: None,
            exit_notice,
        }
    }

    /// The actor never started: its end must not be reported as a death.
    pub fn silence(&mut self) {
        self.exit_notice.silence();
    }

    fn recover(&mut self, there: Loaded, ctx: &mut Context<Self>) {
        let reading = self.world.reading();
        let now = reading.0;
        let inherited = if self.restarted {
            Inherited::FromActor(now)
        } else {
            Inherited::FromProcess(self.world.locked_at)
        };
        let key = self.exit_notice.key().clone();
        let (lease, effects) =
            self.world.with_env(&key, reading, |env| Lease::recover(there, inherited, env));
        self.token = lease.view(now).token;
        self.held = lease.tenure_mark().0;
        // The wall clock feeds only a histogram, and only where this node has no earlier reading of its own.
        let age = lease.changed_at_ms().map(|at| reading.1.saturating_sub(at));
        self.since = age.map_or(Moment::ZERO, |age| now - Duration::from_millis(age));
        self.lease = Some(Box::new(lease));
        self.count_home();
        if let Some(digest) =
            self.exit_notice.key().session().filter(|_| self.restarted && !self.homed)
        {
            // An earlier actor may have been the home of the session, and died before it read the present record.
            self.leave_session(digest);
        }
        self.perform(now, effects, ctx);
        self.settled(now, ctx);
    }

    /// Runs after every step.
    fn settled(&mut self, now: Moment, ctx: &mut Context<Self>) {
        if self.count_home()
            && self.lease.as_ref().map(|l| l.tenure_mark()) == Some((self.held, self.token))
        {
            // The tenure did not change, only its home node: it was adopted from another node.
            self.pool.adoptions.increment(1);
            #[cfg(any(test, feature = "testing"))]
            self.world.tell(crate::actor::Witnessed::Adopted);
        }
        self.note_handover();
        self.rearm(now, ctx);
    }

    /// The time that a holder has for a hand-over starts now, whether this or an earlier home node asked for it.
    fn note_handover(&mut self) {
        let Some(lease) = &self.lease else { return };
        let Some(ask) = lease.handover().filter(|_| self.homed) else { return };
        let token = lease.tenure_mark().1;
        if self.asked != token {
            self.asked = token;
            let session = lease.kept_by();
            self.world.asked_to_hand_over(self.exit_notice.key(), token, session, ask);
        }
    }

    /// Updates the count of leases whose home node is this node. Returns whether this lease was just added.
    fn count_home(&mut self) -> bool {
        self.follow_policies();
        let homed = self.lease.as_ref().is_some_and(|lease| lease.is_home());
        if homed == self.homed {
            return false;
        }
        self.homed = homed;
        match self.exit_notice.key().session() {
            Some(digest) => self.count_session(digest),
            None => self.world.count_homed(homed, &self.pool),
        }
        homed
    }

    /// When the policies changed, counts the lease in the pool that its key now belongs to.
    fn follow_policies(&mut self) {
        let rules = self.world.rules();
        if rules.version() == self.policies || self.exit_notice.key().is_session() {
            return;
        }
        self.policies = rules.version();
        let before =
            std::mem::replace(&mut self.pool, rules.of(self.exit_notice.key().as_str()).1.clone());
        if self.homed {
            before.held.decrement(1.0);
            self.pool.held.increment(1.0);
        }
    }

    /// This node became the home node of a session, or ceased to be.
    fn count_session(&mut self, digest: Nonce) {
        self.health_checks = None;
        let Some(lease) = self.lease.as_ref().filter(|_| self.homed) else {
            self.leave_session(digest);
            return self.pool.sessions.decrement(1.0);
        };
        let fresh = lease.tenure_mark() != (self.held, self.token);
        let view = lease.view(self.world.clock.now());
        let pool = view.spec.as_ref().and_then(|spec| spec.pool.as_deref());
        if let Some(pool) = pool.and_then(|pool| self.world.rules().named(pool).cloned()) {
            self.pool = pool;
        }
        self.pool.sessions.increment(1.0);
        let (Some(owner), Some(spec)) = (view.owner, view.spec) else {
            return tracing::error!(session = %digest, "the record of a session cannot be interpreted");
        };
        let ttl_ms = view.ttl_ms.unwrap_or(0);
        self.world.pools.arrived(digest, &owner, &spec, self.world.terms().node);
        let session = self.world.sessions.arrive(digest, (&owner, ttl_ms), *spec, fresh);
        self.health_checks = HealthChecks::begin(&self.world, &session).map(Box::new);
    }

    /// This node is not the home node of this session.
    fn leave_session(&self, digest: Nonce) {
        let view = self.lease.as_ref().map(|lease| lease.view(self.world.clock.now()));
        let over = |view: View| view.known && !view.quarantined && view.state != State::Held;
        if !view.is_some_and(over) {
            self.world.sessions.depart(digest);
            // A store that went backwards may have no record of the session, and then the feed does not report its end.
            if self.world.pools.has(digest) {
                self.world.sessions.inquire(digest, []);
            }
        } else if self.restarted {
            // The feed reports its end, and may have done so before this actor read that the session lives.
            self.world.sessions.inquire_anew(digest, []);
        }
    }

    fn read(&self) -> crate::store::StoreFuture<Result<Loaded, StoreError>> {
        let world = self.world.clone();
        let read = world.store.read(self.exit_notice.key());
        let began = world.clock.now();
        Box::pin(async move {
            let found = read.await;
            world.metrics.store_read(found.is_ok(), world.clock.now().since(began));
            Ok(loaded(found?))
        })
    }

    /// Reads the store before it accepts any mail. When the read fails, mail is refused until a later try succeeds.
    fn load(&mut self, ctx: &mut Context<Self>) {
        self.epoch = self.world.terms().epoch;
        let read = self.read().into_actor(self).map(|read, actor, ctx| match read {
            Ok(there) => actor.recover(there, ctx),
            Err(error) => {
                tracing::warn!(key = actor.exit_notice.key().as_str(), %error, "cannot read the lease; retrying");
                let pause = READ_RETRY + actor.chance.jitter(READ_RETRY);
                ctx.run_later(pause, |actor, ctx| actor.load(ctx));
            }
        });
        ctx.wait(read);
    }

    /// Drops what is known and reads it again. Waiting callers find their reply channel closed, and ask again.
    fn reload(&mut self, ctx: &mut Context<Self>) {
        self.lease = None;
        self.permit = None;
        self.generation += 1;
        self.restarted = true;
        self.settled(self.world.now(), ctx);
        self.load(ctx);
    }

    pub(in crate::actor) fn step(&mut self, input: Input<Reply>, ctx: &mut Context<Self>) {
        self.step_at(self.world.reading(), input, ctx);
    }

    pub(in crate::actor) fn step_at(
        &mut self,
        reading: (Moment, u64),
        input: Input<Reply>,
        ctx: &mut Context<Self>,
    ) {
        let now = reading.0;
        let Some(lease) = &mut self.lease else { return };
        let lapses = self.world.lapses();
        if lapses != self.lapses {
            self.lapses = lapses;
            lease.void_promises(self.world.terms().resumed.min(now));
        }
        let key = self.exit_notice.key();
        tracing::trace!(%key, node = %self.world.terms().node, ?now, ?input, ?lease, "step");
        let known_under = self.epoch;
        let effects = self.world.with_env(key, reading, |env| {
            (env.terms.epoch == known_under).then(|| lease.step(input, env))
        });
        // R7: the store may have gone backwards, and may assign again revisions that are known here.
        let Some(effects) = effects else { return self.reload(ctx) };
        tracing::trace!(%key, ?effects, "done");
        self.perform(now, effects, ctx);
        self.settled(now, ctx);
    }

    fn perform(&mut self, now: Moment, effects: Effects<Reply>, ctx: &mut Context<Self>) {
        for effect in effects {
            match effect {
                Effect::Write(write) => self.write(now, write, ctx),
                Effect::Reply(reply, answer) => {
                    #[cfg(any(test, feature = "testing"))]
                    self.tell_of_promise(now, &answer);
                    reply.send(answer);
                }
                Effect::Read => {
                    let generation = self.generation;
                    let read = self.read().into_actor(self);
                    ctx.spawn(read.map(move |read, actor, ctx| {
                        if actor.generation == generation {
                            actor.step(Input::Loaded(read), ctx);
                        }
                    }));
                }
                Effect::Inquire(node) => self.world.inquire(node),
                Effect::InquireSession(digest) => {
                    self.world.sessions.inquire(digest, [self.exit_notice.key().clone()]);
                }
                Effect::Reorder(digest) => {
                    self.world.sessions.reorder(digest, self.exit_notice.key());
                }
                Effect::Fence(run) => self.fence(run),
                Effect::Alarm(alarm) => self.alarm(alarm),
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
            let (key, until) = (self.exit_notice.key(), self.world.terms().until);
            let promise = crate::actor::Promise { key, token, decided: now, ttl_ms, until };
            self.world.tell(crate::actor::Witnessed::Promised(promise));
        }
    }

    fn write(&mut self, began: Moment, write: WriteEffect, ctx: &mut Context<Self>) {
        let WriteEffect { expected, record, changes } = write;
        let key = self.exit_notice.key().clone();
        if self.world.breaks(Mutant::SessionFreedBeforeTombstone)
            && let Some(digest) = key.session()
            && changes.iter().any(|change| change.kind.ends_tenure())
        {
            self.world.sessions.left(SessionOver::unknown(digest));
        }
        let write = if record.epoch < self.world.store.meta().epoch {
            // R7: the write may be based on a state that the store no longer has.
            let error = StoreError::Unavailable("the epoch was raised".into());
            Box::pin(std::future::ready(Outcome::Refused(error)))
        } else {
            self.world.store.compare_and_set(Write { key, expected, record, changes })
        };
        let pending = Pending::new(write, ctx.address(), self.generation, began);
        self.world.outcomes.report(pending);
    }

    /// A write is settled. One of an earlier generation is ignored.
    fn landed(&mut self, landed: Landed, ctx: &mut Context<Self>) {
        let Landed { outcome, generation, began } = landed;
        if self.generation != generation {
            return;
        }
        let (label, settled) = match outcome {
            Outcome::Committed(revision) => (0, Settled::Committed(revision)),
            Outcome::Conflict(found) => (1, Settled::Conflict(loaded(found))),
            Outcome::Refused(error) => (2, Settled::Refused(error)),
            Outcome::Unknown(error) => (2, Settled::Unknown(error)),
        };
        let reading = self.world.reading();
        let now = reading.0;
        self.world.metrics.store_cas(label, now.since(began));
        self.step_at(reading, Input::Settled(settled), ctx);
        self.observe_tenure(now);
        self.leave_gate();
    }

    fn alarm(&self, alarm: Alarm) {
        match alarm {
            Alarm::EndedLate(nanos) => self.world.metrics.ended_late(Duration::from_nanos(nanos)),
            alarm => {
                tracing::warn!(key = self.exit_notice.key().as_str(), ?alarm, "lease alarm");
            }
        }
    }

    /// Measures how long tenures and vacancies lasted.
    fn observe_tenure(&mut self, now: Moment) {
        let Some(lease) = &self.lease else { return };
        let (held, token) = lease.tenure_mark();
        if held == self.held && token == self.token {
            return;
        }
        if self.since != Moment::ZERO {
            let span = now.since(self.since);
            if self.held {
                self.pool.held_for(span);
                if held {
                    self.pool.vacant_for(Duration::ZERO);
                }
            } else {
                self.pool.vacant_for(span);
            }
        }
        (self.held, self.token, self.since) = (held, token, now);
    }

    /// Leaves memory. The actor leaves the registry first. Mail that is already in the mailbox is dropped with its
    /// reply channel; its sender asks again and finds another actor.
    pub(in crate::actor) fn retire(&mut self, ctx: &mut Context<Self>) {
        if self.world.registry.retire(self.exit_notice.key(), self.exit_notice.incarnation()) {
            self.exit_notice.silence();
        }
        self.lease = None;
        ctx.stop();
    }

    fn call(&mut self, call: Call<Reply>, ctx: &mut Context<Self>) {
        if let (Some(lease), Request::Heartbeat(beat)) = (&self.lease, &call.request)
            && let Some(ratio) = lease.margin(beat.lease_id, call.received)
        {
            self.pool.margin(ratio);
        }
        self.step(Input::Call(call), ctx);
    }
}

impl Actor for LeaseActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.world.metrics.lease_actors.increment(1.0);
        self.started = true;
        self.load(ctx);
    }
}

/// Also runs for an actor that panicked, which never reaches `stopped`.
impl Drop for LeaseActor {
    fn drop(&mut self) {
        if self.started {
            self.world.metrics.lease_actors.decrement(1.0);
        }
        match (self.homed, self.exit_notice.key().is_session()) {
            (true, false) => self.world.count_homed(false, &self.pool),
            (true, true) => self.pool.sessions.decrement(1.0),
            (false, _) => {}
        }
    }
}

impl Handler<Mail> for LeaseActor {
    type Result = ();

    fn handle(&mut self, mail: Mail, ctx: &mut Context<Self>) {
        match mail {
            Mail::Call(call) if self.lease.is_some() => self.call(call, ctx),
            Mail::Call(call) => {
                // The actor is retiring, or the store could not be read. When it is retiring, the dropped channel makes
                // the caller ask again.
                if ctx.state().alive() {
                    let error = StoreError::Unavailable("the lease could not be read".into());
                    call.caller.send(Answer::Store(error));
                }
            }
            Mail::Nudge => self.step(Input::Tick, ctx),
            Mail::Stale(seq) => self.step(Input::Stale(seq), ctx),
            Mail::Fenced(report) => self.step(Input::Fenced(report), ctx),
            Mail::SessionOver(over) => self.session_over(over, ctx),
            Mail::OverTurn(permit, over) => self.end_kept(permit, over, ctx),
            Mail::Reload => self.reload(ctx),
            Mail::Landed(landed) => self.landed(landed, ctx),
            Mail::Turn(permit) => self.take_turn(permit, ctx),
            Mail::Shuffle(n, reply) => drop(reply.send(self.chance.permutation(n))),
            #[cfg(any(test, feature = "testing"))]
            Mail::Panic => {
                panic!("a panic was injected into the actor of {}", self.exit_notice.key())
            }
        }
    }
}

pub(in crate::actor) fn loaded(found: Option<Found>) -> Loaded {
    match found {
        None => Loaded::Absent,
        Some(Found { revision, record: Ok(record) }) => Loaded::Record(revision, record),
        Some(Found { revision, record: Err(why) }) => Loaded::Quarantined(revision, why),
    }
}
