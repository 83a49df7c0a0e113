//! The library's interface: what a program that embeds tenure calls, and what the HTTP handlers call.
//!
//! Guarantees: a grant, release, transfer or administrator's order that returned `Ok` is durable. When a key's actor
//! dies before it answers, the call is sent to its successor, and an acquire is never granted twice because of that. A
//! future that was dropped is never granted anything afterwards.
//!
//! Does not guarantee: that a call that returned [`Trouble::Store`] had no effect.
//!
//! Assumes: its calls are made inside a tokio runtime.

mod admin;
mod any;
pub(crate) mod engine;
mod error;
mod fair;
mod holder;
mod inspect;
mod open;
mod park;
mod pools;
mod repeat;
mod sessions;
mod unheard;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use crate::actor::Asked;
pub(crate) use admin::MAX_REASON_BYTES;
#[cfg(feature = "testing")]
pub(crate) use admin::check_text;
pub use admin::{DrainedOwner, ForgottenKeys};
pub use any::{AcquireAny, Candidates, MAX_CANDIDATES};
pub use engine::{StartError, Tenure};
pub use error::{
    AcquireAnyError, AcquireError, AdminError, Availability, Elsewhere, HolderError, Home, Invalid,
    ReleaseError, SessionError, Trouble,
};
pub use fair::Count;
pub use holder::Alive;
pub use inspect::{Filter, Listing};
pub use open::{OpenError, Parts};
pub use pools::PoolShown;
pub use repeat::Taken;
#[cfg(feature = "testing")]
pub(crate) use sessions::check_progress;
pub use sessions::{Asks, MAX_PROGRESS_BYTES, Opened, SessionAlive, SessionView};

use crate::{
    actor::{Node, NodeView, Unanswered, World, watch},
    clock::DashMap,
    lease::{
        Acquire, Answer, Bond, ChangeKind, Grant, Key, Moment, Mutant, Nonce, Owner, Policy,
        Refusal, Request, SessionId, SessionSpec, StoreError, TtlBounds,
    },
    telemetry::{AcquireOutcome, PoolMetrics},
};
use unheard::Unheard;

/// The longest value of a key, in bytes of UTF-8.
pub const MAX_VALUE_BYTES: usize = 16 * 1024;
/// How many writes one call has in flight over a network.
const WRITES_AT_ONCE: usize = 128;

/// How often a call that waits at another node checks whether that node still lives.
const LOOK_FOR_DEATHS: Duration = Duration::from_millis(250);

/// Limits on what callers may ask for.
#[derive(Clone, Copy, Debug)]
pub struct CallLimits {
    /// The longest time for which a caller may wait in a queue.
    pub wait_max: Duration,
    /// How many places waiting callers may occupy in the queues of all keys together.
    pub waiting_places: usize,
    /// Only keys that match the prefix of a policy are granted.
    pub strict_prefixes: bool,
    /// The largest weight that a member of a pool may have.
    pub weight: u32,
}

/// A coordinator of leases.
pub struct Manager {
    world: Arc<World>,
    limits: CallLimits,
    draining: watch::Sender<bool>,
    /// Request ids of acquire-any calls that are being served.
    serving: DashMap<u128, ()>,
    /// Free places in queues.
    places: Arc<Semaphore>,
    supervisor: crate::actor::SupervisorAddr,
    /// This node among the others, if the store is shared.
    node: Option<Arc<Node>>,
}

/// A request to own one key.
#[derive(Clone, Debug)]
pub struct AcquireOne {
    /// The key to acquire.
    pub key: Key,
    /// The owner that acquires it.
    pub owner: Owner,
    /// Milliseconds that a grant or heartbeat keeps the lease.
    pub ttl_ms: u64,
    /// A new value for the key.
    pub value: Option<Box<str>>,
    /// Take the key even if the same owner already holds it.
    pub reclaim: bool,
    /// Permit an answer from this node's memory, without a read of the store.
    pub allow_stale: bool,
    /// How long to wait in the queue, in milliseconds.
    pub wait_ms: u64,
    /// Digests of the request id and of the rest of the request.
    pub mark: Option<(u128, u64)>,
    /// The session that keeps the lease. `ttl_ms` is then the session's ttl.
    pub session: Option<SessionId>,
}

impl AcquireOne {
    /// A request without a wait, for a lease that is kept by its own heartbeats.
    #[must_use]
    pub fn new(key: Key, owner: Owner, ttl_ms: u64) -> Self {
        Self {
            key,
            owner,
            ttl_ms,
            value: None,
            reclaim: false,
            allow_stale: false,
            wait_ms: 0,
            mark: None,
            session: None,
        }
    }
}

