//! The actors of the fence plugins, by name.
//!
//! Guarantees: every order is reported exactly once, at the latest when its budget, counted from its
//! first try, is over (and a moment more, in which the last try lets go); a plugin that fails, hangs or panics costs one try; one that
//! blocks its thread holds up nobody but itself; an actor that dies is replaced.
//!
//! Does not guarantee: that an order is tried once, or at all: what is interrupted is to be ordered again.
//!
//! Assumes: it is made inside an actix system, and its actors live on the arbiter that makes it, the plugins' code
//! on threads of its own. Where there is no system, all of it lives in the `LocalSet` of whoever makes it: such a
//! plugin must not block.

mod actor;
mod order;
mod report;
mod worker;

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError, RwLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use actix::{Actor, Addr, Arbiter, ArbiterHandle};
use tokio::sync::{
    mpsc::{self, UnboundedReceiver, UnboundedSender},
    watch,
};

use self::actor::{Exchange, Fence, PluginActor, Retire, Surroundings};
pub use self::report::{FenceOutcome, Report};
use super::exit_notice::{Death, ExitNotice};
use crate::{
    clock::{Clock, HashMap},
    lease::Moment,
    plugin::{FenceOrder, FencePlugin},
    settings,
    telemetry::Metrics,
};

/// How often an actor may be started anew at once…
const RESTART_INTENSITY: usize = 10;
/// …within this; after that it rests for as long.
const RESTART_WINDOW: Duration = Duration::from_secs(10);

/// How often it is said that fences wait for a plugin which is not there.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// What a plugin may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginLimits {
    /// How long one try may take.
    pub timeout: Duration,
    /// How often an order that failed is tried again.
    pub retries: u32,
    /// Most orders that are worked on at a time; more wait.
    pub concurrency: usize,
}

impl Default for PluginLimits {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(10), retries: 3, concurrency: 32 }
    }
}

impl From<&settings::Plugin> for PluginLimits {
    fn from(plugin: &settings::Plugin) -> Self {
        let settings::Plugin { timeout, retries, concurrency, .. } = *plugin;
        Self { timeout, retries, concurrency }
    }
}

/// A plugin with its name and limits.
pub type NamedPlugin = (String, Arc<dyn FencePlugin>, PluginLimits);

/// The plugins. Clones share them.
#[derive(Clone)]
pub struct Plugins(Arc<Inner>);

struct Inner {
    slots: RwLock<HashMap<Arc<str>, Slot>>,
    surroundings: Surroundings,
    home: Option<ArbiterHandle>,
    deaths: UnboundedSender<Death<Arc<str>>>,
    incarnations: AtomicU64,
    /// When it was last said of a name that no plugin has it.
    missed: Mutex<HashMap<Box<str>, Moment>>,
}

struct Slot {
    addr: Addr<PluginActor>,
    incarnation: u64,
    plugin: Arc<dyn FencePlugin>,
    limits: PluginLimits,
}

impl Plugins {
    /// Starts an actor for each. To be called inside an actix system, or a `LocalSet`.
    #[must_use]
    pub fn new(
        plugins: Vec<NamedPlugin>,
        clock: Arc<dyn Clock>,
        seed: u64,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (deaths, exit_notices) = mpsc::unbounded_channel();
        let alive = Arc::new(watch::Sender::new(()));
        let inner = Arc::new(Inner {
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
        let plugins_ = Self(inner);
        plugins_.replace(plugins);
        plugins_
    }

    /// Exchanges the set, as at a reload. A plugin that keeps its name goes on with what is under way, and
    /// takes new orders with its new limits; one that is gone reports [`FenceOutcome::Interrupted`].
    pub fn replace(&self, plugins: Vec<NamedPlugin>) {
        let mut slots = self.0.slots.write().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|name, slot| {
            let stays = plugins.iter().any(|(other, ..)| **other == **name);
            if !stays {
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

    /// Has the plugin fence. The outcome is reported within `budget`, all tries and pauses included, from the
    /// moment at which it has a place; [`FenceOutcome::Interrupted`] where no plugin has the name: the node that
    /// ended the tenure knew it, and this one may after its next reload.
    pub fn order(&self, plugin: &str, order: FenceOrder, budget: Duration, report: Report) {
        let slots = self.0.slots.read().unwrap_or_else(PoisonError::into_inner);
        let Some(slot) = slots.get(plugin) else {
            drop(slots);
            self.0.miss(plugin, &order);
            return report.send(FenceOutcome::Interrupted);
        };
        let addr = slot.addr.clone();
        drop(slots);
        // A dead actor's mail is dropped, and the report with it.
        addr.do_send(Fence { order, budget, report });
    }

    /// The names, in no order.
    #[must_use]
    pub fn names(&self) -> Vec<Arc<str>> {
        self.0.slots.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Takes all plugins away, and waits until what they were doing has been dropped, such as programs
    /// that are to be killed; at most for `patience`.
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
        let actor = PluginActor::new(plugin.clone(), limits, surroundings, exit_notice, here);
        let addr = match &self.home {
            Some(home) => PluginActor::start_in_arbiter(home, move |_| actor),
            None => actor.start(),
        };
        Slot { addr, incarnation, plugin, limits }
    }

    /// Says that a fence waits for a plugin that this node does not have: once in a while, for it is asked for
    /// again and again.
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

    /// A successor for an actor that died, unless there is one, or the plugin is gone.
    fn succeed(&self, death: &Death<Arc<str>>) {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let Some(slot) = slots.get_mut(&death.key) else { return };
        if slot.incarnation != death.incarnation {
            return;
        }
        *slot = self.start(&death.key, slot.plugin.clone(), slot.limits);
        drop(slots);
        let (plugin, panicked) = (&*death.key, death.panicked);
        tracing::error!(plugin, panicked, "the plugin's actor died and was started anew");
        let took = self.surroundings.clock.now().since(death.at);
        self.surroundings.metrics.plugin_restarted(panicked, took);
    }
}

/// Replaces the dead at once; one that dies too often rests first.
async fn supervise(plugins: Weak<Inner>, mut deaths: UnboundedReceiver<Death<Arc<str>>>) {
    let mut restarts: HashMap<Arc<str>, VecDeque<Moment>> = HashMap::default();
    while let Some(death) = deaths.recv().await {
        let Some(inner) = plugins.upgrade() else { return };
        let now = inner.surroundings.clock.now();
        let times = restarts.entry(death.key.clone()).or_default();
        while times.front().is_some_and(|first| *first < now - RESTART_WINDOW) {
            times.pop_front();
        }
        times.push_back(now);
        if times.len() <= RESTART_INTENSITY {
            inner.succeed(&death);
            continue;
        }
        tracing::error!(plugin = &*death.key, "the plugin's actor died too often and rests");
        let plugins = plugins.clone();
        actix::spawn(async move {
            tokio::time::sleep(RESTART_WINDOW).await;
            if let Some(inner) = plugins.upgrade() {
                inner.succeed(&death);
            }
        });
    }
}
