//! What this node knows of pools: the sessions that joined them, whatever their home node, and who holds which of their
//! keys.
//!
//! Guarantees: it follows the store's history in order. What a call at this node was granted counts from the moment at
//! which the call gets its grant. Each place that a member may still fill is given to one call only.
//!
//! Does not guarantee: that another node knows the same at the same moment: it may be a moment late.
//!
//! Assumes: the supervisor reports every committed change in the order of the feed. A change costs one lookup of a key.
//! Nothing is kept about keys whose pool no session joined.

mod controlled;
mod copy;
mod fact;
mod key_map;
mod losses;
mod order;
mod orders;
mod placing;
mod pool;
mod preparing;
mod reading;
mod returning;
mod roster;
mod shares;
mod state;
#[cfg(test)]
mod tests_deploys;
#[cfg(test)]
mod tests_warming;
mod unplaced;
mod unplaced_keys;
mod upgrading;
mod warm;
mod warming;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

pub(in crate::actor) use self::{copy::Before, pool::Pool};
use self::{
    fact::{Delays, Fact, owner_of},
    state::{PoolsState, StoredAt},
};
pub use self::{
    order::Order,
    pool::Joined,
    roster::{Roster, Routed},
    shares::{DryRun, MemberView, Noted, PoolView, Share},
    unplaced_keys::{KeptOut, UnplacedKeys},
    warm::{Preparation, WarmSteps, WarmView},
};
use crate::{
    actor::{
        environment::Environment,
        runtime::watch::{self, settle},
    },
    clock::HashSet,
    lease::{
        Announced, ChangeKind, Epoch, Key, Moment, Named, Nonce, Owner, Rules, SessionOver,
        SessionSpec, Token,
    },
    store::Committed,
};

#[derive(Default)]
pub struct Pools {
    /// At least one session joined a pool.
    in_use: AtomicBool,
    state: Mutex<PoolsState>,
    /// Wakes the task that completes the view.
    pub(in crate::actor) work: Notify,
    /// Wakes the task that makes plans.
    pub(in crate::actor) planned: Notify,
    /// Wakes the task that stores guards.
    guards: Notify,
    /// Wakes the task that has members prepare, and asks holders.
    warming: Notify,
    /// Wakes the task that stores preparations.
    warm_steps_due: Notify,
}

impl Pools {
    /// Nothing is known of any pool yet.
    pub(in crate::actor) fn new(rules: Rules) -> Self {
        let state = Mutex::new(PoolsState { rules, ..PoolsState::default() });
        Self { state, ..Self::default() }
    }

    fn state(&self) -> MutexGuard<'_, PoolsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes a pool, if a session joined it.
    pub(in crate::actor) fn change<T>(
        &self,
        name: &str,
        change: impl FnOnce(&mut Pool) -> T,
    ) -> Option<T> {
        self.state().pools.get_mut(name).map(change)
    }

    /// Changes a pool, if a session joined it and all of it is known.
    pub(in crate::actor) fn change_known<T>(
        &self,
        name: &str,
        change: impl FnOnce(&mut Pool) -> T,
    ) -> Option<T> {
        let mut state = self.state();
        let searched = state.searched;
        let pool = state.pools.get_mut(name).filter(|pool| searched && pool.indexed.get());
        pool.map(change)
    }

    /// This node became the home node of a session: it was just made, or adopted. `returns`: its token, if the members of
    /// its pool come back to their keys.
    pub(in crate::actor) fn joined(
        &self,
        digest: Nonce,
        owner: &Owner,
        spec: &SessionSpec,
        (node, returns): (Nonce, Option<Token>),
        announced: Announced,
    ) {
        let Some(name) = spec.pool.as_deref() else { return };
        let mut state = self.state();
        // The feed reports that a session drains, and that is never undone.
        let draining = state.member(digest).is_some_and(|member| member.draining);
        let (weight, capacity) = (spec.weight, spec.capacity);
        let (owner, announced) = (owner.clone(), Arc::new(announced));
        let joined = Joined { owner, weight, capacity, node, draining, returns, announced };
        state.join(digest, name, joined);
        state.changes(digest);
        drop(state);
        self.in_use.store(true, Ordering::Release);
        self.work.notify_one();
    }

