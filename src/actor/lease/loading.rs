//! Reads a lease from the store: at the start of its actor, and again when what is known may be void.

use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, WrapFuture};

use super::{actor::LeaseActor, context::LeaseContext};
use crate::{
    actor::environment::loaded,
    lease::{Inherited, Lease, Loaded, Moment, StoreError},
    store::StoreFuture,
};

/// How long an actor waits before it reads the store again. A random time of up to the same length is added.
const READ_RETRY: Duration = Duration::from_millis(100);

impl LeaseActor {
    /// Reads the store before it accepts any mail. When the read fails, mail is refused until a later try succeeds.
    pub(super) fn load(&mut self, ctx: &mut LeaseContext) {
        self.epoch = self.coordinator.node_context().epoch;
        let read = self.read().into_actor(self).map(|read, actor, ctx| match read {
            Ok(there) => actor.recover(there, ctx),
            Err(error) => {
                tracing::warn!(key = actor.key().as_str(), %error, "cannot read the lease; retrying");
                let pause = READ_RETRY + actor.chance.jitter(READ_RETRY);
                let generation = actor.generation;
                ctx.run_later(pause, move |actor, ctx| {
                    // Otherwise the lease was read again from the start meanwhile. What was done since then would be lost.
                    if actor.generation == generation {
                        actor.load(ctx);
                    }
                });
            }
        });
        ctx.wait(read);
    }

    pub(super) fn read(&self) -> StoreFuture<Result<Loaded, StoreError>> {
        let coordinator = self.coordinator.clone();
        let read = coordinator.store.read(self.key());
        let began = coordinator.clock.now();
        Box::pin(async move {
            let found = read.await;
            let took = coordinator.clock.now().since(began);
            coordinator.metrics.store_read(found.is_ok(), took);
            Ok(loaded(found?))
        })
    }

    fn recover(&mut self, there: Loaded, ctx: &mut LeaseContext) {
        let reading = self.coordinator.reading();
        let now = reading.0;
        let inherited = if self.restarted {
            Inherited::FromActor(now)
        } else {
            Inherited::FromProcess(self.coordinator.locked_at)
        };
        let key = self.key().clone();
        let (lease, effects) =
            self.coordinator.with_env(&key, reading, |env| Lease::recover(there, inherited, env));
        self.token = lease.view(now).token;
        self.held = lease.tenure_mark().0;
        // The wall clock feeds only a histogram, and only where this node has no earlier reading of its own.
        let age = lease.changed_at_ms().map(|at| reading.1.saturating_sub(at));
        self.since = age.map_or(Moment::ZERO, |age| now - Duration::from_millis(age));
        self.lease = Some(Box::new(lease));
        self.follow_home();
        if let Some(digest) = key.session().filter(|_| self.restarted && !self.homed) {
            // An earlier actor may have been the home of the session, and died before it read the present record.
            self.leave_session(digest);
        }
        self.perform(now, effects, ctx);
        self.settled(now, ctx);
    }

    /// Drops what is known and reads it again. Waiting callers find their reply channel closed, and ask again.
    pub(super) fn reload(&mut self, ctx: &mut LeaseContext) {
        self.leave_write();
        self.lease = None;
        self.permit = None;
        self.traces = None;
        self.generation += 1;
        self.restarted = true;
        self.settled(self.coordinator.now(), ctx);
        self.load(ctx);
    }
}
