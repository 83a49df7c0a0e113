//! The supervisor: hears of every actor's death, replaces dead actors, and has announced what the store committed.

use std::sync::Arc;

use actix::{
    Actor, ActorContext, AsyncContext, Context, Handler, Message, StreamHandler, WrapFuture,
};
use futures_util::stream;
use tokio::sync::mpsc::UnboundedReceiver;

use super::feed;
use crate::{
    actor::{
        coordinator::Coordinator,
        runtime::{exit_notice::Death, registry::Unreachable, restarts::Restarts},
    },
    lease::{Key, Moment},
    store::{Feed, Position},
};

/// Replaces dead actors, and feeds the bus.
pub struct Supervisor {
    coordinator: Arc<Coordinator>,
    deaths: Option<UnboundedReceiver<Death>>,
    feed: Option<(Feed, Position)>,
    restarts: Restarts<Key>,
}

/// The address of a running supervisor, to which a message to stop is sent.
pub type SupervisorAddr = actix::Addr<Supervisor>;

/// Ends the supervisor: it no longer reacts to deaths.
pub struct Stop;

impl Message for Stop {
    type Result = ();
}

impl Supervisor {
    /// A supervisor of this coordinator. It takes the feed here, so that it misses no change before the actor starts.
    #[must_use]
    pub fn new(coordinator: Arc<Coordinator>, deaths: UnboundedReceiver<Death>) -> Self {
        let feed = coordinator.store.feed();
        let position = coordinator.store.latest();
        let limits = &coordinator.limits;
        let restarts = Restarts::new(limits.restart_intensity, limits.restart_window);
        Self { coordinator, deaths: Some(deaths), feed: Some((feed, position)), restarts }
    }

    /// Makes the key rest. Its lease must end on time even if no client calls, so its actor is started again.
    fn rest(&self, key: Key, incarnation: u64, now: Moment, ctx: &mut Context<Self>) {
        let until = now + self.restarts.rest();
        tracing::error!(key = key.as_str(), "the key's actor died too often; it is paused");
        self.coordinator.registry.rest(&key, incarnation, until);
        self.wake(key, until, ctx);
    }

    /// Starts a rested key again.
    fn wake(&self, key: Key, at: Moment, ctx: &mut Context<Self>) {
        let rest = at.since(self.coordinator.clock.now());
        ctx.run_later(rest, move |supervisor, ctx| {
            let started = supervisor.coordinator.registry.start(&key);
            if let Err(Unreachable::Resting(until)) = started {
                supervisor.wake(key, until, ctx);
            }
        });
    }

    /// Starts a successor. It begins from the store alone.
    fn replace(&self, death: &Death) {
        let Death { key, incarnation, panicked, at } = death;
        let registry = &self.coordinator.registry;
        if !registry.retire(key, *incarnation) {
            return;
        }
        if registry.start(key) != Err(Unreachable::NoArbiter) {
            tracing::error!(key = key.as_str(), panicked, "the key's actor died and was restarted");
        }
        let took = self.coordinator.clock.now().since(*at);
        self.coordinator.metrics.restarted(*panicked, took);
    }
}

impl Actor for Supervisor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if let Some(mut deaths) = self.deaths.take() {
            ctx.add_stream(stream::poll_fn(move |cx| deaths.poll_recv(cx)));
        }
        if let Some((feed, position)) = self.feed.take() {
            ctx.spawn(feed::follow(self.coordinator.clone(), feed, position).into_actor(self));
        }
    }
}

impl Handler<Stop> for Supervisor {
    type Result = ();
    fn handle(&mut self, _: Stop, ctx: &mut Context<Self>) {
        ctx.stop();
    }
}

impl StreamHandler<Death> for Supervisor {
    /// Replaces the dead actor at once. A key whose actors keep dying rests.
    fn handle(&mut self, death: Death, ctx: &mut Context<Self>) {
        if !death.panicked && self.coordinator.is_stopping() {
            return;
        }
        let now = self.coordinator.clock.now();
        if self.restarts.exceeds(&death.key, now) {
            return self.rest(death.key, death.incarnation, now, ctx);
        }
        self.replace(&death);
    }
}
