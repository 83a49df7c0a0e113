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
    AcquireAny, AcquireError, Availability, CallError, Candidates, Invalid, MAX_CANDIDATES,
    Manager,
    any::{Served, Serving, Tried},
    unheard::Unheard,
};
use crate::{
    actor::{Reservation, Share, pools::settle, watch},
    lease::{Bond, Key, Moment, Order},
};

/// How long a call waits until all keys of its pool are known.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the keys that a call names are left to other members, before the call takes them beyond its own share.
const UNCLAIMED: Duration = Duration::from_secs(2);

/// How many leases an acquire-any takes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// This many.
    UpTo(usize),
    /// As many as the session lacks of its share of its pool.
    Fair,
}

/// A member's call.
struct Member<'a> {
    any: &'a AcquireAny,
    pool: &'a str,
    bond: Bond,
    /// The keys that the call names.
    named: &'a [Key],
    wait_until: Option<Moment>,
    received: Moment,
}

impl Manager {
    pub(super) async fn serve_fair(
        &self,
        any: &AcquireAny,
        bond: Bond,
        wait_until: Option<Moment>,
        received: Moment,
    ) -> Result<Served, AcquireError> {
        let pool = self.pool_joined(any, bond)?;
        let named = match &any.candidates {
            Candidates::Keys(_) => self.resolve(any).await?.keys,
            _ => Vec::new(),
        };
        let surveyed = tokio::time::timeout(PATIENCE, self.world.pools.surveyed(&pool)).await;
        if surveyed.is_err() {
            return Err(CallError::Busy.into());
        }
        let member = Member { any, pool: &pool, bond, named: &named, wait_until, received };
        let Some((id, body)) = any.mark else {
            return Ok(self.take_share(&member).await?.into());
        };
        if self.serving.insert(id, ()).is_some() {
            return Err(CallError::InFlight.into());
        }
        let _guard = Serving(self, id);
        let session = self.world.sessions.get(bond.session);
        if session.is_none_or(|session| session.may_repeat(id, self.now())) {
            // This reads all records of the pool, which is expensive on some stores.
            let keys = self.marked_keys(&pool, &named, id).await?;
            let before = self.granted_before(any, &keys, Some(bond), (id, body), received);
            if let Some(served) = before.await? {
                return Ok(served);
            }
        }
        Ok(self.take_share(&member).await?.into())
    }

