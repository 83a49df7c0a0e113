//! Acquire-any of a member's fair share of its pool.
//!
//! Guarantees: as far as this node knows, calls here never take more than the member's share, except for keys that no
//! other member asks for. A waiting call leaves every queue when the share falls below what the member holds and waits
//! for.
//!
//! Does not guarantee: that the share is the same a moment later. The pool moves what then exceeds it.
//!
//! Assumes: the session's home node makes all grants to a member.

use std::{cell::Cell, sync::Arc, time::Duration};

use super::{
    attempt::{Basis, Tried},
    call::AnyCall,
    request::{Candidates, MAX_CANDIDATES},
    taken::Served,
};
use crate::{
    actor::{
        Pools, Reservation, Share, assign_pool,
        watch::{self, settle},
    },
    clock::HashSet,
    lease::{CandidateOrder, Key, Moment, Nonce, SessionRef},
    manager::{
        Manager,
        availability::Availability,
        error::{AcquireError, CallError, Invalid},
        unheard::Unheard,
    },
};

/// How long a call waits until all keys of its pool are known.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a call that does not wait for keys waits for the store's feed. The feed is a few milliseconds behind.
const BEHIND: Duration = Duration::from_millis(100);

/// How long to wait before leases that an earlier session of the owner holds are tried again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// How long the keys that a call names are left to other members, before the call takes them beyond its own share.
const UNCLAIMED: Duration = Duration::from_secs(2);

impl AnyCall<'_> {
    /// Serves a call for as many keys as its session lacks of its share of its pool.
    pub async fn serve_share(&self) -> Result<Served, AcquireError> {
        let Some(SessionRef { session, .. }) = self.session_ref else {
            let detail = "is required for a count of fair, and must have joined a pool".into();
            return Err(Invalid { field: "session", detail }.into());
        };
        let pool = self.pool_joined(session)?;
        let named = match &self.any.candidates {
            Candidates::Keys(_) => self.resolve().await?.keys,
            _ => Vec::new(),
        };
        let indexed = tokio::time::timeout(PATIENCE, self.manager.coordinator.pools.indexed(&pool));
        indexed.await.map_err(|_| CallError::IndexingPool)?;
        let call = self.of_pool(pool.clone());
        let member = Member { call: &call, pool: &pool, session, named: &named };
        let _serving = self.begin()?;
        match member.granted_before().await? {
            Some(served) => Ok(served),
            None => Ok(member.take_share().await?.into()),
        }
    }

    /// The pool that the session joined. The candidates must belong to it.
    fn pool_joined(&self, session: Nonce) -> Result<Arc<str>, Invalid> {
        let invalid = |field, detail: String| Err(Invalid { field, detail });
        let session = self.manager.coordinator.sessions.get(session);
        let Some(pool) = session.and_then(|session| session.spec.pool.clone()) else {
            return invalid("session", "joined no pool, so it has no share".into());
        };
        let table = self.manager.coordinator.policy_table();
        match &self.any.candidates {
            Candidates::Pool(named) if **named == *pool => {}
            Candidates::Pool(_) => {
                return invalid("pool", format!("must be {pool}, the pool of the session"));
            }
            Candidates::Keys(keys) => {
                if let Some(other) = keys.iter().find(|key| !table.is_of(key.as_str(), &pool)) {
                    let detail = format!("names {other:?}, which is not in the pool {pool}");
                    return invalid("keys", detail);
                }
            }
            Candidates::Prefix(_) => {
                return invalid("prefix", "not allowed with count fair: name the pool".into());
            }
        }
        Ok(pool.into())
    }
}

/// A member of a pool that asks for its share.
struct Member<'a> {
    call: &'a AnyCall<'a>,
    pool: &'a str,
    session: Nonce,
    /// The keys that the call names.
    named: &'a [Key],
}

/// The result of filling places with keys that come free.
enum Filled {
    Granted(Vec<Unheard>),
    /// The share fell, or there are more keys to wait for.
    Again,
    /// The time is over, or every key refused.
    Over(Availability),
}

