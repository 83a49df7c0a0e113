//! The preparations of all pools, for the tasks that have them stored, have members prepare, and ask holders.

use std::collections::BTreeMap;

use super::{
    Pool, Pools,
    warm::{Preparation, WarmSteps},
};
use crate::lease::{Key, Moment, Nonce, Token, Warmups};

impl Pools {
    /// Resolves when holders may have to be asked, or members to prepare.
    pub(in crate::actor) async fn warming_changed(&self) {
        self.warming.notified().await;
    }

    /// Resolves when preparations may have to be stored.
    pub async fn warm_steps_due(&self) {
        self.warm_steps_due.notified().await;
    }

    /// Looks at the preparations again.
    pub(in crate::actor) fn look_at_warming(&self) {
        self.warming.notify_one();
        self.warm_steps_due.notify_one();
    }

    /// Whether members prepare for keys.
    #[must_use]
    pub fn is_warming(&self) -> bool {
        let state = self.state();
        state.controls.values().any(|(_, controls)| !controls.warming.is_empty())
    }

    /// The changes of preparations that this node must store, by pool.
    pub fn warm_steps(
        &self,
        here: impl Fn(Nonce) -> bool,
        warmups: impl Fn(&str) -> Option<Warmups>,
        now: Moment,
        wall_ms: u64,
    ) -> Vec<(Box<str>, WarmSteps)> {
        let state = self.state();
        if !state.searched {
            return Vec::new();
        }
        let indexed = state.pools.iter().filter(|(_, pool)| pool.indexed.get());
        let steps = indexed.map(|(name, pool)| {
            let steps = pool.warm_steps(&here, warmups(name), now, wall_ms);
            ((**name).into(), steps)
        });
        steps.filter(|(_, steps)| !steps.steps.is_empty()).collect()
    }

    /// The preparations by members for which `here` holds whose values must be read, with the pool of each.
    pub(in crate::actor) fn warm_unread(
        &self,
        here: impl Fn(Nonce) -> bool,
    ) -> Vec<(Box<str>, Key, Token)> {
        let state = self.state();
        let unread = state.pools.iter().flat_map(|(name, pool)| {
            let unread = pool.unread(&here).into_iter();
            unread.map(|(key, token)| ((**name).into(), key, token))
        });
        unread.collect()
    }

    /// The value of a key that a member is to prepare for.
    pub(in crate::actor) fn warm_value(
        &self,
        (pool, key, token): (&str, Key, Token),
        value: Option<Box<str>>,
    ) {
        self.change(pool, |pool| pool.warm.values.insert(key, (token, value)));
    }

    /// What the members for which `here` holds are told to prepare for: changes of it must be told.
    pub(in crate::actor) fn warm_told(
        &self,
        here: impl Fn(Nonce) -> bool,
    ) -> BTreeMap<Nonce, Vec<(Key, Token, bool)>> {
        let state = self.state();
        let mut told: BTreeMap<Nonce, Vec<_>> = BTreeMap::new();
        for pool in state.pools.values() {
            for (key, warming) in pool.warmings().filter(|(_, warming)| here(warming.to)) {
                if pool.warm_to(&key).is_some() && pool.warm.values.contains_key(&key) {
                    let of_member = told.entry(warming.to).or_default();
                    of_member.push((key, warming.token, warming.ready));
                }
            }
        }
        told
    }

    /// What a member is to prepare for.
    #[must_use]
    pub fn preparations(
        &self,
        pool: &str,
        digest: Nonce,
        timeout_ms: u64,
        now: Moment,
    ) -> Vec<Preparation> {
        let state = self.state();
        let pool = state.pools.get(pool).filter(|pool| !pool.controls.warming.is_empty());
        pool.map(|pool| pool.preparations(digest, timeout_ms, now)).unwrap_or_default()
    }

    /// A member says that it is prepared for these keys. Those that it was not asked to prepare for do not count.
    pub fn prepared(&self, pool: &str, digest: Nonce, keys: &[Key]) {
        if self.change(pool, |pool| pool.note_prepared(digest, keys)).unwrap_or(false) {
            self.warm_steps_due.notify_one();
        }
    }

    /// Whether a member that leaves holds leases that it was not asked for yet.
    #[must_use]
    pub fn holds_unasked(&self, pool: &str, digest: Nonce) -> bool {
        let unasked = |pool: &mut Pool| {
            pool.counts.get(&digest).is_some_and(|count| count.held > count.asked)
        };
        self.change(pool, unasked).unwrap_or(false)
    }
}