    /// What a session at home here says of itself.
    pub fn announces(&self, digest: Nonce, announced: &Announced) {
        let mut state = self.state();
        if let Some(member) = state.member(digest).cloned() {
            let name = state.joined[&digest].clone();
            state.join(digest, &name, Joined { announced: announced.clone().into(), ..member });
            state.changes(digest);
            drop(state);
            self.work.notify_one();
        }
    }

    /// What a member says of itself, as far as this node knows. `None` for a session that is no member.
    #[must_use]
    pub fn announced(&self, digest: Nonce) -> Option<Announced> {
        self.state().member(digest).map(|joined| Announced::clone(&joined.announced))
    }

    /// The members of other nodes that were not ready when their records were read.
    pub(in crate::actor) fn unready(&self, is_here: impl Fn(Nonce) -> bool) -> Vec<Nonce> {
        let state = self.state();
        let members = state.pools.values().flat_map(|pool| &pool.members);
        let unready =
            members.filter(|(digest, joined)| joined.announced.unready && !is_here(**digest));
        unready.map(|(digest, _)| *digest).collect()
    }

    /// Takes the sessions that a newer one of their owner replaced since the last call.
    pub(in crate::actor) fn take_replaced(&self) -> HashSet<Nonce> {
        std::mem::take(&mut self.state().replaced)
    }

    /// Whether a newer session of its owner is the member instead.
    #[must_use]
    pub fn is_replaced(&self, digest: Nonce) -> bool {
        let state = self.state();
        let pool = state.joined.get(&digest).and_then(|name| state.pools.get(name));
        pool.is_some_and(|pool| pool.replaced().contains_key(&digest))
    }

    /// Whether a session is a member of a pool, as far as this node knows.
    pub(in crate::actor) fn has(&self, digest: Nonce) -> bool {
        self.state().joined.contains_key(&digest)
    }

    /// A session was found to be over. The feed may report it later.
    pub(in crate::actor) fn left(&self, environment: &Environment, over: &SessionOver) {
        if over.is_lost {
            self.lost(environment, over.session);
        }
        self.state().leave(over.session);
        self.work.notify_one();
    }

    /// Handles a change from the feed.
    pub(in crate::actor) fn heard(
        &self,
        environment: &Environment,
        committed: &Committed,
        own: bool,
    ) {
        let Committed { key, change, .. } = committed;
        if let Some(digest) = key.session() {
            if SessionOver::loses(change.kind) {
                self.lost(environment, digest);
            }
            return self.heard_of_session(digest, change.kind, own);
        }
        if let Some(pool) = key.pool() {
            return self.heard_of_controls(pool);
        }
        if key.is_internal() || !self.in_use.load(Ordering::Acquire) {
            return;
        }
        let table = environment.policy_table();
        let policy = table.of(key.as_str()).0;
        if change.kind == ChangeKind::Forgotten {
            self.change(&policy.pool, |pool| pool.forget(key, change.token));
            return;
        }
        if policy.named(key.as_str()) != Named::Lease {
            return;
        }
        let delays = Delays {
            lock_delay: Duration::from_millis(policy.lock_delay_ms.into()),
            rejoin: Duration::from_millis(table.rejoin_window_ms(&policy.pool).into()),
        };
        let Some(fact) = Fact::of_change(change, delays) else { return };
        let now = environment.clock.now();
        let learn = |pool: &mut Pool| {
            pool.learn(key, fact, owner_of(change), now);
            pool.controls.warming.contains_key(key.as_str())
        };
        if let Some(is_warming) = self.change(&policy.pool, learn) {
            self.work.notify_one();
            if is_warming {
                self.look_at_warming();
            }
        }
    }