    /// The pool of a call for a fair share. Its session must have joined it.
    fn pool_joined(&self, any: &AcquireAny, bond: Bond) -> Result<Arc<str>, Invalid> {
        let invalid = |field, detail: String| Err(Invalid { field, detail });
        let session = self.world.sessions.get(bond.session);
        let Some(pool) = session.and_then(|session| session.spec.pool.clone()) else {
            return invalid("session", "joined no pool, so it has no share".into());
        };
        let rules = self.world.rules();
        match &any.candidates {
            Candidates::Pool(named) if **named == *pool => {}
            Candidates::Pool(_) => {
                return invalid("pool", format!("must be {pool}, the pool of the session"));
            }
            Candidates::Keys(keys) => {
                if let Some(other) = keys.iter().find(|key| !rules.is_of(key.as_str(), &pool)) {
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

    async fn take_share(&self, member: &Member<'_>) -> Result<Vec<Unheard>, AcquireError> {
        let pools = &self.world.pools;
        let Some(mut changes) = pools.changes(member.pool) else {
            return Err(self.no_share(member, Availability::default()));
        };
        let mut unclaimed_since = None;
        loop {
            let places =
                pools.reserve(member.pool, member.bond.session, member.named, MAX_CANDIDATES);
            let counts = match places {
                // Counting is expensive, so it is only done for an answer.
                None => {
                    let grants = self.claim(member, &mut unclaimed_since).await?;
                    if !grants.is_empty() {
                        return Ok(grants);
                    }
                    None
                }
                Some(mut places) => {
                    let Tried { grants, counts, failure } =
                        self.try_open(member, places.places).await?;
                    if !grants.is_empty() {
                        return Ok(grants);
                    }
                    let Some(until) = member.wait_until else {
                        let none = self.no_share(member, counts);
                        return Err(failure.map_or(none, Into::into));
                    };
                    places.keep(1);
                    match self.park_for(member, &places, until).await? {
                        Parked::Granted(grants) => return Ok(grants),
                        Parked::Again => continue,
                        Parked::Over => Some(counts),
                    }
                }
            };
            let Some(until) = member.wait_until.filter(|until| *until > self.now()) else {
                let counts = counts.unwrap_or_else(|| self.counts_of(member));
                return Err(self.no_share(member, counts));
            };
            let look = unclaimed_since.map_or(until, |since: Moment| since + UNCLAIMED);
            self.next_change(&mut changes, until.min(look)).await?;
        }
    }

    /// Takes keys that this call names and that no member took while they were left to the others' shares, even beyond
    /// this member's share. Members that name other keys, or the pool, do not know these keys. Once they are taken, all
    /// members know them, and the pool distributes them like the others.
    async fn claim(
        &self,
        member: &Member<'_>,
        since: &mut Option<Moment>,
    ) -> Result<Vec<Unheard>, AcquireError> {
        let pools = &self.world.pools;
        let unclaimed = pools.unclaimed(member.pool, member.named);
        if unclaimed.is_empty() {
            *since = None;
            return Ok(Vec::new());
        }
        let now = self.now();
        if now < *since.get_or_insert(now) + UNCLAIMED {
            return Ok(Vec::new());
        }
        *since = None;
        let session = member.bond.session;
        let Some(places) = pools.reserve_beyond(member.pool, session, &unclaimed) else {
            return Ok(Vec::new());
        };
        let Member { any, bond, received, .. } = *member;
        let keys = self.order(any, unclaimed.clone()).await?;
        let tried = self.try_each(any, places.places, &keys, Some(bond), true, received).await?;
        self.note(member, &tried.grants);
        Ok(tried.grants)
    }

    /// Waits until something changed in the pool, or the caller's time is over.
    async fn next_change(
        &self,
        changes: &mut watch::Receiver<u64>,
        until: Moment,
    ) -> Result<(), CallError> {
        tokio::select! {
            biased;
            _ = settle(changes) => Ok(()),
            () = tokio::time::sleep(until.since(self.now())) => Ok(()),
            () = self.drained() => Err(CallError::Draining),
        }
    }

    /// Tries the keys that nobody is known to hold. For a caller that does not wait, also tries the others, which costs
    /// no write.
    async fn try_open(&self, member: &Member<'_>, places: usize) -> Result<Tried, AcquireError> {
        let Member { any, bond, received, .. } = *member;
        let free = self.order(any, self.unheld(member)).await?;
        let mut tried = self.try_each(any, places, &free, Some(bond), true, received).await?;
        if tried.grants.is_empty() && member.wait_until.is_none() {
            let others = self.held_by_others(member);
            let rest = self.try_each(any, places, &others, Some(bond), true, received).await?;
            tried.grants = rest.grants;
            tried.counts = tried.counts.and(rest.counts);
            tried.failure = tried.failure.or(rest.failure);
        }
        self.note(member, &tried.grants);
        Ok(tried)
    }

    fn unheld(&self, member: &Member<'_>) -> Vec<Key> {
        let mut free = self.world.pools.unheld(member.pool, member.named);
        if member.named.is_empty() && member.any.order == Order::Listed {
            free.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        }
        free
    }

    fn held_by_others(&self, member: &Member<'_>) -> Vec<Key> {
        self.world.pools.others(member.pool, member.bond.session, member.named)
    }

    /// Waits for one key with ONE registration, on the keys that nobody holds and on those whose holders were asked for
    /// them. For all other keys the pool is the queue: when one of them becomes free, the caller tries again.
    async fn park_for(
        &self,
        member: &Member<'_>,
        places: &Reservation<'_>,
        until: Moment,
    ) -> Result<Parked, AcquireError> {
        let Member { any, bond, received, pool, named, .. } = *member;
        let (keys, opened) = self.world.pools.coming(pool, bond.session, named);
        let left = Cell::new(false);
        let leave = async {
            places.lapsed(opened).await;
            left.set(true);
        };
        match self.park(any, &keys, Some(bond), until, received, leave).await? {
            Some(grant) => {
                let grants = vec![grant];
                self.note(member, &grants);
                Ok(Parked::Granted(grants))
            }
            None if left.get() => Ok(Parked::Again),
            None => Ok(Parked::Over),
        }
    }

    /// Counts these grants from now on. The feed reports them a moment later.
    fn note(&self, member: &Member<'_>, grants: &[Unheard]) {
        let now = self.now();
        for Unheard { key, grant, .. } in grants {
            let token = grant.view.token;
            self.world.pools.granted(member.pool, key, member.bond.session, token, now);
        }
    }

    fn share_of(&self, member: &Member<'_>) -> Share {
        self.world.pools.share(member.pool, member.bond.session, member.named)
    }

    fn counts_of(&self, member: &Member<'_>) -> Availability {
        let (free, held) = (self.unheld(member).len(), self.held_by_others(member).len());
        let held_by_you = self.share_of(member).held;
        Availability {
            keys: free + held + held_by_you,
            held,
            held_by_you,
            ..Availability::default()
        }
    }

    fn no_share(&self, member: &Member<'_>, counts: Availability) -> AcquireError {
        AcquireError::NoneOfShare(counts, self.share_of(member))
    }
}

/// The result of waiting.
enum Parked {
    Granted(Vec<Unheard>),
    /// The share fell, or there are more keys to wait for.
    Again,
    /// The time is over, or every key refused.
    Over,
}
