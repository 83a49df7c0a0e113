//! Callers that wait in queues: how many there may be, and how many there are.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::{Manager, error::CallError};
use crate::telemetry::PoolMetrics;

impl Manager {
    /// Takes this many places in queues, until the permit is dropped.
    pub(super) fn places(&self, count: usize) -> Result<OwnedSemaphorePermit, CallError> {
        let places = u32::try_from(count).ok();
        let taken = places.and_then(|count| self.places.clone().try_acquire_many_owned(count).ok());
        taken.ok_or(CallError::Crowded)
    }

    /// How many places in queues are occupied by waiting callers.
    #[must_use]
    pub fn waiting_places(&self) -> usize {
        self.limits.waiting_places.saturating_sub(self.places.available_permits())
    }
}

/// Counts a caller that waits in queues of these pools, for as long as it waits.
pub(super) struct Waiting(Vec<Arc<PoolMetrics>>);

impl Waiting {
    pub fn begin(pools: Vec<Arc<PoolMetrics>>) -> Self {
        pools.iter().for_each(|pool| pool.waiters.increment(1.0));
        Self(pools)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.iter().for_each(|pool| pool.waiters.decrement(1.0));
    }
}
