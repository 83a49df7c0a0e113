//! Notifies plugins of ownership changes.
//!
//! Guarantees: once a plugin's first position is stored, it is notified of every change that it asked for, at least
//! once, and per key in order, or it is told a reset. That holds across restarts and the deaths of nodes. One node at a
//! time notifies a plugin, under a lease whose value is the position up to which the plugin confirmed.
//!
//! Does not guarantee: that a plugin is notified once. What it confirmed in the last second before a crash is told again.
//!
//! Assumes: it is made inside an actix system, or a `LocalSet`.

mod delivery;
mod notifier;
mod tenure;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::task::{JoinHandle, spawn_local};

use self::notifier::Notifier;
use super::Manager;
use crate::actor::{Subscription, watch};

/// The pause after a notifier panicked, before it is started again.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a notifier may take to store its position when it stops.
const PATIENCE: Duration = Duration::from_secs(5);

/// The notifiers of this node, one for each plugin that asks for notifications.
pub(crate) struct Notifiers {
    manager: Arc<Manager>,
    /// The URL that events name as their source.
    url: Arc<str>,
    running: Mutex<BTreeMap<Arc<str>, Running>>,
}

struct Running {
    subscription: Subscription,
    stop: Arc<watch::Sender<bool>>,
    task: JoinHandle<()>,
}

impl Notifiers {
    /// Starts the notifiers of a coordinator that has this URL.
    pub(crate) fn start(manager: Arc<Manager>, url: &str) -> Self {
        let url = if url.is_empty() { "/tenure" } else { url };
        let made = Self { manager, url: url.into(), running: Mutex::default() };
        made.follow();
        made
    }

    /// Starts and stops notifiers until there is one for each subscription. A subscription that changed gets another
    /// notifier, which goes on where the one before stopped.
    pub(crate) fn follow(&self) {
        let subscriptions = self.manager.coordinator.subscriptions();
        let mut running = self.running();
        running.retain(|plugin, notifier| {
            let stays = subscriptions.iter().any(|wanted| wanted.plugin == *plugin);
            if !stays {
                notifier.stop.send_replace(true);
            }
            stays
        });
        for wanted in subscriptions.iter() {
            if running.get(&wanted.plugin).is_none_or(|present| present.subscription != *wanted) {
                let before = running.remove(&wanted.plugin);
                running.insert(wanted.plugin.clone(), self.run(wanted.clone(), before));
            }
        }
    }

    /// Stops all notifiers, once they have stored their positions. The coordinator must still accept calls.
    pub(crate) async fn stop(&self) {
        let running = std::mem::take(&mut *self.running());
        running.values().for_each(|notifier| notifier.stop.send_replace(true));
        let ended = join_all(running.into_values().map(|notifier| notifier.task));
        let _ = tokio::time::timeout(PATIENCE, ended).await;
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a notifier once the one before has ended.
    fn run(&self, subscription: Subscription, before: Option<Running>) -> Running {
        let stop = Arc::new(watch::Sender::new(false));
        let (stopping, plugin) = (stop.clone(), subscription.plugin.clone());
        let notifier = Notifier::new(self.manager.clone(), self.url.clone(), subscription.clone());
        let notifier = Arc::new(notifier);
        let task = spawn_local(async move {
            if let Some(before) = before {
                before.stop.send_replace(true);
                let _ = before.task.await;
            }
            while let Err(error) = spawn_local(notifier.clone().run(stopping.subscribe())).await {
                tracing::error!(plugin = &*plugin, %error, "a notifier panicked; it is restarted");
                tokio::time::sleep(PAUSE).await;
            }
        });
        Running { subscription, stop, task }
    }
}
