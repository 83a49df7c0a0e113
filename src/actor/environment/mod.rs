//! What the actors and tasks of a node need from outside: the store, the clock, chance, limits and metrics, and what
//! applies to every key at present. It knows no actor.
//!
//! Guarantees: a reader of the node context sees each change of it whole. If the clock may have stood still, no reading
//! of it is returned before the node context says so.

mod check_tls;
mod decided;
mod digest;
mod limits;
mod loaded;
#[cfg(any(test, feature = "testing"))]
mod observer;
mod policy_table;
pub(in crate::actor) mod reach;
mod scan;

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use arc_swap::{ArcSwap, Guard};
use tokio::sync::Notify;

use self::check_tls::CheckTls;
pub use self::decided::Decided;
#[cfg(any(test, feature = "testing"))]
pub use self::observer::{Observed, Promise};
pub(in crate::actor) use self::{digest::digest, loaded::loaded, scan::each_record};
pub use self::{limits::Limits, policy_table::PolicyTable};
use crate::{
    clock::{Clock, Entropy, JumpDetector},
    lease::{
        Absorbed, Env, Heartbeat, Key, Moment, NodeContext, Nonce, Peer, Policies, PromiseCell,
        Rules,
    },
    store::LeaseStore,
    telemetry::{
        Metrics, OwnershipLog, PoolMetrics,
        recent::{Interruption, Recent},
    },
};

/// What the actors and tasks of a node need from outside.
pub struct Environment {
    pub store: Arc<dyn LeaseStore>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub limits: Limits,
    /// Handles to the metrics that have no pool label.
    pub metrics: Arc<Metrics>,
    pub ownership_log: OwnershipLog,
    /// What happened lately.
    pub recent: Recent,
    /// When the store's lock was taken: no earlier process can have promised anything after it.
    pub locked_at: Moment,
    pub(crate) protocol: Rules,
    /// The node context: what applies to every key at present.
    context: RwLock<Arc<NodeContext>>,
    /// The policies of the node context, with the metrics of their pools.
    policy_table: ArcSwap<PolicyTable>,
    /// Wakes the task that maintains this node's record.
    pub(in crate::actor) membership: Notify,
    /// The clock stood still: this node must continue as another incarnation.
    pub(in crate::actor) jumped: AtomicBool,
    /// The seed of each key's random numbers.
    pub(in crate::actor) seed: u64,
    pub(in crate::actor) check_tls: CheckTls,
    jumps: JumpDetector,
    lapses: AtomicU32,
    #[cfg(any(test, feature = "testing"))]
    observer: observer::Observer,
}

impl Environment {
    /// The environment of a node whose node context is `context`.
    #[expect(clippy::too_many_arguments, reason = "every input of the actors is named here, once")]
    pub fn new(
        store: Arc<dyn LeaseStore>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        context: NodeContext,
        limits: Limits,
        metrics: Arc<Metrics>,
        ownership_log: OwnershipLog,
        locked_at: Moment,
    ) -> Self {
        let jumps = JumpDetector::new();
        // Later stops of the clocks are measured from this reading, whenever the first call comes.
        jumps.check(&*clock, (clock.now(), clock.wall_ms()), |_| {});
        let seed = entropy.next_u64();
        let policy_table = ArcSwap::from_pointee(PolicyTable::new(context.policies.clone(), 0));
        let check_tls = CheckTls::new(limits.checks_ca.clone());
        let recent = Recent::new(clock.now());
        Self {
            store,
            clock,
            entropy,
            limits,
            metrics,
            ownership_log,
            recent,
            locked_at,
            protocol: context.rules,
            context: RwLock::new(Arc::new(context)),
            policy_table,
            membership: Notify::new(),
            jumped: AtomicBool::new(false),
            seed,
            check_tls,
            jumps,
            lapses: AtomicU32::new(0),
            #[cfg(any(test, feature = "testing"))]
            observer: observer::Observer::default(),
        }
    }

