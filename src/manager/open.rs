//! Opens a coordinator.

use std::{sync::Arc, time::Duration};

use actix::Actor;
use tokio::sync::mpsc;

use super::{
    CallLimits, Manager, kept_places::KeptPlaces, new_keys::NewKeys, search_turns::SearchTurns,
    waiting::WaitingPlaces,
};
use crate::{
    actor::{
        self, Arbiters, Coordinator, Environment, Limits, NamedPlugin, Node, Registry,
        Subscription, Supervisor, supervise, watch,
    },
    clock::{Clock, Entropy, dash_map},
    lease::{Moment, NodeContext, Policies, Rules, StoreError},
    store::{Health, LeaseStore},
    telemetry::{Metrics, OwnershipLog},
};

/// The parts of a coordinator.
pub struct Parts {
    /// The store that keeps the records of all leases.
    pub store: Arc<dyn LeaseStore>,
    /// The clock of every promise.
    pub clock: Arc<dyn Clock>,
    /// The source of secrets, nonces and seeds.
    pub entropy: Arc<dyn Entropy>,
    /// The threads on which lease actors live.
    pub arbiters: Arc<Arbiters>,
    /// When the store's lock was taken, on `clock`.
    pub locked_at: Moment,
    /// The address at which clients and other nodes reach this coordinator.
    pub url: String,
    /// How long this node may make promises after it wrote its record, if the store is shared.
    pub node_ttl: Duration,
    /// Bounds on the memory and the restarts of the actors, and on what checks of sessions may reach.
    pub actors: Limits,
    /// The policies of the keys.
    pub policies: Arc<Policies>,
    /// The plugins that fence resources, each under its name.
    pub plugins: Vec<NamedPlugin>,
    /// What plugins are notified of, by the notifiers of [`Tenure`](super::Tenure).
    pub subscriptions: Vec<Subscription>,
    /// Limits on what callers may ask for.
    pub calls: CallLimits,
    /// The highest number of callers in one key's queue.
    pub waiters_per_key: usize,
    /// The highest number of calls that wait for one key's write.
    pub inflight_per_key: usize,
    /// Handles to the metrics that have no pool label.
    pub metrics: Arc<Metrics>,
    /// The log of ownership changes.
    pub ownership_log: OwnershipLog,
    /// The rules of the protocol. A test may break one on purpose, to check that other tests notice.
    pub rules: Rules,
}

/// Why a coordinator could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store could not be read.
    #[error("the store cannot be read: {0}")]
    Store(#[from] StoreError),
}

impl Manager {
    /// Opens a coordinator: reads what an earlier process left, and starts the supervisor on this thread and the actors
    /// of inherited leases in the background. Must be called inside an actix system. Without arbiters, it must be
    /// called inside the `LocalSet` in which the coordinator is to live.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(parts: Parts) -> Result<Arc<Self>, OpenError> {
        parts.store.bound_keys(&parts.policies);
        let meta = parts.store.meta();
        let shared = parts.store.shared().is_some();
        let context = NodeContext {
            node: parts.entropy.nonce(),
            // A node promises nothing before its own record is in the store.
            until: if shared { Moment::ZERO } else { Moment::NEVER },
            resumed: Moment::ZERO,
            policies: parts.policies,
            frozen: matches!(parts.store.health(), Health::Frozen(_)),
            peers: shared.then(Arc::default),
            epoch: meta.epoch,
            level: meta.level,
            secret: meta.secret.clone(),
            waiters_per_key: parts.waiters_per_key,
            inflight_per_key: parts.inflight_per_key,
            rules: parts.rules,
        };
        let (deaths, exit_notices) = mpsc::unbounded_channel();
        let environment = Environment::new(
            parts.store,
            parts.clock.clone(),
            parts.entropy,
            context,
            parts.actors,
            parts.metrics,
            parts.ownership_log,
            parts.locked_at,
        );
        let coordinator = Arc::new_cyclic(|coordinator| {
            let start_actor = actor::lease_actors(coordinator.clone());
            let registry = Registry::new(parts.arbiters, parts.clock, deaths, start_actor);
            Coordinator::new(environment, registry, parts.plugins, parts.subscriptions)
        });
        actor::start_sessions(&coordinator.session_service);
        coordinator.unheard.start();
        coordinator.forgotten.start();
        coordinator.start_quotas();
        let inherited = if shared { Vec::new() } else { actor::inherit(&coordinator).await? };
        let supervisor = Supervisor::new(coordinator.clone(), exit_notices).start();
        // Must start after the feed was taken, so that changes made during its search are not missed.
        actor::start_balancer(&coordinator);
        if shared {
            // This also must come after the feed was taken.
            actor::read_session_leases(&coordinator, &coordinator.sessions, |_, _| {}).await?;
        }
        let node = shared.then(|| Node::new(coordinator.clone(), &parts.url, parts.node_ttl));
        if let Some(node) = &node {
            node.start().await;
        } else {
            actix::spawn(actor::awaken(coordinator.clone(), inherited));
        }
        let draining = watch::Sender::new(false);
        let (limits, serving) = (parts.calls, Arc::new(dash_map()));
        let waiting = WaitingPlaces::new(limits.waiting_places);
        let counter = Arc::default();
        let search_turns = SearchTurns::new();
        let manager = Arc::new(Self {
            coordinator,
            limits,
            draining,
            serving,
            waiting,
            kept_places: KeptPlaces::default(),
            new_keys: NewKeys::default(),
            supervisor,
            node,
            turnstiles: Default::default(),
            revocations: Default::default(),
            search_turns,
            counter,
        });
        supervise(&manager, "guards of pools", |manager| manager.keep_guards());
        supervise(&manager, "preparations of pools", |manager| manager.keep_warmups());
        Ok(manager)
    }

    /// From now on nothing is granted, and no heartbeat is absorbed.
    pub(crate) fn promise_nothing(&self) {
        self.coordinator.change_node_context(|context| context.until = Moment::ZERO);
    }

    /// The last step of a graceful stop, after [`Manager::drain`] and after the HTTP server has stopped. Waits for
    /// `patience` at most until the bus has published what the store committed.
    pub async fn close(&self, patience: Duration) {
        self.coordinator.plugins.close(patience).await;
        let committed = self.coordinator.bus.reached(self.coordinator.store.latest());
        let _ = tokio::time::timeout(patience, committed).await;
        let _ = tokio::time::timeout(patience, self.supervisor.send(actor::Stop)).await;
    }
}
