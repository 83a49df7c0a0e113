//! What operators ordered for pools, as the store has it, and guards that must be stored.

use std::{collections::BTreeMap, sync::Arc};

use super::{Pool, Pools, controlled, state::StoredAt};
use crate::{
    actor::environment::Environment,
    clock::HashSet,
    lease::{Key, Moment, Nonce, PoolControls, PoolOrder, Said, Token},
};

impl Pools {
    /// What operators ordered for a pool.
    #[must_use]
    pub fn controls(&self, pool: &str) -> Arc<PoolControls> {
        let state = self.state();
        state.controls.get(pool).map(|(_, controls)| controls.clone()).unwrap_or_default()
    }

    /// Whether a key is paused, and by whom.
    pub(in crate::actor) fn paused(&self, pool: &str, key: &Key) -> Option<Said> {
        self.controls(pool).paused(key).cloned()
    }

    /// The orders for a pool changed.
    pub(super) fn heard_of_controls(&self, pool: &str) {
        let mut state = self.state();
        if let Some(due) = &mut state.controls_due {
            due.insert(pool.into());
        }
        drop(state);
        self.work.notify_one();
    }

    /// Takes the pools whose orders must be read: some of `all`.
    pub(in crate::actor) fn take_controls_due(&self, all: &[Arc<str>]) -> HashSet<Box<str>> {
        let due = self.state().controls_due.replace(HashSet::default());
        due.unwrap_or_else(|| all.iter().map(|pool| (&**pool).into()).collect())
    }

    /// The orders for a pool could not be read.
    pub(in crate::actor) fn controls_again(&self, pool: &str) {
        if let Some(due) = &mut self.state().controls_due {
            due.insert(pool.into());
        }
    }

    /// The orders for a pool were just stored here. If the epoch of that write is over, the store may have forgotten them,
    /// and they are read again.
    pub fn stored(&self, pool: &str, (token, controls): (Token, PoolControls), now: (Moment, u64)) {
        let (misses, is_over) = {
            let state = self.state();
            (state.misses, state.rules.a_tenure_outlived_its_epoch(token, state.epoch))
        };
        if is_over {
            return self.heard_of_controls(pool);
        }
        self.obey((pool, misses), (token, true), controls, now);
    }

    /// The orders for a pool were read. Orders that were stored before those that this node knows change nothing, and those
    /// that are over do not count. `misses` is how often changes had been missed before the read began. If some were missed
    /// since, the store may have these orders no more, and they are read again.
    pub fn obey(
        &self,
        (pool, misses): (&str, u64),
        stored: StoredAt,
        mut controls: PoolControls,
        (now, wall_ms): (Moment, u64),
    ) {
        let mut state = self.state();
        if state.misses != misses {
            drop(state);
            return self.heard_of_controls(pool);
        }
        if state.controls.get(pool).is_some_and(|(at, _)| *at > stored) {
            return;
        }
        controls.end_orders(wall_ms);
        let controls = Arc::new(controls);
        let before = state.controls.insert(pool.into(), (stored, controls.clone()));
        if before.as_ref().is_some_and(|(_, before)| *before == controls) {
            return;
        }
        if let Some(pool) = state.pools.get_mut(pool) {
            pool.obey(&controls, before.is_some(), now);
        }
        drop(state);
        self.look_at_warming();
        self.work.notify_one();
    }

    /// Ends the orders that are over. Returns when the next one ends, if one does, by the wall clock.
    pub(in crate::actor) fn end_orders(&self, now: Moment, wall_ms: u64) -> Option<u64> {
        let (known, misses): (Vec<_>, u64) = {
            let state = self.state();
            let known = state.controls.iter();
            let known = known.map(|(name, (at, controls))| (name.clone(), *at, controls.clone()));
            (known.collect(), state.misses)
        };
        let next = known.into_iter().filter_map(|(name, stored, controls)| {
            let mut controls = PoolControls::clone(&controls);
            let next = controls.end_orders(wall_ms);
            self.obey((&name, misses), stored, controls, (now, wall_ms));
            next
        });
        next.min()
    }

