//! Pools, as shown to operators.

use std::sync::Arc;

use super::{CallError, Invalid, Manager};
use crate::{
    actor::{DryRun, PoolView, dry_run, pool_view},
    lease::{Key, PoolControls},
};

/// A pool that a policy names.
#[derive(Clone, Debug)]
pub struct PoolShown {
    /// The name of the pool, as policies give it.
    pub pool: Arc<str>,
    /// Whether leases are moved between its members.
    pub balance: bool,
    /// Whether they are moved by load.
    pub by_load: bool,
    /// What operators ordered for it.
    pub controls: Arc<PoolControls>,
    /// Its members and keys. `None` while the keys are not counted: no session joined the pool, or the node has only
    /// begun to read them.
    pub view: Option<PoolView>,
}

impl Manager {
    /// The names of all pools.
    #[must_use]
    pub fn pool_names(&self) -> Vec<Arc<str>> {
        self.coordinator.policy_table().pools().into_iter().collect()
    }

    /// The pool of a key.
    #[must_use]
    pub fn pool_of(&self, key: &str) -> Arc<str> {
        self.coordinator.pool_of(key)
    }

    /// Whether a key belongs to a pool.
    #[must_use]
    pub fn is_in_pool(&self, key: &str, pool: &str) -> bool {
        self.coordinator.policy_table().is_of(key, pool)
    }

    /// The prefixes of the keys that belong to a pool. Some keys with such a prefix may belong to another one.
    #[must_use]
    pub fn prefixes_of_pool(&self, pool: &str) -> Vec<String> {
        self.coordinator.policy_table().ranges(pool, "")
    }

    /// Every pool that a policy names.
    ///
    /// # Errors
    /// [`CallError`] when the store cannot be read.
    pub async fn pools(&self) -> Result<Vec<PoolShown>, CallError> {
        let mut pools = Vec::new();
        for name in self.pool_names() {
            pools.extend(self.pool(&name).await?);
        }
        Ok(pools)
    }

    /// The pool with this name. `None` if no policy names it.
    ///
    /// # Errors
    /// [`CallError`] when the store cannot be read.
    pub async fn pool(&self, name: &str) -> Result<Option<PoolShown>, CallError> {
        let Some(pool) = self.pool_names().into_iter().find(|pool| **pool == *name) else {
            return Ok(None);
        };
        let table = self.coordinator.policy_table();
        let (balance, by_load) = (table.balances(name), table.load_tolerance(name).is_some());
        let view = pool_view(&self.coordinator, name).await;
        let mut view = view.map(|view| PoolView::clone(&view));
        for member in view.iter_mut().flat_map(|view| &mut view.members) {
            let here = self.coordinator.sessions.get(member.digest).is_some();
            if here {
                member.joined.node = self.coordinator.node_context().node;
            } else if !self.is_alive(member.joined.node) {
                // Another node adopted the session. The feed does not report adoptions.
                let home = self.view(&Key::of_session(member.digest)).await?.node;
                member.joined.node = home.unwrap_or(member.joined.node);
            }
        }
        let controls = self.controls(name);
        Ok(Some(PoolShown { pool, balance, by_load, controls, view }))
    }

    /// How long the keys of a member of a pool are kept for its owner, in milliseconds. `None` if they are not.
    #[must_use]
    pub fn rejoin_window_ms(&self, pool: &str) -> Option<u32> {
        Some(self.coordinator.policy_table().rejoin_window_ms(pool)).filter(|window| *window > 0)
    }

    /// What all nodes together would do now for the balance of a pool, without doing it. `None` if no session joined
    /// the pool, or while the keys are not counted. All callers within a second get the same plan.
    pub async fn plan_of_pool(&self, name: &str) -> Option<Arc<DryRun>> {
        dry_run(&self.coordinator, name).await
    }

    fn is_alive(&self, node: crate::lease::Nonce) -> bool {
        let living = |view: &crate::actor::NodeView| !view.record.state.is_terminal();
        self.nodes().iter().any(|view| view.record.incarnation == node && living(view))
    }

    /// Checks that a policy names this pool. A session that joined any other pool would get no keys, and the name in a
    /// query for any other pool is mistyped.
    ///
    /// # Errors
    /// [`Invalid`], with the names of all pools.
    pub fn check_pool(&self, name: &str) -> Result<(), Invalid> {
        let known = self.pool_names();
        if known.iter().any(|pool| **pool == *name) {
            return Ok(());
        }
        let detail = format!(
            "is {name:?}, but no policy of the settings names it; pools: {}",
            known.join(", ")
        );
        Err(Invalid { field: "pool", detail })
    }
}
