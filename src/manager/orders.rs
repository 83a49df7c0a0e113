//! The orders of operators for pools.
//!
//! Guarantees: an order that returned `Ok` is durable, and all nodes follow it. Of two orders for a pool, each is applied
//! to what the other left. A guard against a mass failure is stored by the node that noticed the failure, and ends for
//! all nodes when its members are back.
//!
//! Does not guarantee: that other nodes follow an order before they have heard of it.

use std::{sync::Arc, time::Duration};

use super::{
    AdminError, Asked, CallError, HolderError, Invalid, MAX_REASON_BYTES, MAX_VALUE_BYTES, Manager,
    admin::check_text, error::AcquireError,
};
use crate::lease::{Acquire, Key, Owner, PoolControls, PoolOrder, Release, Said};

/// How long a node that died while it stored an order keeps others from storing theirs.
const TTL_MS: u64 = 5_000;
/// How long an order waits for others.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause before a guard that could not be stored is tried again, and between two looks at guards.
const PAUSE: Duration = Duration::from_secs(1);
/// Who orders guards, and why.
const GUARDIAN: &str = "tenure";
const GUARDED: &str = "the pool lost many members at once";
const OVER: &str = "the members are back";

impl Manager {
    /// Orders something for a pool. `by` and the reason are stored with it.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn order_pool(
        &self,
        pool: &str,
        order: &PoolOrder,
        (reason, by): (&str, &str),
        asked: impl Into<Asked>,
    ) -> Result<(), AdminError> {
        self.check_pool(pool)?;
        check_text("reason", reason, MAX_REASON_BYTES)?;
        if let PoolOrder::Pause(key) | PoolOrder::Resume(key) = order
            && !self.is_in_pool(key.as_str(), pool)
        {
            let detail = format!("is {key:?}, which does not belong to the pool {pool}");
            return Err(Invalid { field: "key", detail }.into());
        }
        if *order == PoolOrder::Rebalance && !self.coordinator.policy_table().balances(pool) {
            let detail = format!("is rebalance, but no policy of the pool {pool} sets balance");
            return Err(Invalid { field: "action", detail }.into());
        }
        let (key, asked) = (Key::of_pool(pool), asked.into());
        // Two orders wait for each other: each has an owner of its own.
        let name = self.coordinator.entropy.nonce().to_string();
        let Ok(owner) = Owner::new(&name) else { return Err(CallError::Unexpected.into()) };
        let acquire = self.request(&owner, TTL_MS);
        let acquire = Acquire { wait_until: Some(self.now() + PATIENCE), ..acquire };
        let grant = self.own(&key, acquire, asked).await.map_err(|error| match error {
            AcquireError::Call(error) => error,
            _ => CallError::Busy,
        })?;
        let mut controls = PoolControls::of_value(grant.view.value.as_deref());
        let at_ms = self.coordinator.clock.wall_ms();
        let changed =
            controls.carry_out(order, Said { by: by.into(), reason: reason.into(), at_ms });
        let value = controls.to_value();
        let fits = value.len() <= MAX_VALUE_BYTES;
        let value = (changed && fits).then_some(value);
        let release = Release { lease_id: grant.lease_id, value: value.map(Into::into) };
        self.release(key.as_str(), release, asked).await.map_err(|error| match error {
            HolderError::Call(error) => error,
            _ => CallError::Lapsed,
        })?;
        if !fits {
            let detail = format!(
                "finds no room: the orders of a pool may take up {MAX_VALUE_BYTES} bytes, so end one of them first"
            );
            return Err(Invalid { field: "action", detail }.into());
        }
        if changed {
            tracing::info!(pool, %order, by, reason, "an order for the pool is stored");
        }
        self.coordinator.pools.obey(pool, controls, self.now());
        // Calls that already stand in queues must not be granted what the order keeps from them.
        let looked_again = self.coordinator.pools.looked_again(pool);
        if tokio::time::timeout(PATIENCE, looked_again).await.is_err() {
            tracing::warn!(pool, "some calls still wait for keys as before the order");
        }
        Ok(())
    }

    /// What operators ordered for a pool, as far as this node knows.
    #[must_use]
    pub fn controls(&self, pool: &str) -> Arc<PoolControls> {
        self.coordinator.pools.controls(pool)
    }

    /// Stores guards against mass failures, and ends them, for as long as the coordinator runs.
    pub(super) async fn keep_guards(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.coordinator.pools.guards_changed() => {}
                () = self.drained() => return,
            }
            while self.store_guards().await.is_err() {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn store_guards(&self) -> Result<(), AdminError> {
        for (pool, order) in self.coordinator.pools.guard_orders() {
            let reason = if order == PoolOrder::EndGuard { OVER } else { GUARDED };
            let stored = self.order_pool(&pool, &order, (reason, GUARDIAN), self.now()).await;
            stored.inspect_err(|error| {
                tracing::warn!(pool = &*pool, %error, "cannot store the guard of a pool; retrying");
            })?;
        }
        Ok(())
    }
}