    fn heard_of_session(&self, digest: Nonce, kind: ChangeKind, own: bool) {
        let mut state = self.state();
        match kind {
            kind if kind.ends_tenure() => state.leave(digest),
            // For its own sessions a node calls `joined`.
            ChangeKind::Granted if !own => {
                state.joins.insert(digest);
            }
            ChangeKind::HandoverRequested => state.drains(digest),
            _ => return,
        }
        drop(state);
        self.work.notify_one();
    }

    /// Some changes were missed, or other keys belong to the pools now: everything is read again. `epoch` is that of the
    /// store now.
    pub(in crate::actor) fn missed_changes(&self, epoch: Epoch) {
        let mut state = self.state();
        (state.misses, state.epoch) = (state.misses + 1, epoch);
        (state.searched, state.controls_due) = (false, None);
        // A store that was restored has older orders, and they hold.
        state.controls.values_mut().for_each(|(stored, _)| *stored = StoredAt::default());
        state.pools.values_mut().for_each(Pool::missed_changes);
        drop(state);
        self.work.notify_one();
    }

    /// Resolves when all keys of a pool are known, or at once if no session joined it.
    pub async fn indexed(&self, name: &str) {
        let indexed = self.state().pools.get(name).map(|pool| pool.indexed.subscribe());
        if let Some(mut indexed) = indexed {
            let _ = indexed.wait_for(|indexed| *indexed).await;
        }
    }

    /// Reports changes of a pool from now on, or `None` if no session joined it.
    #[must_use]
    pub fn changes(&self, name: &str) -> Option<watch::Receiver<u64>> {
        self.state().pools.get(name).map(|pool| pool.changed.subscribe())
    }

    /// A member's share and how much it holds. Keys in `named` that were never granted count as the pool's.
    #[must_use]
    pub fn share(&self, name: &str, digest: Nonce, named: &[Key]) -> Share {
        self.change(name, |pool| pool.share(digest, named)).unwrap_or_default()
    }

    /// Why a member is given no further key of its pool.
    #[must_use]
    pub fn kept_out(&self, name: &str, digest: Nonce, now: Moment) -> KeptOut {
        self.look(name, |pool| pool.kept_out(digest, now)).unwrap_or_default()
    }

