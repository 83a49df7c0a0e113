//! The actor of one plugin.

use std::{sync::Arc, time::Duration};

use actix::{Actor, ActorContext, AsyncContext, Context, Handler, Message, StreamHandler};
use futures_util::stream;
use tokio::{
    sync::{Semaphore, mpsc::Receiver, oneshot, watch},
    task::JoinSet,
};

use super::{limits::PluginLimits, order::Order, worker::Worker};
use crate::{
    actor::runtime::{exit_notice::ExitNotice, fence::Fence},
    clock::{Chance, Clock},
    lease::Moment,
    plugin::{FenceError, FencePlugin, Notification},
    telemetry::{FenceMetrics, Metrics},
};

/// A notification for the plugin: one call, which may take `span`. When nobody waits for its outcome any more, the call
/// is dropped.
pub(super) struct Notify {
    pub notification: Notification,
    pub span: Duration,
    pub outcome: oneshot::Sender<Result<(), FenceError>>,
}

/// Another plugin under the same name. Orders in progress continue with the previous one.
pub(super) struct Exchange(pub Arc<dyn FencePlugin>, pub PluginLimits);

/// The plugin was removed from the settings.
pub(super) struct Retire;

/// For tests: the actor dies.
#[cfg(any(test, feature = "testing"))]
pub(super) struct Panic;

impl Message for Notify {
    type Result = ();
}

impl Message for Exchange {
    type Result = ();
}

impl Message for Retire {
    type Result = ();
}

#[cfg(any(test, feature = "testing"))]
impl Message for Panic {
    type Result = ();
}

/// What all plugin actors of a node share.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub clock: Arc<dyn Clock>,
    pub seed: u64,
    pub metrics: Arc<Metrics>,
    /// Every thread of a plugin holds a receiver.
    pub alive: Arc<watch::Sender<()>>,
}

/// Accepts the orders of one plugin from its topic on the bus. Each runs in its own task, which ends with the actor. The
/// number of orders is bounded by the number of keys that are fencing.
pub(super) struct PluginActor {
    plugin: Arc<dyn FencePlugin>,
    topic: Option<Receiver<Fence>>,
    limits: PluginLimits,
    places: Arc<Semaphore>,
    orders: JoinSet<()>,
    worker: Arc<Worker>,
    chance: Chance,
    surroundings: Surroundings,
    metrics: FenceMetrics,
    exit_notice: ExitNotice<Arc<str>>,
}

impl PluginActor {
    pub(super) fn new(
        plugin: Arc<dyn FencePlugin>,
        topic: Receiver<Fence>,
        limits: PluginLimits,
        surroundings: Surroundings,
        exit_notice: ExitNotice<Arc<str>>,
        here: bool,
    ) -> Self {
        let name = exit_notice.key().clone();
        let seed = surroundings.seed ^ exit_notice.incarnation();
        surroundings.metrics.plugin_actors.increment(1.0);
        Self {
            plugin,
            topic: Some(topic),
            limits,
            places: Arc::new(Semaphore::new(limits.concurrency.max(1))),
            orders: JoinSet::new(),
            worker: Arc::new(Worker::new(name.clone(), surroundings.alive.subscribe(), here)),
            chance: Chance::of(seed, &name),
            metrics: FenceMetrics::register(&name),
            surroundings,
            exit_notice,
        }
    }
}

impl Drop for PluginActor {
    fn drop(&mut self) {
        self.surroundings.metrics.plugin_actors.decrement(1.0);
    }
}

impl Actor for PluginActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if let Some(mut topic) = self.topic.take() {
            ctx.add_stream(stream::poll_fn(move |cx| topic.poll_recv(cx)));
        }
    }
}

impl StreamHandler<Fence> for PluginActor {
    fn handle(&mut self, fence: Fence, _: &mut Context<Self>) {
        while self.orders.try_join_next().is_some() {}
        let Fence { order, budget, report, trace } = fence;
        let order = Order {
            plugin: self.plugin.clone(),
            name: self.exit_notice.key().clone(),
            limits: self.limits,
            places: self.places.clone(),
            worker: self.worker.clone(),
            clock: self.surroundings.clock.clone(),
            chance: Chance::new(self.chance.next_u64()),
            metrics: self.metrics.clone(),
            order,
            budget,
            deadline: Moment::NEVER,
            trace,
        };
        self.orders.spawn_local(async move { report.send(order.work().await) });
    }

    /// The topic was removed. [`Retire`] ends the actor.
    fn finished(&mut self, _: &mut Context<Self>) {}
}

impl Handler<Notify> for PluginActor {
    type Result = ();

    fn handle(&mut self, notify: Notify, _: &mut Context<Self>) {
        while self.orders.try_join_next().is_some() {}
        let Notify { notification, span, mut outcome } = notify;
        let (plugin, worker) = (self.plugin.clone(), self.worker.clone());
        self.orders.spawn_local(async move {
            let tried = tokio::select! {
                tried = worker.attempt(move || plugin.notify(notification), span) => tried,
                () = outcome.closed() => return,
            };
            let _ = outcome.send(tried.failure(span).map_or(Ok(()), Err));
        });
    }
}

impl Handler<Exchange> for PluginActor {
    type Result = ();

    fn handle(&mut self, Exchange(plugin, limits): Exchange, _: &mut Context<Self>) {
        if limits.concurrency != self.limits.concurrency {
            // Orders in progress keep their old places until they are done.
            self.places = Arc::new(Semaphore::new(limits.concurrency.max(1)));
        }
        (self.plugin, self.limits) = (plugin, limits);
    }
}

impl Handler<Retire> for PluginActor {
    type Result = ();

    fn handle(&mut self, _: Retire, ctx: &mut Context<Self>) {
        self.exit_notice.silence();
        ctx.stop();
    }
}

#[cfg(any(test, feature = "testing"))]
impl Handler<Panic> for PluginActor {
    type Result = ();

    fn handle(&mut self, _: Panic, _: &mut Context<Self>) {
        panic!("a test asked for it");
    }
}
