//! Acquire-any: takes up to `count` of several keys. Nodes try the keys in different orders, so that they seldom
//! collide.

use std::{cell::Cell, sync::Arc, time::Duration};

use futures_util::{StreamExt, TryStreamExt, future::join_all, stream};
use tokio::sync::oneshot;

use super::{
    AcquireError, AcquireOne, Availability, CallError, Count, Home, Invalid, Manager, SessionError,
    Taken, check_value, unheard::Unheard,
};
use crate::{
    actor::Mail,
    clock::{Chance, HashSet},
    lease::{
        Acquire, Bond, ChangeKind, Key, Moment, Mutant, Nonce, Order, Owner, Record, Refusal,
        SessionId, State, View, arrange,
    },
    store::{Committed, Feed, Found, News},
    telemetry::PoolMetrics,
};

/// The most keys that one acquire-any may name, or tries at a time of those that match its prefix or pool.
pub const MAX_CANDIDATES: usize = 10_000;
/// How many free keys are looked for beyond the requested count, if there are more candidates than are tried at a time:
/// other callers may take some of them meanwhile.
const SPARE: usize = 1_000;
/// The pause between two searches for free keys, if there are more candidates than a caller can wait for.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How many views are requested at a time.
const VIEWS_AT_ONCE: usize = 64;
/// This many keys are tried one after another before records are read together: mostly the first one is free.
const ALONE: usize = 8;
/// The keys of an acquire-any.
#[derive(Clone, Debug)]
pub enum Candidates {
    /// These keys, each once.
    Keys(Vec<Key>),
    /// All keys with a record that begin with this prefix.
    Prefix(String),
    /// All keys with a record that belong to this pool.
    Pool(String),
}

/// A request to own some of several keys.
#[derive(Clone, Debug)]
pub struct AcquireAny {
    /// The candidates.
    pub candidates: Candidates,
    /// The owner that acquires them.
    pub owner: Owner,
    /// Milliseconds that a grant or heartbeat keeps each lease.
    pub ttl_ms: u64,
    /// The session that keeps the leases. `ttl_ms` is then the session's ttl.
    pub session: Option<SessionId>,
    /// How many to acquire at most.
    pub count: Count,
    /// The order in which they are tried.
    pub order: Order,
    /// How long to wait for one if none is free, in milliseconds.
    pub wait_ms: u64,
    /// Digests of the request id and of the rest of the request.
    pub mark: Option<(u128, u64)>,
}

/// The candidates of a call.
pub(super) struct Resolved {
    pub keys: Vec<Key>,
    /// The changes since just before the candidates were listed, if there are more than are tried at a time.
    others: Option<Feed>,
}

/// Grants of a call that has not been answered yet.
#[derive(Default)]
pub(super) struct Served {
    pub grants: Vec<Unheard>,
    /// Grants of an earlier call with the same request id whose home nodes are other living nodes.
    pub elsewhere: Vec<(Key, Home)>,
}

impl From<Vec<Unheard>> for Served {
    fn from(grants: Vec<Unheard>) -> Self {
        Self { grants, elsewhere: Vec::new() }
    }
}

impl From<Served> for Taken {
    fn from(Served { grants, elsewhere }: Served) -> Self {
        Self { grants: grants.into_iter().map(Unheard::heard).collect(), elsewhere }
    }
}

/// The result of trying some keys.
pub(super) struct Tried {
    pub grants: Vec<Unheard>,
    pub counts: Availability,
    pub failure: Option<CallError>,
}

