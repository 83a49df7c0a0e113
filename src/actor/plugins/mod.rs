//! The actors of the plugins, by name. Each subscribes to the topic of its plugin on the bus.
//!
//! Guarantees: every order is reported exactly once, at the latest 250 ms (the time that the last try has to stop)
//! after its budget is over. The budget counts from the first try. A plugin that fails, hangs or panics uses up one
//! try. A plugin that blocks its thread delays no other plugin. An actor that dies is replaced.
//!
//! Does not guarantee: that an order is tried once, or at all: an interrupted order must be given again. An actor that
//! lagged or died therefore catches up from the fences that are pending in the keys' records.
//!
//! Assumes: it is made inside an actix system. Its actors live on the arbiter that makes it, and the plugins' code runs
//! on threads of its own. Without an actix system, all of it lives in the `LocalSet` of the task that makes it; such a
//! plugin must not block.

mod actor;
mod limits;
mod order;
mod subscription;
mod worker;

use std::{
    sync::{
        Arc, Mutex, PoisonError, RwLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use actix::{Actor, Addr, Arbiter, ArbiterHandle};
use tokio::sync::{
    mpsc::{self, UnboundedReceiver, UnboundedSender},
    oneshot, watch,
};

use self::actor::{Exchange, Notify, PluginActor, Retire, Surroundings};
pub use self::{limits::PluginLimits, subscription::Subscription};
use crate::{
    actor::runtime::{
        exit_notice::{Death, ExitNotice},
        fence::{Fence, FenceOutcome},
        restarts::Restarts,
        topics::{Topics, Undelivered},
    },
    clock::{Clock, HashMap},
    lease::Moment,
    plugin::{FenceError, FenceOrder, FencePlugin, Notification},
    telemetry::Metrics,
};

/// How often an actor may be restarted without a pause…
const RESTART_INTENSITY: usize = 10;
/// …within this time. After that it rests for as long.
const RESTART_WINDOW: Duration = Duration::from_secs(10);

/// The log reports a missing plugin at most once in this time.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// A plugin with its name and limits.
pub type NamedPlugin = (String, Arc<dyn FencePlugin>, PluginLimits);

/// The plugins. Clones share them.
#[derive(Clone)]
pub struct Plugins(Arc<Inner>);

struct Inner {
    topics: Topics<Fence>,
    slots: RwLock<HashMap<Arc<str>, Slot>>,
    surroundings: Surroundings,
    home: Option<ArbiterHandle>,
    deaths: UnboundedSender<Death<Arc<str>>>,
    incarnations: AtomicU64,
    /// When the log last reported that no plugin has this name.
    missed: Mutex<HashMap<Box<str>, Moment>>,
}

struct Slot {
    addr: Addr<PluginActor>,
    incarnation: u64,
    plugin: Arc<dyn FencePlugin>,
    limits: PluginLimits,
}

impl Plugins {
    /// Starts an actor for each plugin, which subscribes to its topic. Must be called inside an actix system, or a
    /// `LocalSet`.
    #[must_use]
    pub fn new(
        plugins: Vec<NamedPlugin>,
        topics: Topics<Fence>,
        clock: Arc<dyn Clock>,
        seed: u64,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (deaths, exit_notices) = mpsc::unbounded_channel();
        let alive = Arc::new(watch::Sender::new(()));
        let inner = Arc::new(Inner {
            topics,
            slots: RwLock::default(),
            surroundings: Surroundings { clock, seed, metrics, alive },
            home: Arbiter::try_current(),
            deaths,
            incarnations: AtomicU64::new(0),
            missed: Mutex::default(),
        });
        let supervising = supervise(Arc::downgrade(&inner), exit_notices);
        match &inner.home {
            Some(home) => drop(home.spawn(supervising)),
            None => drop(actix::spawn(supervising)),
        }
        let made = Self(inner);
        made.replace(plugins);
        made
    }

    /// Replaces the set of plugins, as a reload does. A plugin that keeps its name continues its orders in progress,
    /// and accepts new orders under its new limits. A plugin that was removed reports [`FenceOutcome::Interrupted`].
    pub fn replace(&self, plugins: Vec<NamedPlugin>) {
        let mut slots = self.0.slots.write().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|name, slot| {
            let stays = plugins.iter().any(|(other, ..)| **other == **name);
            if !stays {
                self.0.topics.remove(name);
                slot.addr.do_send(Retire);
            }
            stays
        });
        for (name, plugin, limits) in plugins {
            let name: Arc<str> = name.into();
            if let Some(slot) = slots.get_mut(&name) {
                slot.addr.do_send(Exchange(plugin.clone(), limits));
                (slot.plugin, slot.limits) = (plugin, limits);
            } else {
                let slot = self.0.start(&name, plugin, limits);
                slots.insert(name, slot);
            }
        }
    }

    /// Whether a plugin has this name.
    pub fn knows(&self, plugin: &str) -> bool {
        self.0.slots.read().unwrap_or_else(PoisonError::into_inner).contains_key(plugin)
    }

    /// Publishes a fence order on the plugin's topic. The outcome is reported within the budget, which includes all
    /// tries and pauses and counts from the moment at which the order has a place. If no plugin has the name, reports
    /// [`FenceOutcome::Interrupted`]: the node that ended the tenure knew the plugin, and this one may after its next
    /// reload.
    pub fn order(&self, plugin: &str, fence: Fence) {
        if let Err((fence, why)) = self.0.topics.publish(plugin, fence) {
            if why == Undelivered::NoTopic {
                self.0.miss(plugin, &fence.order);
            }
            fence.report.send(FenceOutcome::Interrupted);
        }
    }

    /// Notifies the plugin, in one try that takes `span` at most. When this future is dropped, so is the try.
    ///
    /// # Errors
    /// The plugin did not confirm.
    pub async fn notify(
        &self,
        plugin: &str,
        notification: Notification,
        span: Duration,
    ) -> Result<(), FenceError> {
        let addr = {
            let slots = self.0.slots.read().unwrap_or_else(PoisonError::into_inner);
            slots.get(plugin).map(|slot| slot.addr.clone())
        };
        let absent = || Err(FenceError::new("the plugin's actor is not there"));
        let Some(addr) = addr else { return absent() };
        let (outcome, hear) = oneshot::channel();
        addr.do_send(Notify { notification, span, outcome });
        hear.await.unwrap_or_else(|_| absent())
    }

    /// The names, in any order.
    #[must_use]
    pub fn names(&self) -> Vec<Arc<str>> {
        self.0.slots.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Removes all plugins. Waits until what they were doing has been dropped, such as programs that must be killed,
    /// for `patience` at most.
    pub async fn close(&self, patience: Duration) {
        self.replace(Vec::new());
        let _ = tokio::time::timeout(patience, self.0.surroundings.alive.closed()).await;
    }

    /// For tests: the plugin's actor dies.
    #[cfg(any(test, feature = "testing"))]
    pub fn kill(&self, plugin: &str) {
        let slots = self.0.slots.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(plugin) {
            slot.addr.do_send(actor::Panic);
        }
    }
}

impl Inner {
    fn start(&self, name: &Arc<str>, plugin: Arc<dyn FencePlugin>, limits: PluginLimits) -> Slot {
        let incarnation = self.incarnations.fetch_add(1, Ordering::Relaxed);
        let clock = self.surroundings.clock.clone();
        let exit_notice = ExitNotice::new(name.clone(), incarnation, clock, self.deaths.clone());
        let surroundings = self.surroundings.clone();
        let here = self.home.is_none();
        let topic = self.topics.subscribe(name.clone());
        let actor =
            PluginActor::new(plugin.clone(), topic, limits, surroundings, exit_notice, here);
        let addr = match &self.home {
            Some(home) => PluginActor::start_in_arbiter(home, move |_| actor),
            None => actor.start(),
        };
        Slot { addr, incarnation, plugin, limits }
    }

    /// Logs that a fence waits for a plugin that this node does not have. Once per [`SAY_AGAIN`], because the order is
    /// repeated often.
    fn miss(&self, plugin: &str, order: &FenceOrder) {
        self.surroundings.metrics.fences_without_plugin.increment(1);
        let now = self.surroundings.clock.now();
        let mut said = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
        if said.get(plugin).is_some_and(|last| now.since(*last) < SAY_AGAIN) {
            return;
        }
        said.insert(plugin.into(), now);
        drop(said);
        let (key, token) = (order.key.as_str(), order.token.0);
        tracing::error!(
            plugin,
            key,
            token,
            "a fence waits for a plugin that this node does not have: give all nodes the same plugins, or skip the fence"
        );
    }

    /// Starts a successor for an actor that died, unless there is one already, or the plugin was removed.
    fn succeed(&self, death: &Death<Arc<str>>) {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let Some(slot) = slots.get_mut(&death.key) else { return };
        if slot.incarnation != death.incarnation {
            return;
        }
        *slot = self.start(&death.key, slot.plugin.clone(), slot.limits);
        drop(slots);
        let (plugin, panicked) = (&*death.key, death.panicked);
        tracing::error!(plugin, panicked, "the plugin's actor died and was restarted");
        let took = self.surroundings.clock.now().since(death.at);
        self.surroundings.metrics.plugin_restarted(panicked, took);
    }
}

/// Replaces dead actors at once. One that dies too often rests first.
async fn supervise(plugins: Weak<Inner>, mut deaths: UnboundedReceiver<Death<Arc<str>>>) {
    let mut restarts = Restarts::new(RESTART_INTENSITY, RESTART_WINDOW);
    while let Some(death) = deaths.recv().await {
        let Some(inner) = plugins.upgrade() else { return };
        if !restarts.exceeds(&death.key, inner.surroundings.clock.now()) {
            inner.succeed(&death);
            continue;
        }
        tracing::error!(plugin = &*death.key, "the plugin's actor died too often; it is paused");
        let plugins = plugins.clone();
        actix::spawn(async move {
            tokio::time::sleep(RESTART_WINDOW).await;
            if let Some(inner) = plugins.upgrade() {
                inner.succeed(&death);
            }
        });
    }
}
