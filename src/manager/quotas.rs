//! How many leases and sessions each principal may have.

use super::{Manager, error::CallError};
use crate::{
    access::Access,
    actor::{Claim, OverQuota, Places, Quota},
    lease::{Key, Owner},
};

impl Manager {
    /// Puts the limits of these principals on leases and sessions into force. A principal that has more keeps it, and
    /// gets nothing more.
    pub(crate) fn limit_principals(&self, access: &Access) {
        let quotas = access.principals().iter().map(|principal| {
            let limit = principal.limit();
            let quota = Quota { held: limit.held, sessions: limit.sessions };
            (principal.id().digest(), quota)
        });
        self.coordinator.quotas.set(quotas);
    }

    /// Begins a call that may be granted a key.
    pub(super) fn claim(&self, owner: &Owner, key: &Key) -> Result<Claim, CallError> {
        Claim::begin(&self.coordinator.quotas, owner, key).map_err(|over| self.over(over))
    }

    /// Begins a call that may be granted up to `wanted` keys.
    pub(super) fn claims(&self, owner: &Owner, wanted: usize) -> Result<Places, CallError> {
        Places::take(&self.coordinator.quotas, owner, wanted).map_err(|over| self.over(over))
    }

    fn over(&self, OverQuota { limit, most }: OverQuota) -> CallError {
        self.coordinator.metrics.limited(limit);
        CallError::OverLimit { limit: limit.as_str(), most }
    }
}