impl Manager {
    /// Acquires 1 to `count` of the candidates. If none is free and the call waits, ONE registration waits on all of
    /// them, and is granted one.
    ///
    /// With a mark: of two calls at this node, one is refused while the other is served. A repeated call gets its own
    /// grants. Calls at several nodes must first be brought to one node: [`Self::server_of`].
    ///
    /// # Errors
    /// [`AcquireError`].
    pub async fn acquire_any(
        &self,
        any: &AcquireAny,
        received: Moment,
    ) -> Result<Taken, AcquireError> {
        check_value(None)?;
        let wait_until = self.check_wait(any.wait_ms, received)?;
        if let Count::UpTo(count) = any.count
            && !(1..=MAX_CANDIDATES).contains(&count)
        {
            let detail = format!("is {count}; it must be from 1 to {MAX_CANDIDATES}");
            return Err(Invalid { field: "count", detail }.into());
        }
        if self.is_draining() {
            return Err(CallError::Draining.into());
        }
        if self.world.is_frozen() {
            return Err(CallError::Frozen.into());
        }
        let Some(session) = any.session else {
            if any.count == Count::Fair {
                let detail = "is required for a count of fair, and must have joined a pool".into();
                return Err(Invalid { field: "session", detail }.into());
            }
            let candidates = self.resolve(any).await?;
            self.check_ttls(any, &candidates.keys)?;
            return Ok(self.serve_any(any, candidates, None, wait_until, received).await?.into());
        };
        // R6: the session is seen alive before any grant is written, and again before the caller is told.
        let (bond, ttl_ms) = self.bond(session, received.into()).await?;
        let any = &AcquireAny { ttl_ms, ..any.clone() };
        let serve = async {
            if any.count == Count::Fair {
                return self.serve_fair(any, bond, wait_until, received).await;
            }
            let candidates = self.resolve(any).await?;
            self.serve_any(any, candidates, Some(bond), wait_until, received).await
        };
        let mut served = tokio::select! {
            biased;
            served = serve => served?,
            error = self.session_ends(session) => return Err(error.into()),
        };
        let granted = !served.grants.is_empty();
        self.promise_kept(session, &mut served.grants, received).await?;
        if granted && served.grants.is_empty() && served.elsewhere.is_empty() {
            let spent = Refusal::RequestSpent(Some(ChangeKind::Revoked));
            return Err(AcquireError::Refused(spent, None));
        }
        Ok(served.into())
    }

    /// Grants under a session hold for as long as the session was promised. Leases that an administrator revoked
    /// meanwhile are left out.
    async fn promise_kept(
        &self,
        session: SessionId,
        grants: &mut Vec<Unheard>,
        received: Moment,
    ) -> Result<(), SessionError> {
        match self.beat(session, received.into()).await {
            Ok((session, valid_for_ms)) => {
                grants.retain(|one| !session.is_revoked(&one.key, one.grant.view.token));
                grants.iter_mut().for_each(|one| one.grant.valid_for_ms = valid_for_ms);
                Ok(())
            }
            Err(error) => {
                // The session's leases may have been searched for before these grants landed.
                let sessions = &self.world.sessions;
                sessions.inquire(session.digest, grants.iter().map(|one| one.key.clone()));
                Err(error)
            }
        }
    }

    async fn serve_any(
        &self,
        any: &AcquireAny,
        candidates: Resolved,
        bond: Option<Bond>,
        wait_until: Option<Moment>,
        received: Moment,
    ) -> Result<Served, AcquireError> {
        let Some((id, body)) = any.mark else {
            return Ok(self
                .try_then_wait(any, candidates, bond, wait_until, received)
                .await?
                .into());
        };
        if self.serving.insert(id, ()).is_some() {
            return Err(CallError::InFlight.into());
        }
        let _guard = Serving(self, id);
        match self.granted_before(any, &candidates.keys, bond, (id, body), received).await? {
            Some(served) => Ok(served),
            None => {
                Ok(self.try_then_wait(any, candidates, bond, wait_until, received).await?.into())
            }
        }
    }

    /// Checks that the policy of each key accepts the ttl. Without keys, the policy of the prefix must.
    pub(super) fn check_ttls(&self, any: &AcquireAny, keys: &[Key]) -> Result<(), Invalid> {
        if let (Candidates::Prefix(prefix), true) = (&any.candidates, keys.is_empty()) {
            return self.check_ttl(prefix, "ttl_ms", any.ttl_ms);
        }
        keys.iter().try_for_each(|key| self.check_ttl(key.as_str(), "ttl_ms", any.ttl_ms))
    }

