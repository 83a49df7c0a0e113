//! How much each principal may have: leases, sessions, new keys, and places in queues.

use std::time::Duration;

use super::{
    Asked, Manager,
    error::CallError,
    new_keys::NewKey,
    waiting::{NoPlace, Taken},
};
use crate::{
    access::{Access, Broken},
    actor::{Claim, OverQuota, Places, Quota, check_room},
    lease::{Key, LeaseId, Owner, Transfer, View},
    telemetry::LimitKind,
};

impl Manager {
    /// Puts the limits of these principals on leases, sessions, places in queues and new keys into force. A principal that
    /// has more keeps it, and gets nothing more.
    pub(crate) fn limit_principals(&self, access: &Access) {
        let quotas = access.principals().iter().map(|principal| {
            let limit = principal.limit();
            let quota = Quota { held: limit.held, sessions: limit.sessions };
            (principal.id().digest(), quota)
        });
        self.coordinator.quotas.set(quotas);
        self.waiting.limit(access);
        self.new_keys.limit(access);
    }

    /// Begins a call that may be granted a key.
    pub(super) fn claim(&self, owner: &Owner, key: &Key) -> Result<Claim, CallError> {
        let (quotas, principal) = (&self.coordinator.quotas, owner.principal_digest());
        Claim::begin(quotas, principal, key.as_str(), self.now()).map_err(|over| self.over(over))
    }

    /// Begins a call that may be granted up to `wanted` keys.
    pub(super) fn claims(&self, owner: &Owner, wanted: usize) -> Result<Places, CallError> {
        let taken = Places::take(&self.coordinator.quotas, owner, wanted, self.now());
        taken.map_err(|over| self.over(over))
    }

    /// Refuses a call at once that would be granted so many keys of each of these groups, and so more than its owner may
    /// have.
    pub(super) fn check_room<'a>(
        &self,
        owner: &Owner,
        groups: impl Iterator<Item = (Vec<&'a Key>, usize)>,
    ) -> Result<(), CallError> {
        let checked = check_room(&self.coordinator.quotas, owner, groups, self.now());
        checked.map_err(|over| self.over(over))
    }

    /// Begins a heartbeat, which may revive a tenure that counts no longer. `None`: the limit leaves no room for that.
    /// The heartbeat is served all the same, as the tenure may go on: what is counted may be late or incomplete.
    pub(super) fn claim_to_revive(&self, proof: LeaseId, key: &str, asked: Asked) -> Option<Claim> {
        // A session is never revived.
        let principal = proof.principal().filter(|_| !key.starts_with(Key::session_prefix()));
        Claim::begin(&self.coordinator.quotas, principal, key, asked.received).ok()
    }

    /// Begins a transfer.
    pub(super) fn claim_of_holder(&self, proof: LeaseId, key: &str) -> Claim {
        Claim::of_holder(&self.coordinator.quotas, proof.principal(), key)
    }

    /// A transfer is done. As long as it keeps the key for a successor, the key counts for the principal that offered
    /// it.
    pub(super) fn transferred(&self, claim: Claim, key: &str, transfer: &Transfer, view: &View) {
        if view.offered_to.is_none() {
            return;
        }
        // An offer that waits for a fence is not under way yet.
        let longest_ms = || self.coordinator.policy_table().of(key).0.ttl.max_ms;
        let span_ms = view.expires_in_ms.or(transfer.offer_ms).unwrap_or_else(longest_ms);
        claim.end_with_offer(view.token, self.now() + Duration::from_millis(span_ms));
    }

    fn over(&self, OverQuota { limit, most }: OverQuota) -> CallError {
        self.coordinator.metrics.limited(limit);
        CallError::OverLimit { limit: limit.as_str(), most }
    }

    /// Whether the principal of an owner has a limit for new keys.
    pub(super) fn limits_new_keys(&self, owner: &Owner) -> bool {
        owner.principal_digest().is_some_and(|principal| self.new_keys.most(principal).is_some())
    }

    /// Counts a key for the principal of an owner, if the key is new and the principal has a limit.
    ///
    /// # Errors
    /// The principal has taken as many within the last hour as it may.
    pub(super) async fn new_key(
        &self,
        owner: &Owner,
        key: &Key,
    ) -> Result<Option<NewKey<'_>>, CallError> {
        let Some(principal) = owner.principal_digest() else { return Ok(None) };
        let Some(most) = self.new_keys.most(principal) else { return Ok(None) };
        if self.view(key).await?.known {
            return Ok(None);
        }
        let taken = self.new_keys.take(principal, most, self.now());
        taken.map(Some).map_err(|after| {
            self.coordinator.metrics.limited(LimitKind::NewKeys);
            CallError::OverNewKeys { most, after }
        })
    }

    /// Takes this many places in queues for a call of this owner, until what is returned is dropped.
    pub(super) fn places(&self, owner: &Owner, count: usize) -> Result<Taken, CallError> {
        let counted = if Broken::WaitsCountCalls.is_active() { 1 } else { count };
        self.waiting.take(owner.principal_digest(), counted).map_err(|refused| match refused {
            NoPlace::Crowded => CallError::Crowded,
            NoPlace::Over { limit, most } => {
                self.coordinator.metrics.limited(limit);
                let limit = limit.as_str();
                CallError::OverWaits { limit, most, wanted: count }
            }
        })
    }

    /// How many places in queues are occupied by waiting callers.
    #[must_use]
    pub fn waiting_places(&self) -> usize {
        self.waiting.taken()
    }
}
