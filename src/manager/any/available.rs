//! Takes up to a number of the candidates, or waits for one of them.

use std::cell::Cell;

use super::{
    attempt::{Basis, Tried},
    call::AnyCall,
    candidates::Resolved,
};
use crate::{
    lease::Key,
    manager::{
        error::{AcquireError, CallError},
        unheard::Unheard,
    },
    store::Found,
};

impl AnyCall<'_> {
    /// Takes up to `count` of the candidates. While none is available and the call waits, the candidates are listed
    /// again whenever one that was not tried may have become free, and whenever the policies changed.
    pub(super) async fn take_available(
        &self,
        mut candidates: Resolved,
        count: usize,
    ) -> Result<Vec<Unheard>, AcquireError> {
        let coordinator = &self.manager.coordinator;
        let mut policies = coordinator.policy_changes();
        loop {
            let version = coordinator.policy_version();
            let Resolved { keys, others } = candidates;
            let keys = self.order(keys).await?;
            let until = self.wait_until;
            let tried = self.try_all(&keys, count).await.and_then(Tried::unless_ended);
            let Tried { grants, counts, failure, .. } = match tried {
                // A candidate was a lease until a moment ago.
                Err(AcquireError::Call(CallError::Invalid(_)))
                    if coordinator.policy_version() != version =>
                {
                    candidates = self.resolve_again().await?;
                    continue;
                }
                tried => tried?,
            };
            if !grants.is_empty() {
                return Ok(grants);
            }
            let none = || failure.map_or(AcquireError::NoneAvailable(counts), Into::into);
            let Some(until) = until.filter(|_| !keys.is_empty()) else {
                return Err(none());
            };
            let again = Cell::new(false);
            let leave = async {
                tokio::select! {
                    () = self.others_freed(&keys, others) => {}
                    _ = policies.changed() => {}
                }
                again.set(true);
            };
            if let Some(grant) = self.park(&keys, until, leave).await? {
                return Ok(vec![grant]);
            }
            // The keys themselves may have refused first.
            let is_over = !again.get() && coordinator.policy_version() == version;
            if is_over || self.manager.now() >= until {
                return Err(none());
            }
            candidates = self.resolve_again().await?;
        }
    }

    /// Tries the keys. What this node remembers of other nodes' keys may be out of date, so a caller that does not wait
    /// is only refused by what the store says. What was granted before an error that ends the call is there.
    pub async fn try_all(&self, keys: &[Key], count: usize) -> Result<Tried, AcquireError> {
        let tried = self.try_to_the_end(keys, count, Basis::Memory).await?;
        let goes_on = tried.grants.is_empty() && tried.end.is_none();
        let answered = !goes_on || self.wait_until.is_some();
        if answered || self.manager.node.is_none() {
            return Ok(tried);
        }
        let open = self.not_held(keys).await?;
        let again = self.try_to_the_end(&open, count, Basis::Store).await?;
        let all = open.len() == keys.len();
        Ok(Tried { counts: if all { again.counts } else { tried.counts }, ..again })
    }

    /// The keys that, according to the store, no other owner holds. Many records are read together: read one after
    /// another, they would take one round trip each.
    async fn not_held(&self, keys: &[Key]) -> Result<Vec<Key>, CallError> {
        if keys.len() == 1 {
            return Ok(keys.to_vec());
        }
        let found = self.manager.coordinator.store.read_many(keys).await?;
        let rules = self.manager.coordinator.protocol;
        let by_another = |found: &Option<Found>| {
            let record = found.as_ref().and_then(|found| found.record.as_ref().ok());
            let holder = record.and_then(|record| record.tenure.as_ref());
            holder.is_some_and(|tenure| !rules.is_owner(&tenure.owner, &self.any.owner))
        };
        let pairs = keys.iter().zip(&found);
        Ok(pairs.filter(|(_, found)| !by_another(found)).map(|(key, _)| key.clone()).collect())
    }
}
