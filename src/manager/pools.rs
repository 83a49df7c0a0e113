//! Pools, as people see them.

use std::sync::Arc;

use super::{Invalid, Manager, Trouble};
use crate::{actor::PoolView, lease::Key};

/// A pool that a policy names.
#[derive(Clone, Debug)]
pub struct PoolShown {
    /// Its name.
    pub pool: Arc<str>,
    /// Whether its leases are moved between its members.
    pub balance: bool,
    /// Who works for it; `None` while nobody counts its keys: no session joined it, or the node has just begun
    /// to look.
    pub view: Option<PoolView>,
}

impl Manager {
    /// The names of all pools.
    #[must_use]
    pub fn pool_names(&self) -> Vec<Arc<str>> {
        self.world.rules().pools().into_iter().collect()
    }

    /// Every pool that a policy names.
    ///
    /// # Errors
    /// [`Trouble`] when the store cannot be read.
    pub async fn pools(&self) -> Result<Vec<PoolShown>, Trouble> {
        let mut pools = Vec::new();
        for name in self.pool_names() {
            pools.extend(self.pool(&name).await?);
        }
        Ok(pools)
    }

    /// A pool; `None` for one that no policy names.
    ///
    /// # Errors
    /// [`Trouble`] when the store cannot be read.
    pub async fn pool(&self, name: &str) -> Result<Option<PoolShown>, Trouble> {
        let Some(pool) = self.pool_names().into_iter().find(|pool| **pool == *name) else {
            return Ok(None);
        };
        let balance = self.world.rules().balances(name);
        let mut view = self.world.pools.view(name);
        for member in view.iter_mut().flat_map(|view| &mut view.members) {
            let here = self.world.sessions.get(member.digest).is_some();
            if here {
                member.joined.node = self.world.terms().node;
            } else if !self.is_alive(member.joined.node) {
                // Another node took it on, which changed nothing that the feed would tell.
                let home = self.view(&Key::of_session(member.digest)).await?.node;
                member.joined.node = home.unwrap_or(member.joined.node);
            }
        }
        Ok(Some(PoolShown { pool, balance, view }))
    }

    fn is_alive(&self, node: crate::lease::Nonce) -> bool {
        let living = |view: &crate::actor::NodeView| !view.record.state.is_terminal();
        self.nodes().iter().any(|view| view.record.incarnation == node && living(view))
    }

    /// Whether a policy names such a pool. A session that joined another would be a member of nothing, and
    /// who asks about another has mistyped it.
    ///
    /// # Errors
    /// [`Invalid`], which tells the names that there are.
    pub fn check_pool(&self, name: &str) -> Result<(), Invalid> {
        let known = self.pool_names();
        if known.iter().any(|pool| **pool == *name) {
            return Ok(());
        }
        let detail = format!("is {name:?}, which no policy names; there are {}", known.join(", "));
        Err(Invalid { field: "pool", detail })
    }
}