    /// The pools of these keys, each once.
    pub(super) fn pools_of(&self, keys: &[Key]) -> Vec<Arc<PoolMetrics>> {
        let rules = self.world.rules();
        let mut pools: Vec<Arc<PoolMetrics>> = Vec::new();
        for key in keys {
            let pool = rules.of(key.as_str()).1;
            if !pools.iter().any(|known| Arc::ptr_eq(known, pool)) {
                pools.push(pool.clone());
            }
        }
        pools
    }

    async fn found(
        &self,
        place: (Option<&str>, &str),
        any: &AcquireAny,
    ) -> Result<(Vec<Key>, bool), CallError> {
        let count = if let Count::UpTo(count) = any.count { count } else { MAX_CANDIDATES };
        let wanted = |record: &Record| {
            let marked = |(id, _)| record.request_marks.iter().any(|mark| mark.id == id);
            record.state == State::Free || any.mark.is_some_and(marked)
        };
        let keys = self.keys_of(place, MAX_CANDIDATES, count + SPARE, wanted);
        keys.await.map_err(CallError::Store)
    }

    /// The candidates of a call.
    pub(super) async fn resolve(&self, any: &AcquireAny) -> Result<Resolved, AcquireError> {
        let feed = self.world.store.feed();
        let (keys, cut) = match &any.candidates {
            Candidates::Keys(keys) => {
                let mut seen = HashSet::default();
                if let Some(twice) = keys.iter().find(|key| !seen.insert(key.as_str())) {
                    let detail = format!("names {twice:?} twice");
                    return Err(Invalid { field: "keys", detail }.into());
                }
                keys.iter().try_for_each(|key| self.check_named("keys", key))?;
                (keys.clone(), false)
            }
            Candidates::Prefix(prefix) => self.found((None, prefix), any).await?,
            Candidates::Pool(pool) => {
                self.check_pool(pool)?;
                self.found((Some(pool), ""), any).await?
            }
        };
        if keys.len() > MAX_CANDIDATES {
            let detail = format!("names {} keys; at most {MAX_CANDIDATES} are allowed", keys.len());
            return Err(Invalid { field: "keys", detail }.into());
        }
        Ok(Resolved { keys, others: cut.then_some(feed) })
    }

    /// Resolves when a candidate outside `tried` may have become free.
    async fn others_freed(&self, any: &AcquireAny, tried: &[Key], mut feed: Feed) {
        let tried: HashSet<&Key> = tried.iter().collect();
        tokio::time::sleep(LOOK_AGAIN).await;
        let fits = |one: &Committed| {
            let fits = match &any.candidates {
                Candidates::Keys(_) => false,
                Candidates::Prefix(prefix) => one.key.as_str().starts_with(prefix.as_str()),
                Candidates::Pool(pool) => self.world.rules().is_of(one.key.as_str(), pool),
            };
            fits && one.change.kind.may_open() && !tried.contains(&one.key)
        };
        while let Ok(News::Changes(batch)) = feed.recv().await {
            if batch.iter().any(fits) {
                return;
            }
        }
    }

    pub(super) async fn views(&self, keys: &[Key]) -> Result<Vec<View>, CallError> {
        let views = stream::iter(keys.iter().map(|key| self.view(key))).buffered(VIEWS_AT_ONCE);
        views.try_collect().await
    }

