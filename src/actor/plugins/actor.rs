//! The actor of one plugin.

use std::{sync::Arc, time::Duration};

use actix::{Actor, ActorContext, Context, Handler, Message};
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
};

use super::{limits::PluginLimits, order::Order, report::Report, worker::Worker};
use crate::{
    actor::runtime::exit_notice::ExitNotice,
    clock::{Chance, Clock},
    lease::Moment,
    plugin::{FenceOrder, FencePlugin},
    telemetry::{FenceMetrics, Metrics},
};

/// A fence order for the plugin. The number of orders is bounded by the number of keys that are fencing.
pub(super) struct Fence {
    pub order: FenceOrder,
    pub budget: Duration,
    pub report: Report,
}

/// Another plugin under the same name. Orders in progress continue with the previous one.
pub(super) struct Exchange(pub Arc<dyn FencePlugin>, pub PluginLimits);

/// The plugin was removed from the settings.
pub(super) struct Retire;

/// For tests: the actor dies.
#[cfg(any(test, feature = "testing"))]
pub(super) struct Panic;

impl Message for Fence {
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

/// What plugin actors share.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub clock: Arc<dyn Clock>,
    pub seed: u64,
    pub metrics: Arc<Metrics>,
    /// Every thread of a plugin holds a receiver.
    pub alive: Arc<watch::Sender<()>>,
}

/// Accepts the orders of one plugin. Each runs in its own task, which ends with the actor.
pub(super) struct PluginActor {
    plugin: Arc<dyn FencePlugin>,
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
}

impl Handler<Fence> for PluginActor {
    type Result = ();

    fn handle(&mut self, fence: Fence, _: &mut Context<Self>) {
        while self.orders.try_join_next().is_some() {}
        let Fence { order, budget, report } = fence;
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
        };
        self.orders.spawn_local(async move { report.send(order.work().await) });
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
