//! A coordinator: an environment, and what the actors and tasks in it share.

use std::{
    collections::BTreeSet,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use super::{
    environment::{Decided, Environment, digest, loaded},
    leftovers::{Forgotten, UnheardGrants},
    mail::{Mail, Reply},
    plugins::{NamedPlugin, Plugins, Subscription},
    pools::{DryRun, PoolView, Pools},
    quotas::{self, Quotas},
    runtime::{
        bus::Bus, cells::CellEntry, followers::Followers, inbox::Inbox, outcomes::Outcomes,
        registry::Registry, shown::Shown, stuck::Stuck, traced_changes::TracedChanges, watch,
    },
    sessions::{SessionService, Sessions},
};
use crate::{
    lease::{Absorbed, Common, Heartbeat, Inherited, Key, Lease, Moment, Nonce, Policies, View},
    store::Found,
    telemetry::PoolMetrics,
};

/// A view of a pool with so many keys takes some milliseconds, and is kept for other readers.
const MANY: usize = 10_000;

/// What the actors and tasks of a coordinator share. It can be used as its environment.
pub struct Coordinator {
    environment: Arc<Environment>,
    /// Finds the actor of every key.
    pub registry: Arc<Registry>,
    /// What this node knows of pools.
    pub pools: Arc<Pools>,
    /// What this node knows of sessions.
    pub sessions: Arc<Sessions>,
    /// What this node does for sessions.
    pub session_service: Arc<SessionService>,
    pub plugins: Plugins,
    /// What principals with a limit have.
    pub quotas: Arc<Quotas>,
    /// Changes with the policies.
    policy_changes: watch::Sender<()>,
    /// What operators were shown last of each pool.
    pub(super) views: Shown<PoolView>,
    pub(super) plans: Shown<DryRun>,
    /// Held while it is found out which members the free keys of a pool are for.
    pub(super) assigning: Arc<tokio::sync::Mutex<()>>,
    /// What plugins are notified of.
    subscriptions: ArcSwap<Vec<Subscription>>,
    pub bus: Bus,
    /// Who follows single tenures.
    pub followers: Arc<Followers>,
    /// Keys that nobody holds although callers wait for them.
    pub stuck: Stuck,
    /// Keys that this node forgot, until their records are removed.
    pub(crate) forgotten: Arc<Forgotten>,
    /// Grants whose callers left before they were told.
    pub(crate) unheard: Arc<UnheardGrants>,
    /// Delivers the outcomes of writes to actors.
    pub(super) outcomes: Outcomes,
    /// Which changes were written for traced calls.
    pub(super) traced_changes: TracedChanges,
    /// Unknown nodes that records name.
    pub(super) unknown_nodes: Inbox<BTreeSet<Nonce>>,
    /// How many leases have this node as their home node.
    homed: AtomicU32,
    /// Wakes the task that reads the revocation list.
    pub(crate) revocations: Notify,
    /// A digest of the access file; 0 while it is not known.
    access: AtomicU32,
    /// The coordinator is stopping: its actors end with their threads.
    stopping: AtomicBool,
}

impl Deref for Coordinator {
    type Target = Environment;

    fn deref(&self) -> &Environment {
        &self.environment
    }
}

impl Coordinator {
    /// How many writes of this node's actors the store has not settled.
    pub fn writes_waiting(&self) -> usize {
        self.outcomes.waiting()
    }

    /// A coordinator in this environment. Must be called inside an actix system, or a `LocalSet`.
    pub fn new(
        environment: Environment,
        registry: Registry,
        plugins: Vec<NamedPlugin>,
        subscriptions: Vec<Subscription>,
    ) -> Self {
        let (environment, registry) = (Arc::new(environment), Arc::new(registry));
        let pools = Arc::new(Pools::new(environment.protocol));
        let quotas = Quotas::new(environment.protocol);
        let sessions = Arc::<Sessions>::default();
        let session_service = SessionService::new(
            environment.clone(),
            registry.clone(),
            sessions.clone(),
            pools.clone(),
        );
        let (limits, clock) = (&environment.limits, environment.clock.clone());
        let bus = Bus::new(limits.bus_buffer, limits.subscribers);
        let metrics = environment.metrics.clone();
        let fences = bus.fences.clone();
        let plugins = Plugins::new(plugins, fences, clock, environment.seed, metrics);
        Self {
            session_service: Arc::new(session_service),
            forgotten: Arc::new(Forgotten::new(environment.clone())),
            unheard: Arc::new(UnheardGrants::new(environment.clone(), registry.clone())),
            outcomes: Outcomes::new(registry.threads()),
            traced_changes: TracedChanges::default(),
            unknown_nodes: Inbox::default(),
            homed: AtomicU32::new(0),
            revocations: Notify::new(),
            access: AtomicU32::new(0),
            stopping: AtomicBool::new(false),
            environment,
            registry,
            pools,
            sessions,
            plugins,
            quotas: Arc::new(quotas),
            policy_changes: watch::Sender::new(()),
            views: Shown::new(|view| view.keys >= MANY),
            plans: Shown::new(|_| true),
            assigning: Arc::default(),
            subscriptions: ArcSwap::from_pointee(subscriptions),
            bus,
            followers: Arc::default(),
            stuck: Stuck::default(),
        }
    }

    /// Puts other policies into effect. Held leases continue unchanged: the new policies apply from their next grant,
    /// change of ttl, or end. Calls that wait go on under the new policies.
    pub fn set_policies(&self, policies: Arc<Policies>) {
        self.put_policies(policies);
        self.registry.tell_all(|| Mail::Nudge);
        self.pools.missed_changes(self.store.meta().epoch);
        self.policy_changes.send_replace(());
    }

    /// How often the policies were replaced.
    pub fn policy_version(&self) -> u64 {
        self.policy_table().version()
    }

    /// Changes with the policies, after they are in effect.
    pub fn policy_changes(&self) -> watch::Receiver<()> {
        self.policy_changes.subscribe()
    }

    /// From now on, what principals with a limit have is read from the store when it is not known.
    pub fn start_quotas(&self) {
        quotas::start(&self.environment, &self.quotas);
    }

    /// What plugins are notified of.
    pub fn subscriptions(&self) -> Arc<Vec<Subscription>> {
        self.subscriptions.load_full()
    }

    /// From now on, plugins are notified of this.
    pub fn set_subscriptions(&self, subscriptions: Vec<Subscription>) {
        self.subscriptions.store(Arc::new(subscriptions));
    }

    /// From now on, this node publishes this digest of its access file.
    pub fn set_access_digest(&self, access: u32) {
        self.access.store(access, Ordering::Relaxed);
    }

    /// The digest of the access file that this node publishes.
    pub fn access_digest(&self) -> u32 {
        self.access.load(Ordering::Relaxed)
    }

    /// Digests of what nodes must have in common: of the policies, the names of the plugins and what they are notified
    /// of, and of the access file.
    pub(super) fn common(&self) -> Common {
        Common { policies: self.policies_digest(), access: self.access_digest() }
    }

    fn policies_digest(&self) -> u32 {
        let mut plugins = self.plugins.names();
        plugins.sort_unstable();
        let subscriptions = self.subscriptions();
        let mut notified: Vec<_> =
            subscriptions.iter().map(|it| (&it.plugin, &it.on, &it.prefix)).collect();
        notified.sort_unstable_by_key(|(plugin, ..)| *plugin);
        let all = format!("{:?} {plugins:?} {notified:?}", self.node_context().policies);
        // The lower half of the digest: nodes compare it with others of this length.
        u32::try_from(digest(all.as_bytes()) & u64::from(u32::MAX)).unwrap_or_default().max(1)
    }

    /// The coordinator accepts no more work: actors that end from now on are not replaced.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// How many leases have this node as their home node, or have a home node that is gone and a session that is at home here.
    pub fn homed(&self) -> u32 {
        self.homed.load(Ordering::Relaxed) + self.sessions.left.count()
    }

    /// Counts a lease whose home node this node became, or ceased to be.
    pub(super) fn count_homed(&self, homed: bool, pool: &PoolMetrics) {
        if homed {
            self.homed.fetch_add(1, Ordering::Relaxed);
            pool.held.increment(1.0);
        } else {
            self.homed.fetch_sub(1, Ordering::Relaxed);
            pool.held.decrement(1.0);
        }
    }

    /// Makes the membership find out about an unknown node.
    pub(super) fn inquire(&self, incarnation: Nonce) {
        self.unknown_nodes.add(|unknown| {
            unknown.insert(incarnation);
        });
    }

    /// R1: absorbs a heartbeat that arrived at `received`, if it changes nothing in the record, without a message to the
    /// key's actor. `None`: nothing is promised, and the actor must be asked.
    pub fn absorb(
        &self,
        key: &str,
        beat: &Heartbeat,
        received: Moment,
        decided: Decided,
    ) -> Option<Absorbed> {
        let look =
            |key: &Key, entry: &CellEntry| self.absorb_in(key, entry, beat, (received, decided));
        self.registry.cells.look(key, look)
    }

    /// The same, once the promise cell was found.
    pub fn absorb_in(
        &self,
        key: &Key,
        CellEntry { cell, pool }: &CellEntry,
        beat: &Heartbeat,
        (received, decided): (Moment, Decided),
    ) -> Option<Absorbed> {
        let absorbed = self.environment.absorb_in(key, cell, beat, (received, decided))?;
        pool.margin(absorbed.margin(received));
        Some(absorbed)
    }

    /// The view of a key without an actor, from its record and the grace after a restart.
    pub fn view_of(&self, key: &Key, found: Option<Found>) -> View {
        let now = self.clock.now();
        let inherited = if self.registry.is_unseen(key.as_str()) {
            Inherited::FromProcess(self.locked_at)
        } else {
            Inherited::FromActor(now)
        };
        let (lease, _) = self
            .with_env(key, (now, 0), |env| Lease::<Reply>::recover(loaded(found), inherited, env));
        lease.view(now)
    }
}