    async fn try_then_wait(
        &self,
        any: &AcquireAny,
        mut candidates: Resolved,
        bond: Option<Bond>,
        wait_until: Option<Moment>,
        received: Moment,
    ) -> Result<Vec<Unheard>, AcquireError> {
        let Count::UpTo(count) = any.count else { return Ok(Vec::new()) };
        loop {
            let Resolved { keys, others } = candidates;
            let keys = self.order(any, keys).await?;
            let mut tried = self.try_each(any, count, &keys, bond, true, received).await?;
            if tried.grants.is_empty() && wait_until.is_none() && self.node.is_some() {
                // What this node knows of other nodes' keys may be out of date, so it does not refuse a caller on that
                // basis.
                let open = self.not_held(any, &keys).await?;
                let again = self.try_each(any, count, &open, bond, false, received).await?;
                let all = open.len() == keys.len();
                tried = Tried { counts: if all { again.counts } else { tried.counts }, ..again };
            }
            let Tried { grants, counts, failure } = tried;
            if !grants.is_empty() {
                return Ok(grants);
            }
            let none = || failure.map_or(AcquireError::NoneAvailable(counts), Into::into);
            let Some(until) = wait_until.filter(|_| !keys.is_empty()) else { return Err(none()) };
            let freed = Cell::new(false);
            let leave = async {
                let Some(feed) = others else { return std::future::pending().await };
                self.others_freed(any, &keys, feed).await;
                freed.set(true);
            };
            if let Some(grant) = self.park(any, &keys, bond, until, received, leave).await? {
                return Ok(vec![grant]);
            }
            if !freed.get() || self.now() >= until {
                return Err(none());
            }
            candidates = self.resolve(any).await?;
        }
    }

    /// The keys that, according to the store, no other owner holds. Many records are read together: read one after
    /// another, they would take one round trip each.
    async fn not_held(&self, any: &AcquireAny, keys: &[Key]) -> Result<Vec<Key>, CallError> {
        if keys.len() == 1 {
            return Ok(keys.to_vec());
        }
        let found = self.world.store.read_many(keys).await.map_err(CallError::Store)?;
        let by_another = |found: &Option<Found>| {
            let record = found.as_ref().and_then(|found| found.record.as_ref().ok());
            let holder = record.and_then(|record| record.tenure.as_ref());
            holder.is_some_and(|tenure| tenure.owner != any.owner)
        };
        let pairs = keys.iter().zip(&found);
        Ok(pairs.filter(|(_, found)| !by_another(found)).map(|(key, _)| key.clone()).collect())
    }

    /// Tries the keys in their order, until the requested number is granted.
    pub(super) async fn try_each(
        &self,
        any: &AcquireAny,
        count: usize,
        keys: &[Key],
        bond: Option<Bond>,
        allow_stale: bool,
        received: Moment,
    ) -> Result<Tried, AcquireError> {
        let counts = Availability { keys: keys.len(), ..Availability::default() };
        let mut tried = Tried { grants: Vec::new(), counts, failure: None };
        let (mut rest, mut woken) = (keys, ALONE);
        while tried.grants.len() < count && !rest.is_empty() {
            let at = keys.len() - rest.len();
            if self.node.is_some() && at >= woken {
                woken = keys.len().min(at + VIEWS_AT_ONCE);
                self.wake(&keys[at..woken]).await;
            }
            let width = self.at_once().min(count - tried.grants.len());
            let (wave, later) = rest.split_at(rest.len().min(width));
            rest = later;
            let one = |key| AcquireOne { allow_stale, ..any.one(key, any.mark) };
            let ones: Vec<_> = wave.iter().map(one).collect();
            let asked = ones.iter().map(|one| self.acquire_kept(one, bond, received.into()));
            let answers = join_all(asked).await;
            for answer in answers {
                match answer {
                    Ok(unheard) => tried.grants.push(unheard),
                    Err(AcquireError::Refused(why, Some(view))) => tried.counts.add(why, &view),
                    Err(AcquireError::Call(error)) if !matches!(error, CallError::Invalid(_)) => {
                        let before = tried.failure.take().filter(CallError::is_in_doubt);
                        tried.failure = before.or(Some(error));
                    }
                    Err(error) => return Err(error),
                }
            }
            // A grant of unknown outcome may exist under the request id, and a repeated call is told of it. Another key
            // in its place would be one grant too many, of which no caller is told.
            if any.mark.is_some()
                && !self.world.breaks(Mutant::AnyGoesOnInDoubt)
                && let Some(doubt) = tried.failure.take_if(|failure| failure.is_in_doubt())
            {
                return Err(doubt.into());
            }
        }
        Ok(tried)
    }