    /// Reserves up to `most` of the places that a member may still fill, until the guard is dropped.
    #[must_use]
    pub fn reserve<'a>(
        &'a self,
        name: &'a str,
        digest: Nonce,
        named: &'a [Key],
        most: usize,
    ) -> Option<Reservation<'a>> {
        let (places, taking) = self.change(name, |pool| pool.reserve(digest, named, most))?;
        (places > 0).then_some(Reservation { pools: self, name, digest, named, places, taking })
    }

    /// Those of the named keys that no member has taken yet and that this one may have.
    #[must_use]
    pub fn unclaimed(&self, name: &str, digest: Nonce, named: &[Key]) -> Vec<Key> {
        self.state().pools.get(name).map(|pool| pool.unclaimed(digest, named)).unwrap_or_default()
    }

    /// Reserves places beyond a member's share, for keys that only this member names. `None` if it may have none.
    pub fn reserve_beyond<'a>(
        &'a self,
        name: &'a str,
        digest: Nonce,
        unclaimed: &'a [Key],
    ) -> Option<Reservation<'a>> {
        let places = self.change(name, |pool| pool.reserve_beyond(digest, unclaimed.len()))?;
        let (named, taking) = (unclaimed, false);
        (places > 0).then_some(Reservation { pools: self, name, digest, named, places, taking })
    }

    /// The keys of a pool that nobody holds and that are for this member. If keys are named, only those among them.
    #[must_use]
    pub fn unheld(&self, name: &str, digest: Nonce, named: &[Key]) -> Vec<Key> {
        let unheld = |pool: &mut Pool| {
            if named.is_empty() {
                return pool.unheld(digest);
            }
            let free = |key: &&Key| {
                pool.is_free(key) && pool.is_open_to_shares(key) && pool.is_for(digest, key)
            };
            named.iter().filter(free).cloned().collect()
        };
        self.change(name, Pool::assign);
        self.look(name, unheld).unwrap_or_else(|| named.to_vec())
    }

    /// The keys to which a member comes back: its owner held them last, or still holds them by an earlier session. If
    /// keys are named, only those among them. With how many of them are still held.
    #[must_use]
    pub fn former(&self, name: &str, digest: Nonce, named: &[Key]) -> (Vec<Key>, usize) {
        let former = |pool: &mut Pool| (pool.former(digest, named), pool.inherits(digest));
        self.look(name, former).unwrap_or_default()
    }

    /// The keys that are for this member alone, beyond its share, and that nobody holds: orders of operators give them to it,
    /// or it prepared for them. If keys are named, only those among them.
    #[must_use]
    pub fn to_take(&self, name: &str, digest: Nonce, named: &[Key]) -> Vec<Key> {
        let to_take = |pool: &mut Pool| {
            let mut keys = pool.to_take(digest, named);
            keys.extend(pool.warm_to_take(digest, named));
            keys
        };
        self.change(name, to_take).unwrap_or_default()
    }

    /// How many keys of a pool others than this session hold. If keys are named, only those among them count.
    #[must_use]
    pub fn others(&self, name: &str, digest: Nonce, named: &[Key]) -> usize {
        let Some(pool) = self.copy(name) else { return 0 };
        if named.is_empty() {
            return pool.others(digest);
        }
        let others = |key: &&Key| {
            !pool.is_free(key)
                && !pool.has(digest, key)
                && pool.is_open_to_shares(key)
                && pool.may_have(digest, key)
        };
        named.iter().filter(others).count()
    }

    /// The keys in whose queues a call should wait: those that nobody holds, which may be shut, and those whose holders
    /// were asked for them. If keys are named, only those among them. Keep [`Parked`] while the call stands in these
    /// queues, and pass it to [`Reservation::lapsed`].
    #[must_use]
    pub fn coming<'a>(
        &'a self,
        name: &'a str,
        digest: Nonce,
        named: &[Key],
    ) -> (Vec<Key>, Parked<'a>) {
        let parked = |opened| Parked { pools: self, name, opened };
        let opened = self.change(name, |pool| {
            *pool.parked.entry(pool.opened()).or_default() += 1;
            pool.assign();
            pool.opened()
        });
        let Some(opened) = opened else { return (named.to_vec(), parked(0)) };
        let coming = |pool: &mut Pool| {
            if named.is_empty() {
                let mut keys = pool.unheld(digest);
                keys.extend(pool.coming(digest));
                return keys;
            }
            let coming = |key: &&Key| {
                let is_free = pool.is_free(key) && pool.is_for(digest, key);
                (is_free || pool.is_coming(digest, key)) && pool.is_open_to_shares(key)
            };
            named.iter().filter(coming).cloned().collect()
        };
        (self.look(name, coming).unwrap_or_default(), parked(opened))
    }

    /// A call at this node was granted a key under a session. The feed has not reported it yet. A grant of an epoch that is
    /// over does not count: the store may have forgotten it.
    pub fn granted(&self, name: &str, key: &Key, digest: Nonce, token: Token, now: Moment) {
        let mut state = self.state();
        let is_over = state.rules.a_tenure_outlived_its_epoch(token, state.epoch);
        if let Some(pool) = state.pools.get_mut(name).filter(|_| !is_over) {
            pool.granted(key, digest, token, now);
        }
    }

    /// The members of a pool and their addresses, from now on.
    #[must_use]
    pub fn roster(&self, name: &str) -> watch::Receiver<Arc<Roster>> {
        let state = &mut *self.state();
        state.rosters.follow(name, state.pools.get(name))
    }

    /// Where a member serves its keys, as far as this node knows it.
    #[must_use]
    pub fn address(&self, digest: Nonce) -> Option<Box<str>> {
        self.state().member(digest)?.announced.address.clone()
    }

    /// A pool as shown to operators. `None` if no session joined it, or while not all of it is known. The time that this
    /// takes grows with the pool.
    #[must_use]
    pub fn view(&self, name: &str, now: Moment) -> Option<PoolView> {
        self.copy_known(name).map(|mut pool| pool.view(now))
    }

    /// What needs an operator, as the last plan noted it. `None` if no session joined the pool, or while not all of it is
    /// known.
    #[must_use]
    pub fn noted(&self, name: &str) -> Option<Noted> {
        self.change_known(name, |pool| Noted {
            members: pool.members.len(),
            free: pool.free(),
            uneven: pool.uneven,
            guard: pool.guard().cloned(),
            unplaced: pool.unplaced_keys.clone(),
            unplaced_since: pool.unplaced_since,
        })
    }
}