    /// Resolves when every call at this node that stands in queues of keys of the pool has left them, and has looked again
    /// which of them it may be granted.
    pub async fn looked_again(&self, name: &str) {
        let Some(mut changes) = self.changes(name) else { return };
        let opened = self.change(name, |pool| pool.opened()).unwrap_or_default();
        let waits = |pool: &mut Pool| pool.parked.range(..opened).next().is_some();
        while self.change(name, waits).unwrap_or(false) && changes.changed().await.is_ok() {}
    }

    /// A session ended by itself. If it was a member, the pool may have lost many of them.
    pub(super) fn lost(&self, environment: &Environment, digest: Nonce) {
        let mut state = self.state();
        if state.member(digest).is_none_or(|member| member.draining) {
            return;
        }
        let Some(name) = state.joined.get(&digest).cloned() else { return };
        let Some(rule) = environment.policy_table().mass_failure(&name) else { return };
        let Some(pool) = state.pools.get_mut(&name) else { return };
        let (wall_ms, now) = (environment.clock.wall_ms(), environment.clock.now());
        let was_guarded = pool.guard().is_some();
        pool.lose(digest, rule, wall_ms, now);
        if let (false, Some(guard)) = (was_guarded, pool.guard()) {
            controlled::say_guarded(&name, guard);
            drop(state);
            self.guards.notify_one();
        }
    }

    /// Resolves when a guard may have to be stored, or ended.
    pub async fn guards_changed(&self) {
        self.guards.notified().await;
    }

    /// A plan found that the members which a guard waits for are back.
    pub(in crate::actor) fn ends_guard(&self) {
        self.guards.notify_one();
    }

    /// The orders that guards need, by pool.
    #[must_use]
    pub fn guard_orders(&self) -> BTreeMap<Box<str>, PoolOrder> {
        let state = self.state();
        let order = |pool: &Pool| match (&pool.losses.noticed, &pool.controls.guard) {
            (Some(guard), None) => Some(PoolOrder::Guard(guard.clone())),
            _ => pool.is_guard_over().then_some(PoolOrder::EndGuard),
        };
        let orders = state.pools.iter();
        orders.filter_map(|(name, pool)| Some(((&**name).into(), order(pool)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Epoch, Revision};

    #[test]
    fn older_orders_hold_only_when_the_store_is_read_again() {
        let (pools, now) = (Pools::default(), (Moment::ZERO, 0));
        let obey = |revision, by: &str| {
            let mut controls = PoolControls::default();
            controls.carry_out(&PoolOrder::Freeze, Said { by: by.into(), ..Said::default() });
            let stored = (Token::of(Epoch(1), Revision(revision)), true);
            pools.obey(("p", pools.misses()), stored, controls, now);
            pools.controls("p").frozen.as_ref().map(|said| said.by.to_string())
        };
        assert_eq!(obey(9, "newer").as_deref(), Some("newer"));
        assert_eq!(obey(3, "older").as_deref(), Some("newer"));
        pools.missed_changes(Epoch(2));
        assert_eq!(obey(3, "restored").as_deref(), Some("restored"));
    }

    /// They were read, or stored, before the store went backwards, and arrive afterwards.
    #[test]
    fn orders_of_a_store_that_went_backwards_are_read_again() {
        let (pools, now) = (Pools::default(), (Moment::ZERO, 0));
        pools.take_controls_due(&[]);
        let token = Token::of(Epoch(1), Revision(9));
        let frozen = || {
            let mut controls = PoolControls::default();
            controls.carry_out(&PoolOrder::Freeze, Said::default());
            controls
        };
        let misses = pools.misses();
        pools.missed_changes(Epoch(2));
        let late: [&dyn Fn(); 2] =
            [&|| pools.obey(("p", misses), (token, true), frozen(), now), &|| {
                pools.stored("p", (token, frozen()), now)
            }];
        for late in late {
            pools.take_controls_due(&[]);
            late();
            assert!(pools.controls("p").frozen.is_none());
            assert_eq!(pools.take_controls_due(&[]).len(), 1);
        }
        pools.stored("p", (Token::of(Epoch(2), Revision(4)), frozen()), now);
        assert!(pools.controls("p").frozen.is_some());
    }
}
