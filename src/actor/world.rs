//! The state that all actors share.

use std::{
    path::PathBuf,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use arc_swap::{ArcSwap, Guard};
use reqwest::Url;
use rustls::ClientConfig;
use tokio::sync::{Notify, OnceCell, mpsc::UnboundedSender};

use super::{
    environment::{
        policy_table::{PolicyTable, digest},
        reach::Reach,
    },
    lease::outcomes::Outcomes,
    leftovers::{forgotten::Forgotten, unheard::UnheardGrants},
    mail::Mail,
    plugins::{NamedPlugin, Plugins},
    pools::Pools,
    runtime::{bus::Bus, exit_notice::Death, registry::Registry},
    session::sessions::Sessions,
};
use crate::{
    clock::{Clock, Entropy, JumpDetector},
    lease::{Env, Inherited, Key, Lease, Moment, Mutant, NodeContext, Nonce, Policies, View},
    store::{Found, LeaseStore},
    telemetry::{Metrics, OwnershipLog, PoolMetrics},
    tls::{self, Roots},
};

/// Limits of the actors.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The actor of an idle, free key leaves memory after this time.
    pub passivate_after: Duration,
    /// How often one key's actor may be restarted…
    pub restart_intensity: usize,
    /// …within this time.
    pub restart_window: Duration,
    /// The highest number of subscribers of the bus.
    pub subscribers: usize,
    /// How many changes the bus keeps for slow subscribers.
    pub bus_buffer: usize,
    /// Whether this node runs programs as checks of sessions, regardless of where the session was made.
    pub exec_checks: bool,
    /// Where checks of sessions may connect to, regardless of where the session was made.
    pub reach: Reach,
    /// A PEM file of authorities that are trusted for `https` checks, besides those of the system. Empty: none.
    pub checks_ca: PathBuf,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            passivate_after: Duration::from_secs(30),
            restart_intensity: 10,
            restart_window: Duration::from_secs(10),
            subscribers: 2048,
            bus_buffer: 16_384,
            exec_checks: false,
            reach: Reach::default(),
            checks_ca: PathBuf::new(),
        }
    }
}

/// Everything that an actor needs from outside.
pub struct World {
    /// The store.
    pub store: Arc<dyn LeaseStore>,
    /// The clock of every promise.
    pub clock: Arc<dyn Clock>,
    /// The source of nonces.
    pub entropy: Arc<dyn Entropy>,
    /// Limits of the actors.
    pub limits: Limits,
    /// What this node knows of sessions.
    pub sessions: Sessions,
    /// Keys that this node forgot, until their records are removed.
    pub(crate) forgotten: Forgotten,
    /// Grants whose callers left before they were told.
    pub(crate) unheard: UnheardGrants,
    /// What this node knows of pools.
    pub pools: Pools,
    /// The fence plugins.
    pub plugins: Plugins,
    /// Finds the actor of every key.
    pub registry: Registry,
    /// Delivers the outcomes of writes to actors.
    pub(super) outcomes: Outcomes,
    /// Publishes changes to subscribers.
    pub bus: Bus,
    /// Handles to the metrics that have no pool label.
    pub metrics: Arc<Metrics>,
    /// The log of ownership changes.
    pub ownership_log: OwnershipLog,
    /// When the store's lock was taken: no earlier process can have promised anything after it.
    pub locked_at: Moment,
    /// The node context: what applies to every key at present.
    terms: RwLock<Arc<NodeContext>>,
    /// The policies of the node context, with the metrics of their pools.
    rules: ArcSwap<PolicyTable>,
    /// How many leases have this node as their home node.
    pub(super) homed: AtomicU32,
    /// Unknown nodes that records name.
    pub(super) inquiries: std::sync::Mutex<std::collections::BTreeSet<Nonce>>,
    /// Wakes the task that reads [`Self::inquiries`].
    pub(super) inquired: Notify,
    /// The coordinator is stopping: its actors end with their threads.
    pub(super) stopping: AtomicBool,
    /// Wakes the task that maintains this node's record.
    pub(super) membership: Notify,
    /// The clock stood still: this node must continue as another incarnation.
    pub(super) jumped: AtomicBool,
    pub(super) deaths: UnboundedSender<Death>,
    /// The seed of each key's random numbers.
    pub(super) seed: u64,
    jumps: JumpDetector,
    lapses: AtomicU32,
    /// The TLS settings of `https` checks, once there was such a check.
    vouching: OnceCell<ClientConfig>,
    /// For tests: is told of events that no answer shows.
    #[cfg(any(test, feature = "testing"))]
    witness: std::sync::OnceLock<Witness>,
}

