//! Reads the store's history and tells it to a plugin.
//!
//! Changes are told a page at a time. In a page, the changes of one key are told one after another, and those of
//! different keys at once. The next page begins when all of the page is confirmed, so a change that the plugin does not
//! confirm delays the whole stream in the end, and what is kept in memory has a bound.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::time::sleep;

use super::{notifier::Notifier, tenure::Tenure};
use crate::{
    clock::{Chance, HashMap, rfc3339},
    lease::Key,
    manager::cloud_event::{Setting, cloud_event, store_tag, write_cursor},
    plugin::{FailureKind, FenceError, Notification, excerpt},
    store::{Committed, History, Position},
    telemetry::FenceTry,
};

/// How many changes are read at a time.
const PAGE: usize = 256;
/// The pause after a failed read of the history.
const PAUSE: Duration = Duration::from_millis(250);
/// How often it is checked whether the store is still the same, while nothing happens.
const LOOK: Duration = Duration::from_secs(1);
/// The pause after the first failed call. It doubles with each further failure, and half of it is random.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl Notifier {
    /// Tells the plugin what happened since the tenure's position. Returns when the store is no longer the same.
    pub(super) async fn deliver(&self, tenure: &Tenure) {
        let mut idle = false;
        while self.store_tag() == tenure.store_tag {
            let position = tenure.position.get();
            if let Some(reason) = tenure.reset.get() {
                self.tell_reset(tenure, position, reason).await;
                tenure.reset.set(None);
                continue;
            }
            match self.manager.history(position, PAGE).await {
                Ok(History::Changes(changes)) if changes.is_empty() => {
                    if std::mem::replace(&mut idle, true) {
                        // The history lags behind the feed.
                        sleep(PAUSE).await;
                    }
                    self.until_passed(tenure).await;
                    continue;
                }
                Ok(History::Changes(changes)) => self.tell_page(tenure, changes).await,
                Ok(History::Gap { resume }) => {
                    tenure.position.set(resume);
                    tenure.reset.set(Some("no-longer-kept"));
                }
                Err(error) => {
                    let plugin = &*self.subscription.plugin;
                    tracing::warn!(plugin, %error, "cannot read the store's history; retrying");
                    sleep(PAUSE).await;
                }
            }
            idle = false;
        }
    }

    fn store_tag(&self) -> String {
        store_tag(self.manager.coordinator.store.meta().identity)
    }

    /// Waits until something happened after the tenure's position, or the store is no longer the same.
    async fn until_passed(&self, tenure: &Tenure) {
        let passed = self.manager.coordinator.bus.passed(tenure.position.get());
        let replaced = async {
            while self.store_tag() == tenure.store_tag {
                sleep(LOOK).await;
            }
        };
        tokio::select! {
            () = passed => {}
            () = replaced => {}
        }
    }

    /// Tells those of the changes that the plugin asked for.
    async fn tell_page(&self, tenure: &Tenure, changes: Vec<Committed>) {
        let Some(end) = changes.last().map(|last| last.position) else { return };
        let wanted = changes.into_iter().filter(|change| self.subscription.wants(change));
        let mut keys: Vec<Vec<Committed>> = Vec::new();
        let mut places: HashMap<Key, usize> = HashMap::default();
        for committed in wanted {
            if keys.is_empty() {
                tenure.oldest_ms.set(Some(committed.at_ms));
            }
            let place = *places.entry(committed.key.clone()).or_insert(keys.len());
            if place == keys.len() {
                keys.push(Vec::new());
            }
            keys[place].push(committed);
        }
        let concurrency = self.subscription.concurrency.max(1);
        let tell = |changes| self.tell_key(tenure, changes);
        stream::iter(keys).for_each_concurrent(concurrency, tell).await;
        tenure.oldest_ms.set(None);
        tenure.position.set(end);
    }

    /// Tells the changes of one key, one after another.
    async fn tell_key(&self, tenure: &Tenure, changes: Vec<Committed>) {
        for committed in changes {
            let setting = Setting::of(&self.manager, &committed);
            let event = cloud_event(&self.url, &tenure.store_tag, &setting, &committed);
            let id = event.id.as_str().into();
            let event = serde_json::to_string(&event).unwrap_or_default().into();
            let notification = Notification { id, change: Some(committed), event, attempt: 0 };
            self.tell(tenure, notification).await;
        }
    }

    /// Tells that changes before this position may be missing.
    async fn tell_reset(&self, tenure: &Tenure, position: Position, reason: &str) {
        let plugin = &*self.subscription.plugin;
        tracing::error!(plugin, reason, "changes may be missing; the plugin gets a reset");
        self.metrics.resets.increment(1);
        let id = write_cursor(&tenure.store_tag, position);
        let wall_ms = self.manager.coordinator.clock.wall_ms();
        let event = json!({
            "specversion": "1.0",
            "type": "io.tenure.reset",
            "source": &*self.url,
            "id": id,
            "time": rfc3339(wall_ms),
            "datacontenttype": "application/json",
            "data": { "cursor": id, "reason": reason },
        });
        tenure.oldest_ms.set(Some(wall_ms));
        let event: Arc<str> = event.to_string().into();
        self.tell(tenure, Notification { id: id.into(), change: None, event, attempt: 0 }).await;
        tenure.oldest_ms.set(None);
    }

    /// Calls the plugin until it confirms. It is not called once another node may be calling it.
    async fn tell(&self, tenure: &Tenure, mut notification: Notification) {
        let mut chance = Chance::new(self.manager.coordinator.entropy.next_u64());
        loop {
            let from = self.manager.now();
            let span = self.subscription.timeout.min(tenure.until.get().since(from));
            if span.is_zero() {
                // A heartbeat is late. When the lease is lost, this is dropped.
                sleep(PAUSE).await;
                continue;
            }
            notification.attempt = notification.attempt.saturating_add(1);
            let plugins = &self.manager.coordinator.plugins;
            let told = plugins.notify(&self.subscription.plugin, notification.clone(), span).await;
            let took = self.manager.now().since(from);
            let Err(error) = told else {
                return self.metrics.called(FenceTry::Confirmed, took);
            };
            self.metrics.called(outcome(error.kind), took);
            self.log_failure(&notification, &error);
            self.measure(tenure);
            sleep(pause(notification.attempt, &mut chance)).await;
        }
    }

    fn log_failure(&self, notification: &Notification, error: &FenceError) {
        let (plugin, event, id) =
            (&*self.subscription.plugin, notification.kind(), &*notification.id);
        let key = notification.change.as_ref().map(|change| change.key.as_str());
        let (attempt, kind) = (notification.attempt, error.kind);
        let detail = self.subscription.log_detail.then(|| excerpt(&error.detail));
        tracing::warn!(plugin, event, id, key, attempt, %kind, detail, "a notification failed; retrying");
    }
}

fn outcome(kind: FailureKind) -> FenceTry {
    match kind {
        FailureKind::TimedOut => FenceTry::TimedOut,
        FailureKind::Panicked => FenceTry::Panicked,
        _ => FenceTry::Failed,
    }
}

/// The pause after this many failures.
fn pause(failures: u32, chance: &mut Chance) -> Duration {
    let doubled = 1u32.checked_shl(failures - 1).unwrap_or(u32::MAX);
    let half = FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE) / 2;
    half + chance.jitter(half)
}