impl Member<'_> {
    fn manager(&self) -> &Manager {
        self.call.manager
    }

    fn pools(&self) -> &Pools {
        &self.call.manager.coordinator.pools
    }

    /// What the call was granted earlier. Finding out reads all records of the pool, which is expensive on some stores,
    /// so this is done only if the call may be a repeated one.
    async fn granted_before(&self) -> Result<Option<Served>, AcquireError> {
        let Some((id, _)) = self.call.any.mark else { return Ok(None) };
        let session = self.manager().coordinator.sessions.get(self.session);
        if session.is_some_and(|session| !session.may_repeat(id, self.manager().now())) {
            return Ok(None);
        }
        let keys = self.manager().marked_keys(self.pool, self.named, id, self.call.looks).await?;
        self.call.granted_before(&keys).await
    }

    async fn take_share(&self) -> Result<Vec<Unheard>, AcquireError> {
        let Some(mut changes) = self.pools().changes(self.pool) else {
            return Err(self.none(Availability::default()));
        };
        let mut unclaimed_since = None;
        if self.call.wait_until.is_none() {
            self.catch_up().await;
        }
        loop {
            assign_pool(&self.manager().coordinator, self.pool).await;
            let given = self.take_given().await?;
            if !given.is_empty() {
                return Ok(given);
            }
            let counts = match self.reserve() {
                Some(places) => match self.fill(places).await? {
                    Filled::Granted(grants) => return Ok(grants),
                    Filled::Again => continue,
                    Filled::Over(counts) => Some(counts),
                },
                None => {
                    let grants = self.claim(&mut unclaimed_since).await?;
                    if !grants.is_empty() {
                        return Ok(grants);
                    }
                    None
                }
            };
            let now = self.manager().now();
            let Some(until) = self.call.wait_until.filter(|until| *until > now) else {
                // Counting is expensive, so it is only done for an answer.
                return Err(self.none(counts.unwrap_or_else(|| self.counts())));
            };
            let look = unclaimed_since.map_or(until, |since: Moment| since + UNCLAIMED);
            self.next_change(&mut changes, until.min(look)).await?;
        }
    }

    /// A call that does not wait knows of what was committed before it came.
    async fn catch_up(&self) {
        let latest = self.manager().latest();
        let reached = self.manager().coordinator.bus.reached(latest);
        // The call may know less while the feed is behind.
        let _ = tokio::time::timeout(BEHIND, reached).await;
    }

    /// Takes the keys that operators' orders give to this member.
    async fn take_given(&self) -> Result<Vec<Unheard>, AcquireError> {
        let given = self.pools().to_take(self.pool, self.session, self.named);
        if given.is_empty() {
            return Ok(Vec::new());
        }
        let given = self.allowed(given);
        let tried = self.call.try_each(&given, given.len(), Basis::Memory).await?;
        self.note(&tried.grants);
        Ok(tried.grants)
    }

    fn reserve(&self) -> Option<Reservation<'_>> {
        self.pools().reserve(self.pool, self.session, self.named, MAX_CANDIDATES)
    }

    /// Fills reserved places with open keys. If there are none, waits for one.
    async fn fill(&self, mut places: Reservation<'_>) -> Result<Filled, AcquireError> {
        let (Tried { grants, counts, failure, .. }, is_coming_back) =
            self.try_open(places.places).await?;
        if !grants.is_empty() {
            return Ok(Filled::Granted(grants));
        }
        if is_coming_back {
            // Its places are for the leases that an earlier session of its owner still holds and that could not be taken.
            let left = self.call.wait_until.map(|until| until.since(self.manager().now()));
            tokio::time::sleep(left.unwrap_or_default().min(LOOK_AGAIN)).await;
            return Ok(Filled::Over(counts));
        }
        let Some(until) = self.call.wait_until else {
            return Err(failure.map_or_else(|| self.none(counts), Into::into));
        };
        places.keep(1);
        self.park_for(&places, until, counts).await
    }

    /// Tries the keys that nobody is known to hold, those to which the member comes back first. Keys that others are known
    /// to hold are not asked: that would cost a call for each of them. The flag: an earlier session of the owner still holds what
    /// belongs into these places.
    async fn try_open(&self, places: usize) -> Result<(Tried, bool), AcquireError> {
        let (former, inherited) = self.pools().former(self.pool, self.session, self.named);
        let former = self.allowed(former);
        let mut tried = self.call.reclaiming().try_each(&former, places, Basis::Memory).await?;
        self.note(&tried.grants);
        let taken = tried.grants.len();
        let left = places.saturating_sub(taken.max(inherited));
        let mut free = self.unheld();
        if !former.is_empty() {
            let former: HashSet<&Key> = former.iter().collect();
            free.retain(|key| !former.contains(key));
        }
        let free = self.call.order(free).await?;
        tried.join(self.call.try_each(&free, left, Basis::Memory).await?);
        if tried.grants.is_empty() && self.call.wait_until.is_none() {
            // For the answer.
            let held = self.held_by_others();
            tried.counts =
                tried.counts.and(Availability { keys: held, held, ..Availability::default() });
        }
        self.note(&tried.grants[taken..]);
        Ok((tried, left == 0))
    }

    /// Waits on the keys that nobody holds and on those whose holders were asked for them. For all other keys the pool
    /// is the queue: when one of them becomes free, the caller tries again.
    async fn park_for(
        &self,
        places: &Reservation<'_>,
        until: Moment,
        counts: Availability,
    ) -> Result<Filled, AcquireError> {
        assign_pool(&self.manager().coordinator, self.pool).await;
        let (keys, parked) = self.pools().coming(self.pool, self.session, self.named);
        let keys = self.allowed(keys);
        let left = Cell::new(false);
        let leave = async {
            places.lapsed(&parked).await;
            left.set(true);
        };
        match self.call.park(&keys, until, leave).await? {
            Some(grant) => {
                let grants = vec![grant];
                self.note(&grants);
                Ok(Filled::Granted(grants))
            }
            None if left.get() => Ok(Filled::Again),
            None => Ok(Filled::Over(counts)),
        }
    }

    /// Takes keys that this call names and that no member took while they were left to the others' shares, even beyond
    /// this member's share. Members that name other keys, or the pool, do not know these keys. Once they are taken, all
    /// members know them, and the pool distributes them like the others.
    async fn claim(&self, since: &mut Option<Moment>) -> Result<Vec<Unheard>, AcquireError> {
        let unclaimed = self.pools().unclaimed(self.pool, self.session, self.named);
        if unclaimed.is_empty() {
            *since = None;
            return Ok(Vec::new());
        }
        let now = self.manager().now();
        if now < *since.get_or_insert(now) + UNCLAIMED {
            return Ok(Vec::new());
        }
        *since = None;
        let places = self.pools().reserve_beyond(self.pool, self.session, &unclaimed);
        let Some(places) = places else { return Ok(Vec::new()) };
        let keys = self.call.order(unclaimed.clone()).await?;
        let tried = self.call.try_each(&keys, places.places, Basis::Memory).await?;
        self.note(&tried.grants);
        Ok(tried.grants)
    }

    /// Waits until something changed in the pool, or the caller's time is over.
    async fn next_change(
        &self,
        changes: &mut watch::Receiver<u64>,
        until: Moment,
    ) -> Result<(), CallError> {
        let manager = self.manager();
        tokio::select! {
            biased;
            _ = settle(changes) => Ok(()),
            () = tokio::time::sleep(until.since(manager.now())) => Ok(()),
            () = manager.drained() => Err(CallError::Draining),
        }
    }

    /// Counts these grants from now on. The feed reports them a moment later.
    fn note(&self, grants: &[Unheard]) {
        let now = self.manager().now();
        for Unheard { key, grant, .. } in grants {
            self.pools().granted(self.pool, key, self.session, grant.view.token, now);
        }
    }

    fn unheld(&self) -> Vec<Key> {
        let mut free = self.allowed(self.pools().unheld(self.pool, self.session, self.named));
        if self.named.is_empty() && self.call.any.order == CandidateOrder::Listed {
            free.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        }
        free
    }

    fn held_by_others(&self) -> usize {
        self.pools().others(self.pool, self.session, self.named)
    }

    /// Those of the pool's keys that the settings allow: the pool of keys without a policy may have others.
    fn allowed(&self, mut keys: Vec<Key>) -> Vec<Key> {
        keys.retain(|key| self.manager().check_named("key", key).is_ok());
        keys
    }

    fn share(&self) -> Share {
        self.pools().share(self.pool, self.session, self.named)
    }

    fn counts(&self) -> Availability {
        let (free, held) = (self.unheld().len(), self.held_by_others());
        let held_by_you = self.share().held;
        Availability {
            keys: free + held + held_by_you,
            held,
            held_by_you,
            ..Availability::default()
        }
    }

    fn none(&self, counts: Availability) -> AcquireError {
        let now = self.manager().now();
        let kept_out = self.pools().kept_out(self.pool, self.session, now);
        AcquireError::NoneOfShare(counts, self.share(), Box::new(kept_out))
    }
}