/// Events that no answer shows, for tests.
#[cfg(any(test, feature = "testing"))]
#[derive(Clone, Copy, Debug)]
pub enum Witnessed<'a> {
    /// R1: a promise was decided.
    Promised(Promise<'a>),
    /// R5: the tenure of a dead node was adopted here.
    Adopted,
    /// R2: this node could not promise for a while, and can again.
    Lapsed,
}

/// A promise, at the moment of the decision (R1), for tests. Instants are readings of the node's clock.
#[cfg(any(test, feature = "testing"))]
#[derive(Clone, Copy, Debug)]
pub struct Promise<'a> {
    /// The key.
    pub key: &'a Key,
    /// The token of the tenure.
    pub token: crate::lease::Token,
    /// The reading of the clock on which the promise was decided.
    pub decided: Moment,
    /// How long it was promised for, in milliseconds.
    pub ttl_ms: u64,
    /// When this node's record runs out.
    pub until: Moment,
}

#[cfg(any(test, feature = "testing"))]
type Witness = Box<dyn Fn(Witnessed<'_>) + Send + Sync>;

impl World {
    /// Builds a world.
    #[expect(clippy::too_many_arguments, reason = "every input of the actors is named here, once")]
    pub fn new(
        store: Arc<dyn LeaseStore>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        terms: NodeContext,
        limits: Limits,
        registry: Registry,
        metrics: Arc<Metrics>,
        ownership_log: OwnershipLog,
        deaths: UnboundedSender<Death>,
        locked_at: Moment,
        plugins: Vec<NamedPlugin>,
    ) -> Self {
        let jumps = JumpDetector::new();
        // Later stops of the clocks are measured from this reading, whenever the first call comes.
        jumps.check(&*clock, (clock.now(), clock.wall_ms()), |_| {});
        let bus = Bus::new(limits.bus_buffer, limits.subscribers);
        let seed = entropy.next_u64();
        let plugins = Plugins::new(plugins, clock.clone(), seed, metrics.clone());
        let rules = ArcSwap::from_pointee(PolicyTable::new(terms.policies.clone(), 0));
        Self {
            store,
            clock,
            entropy,
            terms: RwLock::new(Arc::new(terms)),
            rules,
            homed: AtomicU32::new(0),
            inquiries: std::sync::Mutex::default(),
            inquired: Notify::new(),
            stopping: AtomicBool::new(false),
            membership: Notify::new(),
            jumped: AtomicBool::new(false),
            limits,
            sessions: Sessions::default(),
            forgotten: Forgotten::default(),
            unheard: UnheardGrants::default(),
            pools: Pools::default(),
            plugins,
            outcomes: Outcomes::new(registry.threads()),
            registry,
            bus,
            metrics,
            ownership_log,
            locked_at,
            deaths,
            seed,
            jumps,
            lapses: AtomicU32::new(0),
            vouching: OnceCell::new(),
            #[cfg(any(test, feature = "testing"))]
            witness: std::sync::OnceLock::new(),
        }
    }

    /// The TLS settings with which a check of this URL verifies the server.
    pub(super) async fn vouching_for(&self, url: &Url) -> Result<ClientConfig, String> {
        if url.scheme() != "https" {
            return Ok(tls::none());
        }
        let file = self.limits.checks_ca.clone();
        let read = move || {
            let beside = !file.as_os_str().is_empty();
            tls::client(if beside { Roots::SystemAnd(&file) } else { Roots::System })
        };
        let read = async || {
            // Leases are served on this thread, and parsing hundreds of certificates takes time.
            let read =
                tokio::task::spawn_blocking(read).await.map_err(|error| error.to_string())?;
            read.map_err(|error| error.to_string())
        };
        self.vouching.get_or_try_init(read).await.cloned()
    }

    /// For tests: reports every event from now on to `told`. Only the first call has an effect.
    #[cfg(any(test, feature = "testing"))]
    pub fn witness(&self, told: impl Fn(Witnessed<'_>) + Send + Sync + 'static) {
        let _ = self.witness.set(Box::new(told));
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn tell(&self, what: Witnessed<'_>) {
        if let Some(told) = self.witness.get() {
            told(what);
        }
    }

    /// Reads the clock once, for one decision. The wall clock checks the reading: if the clock stood still unnoticed,
    /// every promise made so far is void, and each lease gets one more ttl.
    pub fn now(&self) -> Moment {
        self.reading().0
    }

    /// [`Self::now`], with the reading of the wall clock that checked it.
    pub(super) fn reading(&self) -> (Moment, u64) {
        let now = self.clock.now();
        let wall_ms = self.clock.wall_ms();
        let jumped = if self.breaks(Mutant::PromisesVoidedAfterTheJump) {
            let mut gained = None;
            let jumped = self.jumps.check(&*self.clock, (now, wall_ms), |gain| gained = Some(gain));
            gained.into_iter().for_each(|gain| self.void_promises(gain));
            jumped
        } else {
            self.jumps.check(&*self.clock, (now, wall_ms), |gain| self.void_promises(gain))
        };
        if jumped { (self.clock.now(), wall_ms) } else { (now, wall_ms) }
    }

    /// The clock stood still unnoticed: voids every promise made so far.
    fn void_promises(&self, gain: Duration) {
        if self.breaks(Mutant::ClockStopIgnored) {
            return;
        }
        self.entropy.refresh();
        if self.store.shared().is_some() {
            // Other nodes may have found this node dead meanwhile: this incarnation promises nothing more.
            self.jumped.store(true, Ordering::Release);
            self.set_terms(|terms| terms.until = Moment::ZERO);
            self.membership.notify_one();
        } else {
            let now = self.clock.now();
            self.set_terms(|terms| terms.resumed = now);
            self.lapses.fetch_add(1, Ordering::AcqRel);
        }
        self.metrics.clock_jumps.increment(1);
        let gain_ms = gain.as_millis();
        tracing::warn!(gain_ms, "the node's clock had stood still: earlier promises are void");
    }

    /// Whether a test breaks this rule on purpose. Always `false` outside of tests.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn breaks(&self, mutant: Mutant) -> bool {
        self.terms().breaks(mutant)
    }

    /// Whether a test breaks this rule on purpose. Always `false` outside of tests.
    #[cfg(not(any(test, feature = "testing")))]
    #[inline]
    pub(crate) const fn breaks(&self, _: Mutant) -> bool {
        false
    }

    /// How many lapses of this node are over.
    pub fn lapses(&self) -> u32 {
        self.lapses.load(Ordering::Acquire)
    }

    /// A lapse is over: this node can promise again.
    pub(super) fn lapsed(&self) {
        #[cfg(any(test, feature = "testing"))]
        self.tell(Witnessed::Lapsed);
        self.lapses.fetch_add(1, Ordering::AcqRel);
    }

    /// The present node context.
    pub fn terms(&self) -> Arc<NodeContext> {
        self.terms.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the node context. A later reader sees the whole change.
    pub(crate) fn set_terms(&self, change: impl FnOnce(&mut NodeContext)) {
        let mut terms = self.terms.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut terms));
    }

    /// The policies, with the metrics of their pools.
    pub fn rules(&self) -> Guard<Arc<PolicyTable>> {
        self.rules.load()
    }

    /// The pool of a key.
    pub fn pool_of(&self, key: &str) -> Arc<str> {
        self.rules.load().of(key).0.pool.clone()
    }

    /// The metrics of a key's pool.
    pub fn metrics_of(&self, key: &str) -> Arc<PoolMetrics> {
        self.rules.load().of(key).1.clone()
    }

    /// Puts other policies into effect. Held leases continue unchanged: the new policies apply from their next grant,
    /// change of ttl, or end.
    pub fn set_policies(&self, policies: Arc<Policies>) {
        self.store.bound_keys(&policies);
        self.set_terms(|terms| {
            let version = self.rules.load().version() + 1;
            self.rules.store(Arc::new(PolicyTable::new(policies.clone(), version)));
            terms.policies = policies;
        });
        self.registry.tell_all(|| Mail::Nudge);
        self.pools.doubt();
    }

    /// A digest of the policies and of the names of the plugins. Nodes of one version compare it.
    pub(super) fn rules_digest(&self) -> u64 {
        let mut plugins = self.plugins.names();
        plugins.sort_unstable();
        digest(format!("{:?} {plugins:?}", self.terms().policies).as_bytes())
    }

    /// The address of a node, or `None` if the node is not known.
    pub fn url_of(&self, incarnation: Nonce) -> Option<Box<str>> {
        let terms = self.terms();
        let peer = terms.peers.as_ref()?.get(incarnation)?;
        (!peer.record.url.is_empty()).then(|| peer.record.url.clone())
    }

    /// The coordinator accepts no more work: actors that end from now on are not replaced.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Whether nothing is granted because the store went backwards.
    pub fn is_frozen(&self) -> bool {
        self.terms.read().unwrap_or_else(PoisonError::into_inner).frozen
    }

    /// How many leases have this node as their home node.
    pub fn homed(&self) -> u32 {
        self.homed.load(Ordering::Relaxed)
    }

    /// Whether this node wrote a change, under any incarnation.
    pub fn is_own(&self, writer: Nonce) -> bool {
        let terms = self.terms.read().unwrap_or_else(PoisonError::into_inner);
        match &terms.peers {
            None => true,
            Some(peers) => {
                writer == terms.node || peers.get(writer).is_some_and(crate::lease::Peer::is_own)
            }
        }
    }

    /// Whether this is the present incarnation of this node.
    pub(super) fn is_present(&self, incarnation: Nonce) -> bool {
        let terms = self.terms.read().unwrap_or_else(PoisonError::into_inner);
        terms.peers.is_none() || terms.node == incarnation
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
        let mut asked = self.inquiries.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.insert(incarnation) {
            self.inquired.notify_one();
        }
    }

    /// The view of a key without an actor, from its record and the grace after a restart.
    pub fn view_of(&self, key: &Key, found: Option<Found>) -> View {
        let now = self.clock.now();
        let inherited = if self.registry.is_unseen(key.as_str()) {
            Inherited::FromProcess(self.locked_at)
        } else {
            Inherited::FromActor(now)
        };
        let (lease, _) = self.with_env(key, (now, 0), |env| {
            Lease::<super::mail::Reply>::recover(super::lease::actor::loaded(found), inherited, env)
        });
        lease.view(now)
    }

    pub(super) fn with_env<T>(
        &self,
        key: &Key,
        (now, wall_ms): (Moment, u64),
        body: impl FnOnce(&mut Env<'_>) -> T,
    ) -> T {
        let mut nonces = || self.entropy.nonce();
        let terms = self.terms.read().unwrap_or_else(PoisonError::into_inner);
        body(&mut Env { now, wall_ms, key, terms: &terms, nonces: &mut nonces })
    }
}
