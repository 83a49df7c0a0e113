//! A whole coordinator from its settings, without a door: what `tenure serve` puts its HTTP server on, and
//! what a program that embeds tenure starts.
//!
//! Guarantees: what [`Engine::start`] opened is closed by [`Engine::stop`] in the order in which nothing that
//! was acknowledged is lost; the same settings give the same coordinator as `tenure serve`.
//!
//! Does not guarantee: that other nodes on a shared store can pass calls on to a coordinator that has no door:
//! they refuse them with `home-unreachable` for as long as it lives.
//!
//! Assumes: one coordinator per embedded store (its lock sees to that).

mod store;
mod thread;
mod witness;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
pub(crate) use store::{OpenStore, Surroundings, place};
pub use thread::{StartError, Tenure};

use super::{CallLimits, Manager, Parts};
use crate::{
    actor::{Arbiters, Limits, NamedPlugin, Reach},
    clock::{Clock, Entropy, SystemClock, SystemEntropy},
    lease::is_loopback,
    plugin,
    settings::Settings,
    telemetry::{Metrics, OwnershipLog},
};

/// Store, actors and manager of a coordinator that runs.
pub(crate) struct Engine {
    /// What is called.
    pub(crate) manager: Arc<Manager>,
    /// Handles to the metrics.
    pub(crate) metrics: Arc<Metrics>,
    /// The store.
    pub(crate) store: OpenStore,
    remembering: tokio::task::JoinHandle<()>,
    patience: Duration,
}

impl Engine {
    /// Opens the store and the manager. To be called inside an actix system; `url` is where other nodes reach
    /// this one, `listens` where its door is, if it has one, `arbiters` where lease actors live.
    pub(crate) async fn start(
        settings: &Settings,
        url: String,
        listens: Option<SocketAddr>,
        arbiters: Arc<Arbiters>,
    ) -> anyhow::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy::new());
        let metrics = Arc::new(Metrics::register(settings.store.kind.as_str()));
        let surroundings = Surroundings {
            clock: clock.clone(),
            entropy: entropy.clone(),
            metrics: metrics.clone(),
        };
        let store = OpenStore::open(settings, &surroundings).await?;
        let manager = Manager::open(Parts {
            plugins: plugins(settings, &clock)?,
            store: store.store.clone(),
            locked_at: clock.now(),
            clock,
            entropy,
            arbiters,
            url,
            node_ttl: settings.node.ttl,
            actors: actor_limits(settings, listens),
            policies: Arc::new(settings.lease_policies()),
            calls: CallLimits {
                wait_max: settings.limits.wait_max,
                waiting_places: settings.limits.waiting_places,
                strict_prefixes: settings.limits.strict_prefixes,
                weight: settings.limits.weight,
            },
            waiters_per_key: settings.limits.waiters_per_key,
            inflight_per_key: settings.limits.inflight_per_key,
            metrics: metrics.clone(),
            ownership_log: OwnershipLog::new(settings.telemetry.ownership_lines_per_second.into()),
            #[cfg(any(test, feature = "testing"))]
            broken: None,
        })
        .await?;
        let remembering = actix::spawn(store.remembering());
        let patience = settings.server.shutdown_timeout;
        Ok(Self { manager, metrics, store, remembering, patience })
    }

    /// Puts other policies into force, and the plugins that they name.
    ///
    /// # Errors
    /// A plugin cannot be made; everything stays as it was.
    pub(crate) fn set_policies(&self, settings: &Settings) -> anyhow::Result<()> {
        let world = self.manager.world();
        world.plugins.replace(plugins(settings, &world.clock)?);
        world.set_policies(Arc::new(settings.lease_policies()));
        Ok(())
    }

    /// Takes no more work and tells the other nodes. What is in flight is settled; then the doors may shut.
    pub(crate) async fn leave(&self) {
        self.manager.drain();
        self.manager.leave().await;
    }

    /// After [`Self::leave`], and after the doors are shut: syncs, and lets go of the store.
    pub(crate) async fn stop(self) {
        self.manager.close(self.patience).await;
        // Who still asks is promised nothing once another process may have the store.
        self.manager.promise_nothing();
        self.remembering.abort();
        self.store.close().await;
    }
}

/// The plugins of the settings.
fn plugins(settings: &Settings, clock: &Arc<dyn Clock>) -> anyhow::Result<Vec<NamedPlugin>> {
    let make = |plugin: &crate::settings::Plugin| {
        let built = plugin::build(plugin, &settings.store.nats, clock.clone());
        let built = built.with_context(|| format!("the plugin {:?}", plugin.name))?;
        Ok((plugin.name.clone(), built, plugin.into()))
    };
    settings.plugins.iter().map(make).collect()
}

/// Where checks may connect to. A coordinator that listens on loopback alone lets others in all the same where it has
/// names or an address for them: a proxy on this machine passes them on.
fn reach(settings: &Settings, listens: Option<SocketAddr>) -> Reach {
    let url = &settings.node.advertise_url;
    let lets_in = listens.is_some_and(|address| !address.ip().is_loopback())
        || !settings.server.hosts.is_empty()
        || !url.is_empty() && !is_loopback(url);
    Reach::new(&settings.checks.allow, listens.map(|address| address.port()), lets_in)
}

fn actor_limits(settings: &Settings, listens: Option<SocketAddr>) -> Limits {
    Limits {
        passivate_after: settings.node.passivate_after,
        restart_intensity: settings.actors.restart_intensity as usize,
        restart_window: settings.actors.restart_window,
        subscribers: settings.limits.subscribers,
        bus_buffer: settings.events.buffer,
        exec_checks: settings.limits.exec_checks,
        reach: reach(settings, listens),
        checks_ca: settings.checks.ca.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_reach_loopback_by_themselves_where_nobody_else_gets_in() {
        let allows = |settings: &Settings, listens: &str| {
            let listens = Some(listens.parse().expect("an address"));
            reach(settings, listens).allows(([127, 0, 0, 1], 80).into())
        };
        let settings = Settings::default();
        assert!(allows(&settings, "127.0.0.1:7373") && allows(&settings, "[::1]:7373"));
        for listens in ["0.0.0.0:7373", "[::]:7373", "10.0.0.1:7373"] {
            assert!(!allows(&settings, listens), "{listens}");
        }
        let mut proxied = Settings::default();
        proxied.server.hosts = "tenure.example".into();
        assert!(!allows(&proxied, "127.0.0.1:7373"));
        let mut advertised = Settings::default();
        advertised.node.advertise_url = "https://n1.example:7443".into();
        assert!(!allows(&advertised, "127.0.0.1:7373"));
    }
}
