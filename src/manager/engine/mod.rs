//! A whole coordinator made from its settings, without an HTTP server. `tenure serve` adds one, and a program that
//! embeds tenure starts it as it is.
//!
//! Guarantees: [`Engine::stop`] closes what [`Engine::start`] opened, in an order in which nothing that was
//! acknowledged is lost. The same settings give the same coordinator as `tenure serve`.
//!
//! Does not guarantee: that other nodes on a shared store can forward calls to a coordinator without an HTTP server.
//! They refuse such calls with `home-unreachable` for as long as it lives.
//!
//! Assumes: one coordinator per embedded store. The store's lock ensures that.

mod store;
mod thread;
mod witness;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
pub(crate) use store::{
    OpenStore, Surroundings, check_is_there, end_restore, how_to_empty, place, restamp, verify,
};
pub use thread::{StartError, Tenure};

use super::{CallLimits, Manager, Parts, notify::Notifiers};
use crate::{
    actor::{Arbiters, Limits, NamedPlugin, Reach, Subscription},
    clock::{Clock, Entropy, SystemClock, SystemEntropy},
    lease::{Rules, is_loopback},
    plugin,
    settings::Settings,
    telemetry::{Metrics, OwnershipLog},
};

/// Store, actors and manager of a running coordinator.
pub(crate) struct Engine {
    pub(crate) manager: Arc<Manager>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) store: OpenStore,
    notifiers: Notifiers,
    remembering: tokio::task::JoinHandle<()>,
    patience: Duration,
}

impl Engine {
    /// Opens the store and the manager. Must be called inside an actix system. `url` is the address at which other
    /// nodes reach this one, `listens` the address of its HTTP server, if it has one, and `arbiters` the threads of
    /// lease actors.
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
            subscriptions: subscriptions(settings),
            store: store.store.clone(),
            locked_at: clock.now(),
            clock,
            entropy,
            arbiters,
            url: url.clone(),
            node_ttl: settings.node.ttl,
            actors: Limits::new(settings, reach(settings, listens)),
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
            rules: Rules::default(),
        })
        .await?;
        let notifiers = Notifiers::start(manager.clone(), &url);
        let remembering = actix::spawn(store.remembering());
        let patience = settings.server.shutdown_timeout;
        Ok(Self { manager, metrics, store, notifiers, remembering, patience })
    }

    /// Puts other policies into effect, and the plugins that they name. Fences that failed for good run once more.
    ///
    /// # Errors
    /// A plugin cannot be made. Then nothing changes.
    pub(crate) fn set_policies(&self, settings: &Settings) -> anyhow::Result<()> {
        let coordinator = &self.manager.coordinator;
        coordinator.plugins.replace(plugins(settings, &coordinator.clock)?);
        coordinator.set_subscriptions(subscriptions(settings));
        self.notifiers.follow();
        coordinator.set_policies(Arc::new(settings.lease_policies()));
        actix::spawn(self.manager.clone().retry_after_reload());
        Ok(())
    }

    /// Accepts no more work, and tells the other nodes. Once this returns, calls in flight are being settled, and the
    /// HTTP server may stop.
    pub(crate) async fn leave(&self) {
        self.notifiers.stop().await;
        self.manager.drain();
        self.manager.leave().await;
    }

    /// Must be called after [`Self::leave`], and after the HTTP server has stopped. Syncs and closes the store.
    pub(crate) async fn stop(self) {
        self.manager.close(self.patience).await;
        // From now on another process may open the store, so nothing more is promised.
        self.manager.promise_nothing();
        self.remembering.abort();
        self.store.close().await;
    }
}

fn plugins(settings: &Settings, clock: &Arc<dyn Clock>) -> anyhow::Result<Vec<NamedPlugin>> {
    let make = |plugin: &crate::settings::Plugin| {
        let built = plugin::build(plugin, &settings.store.nats, clock.clone());
        let built = built.with_context(|| format!("the plugin {:?}", plugin.name))?;
        Ok((plugin.name.clone(), built, plugin.into()))
    };
    settings.plugins.iter().map(make).collect()
}

/// What the plugins of the settings are notified of.
fn subscriptions(settings: &Settings) -> Vec<Subscription> {
    settings.plugins.iter().filter_map(Subscription::of).collect()
}

/// Where checks may connect to. A coordinator that listens on loopback alone still lets other clients in if the
/// settings give it host names or an address: a proxy on this machine may forward to it.
fn reach(settings: &Settings, listens: Option<SocketAddr>) -> Reach {
    let url = &settings.node.advertise_url;
    let lets_in = listens.is_some_and(|address| !address.ip().is_loopback())
        || !settings.server.hosts.is_empty()
        || !url.is_empty() && !is_loopback(url);
    Reach::new(&settings.checks.allow, listens.map(|address| address.port()), lets_in)
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
