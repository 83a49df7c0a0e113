//! Pools and plans as operators see them, and who is to have the free keys. Each is made on a copy of the pool, on a thread
//! that serves no calls.

use std::sync::Arc;

use super::balance;
use crate::actor::{
    coordinator::Coordinator,
    pools::{DryRun, Pool, PoolView},
    runtime::aside::aside,
};

/// A pool as shown to operators. `None` if no session joined the pool, or while not all of it is known.
pub async fn view(coordinator: &Arc<Coordinator>, name: &str) -> Option<Arc<PoolView>> {
    let (shared, pool) = (coordinator.clone(), Box::<str>::from(name));
    let make = move || shared.pools.view(&pool, shared.clock.now());
    coordinator.views.get((&coordinator.registry, &coordinator.clock), name, make).await
}

/// What all nodes together would do now for the balance of a pool, without doing it; also for a pool that is not
/// balanced. `None` if no session joined the pool, or while not all of it is known.
pub async fn dry_run(coordinator: &Arc<Coordinator>, name: &str) -> Option<Arc<DryRun>> {
    let (shared, pool) = (coordinator.clone(), Box::<str>::from(name));
    let make = move || balance::dry_run(&shared, &pool);
    coordinator.plans.get((&coordinator.registry, &coordinator.clock), name, make).await
}

/// Finds out which member each free key of a pool is for, where that depends on loads or labels and is not known. A fair
/// call needs that. One such search runs at a time.
pub async fn assign(coordinator: &Arc<Coordinator>, name: &str) {
    let is_due = |pool: &mut Pool| pool.places_keys() && pool.targets.is_none();
    if coordinator.pools.change(name, is_due) != Some(true) {
        return;
    }
    let turn = coordinator.assigning.clone().lock_owned().await;
    let copied = coordinator.pools.change(name, |pool| {
        let is_due = is_due(pool);
        is_due.then(|| (pool.before(), pool.copy()))
    });
    let Some((before, mut copy)) = copied.flatten() else { return };
    let (shared, name) = (coordinator.clone(), Box::<str>::from(name));
    let work = move || {
        copy.assign();
        shared.pools.change(&name, |pool| pool.adopt_assignment(&before, &mut copy));
        drop(turn);
    };
    aside(&coordinator.registry, work).await;
}