/// A call that stands in the queues of keys of a pool. An order that forbids it a key is answered when it has left them.
pub struct Parked<'a> {
    pools: &'a Pools,
    name: &'a str,
    /// How often a key had been opened when it chose the keys.
    opened: u64,
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        self.pools.change(self.name, |pool| {
            if let Some(count) = pool.parked.get_mut(&self.opened) {
                *count -= 1;
                if *count == 0 {
                    pool.parked.remove(&self.opened);
                }
            }
            pool.changed.send_modify(|count| *count += 1);
        });
    }
}

/// Places of a member that one call may fill.
pub struct Reservation<'a> {
    pools: &'a Pools,
    name: &'a str,
    digest: Nonce,
    named: &'a [Key],
    pub places: usize,
    /// The call can take a key that is free.
    taking: bool,
}

impl Reservation<'_> {
    /// Keeps this many places and returns the others.
    pub fn keep(&mut self, places: usize) {
        let rest = self.places.saturating_sub(places);
        self.places -= rest;
        self.give_back(rest);
    }

    fn give_back(&self, places: usize) {
        self.pools.change(self.name, |pool| pool.give_back(self.digest, places));
    }

    /// Resolves when the member's share falls below what it holds and has reserved, when there are other keys to wait
    /// for than those that [`Pools::coming`] returned, or when the last free key that the call can take is gone.
    pub async fn lapsed(&self, parked: &Parked<'_>) {
        let opened = parked.opened;
        let Some(mut changes) = self.pools.changes(self.name) else { return };
        let stays = || {
            let fits = |pool: &mut Pool| {
                pool.opened() == opened
                    && pool.fits(self.digest, self.named)
                    && self.taking == pool.can_take(self.digest, self.named)
            };
            self.pools.change(self.name, fits).unwrap_or(false)
        };
        loop {
            if !stays() || settle(&mut changes).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.pools.change(self.name, |pool| {
            if self.taking {
                pool.takes_no_more(self.digest);
            }
            pool.give_back(self.digest, self.places);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Behavior, Record, Revision};

    fn joined(pools: &Pools) {
        let spec = SessionSpec {
            behavior: Behavior::Release,
            lock_delay_ms: None,
            pool: Some("p".into()),
            weight: 1,
            capacity: None,
            checks: Vec::new(),
        };
        let owner = Owner::new("w").expect("an owner");
        pools.joined(Nonce(1), &owner, &spec, (Nonce(0), None), Announced::default());
    }

    /// What a call or a scan of the store brings is from before the store went backwards, and it comes afterwards.
    #[test]
    fn what_was_read_or_granted_before_a_store_went_backwards_does_not_count() {
        let (pools, key) = (Pools::default(), Key::new("a").expect("a key"));
        joined(&pools);
        let (held, free) =
            (|| pools.share("p", Nonce(1), &[]).held, || pools.change("p", |pool| pool.keys.len()));
        let misses = pools.misses();
        pools.missed_changes(Epoch(2));
        pools.granted("p", &key, Nonce(1), Token::of(Epoch(1), Revision(9)), Moment::ZERO);
        assert_eq!(held(), 0);
        let record = Record::absent();
        pools.learn(("p", misses), &key, &record, Revision(4), Moment::ZERO);
        assert_eq!(free(), Some(0));
        pools.learn(("p", pools.misses()), &key, &record, Revision(4), Moment::ZERO);
        assert_eq!(free(), Some(1));
        pools.granted("p", &key, Nonce(1), Token::of(Epoch(2), Revision(9)), Moment::ZERO);
        assert_eq!(held(), 1);
    }
}
