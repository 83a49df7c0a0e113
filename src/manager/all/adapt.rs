//! A call goes on under other policies.
//!
//! Guarantees: a call that waits is served by the policies that are in force when it is granted the last of its leases. It
//! keeps its age in the queues, its turn, and what it may have. So a change of the permits of a key neither lets it have
//! more than others may have, nor makes it wait behind calls that came later.

use std::sync::{Arc, PoisonError};

use super::{
    collect::Collector,
    parts::{self, Part},
    request::NotAll,
};
use crate::{
    lease::{Key, Named, permit_of},
    manager::unheard::Unheard,
};

impl<T> Collector<'_, T> {
    /// The parts of the call under the policies that it knows.
    pub(super) fn parts(&self) -> Arc<[Part]> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the policies that are in force now make the same parts of the call.
    pub(super) fn is_current(&self) -> bool {
        let manager = self.call.manager;
        let same = |part: &Part| match manager.named(part.key.as_str()) {
            Named::Lease => part.permits.is_empty(),
            Named::Permits(permits) => part.permits.len() == permits as usize,
            Named::NoPermit(_) => false,
        };
        self.parts().iter().all(same)
    }

    /// Whether the leases that it has are those that it asked for, by the policies that are in force now.
    pub(super) fn may_be_answered(&self) -> bool {
        let rules = self.call.manager.coordinator.protocol;
        self.is_current() || !rules.a_list_is_checked_before_it_is_answered()
    }

    /// Resolves when the policies make other parts of the call.
    pub(super) async fn changed(&self) {
        let mut policies = self.call.manager.coordinator.policy_changes();
        while self.is_current() {
            if policies.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// The keys that it has of a part.
    pub(super) fn has_of(&self, part: &Part) -> Vec<Key> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let of_part = |key: &Key| part.keys().any(|of_part| of_part == key);
        taken.iter().map(|one| &one.key).filter(|key| of_part(key)).cloned().collect()
    }

    /// How many leases of a part it does not have.
    pub(super) fn lacks(&self, part: &Part) -> usize {
        part.count.saturating_sub(self.has_of(part).len())
    }

    /// Goes on with the parts that the call has under the policies that are in force now, and gives back the leases that
    /// it must not keep.
    pub(super) async fn adapt(&self) -> Result<(), NotAll> {
        let parts: Arc<[Part]> = parts::resolve(self.call.manager, self.all)?.into();
        *self.parts.lock().unwrap_or_else(PoisonError::into_inner) = parts.clone();
        let surplus = self.take_surplus(&parts);
        self.give_back_surplus(surplus).await
    }

    /// Takes out the leases that the call does not keep.
    fn take_surplus(&self, parts: &[Part]) -> Vec<Unheard> {
        let kept = self.kept(parts);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (kept, surplus): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *taken).into_iter().partition(|one| kept.contains(&one.key));
        *taken = kept;
        surplus
    }

    /// What the call keeps of its leases. It takes its keys in one order, which is the same for all calls: from the first
    /// key that it does not have whole, it keeps no later one.
    fn kept(&self, parts: &[Part]) -> Vec<Key> {
        let rules = self.call.manager.coordinator.protocol;
        let mut kept = Vec::new();
        for part in parts {
            let mut of_part = self.has_of(part);
            let number = |key: &Key| permit_of(key.as_str()).map_or(0, |(_, number)| number);
            if !part.permits.is_empty() {
                of_part.sort_unstable_by_key(number);
                let numbers: Vec<u32> = of_part.iter().map(number).collect();
                let of = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
                let (count, all) = (of(part.count), of(part.permits.len()));
                of_part.truncate(rules.a_call_keeps_permits(&numbers, count, all));
            }
            let is_whole = of_part.len() >= part.count;
            kept.extend(of_part);
            if !is_whole {
                break;
            }
        }
        kept
    }

    /// Gives back leases that the call may be granted again. What an earlier call with the same request id was granted
    /// stays with its caller, who may hold it.
    async fn give_back_surplus(&self, surplus: Vec<Unheard>) -> Result<(), NotAll> {
        let manager = self.call.manager;
        let rules = manager.coordinator.protocol;
        let mut failed = None;
        for one in surplus {
            if rules.a_refused_list_keeps(one.grant.again) {
                one.heard();
                continue;
            }
            let back = one.back(true);
            match manager.give_back(one.key.as_str(), back).await {
                Ok(_) => drop(one.heard()),
                // It is given back with the rest when the call is refused.
                Err(error) => {
                    failed.get_or_insert_with(|| NotAll::at(&one.key, error));
                    self.has(one);
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }
}
