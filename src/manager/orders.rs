//! The orders of operators for pools.
//!
//! Guarantees: an order that returned `Ok` is durable, and all nodes follow it. Of two orders for a pool, each is applied
//! to what the other left. A guard against a mass failure is stored by the node that noticed the failure, and ends for
//! all nodes when its members are back.
//!
//! Does not guarantee: that other nodes follow an order before they have heard of it.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;

use super::{
    AdminError, Asked, CallError, HolderError, Invalid, MAX_VALUE_BYTES, Manager,
    checks::check_text, error::AcquireError, outages::Outages,
};
use crate::{
    actor::WarmSteps,
    api::limits::MAX_REASON_BYTES,
    lease::{Acquire, Key, Moment, Owner, PoolControls, PoolOrder, Release, Said, Token},
};

/// How long a node that died while it stored an order keeps others from storing theirs.
const TTL_MS: u64 = 5_000;
/// How long an order waits for others.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause before guards that could not be stored are tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// How often it is looked whether preparations are over.
const LOOK: Duration = Duration::from_millis(500);
/// Who orders guards, and why.
const GUARDIAN: &str = "tenure";
const GUARDED: &str = "the pool lost many members at once";
const OVER: &str = "the members are back";

impl Manager {
    /// Orders something for a pool, until it is ended or for as long as `lasts`. `by` and the reason are stored with it.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn order_pool(
        &self,
        pool: &str,
        order: &PoolOrder,
        lasts: Option<Duration>,
        (reason, by): (&str, &str),
        asked: impl Into<Asked>,
    ) -> Result<(), AdminError> {
        self.check_pool(pool)?;
        check_text("reason", reason, MAX_REASON_BYTES)?;
        if let PoolOrder::Pause(key) | PoolOrder::Move(key, _) | PoolOrder::Resume(key) = order
            && !self.is_in_pool(key.as_str(), pool)
        {
            let elsewhere = || format!("is {key:?}, which does not belong to the pool {pool}");
            let detail = self.no_lease(key.as_str()).unwrap_or_else(elsewhere);
            return Err(Invalid { field: "key", detail }.into());
        }
        if let PoolOrder::Pause(key) | PoolOrder::Move(key, _) = order {
            self.check_ordered_key(key).await?;
        }
        if let PoolOrder::Cordon(owner) | PoolOrder::Move(_, owner) = order {
            self.check_ordered_owner(pool, owner).await?;
        }
        if *order == PoolOrder::Rebalance && !self.coordinator.policy_table().balances(pool) {
            let detail = format!("is rebalance, but no policy of the pool {pool} sets balance");
            return Err(Invalid { field: "action", detail }.into());
        }
        let at_ms = self.coordinator.clock.wall_ms();
        let lasts_ms = lasts.map(|lasts| u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX));
        let until_ms = lasts_ms.map(|lasts_ms| at_ms.saturating_add(lasts_ms));
        let said = Said { by: by.into(), reason: reason.into(), at_ms, until_ms, to: None };
        let (asked, until) = (asked.into(), self.now() + PATIENCE);
        let (stored, controls) = loop {
            match self.store_order(pool, order, &said, until, asked).await? {
                Some(stored) => break stored,
                // The caller waits no longer.
                None if self.now() >= until => return Err(CallError::RecordTaken.into()),
                None => {}
            }
        };
        tracing::info!(pool, %order, lasts_ms, by, reason, "an order for the pool stands");
        self.coordinator.pools.stored(pool, (stored, controls), (self.now(), at_ms));
        // Calls that already stand in queues must not be granted what the order keeps from them.
        let looked_again = self.coordinator.pools.looked_again(pool);
        if tokio::time::timeout(PATIENCE, looked_again).await.is_err() {
            tracing::warn!(pool, "some calls still wait for keys as before the order");
        }
        Ok(())
    }

    /// Carries an order out in the record of the pool. Returns the token under which the orders stand, or `None`: the
    /// tenure of the record ended before that was stored.
    async fn store_order(
        &self,
        pool: &str,
        order: &PoolOrder,
        said: &Said,
        until: Moment,
        asked: Asked,
    ) -> Result<Option<(Token, PoolControls)>, AdminError> {
        let change = |stored: Option<&str>| carry_out(order, said, stored);
        self.rewrite(&Key::of_pool(pool), until, asked, &change).await
    }

    /// Changes the value of a record that is no caller's, as its only writer: `change` gives what is returned, and the
    /// new value if there is one. Returns the token under which the value stands as well, or `None`: the tenure of the
    /// record ended before the value was stored.
    pub(super) async fn rewrite<T>(
        &self,
        key: &Key,
        until: Moment,
        asked: Asked,
        change: &impl Fn(Option<&str>) -> Result<(T, Option<String>), AdminError>,
    ) -> Result<Option<(Token, T)>, AdminError> {
        // Two orders wait for each other: each has an owner of its own.
        let name = self.coordinator.entropy.nonce().to_string();
        let Ok(owner) = Owner::new(&name) else { return Err(CallError::Unexpected.into()) };
        let acquire = Acquire { wait_until: Some(until), ..self.request(&owner, TTL_MS) };
        let grant = self.own(key, acquire, asked).await.map_err(|error| match error {
            AcquireError::Call(error) => error,
            _ => CallError::RecordTaken,
        })?;
        let changed = change(grant.view.value.as_deref());
        let value = changed.as_ref().ok().and_then(|(_, value)| value.as_deref());
        let is_stored = self.coordinator.protocol.an_order_is_stored_before_its_answer();
        let value = value.filter(|_| is_stored);
        let release = Release { value: value.map(Into::into), ..Release::new(grant.lease_id) };
        let released = match self.release(key.as_str(), release, asked).await {
            Ok(released) => released,
            Err(HolderError::Call(error)) => return Err(error.into()),
            Err(_) => false,
        };
        let (result, _) = changed?;
        Ok(released.then_some((grant.view.token, result)))
    }

    /// What operators ordered for a pool, as far as this node knows.
    #[must_use]
    pub fn controls(&self, pool: &str) -> Arc<PoolControls> {
        self.coordinator.pools.controls(pool)
    }

    /// Stores guards against mass failures, and ends them, until the coordinator accepts no more work. Never returns.
    pub(super) async fn keep_guards(self: Arc<Self>) {
        tokio::select! {
            () = self.drained() => std::future::pending().await,
            () = self.guard_pools() => {}
        }
    }

    async fn guard_pools(&self) {
        loop {
            self.coordinator.pools.guards_changed().await;
            while !self.store_guards().await {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Stores the preparations of members for planned moves, until the coordinator accepts no more work. Never returns.
    pub(super) async fn keep_warmups(self: Arc<Self>) {
        tokio::select! {
            () = self.drained() => std::future::pending().await,
            () = self.warm_pools() => {}
        }
    }

    async fn warm_pools(&self) {
        let pools = &self.coordinator.pools;
        let mut outages = Outages::default();
        loop {
            let again = outages.next(self.now());
            tokio::select! {
                () = pools.warm_steps_due() => {}
                () = tokio::time::sleep(LOOK), if pools.is_warming() => {}
                () = tokio::time::sleep(again.unwrap_or_default()), if again.is_some() => {}
            }
            self.store_warmups(&mut outages).await;
        }
    }

    /// Stores what changed of preparations.
    async fn store_warmups(&self, outages: &mut Outages) {
        let coordinator = &self.coordinator;
        let (now, at_ms) = (self.now(), coordinator.clock.wall_ms());
        let table = coordinator.policy_table();
        let here = |digest| coordinator.sessions.get(digest).is_some();
        let mut steps = coordinator.pools.warm_steps(here, |pool| table.warmups(pool), now, at_ms);
        outages.retain(|pool| steps.iter().any(|(name, _)| **name == *pool));
        steps.retain(|(pool, _)| outages.allow(pool, now));
        let stored = steps.into_iter().map(async |(pool, WarmSteps { steps, cancelled })| {
            let order = PoolOrder::Warm(steps);
            let said = Said { by: GUARDIAN.into(), at_ms, ..Said::default() };
            let stored = self.store_order(&pool, &order, &said, now + PATIENCE, now.into()).await;
            // The tenure of the record may have ended before that was stored.
            let stored =
                stored.and_then(|stored| stored.ok_or_else(|| CallError::RecordTaken.into()));
            let stored = stored.map(|(token, controls)| {
                if let Some(metrics) = table.named(&pool) {
                    metrics.warmups.cancelled(cancelled);
                }
                let now = (self.now(), at_ms);
                coordinator.pools.stored(&pool, (token, controls), now);
            });
            (pool, stored)
        });
        for (pool, stored) in join_all(stored).await {
            match stored {
                Ok(()) if outages.ended(&pool) => {
                    tracing::info!(pool = &*pool, "the preparations of a pool are stored again");
                }
                Ok(()) => {}
                Err(error) if outages.failed(&pool, self.now()) => {
                    tracing::warn!(pool = &*pool, %error, "cannot store the preparations of a pool; retrying");
                }
                Err(error) => {
                    tracing::debug!(pool = &*pool, %error, "still cannot store the preparations of a pool");
                }
            }
        }
    }

    /// Stores each guard that must be stored. Returns whether that succeeded for all pools.
    async fn store_guards(&self) -> bool {
        let mut orders = self.coordinator.pools.guard_orders();
        orders.retain(|pool, _| self.check_pool(pool).is_ok());
        let stored = orders.into_iter().map(async |(pool, order)| {
            let reason = if order == PoolOrder::EndGuard { OVER } else { GUARDED };
            let stored = self.order_pool(&pool, &order, None, (reason, GUARDIAN), self.now()).await;
            let said = |error: &AdminError| {
                tracing::warn!(pool = &*pool, %error, "cannot store the guard of a pool; retrying");
            };
            stored.inspect_err(said).is_ok()
        });
        join_all(stored).await.into_iter().all(|stored| stored)
    }
}

/// Carries an order out. Returns the orders that stand then, and the value to store if they changed.
fn carry_out(
    order: &PoolOrder,
    said: &Said,
    stored: Option<&str>,
) -> Result<(PoolControls, Option<String>), AdminError> {
    let mut controls = PoolControls::of_value(stored)
        .map_err(|error| CallError::Quarantined(error.to_string().into()))?;
    controls.end_orders(said.at_ms);
    if !controls.carry_out(order, said.clone()) {
        return Ok((controls, None));
    }
    let value = controls.to_value();
    if value.len() > MAX_VALUE_BYTES {
        let detail = format!(
            "finds no room: the orders of a pool may take up {MAX_VALUE_BYTES} bytes, so end one of them first"
        );
        return Err(Invalid { field: "action", detail }.into());
    }
    Ok((controls, Some(value)))
}
