//! Copies of pools. What takes time that grows with a pool is done on a copy, away from the lock of all pools and from the
//! threads of calls.
//!
//! Guarantees: making a copy, and taking over what was found out on it, takes a time that grows with the members, not with
//! the keys. What changed in the pool meanwhile stays.

#[cfg(any(test, feature = "testing"))]
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{
    Pools,
    order::Order,
    pool::{Pool, Standings},
};
#[cfg(any(test, feature = "testing"))]
use super::{fact::By, pool::Place};
#[cfg(any(test, feature = "testing"))]
use crate::lease::{Key, Nonce};
use crate::{actor::runtime::watch, lease::Moment};

/// Looking at so many keys takes about as long as making a copy.
const FEW: usize = 500;

/// What a plan on a copy may change, as it was when the copy was made.
pub struct Before {
    /// How often the pool had changed.
    changes: u64,
    standings: Standings,
    mixed: (Option<Moment>, bool),
    rebalancing: Option<Moment>,
}

impl Pool {
    /// A copy, which nobody follows.
    pub fn copy(&self) -> Self {
        Self {
            rules: self.rules,
            members: self.members.clone(),
            returns: self.returns,
            mixed_since: self.mixed_since,
            is_mixed: self.is_mixed,
            keys: self.keys.clone(),
            gone: self.gone.clone(),
            counts: self.counts.clone(),
            open: self.open.clone(),
            asked_for: self.asked_for.clone(),
            indexing: self.indexing,
            misses: self.misses,
            indexed: watch::Sender::new(self.indexed.get()),
            targets: self.targets.clone(),
            by_load: self.by_load,
            table: self.table.clone(),
            seated: self.seated.clone(),
            unplaced_since: self.unplaced_since,
            unplaced_keys: self.unplaced_keys.clone(),
            loads: self.loads.clone(),
            placed: self.placed.clone(),
            standings: self.standings.clone(),
            opened: self.opened,
            changed: watch::Sender::new(self.changed.get()),
            handed_over: self.handed_over.clone(),
            parked: self.parked.clone(),
            uneven: self.uneven,
            controls: self.controls.clone(),
            rebalancing: self.rebalancing,
            losses: self.losses.clone(),
            warm: self.warm.clone(),
        }
    }

    /// What a plan may change, as it is now.
    pub fn before(&self) -> Before {
        Before {
            changes: self.changed.get(),
            standings: self.standings.clone(),
            mixed: (self.mixed_since, self.is_mixed),
            rebalancing: self.rebalancing,
        }
    }

    /// Takes over who is to have the free keys, as it was found out on a copy, unless the pool changed meanwhile. Returns
    /// whether keys are for other members now.
    pub fn adopt_assignment(&mut self, before: &Before, copy: &mut Self) -> bool {
        if self.changed.get() != before.changes {
            return false;
        }
        let goes_elsewhere = self.placed != copy.placed;
        self.targets = copy.targets.take();
        self.seated = copy.seated.take();
        self.placed = std::mem::take(&mut copy.placed);
        goes_elsewhere
    }

    /// Takes over what a plan on a copy noted and decided. What else was noted meanwhile stays. Returns those of its orders
    /// that still hold, and whether the plan does: it is made again if operators ordered something else meanwhile.
    pub fn adopt_plan(
        &mut self,
        before: &Before,
        mut copy: Self,
        mut orders: Vec<Order>,
    ) -> (Vec<Order>, bool) {
        let is_settled = self.changed.get() == before.changes;
        let goes_elsewhere = self.adopt_assignment(before, &mut copy);
        let mut moved = false;
        if (self.mixed_since, self.is_mixed) == before.mixed {
            moved |= self.is_mixed != copy.is_mixed;
            (self.mixed_since, self.is_mixed) = (copy.mixed_since, copy.is_mixed);
        }
        for (digest, standing) in copy.standings {
            let known = self.standings.get(&digest);
            if known == before.standings.get(&digest) && self.members.contains_key(&digest) {
                moved |= known.is_some_and(|known| known.is_aside()) != standing.is_aside();
                self.standings.insert(digest, standing);
            }
        }
        if self.rebalancing == before.rebalancing {
            self.rebalancing = copy.rebalancing;
        }
        self.uneven = copy.uneven;
        (self.unplaced_since, self.unplaced_keys) = (copy.unplaced_since, copy.unplaced_keys);
        self.warm.wanted = copy.warm.wanted;
        // Calls that wait look again which keys are for them.
        self.opened += u64::from(goes_elsewhere);
        if (moved || goes_elsewhere) && is_settled {
            // The plan gave the keys anew already, with these members.
            self.changed.send_modify(|count| *count += 1);
        } else if moved {
            self.moved();
        }
        let holds = Arc::ptr_eq(&self.controls, &copy.controls);
        let is_due = |Order { member, key, .. }: &Order| {
            self.has(*member, key) && !self.asked_for.contains_key(key)
        };
        orders.retain(|order| holds && is_due(order));
        (orders, holds)
    }
}

impl Pools {
    /// Looks at the keys of a pool that are free or asked for, if a session joined it. Where there are many, that is done on
    /// a copy.
    pub(super) fn look<T>(&self, name: &str, look: impl FnOnce(&mut Pool) -> T) -> Option<T> {
        let mut state = self.state();
        let pool = state.pools.get_mut(name)?;
        if pool.open.len() + pool.asked_for.len() <= FEW {
            return Some(look(pool));
        }
        let mut copy = pool.copy();
        drop(state);
        Some(look(&mut copy))
    }

    /// A copy of a pool, if a session joined it.
    pub(in crate::actor) fn copy(&self, name: &str) -> Option<Pool> {
        self.state().pools.get(name).map(Pool::copy)
    }

    /// A copy of a pool, if a session joined it and all of it is known.
    pub(in crate::actor) fn copy_known(&self, name: &str) -> Option<Pool> {
        self.change_known(name, |pool| pool.copy())
    }
}

impl Pools {
    /// For tests: the session that has each key of a pool, `Nonce(0)` for a holder without a session. `None` if no session
    /// joined the pool, or while not all of it is known.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn holders(&self, name: &str) -> Option<BTreeMap<Key, Option<Nonce>>> {
        let pool = self.copy_known(name)?;
        let holder = |place: &Place| match place.fact.by {
            By::Nobody => None,
            By::Other => Some(Nonce(0)),
            By::Session(digest) => Some(digest),
        };
        Some(pool.keys.iter().map(|(key, place)| (key.clone(), holder(place))).collect())
    }
}