    /// For tests: reports every event from now on to `tell`. Only the first call has an effect.
    #[cfg(any(test, feature = "testing"))]
    pub fn observe(&self, tell: impl Fn(Observed<'_>) + Send + Sync + 'static) {
        self.observer.set(tell);
    }

    #[cfg(any(test, feature = "testing"))]
    pub(in crate::actor) fn tell(&self, what: Observed<'_>) {
        self.observer.tell(what);
    }

    /// Reads the clock once, for one decision. The wall clock checks the reading: if the clock may have stood still,
    /// each lease gets one more ttl. On a shared store, the node first continues as another incarnation.
    pub fn now(&self) -> Moment {
        self.reading().0
    }

    /// [`Self::now`], for promises beside the actors.
    pub fn decide(&self) -> Decided {
        Decided::new(self.now())
    }

    /// R1: absorbs a heartbeat in the promise cell of its lease. The node context stays as it is until that is done: once
    /// a change of it has returned, nothing more is promised by what it was before.
    pub(in crate::actor) fn absorb_in(
        &self,
        key: &Key,
        cell: &PromiseCell,
        beat: &Heartbeat,
        (received, decided): (Moment, Decided),
    ) -> Option<Absorbed> {
        let context = self.context.read().unwrap_or_else(PoisonError::into_inner);
        let absorbed = context.absorb_in(cell, beat, received, decided.moment());
        #[cfg(any(test, feature = "testing"))]
        if let Some(Absorbed { token, ttl_ms, .. }) = absorbed {
            let (decided, until) = (decided.moment(), context.until);
            self.tell(Observed::Promised(Promise { key, token, decided, ttl_ms, until }));
        }
        tracing::trace!(%key, ?absorbed, "beside the actor");
        absorbed
    }

    /// [`Self::now`], with the reading of the wall clock that checked it.
    pub(in crate::actor) fn reading(&self) -> (Moment, u64) {
        let now = self.clock.now();
        let wall_ms = self.clock.wall_ms();
        let jumped = if self.protocol.a_jump_is_handled_before_the_next_reading() {
            self.jumps.check(&*self.clock, (now, wall_ms), |gain_ms| self.handle_jump(gain_ms))
        } else {
            let mut gained = None;
            let keep = |gain_ms| gained = Some(gain_ms);
            let jumped = self.jumps.check(&*self.clock, (now, wall_ms), keep);
            gained.into_iter().for_each(|gain_ms| self.handle_jump(gain_ms));
            jumped
        };
        if jumped { (self.clock.now(), wall_ms) } else { (now, wall_ms) }
    }

    /// The clock may have stood still, so promises may be valid for longer than this node reckons. On a shared store,
    /// the incarnation promises nothing more. On any other, each lease gets one more ttl.
    fn handle_jump(&self, gain_ms: i64) {
        if !self.protocol.a_hidden_stop_is_handled() {
            return;
        }
        self.entropy.refresh();
        let outcome = if self.store.shared().is_some() {
            // Other nodes may have found this node dead meanwhile: this incarnation promises nothing more.
            self.jumped.store(true, Ordering::Release);
            self.change_node_context(|context| context.until = Moment::ZERO);
            self.membership.notify_one();
            "this node continues as another incarnation"
        } else {
            let now = self.clock.now();
            self.change_node_context(|context| context.resumed = now);
            self.lapses.fetch_add(1, Ordering::AcqRel);
            "each lease gets one more ttl"
        };
        self.metrics.clock_jumps.increment(1);
        self.recent.interrupted(self.clock.now(), Interruption::ClockJump(gain_ms));
        tracing::warn!(
            gain_ms,
            "the wall clock moved against the node's clock, which may have stood still: {outcome}"
        );
    }

    /// How many lapses of this node are over.
    pub fn lapses(&self) -> u32 {
        self.lapses.load(Ordering::Acquire)
    }

    /// A lapse is over: this node can promise again.
    pub(in crate::actor) fn lapsed(&self) {
        #[cfg(any(test, feature = "testing"))]
        self.tell(Observed::Lapsed);
        self.lapses.fetch_add(1, Ordering::AcqRel);
    }

    pub fn node_context(&self) -> Arc<NodeContext> {
        self.context.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the node context. A later reader sees the whole change.
    pub(crate) fn change_node_context(&self, change: impl FnOnce(&mut NodeContext)) {
        let mut context = self.context.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut context));
    }

    /// The policies, with the metrics of their pools.
    pub fn policy_table(&self) -> Guard<Arc<PolicyTable>> {
        self.policy_table.load()
    }

    pub fn pool_of(&self, key: &str) -> Arc<str> {
        self.policy_table.load().of(key).0.pool.clone()
    }

    /// The metrics of a key's pool.
    pub fn metrics_of(&self, key: &str) -> Arc<PoolMetrics> {
        self.policy_table.load().of(key).1.clone()
    }

    /// Puts other policies into effect, for the store and for later readers of the node context.
    pub(in crate::actor) fn put_policies(&self, policies: Arc<Policies>) {
        self.store.bound_keys(&policies);
        self.change_node_context(|context| {
            let version = self.policy_table.load().version() + 1;
            self.policy_table.store(Arc::new(PolicyTable::new(policies.clone(), version)));
            context.policies = policies;
        });
    }

    /// The address of a node, or `None` if the node is not known.
    pub fn url_of(&self, incarnation: Nonce) -> Option<Box<str>> {
        let context = self.node_context();
        let peer = context.peers.as_ref()?.get(incarnation)?;
        (!peer.record.url.is_empty()).then(|| peer.record.url.clone())
    }

    /// Whether nothing is granted because the store went backwards.
    pub fn is_frozen(&self) -> bool {
        self.context.read().unwrap_or_else(PoisonError::into_inner).frozen
    }

    /// Whether this node wrote a change, under any incarnation.
    pub fn is_own(&self, writer: Nonce) -> bool {
        let context = self.context.read().unwrap_or_else(PoisonError::into_inner);
        match &context.peers {
            None => true,
            Some(peers) => writer == context.node || peers.get(writer).is_some_and(Peer::is_own),
        }
    }

    /// Whether this is the present incarnation of this node.
    pub(in crate::actor) fn is_present(&self, incarnation: Nonce) -> bool {
        let context = self.context.read().unwrap_or_else(PoisonError::into_inner);
        context.peers.is_none() || context.node == incarnation
    }

    /// Whether this incarnation is another one than the present one of this node, and is not known to live. Not where one
    /// process has the store to itself: there, the actors of all held leases are started.
    pub(in crate::actor) fn is_gone(&self, incarnation: Nonce) -> bool {
        let context = self.context.read().unwrap_or_else(PoisonError::into_inner);
        let Some(peers) = &context.peers else { return false };
        let peer = peers.get(incarnation);
        context.node != incarnation && peer.is_none_or(|peer| peer.record.state.is_terminal())
    }

    /// Runs one step of the core on this reading of the clocks.
    pub(in crate::actor) fn with_env<T>(
        &self,
        key: &Key,
        (now, wall_ms): (Moment, u64),
        body: impl FnOnce(&mut Env<'_>) -> T,
    ) -> T {
        let mut nonces = || self.entropy.nonce();
        let context = self.context.read().unwrap_or_else(PoisonError::into_inner);
        body(&mut Env { now, wall_ms, key, context: &context, nonces: &mut nonces })
    }
}
