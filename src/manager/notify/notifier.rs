//! The notifier of one plugin: takes and keeps the lease under which this node alone notifies it.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use super::tenure::Tenure;
use crate::{
    actor::{Subscription, watch},
    lease::{Acquire, Heartbeat, Key, Owner, Refusal, Release},
    manager::{
        Manager,
        cloud_event::store_tag,
        error::{AcquireError, CallError, HolderError},
    },
    telemetry::NotificationMetrics,
};

/// How long after the death of a node another one may notify its plugins.
const TTL_MS: u64 = 5_000;
/// The interval between two heartbeats. Each stores the position if it moved, so a crash repeats this much at most.
const BEAT: Duration = Duration::from_secs(1);
/// The pause before another try to take the lease.
const PAUSE: Duration = Duration::from_secs(1);
/// The owner where no other node can use the store.
const ALONE: &str = "notifier";

/// Notifies one plugin while this node holds the lease for it.
pub(super) struct Notifier {
    pub(super) manager: Arc<Manager>,
    pub(super) url: Arc<str>,
    pub(super) subscription: Subscription,
    pub(super) metrics: NotificationMetrics,
    key: Key,
    owner: Owner,
}

impl Notifier {
    pub(super) fn new(manager: Arc<Manager>, url: Arc<str>, subscription: Subscription) -> Self {
        // The next process of this node has the same owner, and goes on at once.
        let name = if manager.node.is_some() { &*url } else { ALONE };
        let unique = || Owner::new(&manager.incarnation().to_string());
        let owner = Owner::new(name).or_else(|_| unique());
        Self {
            key: Key::of_notifier(&subscription.plugin),
            metrics: NotificationMetrics::register(&subscription.plugin),
            owner: owner.expect("an incarnation is a name"),
            manager,
            url,
            subscription,
        }
    }

    /// Notifies the plugin until it is told to stop.
    pub(super) async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut said = String::new();
        loop {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return,
                taken = self.take() => match taken {
                    Ok(tenure) => {
                        let stopped = tokio::select! {
                            biased;
                            _ = stop.wait_for(|stop| *stop) => true,
                            () = self.keep(&tenure) => false,
                            () = self.deliver(&tenure) => false,
                        };
                        self.metrics.lag_seconds.set(0.0);
                        if stopped {
                            return self.give_back(&tenure).await;
                        }
                    }
                    Err(error) => self.say(&error, &mut said),
                },
            }
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return,
                () = sleep(PAUSE) => {}
            }
        }
    }

    /// Takes the lease. Where a plugin's first notifications begin is durable before this returns.
    async fn take(&self) -> Result<Tenure, AcquireError> {
        let manager = &self.manager;
        let (asked, latest) = (manager.now(), manager.latest());
        let tag = store_tag(manager.coordinator.store.meta().identity);
        let acquire = manager.request(&self.owner, TTL_MS);
        let acquire = Acquire { reclaim: true, allow_stale: true, ..acquire };
        let grant = manager.own(&self.key, acquire, asked.into()).await?;
        let until = asked + Duration::from_millis(grant.valid_for_ms);
        let value = grant.view.value.as_deref();
        let tenure = Tenure::new(grant.lease_id, until, tag, value, latest);
        if tenure.unstored().is_some() {
            self.beat(&tenure).await.map_err(|error| match error {
                HolderError::Call(error) => error,
                _ => CallError::Lapsed,
            })?;
        }
        let (plugin, position) = (&*self.subscription.plugin, tenure.position.get());
        tracing::info!(plugin, ?position, "this node notifies the plugin");
        Ok(tenure)
    }

    /// Logs why this node does not notify the plugin, once for each reason in a row. That another node does is nothing to
    /// tell.
    fn say(&self, error: &AcquireError, said: &mut String) {
        let plugin = &*self.subscription.plugin;
        let why = error.to_string();
        if std::mem::replace(said, why) == *said {
            return;
        }
        match error {
            AcquireError::Refused(Refusal::Held, _)
            | AcquireError::Call(CallError::Elsewhere(_) | CallError::Draining) => {
                tracing::debug!(plugin, %error, "another node notifies the plugin");
            }
            _ => tracing::warn!(plugin, %error, "cannot notify the plugin yet; retrying"),
        }
    }

    /// Sends heartbeats until the lease is lost.
    async fn keep(&self, tenure: &Tenure) {
        loop {
            sleep(BEAT).await;
            self.measure(tenure);
            let Err(error) = self.beat(tenure).await else { continue };
            let lost =
                !matches!(error, HolderError::Call(_)) || self.manager.now() >= tenure.until.get();
            let plugin = &*self.subscription.plugin;
            if lost {
                return tracing::warn!(plugin, %error, "this node no longer notifies the plugin");
            }
            tracing::debug!(plugin, %error, "a notifier's heartbeat failed; retrying");
        }
    }

    /// Sets the gauge of how far the plugin is behind.
    pub(super) fn measure(&self, tenure: &Tenure) {
        let now_ms = self.manager.coordinator.clock.wall_ms();
        let lag_ms = tenure.oldest_ms.get().map_or(0, |oldest| now_ms.saturating_sub(oldest));
        self.metrics.lag_seconds.set(Duration::from_millis(lag_ms).as_secs_f64());
    }

    /// Sends a heartbeat, which stores the position if it moved.
    async fn beat(&self, tenure: &Tenure) -> Result<(), HolderError> {
        let asked = self.manager.now();
        let (value, position) = tenure.unstored().unzip();
        let beat = Heartbeat { value, ..Heartbeat::new(tenure.lease_id) };
        let alive = self.manager.keep_alive(self.key.as_str(), &beat, asked.into()).await?;
        tenure.until.set(asked + Duration::from_millis(alive.valid_for_ms));
        if position.is_some() {
            tenure.stored.set(position);
        }
        Ok(())
    }

    /// Stores the position and releases the lease.
    async fn give_back(&self, tenure: &Tenure) {
        let value = tenure.unstored().map(|(value, _)| value);
        let release = Release { value, ..Release::new(tenure.lease_id) };
        let released = self.manager.release(self.key.as_str(), release, self.manager.now()).await;
        if let Err(error) = released {
            let plugin = &*self.subscription.plugin;
            tracing::warn!(plugin, %error, "cannot release a notifier's lease; it expires by itself");
        }
    }
}