impl Manager {
    /// The clock on which the moments of calls are read.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.world.clock.now()
    }

    /// The state that the actors share; for the HTTP handlers and the tests.
    #[must_use]
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// The limits on what callers may ask for.
    #[must_use]
    pub fn limits(&self) -> CallLimits {
        self.limits
    }

    /// Acquires a key. `received` is when the request arrived: the time spent waiting counts in the holder's favour.
    ///
    /// # Errors
    /// [`AcquireError`].
    pub async fn acquire(
        &self,
        one: &AcquireOne,
        asked: impl Into<Asked>,
    ) -> Result<Grant, AcquireError> {
        let asked = asked.into();
        if let Some(id) = one.session {
            return self.acquire_under(one, id, asked).await;
        }
        self.check_ttl(one.key.as_str(), "ttl_ms", one.ttl_ms)?;
        Ok(self.acquire_kept(one, None, asked).await?.heard().1)
    }

    /// Acquires a session's key.
    async fn acquire_session(
        &self,
        one: &AcquireOne,
        spec: &SessionSpec,
        asked: Asked,
    ) -> Result<Grant, AcquireError> {
        self.check_ttl(one.key.as_str(), "ttl_ms", one.ttl_ms)?;
        let shape = |acquire| Acquire { spec: Some(Box::new(spec.clone())), ..acquire };
        Ok(self.acquire_as(one, asked, shape).await?.heard().1)
    }

    /// Acquires a key, with a ttl that was checked or under a session that was seen alive.
    async fn acquire_kept(
        &self,
        one: &AcquireOne,
        bond: Option<Bond>,
        asked: Asked,
    ) -> Result<Unheard, AcquireError> {
        self.acquire_as(one, asked, |acquire| Acquire { bond, ..acquire }).await
    }

    async fn acquire_as(
        &self,
        one: &AcquireOne,
        asked: Asked,
        shape: impl Fn(Acquire) -> Acquire,
    ) -> Result<Unheard, AcquireError> {
        let result = match self.ask_to_own(one, asked, shape).await {
            Ok(Answer::Granted(grant)) => Ok(*grant),
            Ok(other) => Err(Trouble::of(other).into()),
            Err(error) => Err(error),
        };
        if !one.key.is_session() {
            self.count_acquire(one.key.as_str(), &result, asked.received);
        }
        Ok(Unheard::new(&self.world, one.key.clone(), result?, one.mark.is_some()))
    }

    /// R6: the session is seen alive before the grant is written, and again before the caller is told. The promise is
    /// the session's.
    async fn acquire_under(
        &self,
        one: &AcquireOne,
        id: SessionId,
        asked: Asked,
    ) -> Result<Grant, AcquireError> {
        let (bond, ttl_ms) = self.bond(id, asked).await.map_err(Box::new)?;
        let one = &AcquireOne { ttl_ms, ..one.clone() };
        let mut unheard = tokio::select! {
            biased;
            unheard = self.acquire_kept(one, Some(bond), asked) => unheard?,
            error = self.session_ends(id) => return Err(Box::new(error).into()),
        };
        if self.world.breaks(Mutant::GrantUnderEndingSession) {
            unheard.grant.valid_for_ms = ttl_ms * 9 / 10;
            return Ok(unheard.heard().1);
        }
        match self.beat(id, asked).await {
            Ok((session, _)) if session.is_revoked(&one.key, unheard.grant.view.token) => {
                let spent = Refusal::RequestSpent(Some(ChangeKind::Revoked));
                Err(AcquireError::Refused(spent, Box::new(unheard.grant.view.clone())))
            }
            Ok((_, valid_for_ms)) => {
                unheard.grant.valid_for_ms = valid_for_ms;
                Ok(unheard.heard().1)
            }
            Err(error) => {
                // The session's leases may have been searched for before this grant landed.
                self.world.sessions.inquire(id.digest, [one.key.clone()]);
                Err(Box::new(error).into())
            }
        }
    }

    /// R9: takes a place in this node's queue for a caller whose session has another home node, where the key is then
    /// granted. Returns when its turn has come: the key is then offered to its owner for 2 s.
    ///
    /// # Errors
    /// [`AcquireError`].
    pub async fn take_place(&self, one: &AcquireOne, asked: Asked) -> Result<(), AcquireError> {
        let one = AcquireOne { session: None, mark: None, ..one.clone() };
        match self.ask_to_own(&one, asked, |acquire| Acquire { place: true, ..acquire }).await? {
            Answer::Done(_) => Ok(()),
            other => Err(Trouble::of(other).into()),
        }
    }

    async fn ask_to_own(
        &self,
        one: &AcquireOne,
        asked: Asked,
        shape: impl Fn(Acquire) -> Acquire,
    ) -> Result<Answer, AcquireError> {
        check_value(one.value.as_deref())?;
        self.check_named("key", &one.key)?;
        let wait_until = self.check_wait(one.wait_ms, asked.received)?;
        if self.draining.get() {
            return Err(Trouble::Draining.into());
        }
        if self.world.is_frozen() {
            return Err(Trouble::Frozen.into());
        }
        let _place = wait_until.map(|_| self.places(1)).transpose()?;
        let grant_nonce = self.world.entropy.nonce();
        let make = || {
            let acquire = one.clone().into_acquire(None, wait_until, grant_nonce);
            Request::Acquire(Box::new(shape(acquire)))
        };
        let answer = self.ask(one.key.as_str(), asked, make);
        let answer = if wait_until.is_some() {
            let pools = vec![self.world.metrics_of(one.key.as_str())];
            self.unless_draining(pools, answer).await
        } else {
            answer.await
        };
        match answer? {
            Answer::Refused(why, view) => Err(AcquireError::Refused(why, view)),
            answer => Ok(answer),
        }
    }

    /// Checks that a policy names the key, if the settings require it.
    fn check_named(&self, field: &'static str, key: &Key) -> Result<(), Invalid> {
        let strict = self.limits.strict_prefixes && !key.is_session();
        if !strict || !self.world.rules().of(key.as_str()).0.prefix.is_empty() {
            return Ok(());
        }
        let detail = format!("{key:?} matches no policy, and limits.strict_prefixes is on");
        Err(Invalid { field, detail })
    }

    /// Takes this many places in queues, until the permit is dropped.
    fn places(&self, count: usize) -> Result<OwnedSemaphorePermit, Trouble> {
        let places = u32::try_from(count).ok();
        let taken = places.and_then(|count| self.places.clone().try_acquire_many_owned(count).ok());
        taken.ok_or(Trouble::Crowded)
    }

    /// How many places in queues are occupied by waiting callers.
    #[must_use]
    pub fn waiting_places(&self) -> usize {
        self.limits.waiting_places.saturating_sub(self.places.available_permits())
    }

    fn count_acquire(&self, key: &str, result: &Result<Grant, AcquireError>, received: Moment) {
        let outcome = match result {
            Ok(_) => AcquireOutcome::Granted,
            Err(AcquireError::Refused(Refusal::Held | Refusal::HeldByYou, _)) => {
                AcquireOutcome::Held
            }
            Err(_) => AcquireOutcome::Error,
        };
        self.world.rules().of(key).1.acquired(outcome, self.now().since(received));
    }

    /// How many writes one call has in flight. Where one sync takes all writes, there is no limit. Over a network,
    /// there are no more than keep a connection busy, so that none of them waits until its time-out.
    fn at_once(&self) -> usize {
        if self.node.is_some() { WRITES_AT_ONCE } else { usize::MAX }
    }

    /// The nodes on the store, this node first. Empty if the store is not shared.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeView> {
        self.node.as_ref().map(|node| node.list()).unwrap_or_default()
    }

    /// The other living nodes.
    #[must_use]
    pub fn others(&self) -> Vec<Home> {
        let living = |view: &NodeView| !view.this && !view.record.state.is_terminal();
        let home = |view: NodeView| Home {
            node: view.record.incarnation,
            url: Some(view.record.url).filter(|url| !url.is_empty()),
        };
        self.nodes().into_iter().filter(living).map(home).collect()
    }

    /// Addresses that more than one living node claims. What is sent to one of these nodes arrives at another.
    #[must_use]
    pub fn shared_addresses(&self) -> BTreeSet<Box<str>> {
        let nodes = self.nodes();
        let living = nodes.iter().filter(|view| !view.record.state.is_terminal());
        let (mut seen, mut shared) = (BTreeSet::new(), BTreeSet::new());
        for url in living.map(|view| &view.record.url).filter(|url| !url.is_empty()) {
            if !seen.insert(url) {
                shared.insert(url.clone());
            }
        }
        shared
    }

    /// Other living nodes of the same version whose policies or plugins differ from this node's. The node that ends a
    /// tenure decides which fences it needs, and a fence waits on a node that does not have its plugin.
    #[must_use]
    pub fn nodes_with_other_rules(&self) -> BTreeSet<Nonce> {
        let nodes = self.nodes();
        let Some((own, others)) = nodes.split_first() else { return BTreeSet::new() };
        let others = others.iter().filter(|other| other.goes_by_others_than(own));
        others.map(|other| other.record.incarnation).collect()
    }

    /// How many leases have this node as their home node.
    #[must_use]
    pub fn homed(&self) -> u32 {
        self.world.homed()
    }

    /// Announces to the other nodes that this one leaves, so that they adopt its leases at once. From here on it
    /// promises nothing.
    pub async fn leave(&self) {
        if let Some(node) = &self.node {
            node.leave().await;
        }
    }

    /// Accepts no more work. Waiting callers get an error that says so.
    pub fn drain(&self) {
        self.draining.send_replace(true);
        self.world.stop();
    }

    /// Whether this coordinator accepts no more work.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Resolves when this coordinator accepts no more work.
    pub async fn drained(&self) {
        let _ = self.draining.subscribe().wait_for(|draining| *draining).await;
    }

    /// Runs a call that waits in queues of these pools. It ends with [`Trouble::Draining`] when no more work is
    /// accepted.
    async fn unless_draining<T>(
        &self,
        pools: Vec<Arc<PoolMetrics>>,
        asked: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        let _waiting = Waiting::begin(pools);
        tokio::select! {
            biased;
            answer = asked => answer,
            () = self.drained() => Err(Trouble::Draining),
        }
    }

    /// Asks the key's actor, or its successor if the actor dies before it answers. `make` must give the same request
    /// each time.
    async fn ask(
        &self,
        key: &str,
        asked: Asked,
        make: impl Fn() -> Request,
    ) -> Result<Answer, Trouble> {
        match self.world.ask(key, asked, make).await.map_err(|why| self.unanswered(why))? {
            Answer::Elsewhere(node) => Err(self.elsewhere(node)),
            Answer::Lapsed if self.is_draining() => Err(Trouble::Draining),
            answer => Ok(answer),
        }
    }

    /// Waits until another node is known to be dead or to have left.
    pub async fn gone(&self, node: Nonce) {
        let gone = || {
            let terms = self.world.terms();
            let peer = terms.peers.as_ref().and_then(|peers| peers.get(node));
            peer.is_some_and(|peer| peer.record.state.is_terminal())
        };
        while !gone() {
            tokio::time::sleep(LOOK_FOR_DEATHS).await;
        }
    }

    fn elsewhere(&self, node: Nonce) -> Trouble {
        Trouble::Elsewhere(Home { node, url: self.world.url_of(node) })
    }

    fn unanswered(&self, why: Unanswered) -> Trouble {
        match why {
            Unanswered::Resting(until) => Trouble::Resting(until.since(self.now())),
            Unanswered::NoArbiter => Trouble::Draining,
            Unanswered::Died => {
                let why = "the actor of this key died before it answered";
                Trouble::Store(StoreError::Unavailable(why.into()))
            }
            Unanswered::Arriving => Trouble::Busy,
            Unanswered::Elsewhere(node) | Unanswered::Other(Answer::Elsewhere(node)) => {
                self.elsewhere(node)
            }
            Unanswered::Other(answer) => Trouble::of(answer),
        }
    }

    /// Checks that a key's policy accepts this ttl.
    fn check_ttl(&self, key: &str, field: &'static str, ttl_ms: u64) -> Result<(), Invalid> {
        let rules = self.world.rules();
        let Policy { ttl, pool, .. } = &**rules.of(key).0;
        if ttl.contains(ttl_ms) {
            return Ok(());
        }
        let TtlBounds { min_ms, max_ms } = ttl;
        let detail = format!("is {ttl_ms}; it must be from {min_ms} to {max_ms} in pool {pool}");
        Err(Invalid { field, detail })
    }

    fn check_wait(&self, wait_ms: u64, received: Moment) -> Result<Option<Moment>, Invalid> {
        let wait = Duration::from_millis(wait_ms);
        if wait > self.limits.wait_max {
            let max = self.limits.wait_max.as_millis();
            let detail = format!("is {wait_ms}; it must be at most {max}");
            return Err(Invalid { field: "wait_ms", detail });
        }
        Ok((wait_ms > 0).then_some(received + wait))
    }
}

/// Counts a waiting caller for as long as it waits.
struct Waiting(Vec<Arc<PoolMetrics>>);

impl Waiting {
    fn begin(pools: Vec<Arc<PoolMetrics>>) -> Self {
        pools.iter().for_each(|pool| pool.waiters.increment(1.0));
        Self(pools)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.iter().for_each(|pool| pool.waiters.decrement(1.0));
    }
}

/// A key's value is at most [`MAX_VALUE_BYTES`] long.
pub(crate) fn check_value(value: Option<&str>) -> Result<(), Invalid> {
    match value {
        Some(value) if value.len() > MAX_VALUE_BYTES => Err(Invalid {
            field: "value",
            detail: format!("is {} bytes long; at most {MAX_VALUE_BYTES} are allowed", value.len()),
        }),
        _ => Ok(()),
    }
}