    /// Makes the actors of these keys read their records, all at a time.
    async fn wake(&self, keys: &[Key]) {
        let asleep = keys.iter().filter(|key| !self.world.registry.contains(key.as_str()));
        join_all(asleep.map(|key| self.ask_view(key))).await;
    }

    /// The candidates in the order in which they are tried. The actor of the first key shuffles them.
    pub(super) async fn order(
        &self,
        any: &AcquireAny,
        keys: Vec<Key>,
    ) -> Result<Vec<Key>, CallError> {
        let Some(lead) = keys.first() else { return Ok(keys) };
        if any.order == Order::Listed || keys.len() == 1 {
            return Ok(keys);
        }
        let mine: Vec<bool> = if any.order == Order::Sticky {
            let was_mine = |view: &View| view.previous.as_ref().is_some_and(|p| p.0 == any.owner);
            self.views(&keys).await?.iter().map(was_mine).collect()
        } else {
            Vec::new()
        };
        let (sender, receiver) = oneshot::channel();
        let mail = Mail::Shuffle(keys.len(), sender);
        let posted = self.world.registry.post(&self.world, lead.as_str(), mail).is_ok();
        let shuffle = match if posted { receiver.await.ok() } else { None } {
            Some(shuffle) => shuffle,
            None => Chance::new(self.world.entropy.next_u64()).permutation(keys.len()),
        };
        let nodes = self.living();
        let near = |at: usize| self.is_nearest(&keys[at], &nodes);
        let mine = |at: usize| mine.get(at).copied().unwrap_or(false);
        let order = arrange(any.order, shuffle, mine, near);
        Ok(order.into_iter().map(|at| keys[at].clone()).collect())
    }
}

impl Manager {
    /// The living nodes, including this one. Empty if there is no other node.
    fn living(&self) -> Vec<Nonce> {
        let nodes = self.nodes();
        let living = nodes.iter().filter(|view| view.this || !view.record.state.is_terminal());
        let living: Vec<_> = living.map(|view| view.record.incarnation).collect();
        if living.len() > 1 { living } else { Vec::new() }
    }

    /// Whether this node has the highest claim to a key among the living nodes. Each node tries its own part of the
    /// keys first, so that callers at several nodes seldom try the same key: a node learns a moment late what another
    /// one granted.
    fn is_nearest(&self, key: &Key, living: &[Nonce]) -> bool {
        let claim = |node: &Nonce| Chance::of((node.0 >> 64) as u64, key.as_str()).next_u64();
        let mine = self.world.terms().node;
        living.iter().max_by_key(|node| claim(node)).is_none_or(|nearest| *nearest == mine)
    }
}

impl AcquireAny {
    /// A request for one of an empty list of keys, in random order and without a wait, for leases that are kept by
    /// their own heartbeats.
    #[must_use]
    pub fn new(owner: Owner, ttl_ms: u64) -> Self {
        Self {
            candidates: Candidates::Keys(Vec::new()),
            owner,
            ttl_ms,
            session: None,
            count: Count::UpTo(1),
            order: Order::Random,
            wait_ms: 0,
            mark: None,
        }
    }

    pub(super) fn one(&self, key: &Key, mark: Option<(u128, u64)>) -> AcquireOne {
        let one = AcquireOne::new(key.clone(), self.owner.clone(), self.ttl_ms);
        AcquireOne { allow_stale: true, mark, ..one }
    }
}

impl AcquireOne {
    pub(super) fn into_acquire(
        self,
        bond: Option<Bond>,
        wait_until: Option<Moment>,
        grant_nonce: Nonce,
    ) -> Acquire {
        Acquire {
            spec: None,
            owner: self.owner,
            ttl_ms: self.ttl_ms,
            value: self.value,
            reclaim: self.reclaim,
            allow_stale: self.allow_stale,
            wait_until,
            grant_nonce,
            mark: self.mark,
            bond,
            place: false,
        }
    }
}

/// Removes a request id from those being served, however its call ends.
pub(super) struct Serving<'a>(pub &'a Manager, pub u128);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.0.serving.remove(&self.1);
    }
}
