//! What becomes of the leases that a call has while it takes others, and when it is refused.

use std::{sync::PoisonError, time::Duration};

use futures_util::future::join_all;

use super::{collect::Collector, request::NotAll};
use crate::{
    lease::{Grant, Heartbeat, Key, LeaseId, Refusal},
    manager::{
        error::{AcquireError, CallError, HolderError},
        unheard::Unheard,
    },
};

impl<T> Collector<'_, T> {
    pub(super) fn has(&self, grant: Unheard) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).push(grant);
    }

    pub(super) fn proofs(&self) -> Vec<(Key, LeaseId)> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.iter().map(|one| (one.key.clone(), one.grant.lease_id)).collect()
    }

    fn still_has(&self, id: LeaseId) -> bool {
        self.proofs().iter().any(|(_, taken)| *taken == id)
    }

    /// A heartbeat for each lease that the call has.
    fn beats(&self) -> Vec<(Key, Heartbeat)> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.iter().map(|one| (one.key.clone(), one.beat())).collect()
    }

    /// Keeps the leases by heartbeats until one of them is lost. A session keeps its own.
    pub(super) async fn keep(&self) -> NotAll {
        if self.call.session_ref.is_some() {
            return std::future::pending().await;
        }
        let manager = self.call.manager;
        loop {
            tokio::time::sleep(Duration::from_millis(self.call.ttl_ms) / 3).await;
            let beats = self.beats().into_iter().map(|(key, beat)| async move {
                let alive = manager.keep_alive(key.as_str(), &beat, manager.now().into()).await;
                // The call itself may have given it back meanwhile.
                let error = alive.err().filter(|_| self.still_has(beat.lease_id))?;
                self.lost(&key, &beat, error)
            });
            if let Some(lost) = join_all(beats).await.into_iter().flatten().next() {
                return lost;
            }
        }
    }

    /// Makes the promises anew, as those of the first leases may have begun long ago.
    pub(super) async fn renew(&self) -> Result<(), NotAll> {
        let beats = self.beats();
        if self.call.session_ref.is_some() || beats.len() == 1 {
            return Ok(());
        }
        let (manager, received) = (self.call.manager, self.call.received);
        let alive =
            beats.iter().map(|(key, beat)| manager.keep_alive(key.as_str(), beat, received.into()));
        for ((key, beat), alive) in beats.iter().zip(join_all(alive).await) {
            match alive {
                Ok(alive) => self.told_for(beat.lease_id, alive.valid_for_ms),
                Err(HolderError::Call(error)) => return Err(NotAll::at(key, error)),
                Err(error) => self.lost(key, beat, error).map_or(Ok(()), Err)?,
            }
        }
        Ok(())
    }

    /// Why the call cannot go on without a lease that it had. `None` if it may still have it.
    fn lost(&self, key: &Key, beat: &Heartbeat, error: HolderError) -> Option<NotAll> {
        let node = self.call.manager.coordinator.node_context().node;
        match error {
            HolderError::Lost(lost) => {
                let refusal = Refusal::RequestSpent(lost.kind());
                Some(NotAll::at(key, AcquireError::Refused(refusal, None)))
            }
            // This node is another incarnation than the one that granted the lease.
            HolderError::Call(CallError::Lapsed) if beat.granter.is_some_and(|by| by != node) => {
                Some(NotAll::at(key, CallError::Lapsed))
            }
            _ => None,
        }
    }

    fn told_for(&self, id: LeaseId, valid_for_ms: u64) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        for one in taken.iter_mut().filter(|one| one.grant.lease_id == id) {
            one.grant.valid_for_ms = valid_for_ms;
        }
    }

    /// All leases are kept for this long.
    pub fn promise(&self, valid_for_ms: u64) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.iter_mut().for_each(|one| one.grant.valid_for_ms = valid_for_ms);
    }

    /// The key of the first such lease.
    pub fn first(&self, such: impl Fn(&Key, &Grant) -> bool) -> Option<Key> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.iter().find(|one| such(&one.key, &one.grant)).map(|one| one.key.clone())
    }

    pub fn keys(&self) -> Vec<Key> {
        self.proofs().into_iter().map(|(key, _)| key).collect()
    }

    /// The caller is being told of its leases.
    pub fn told(self) -> Vec<(Key, Grant)> {
        let taken = self.taken.into_inner().unwrap_or_else(PoisonError::into_inner);
        taken.into_iter().map(Unheard::heard).collect()
    }

    /// Releases everything that this call was granted. What is not released when this ends, or when the caller hangs up,
    /// is released later.
    pub async fn give_back(&self) {
        let taken = std::mem::take(&mut *self.taken.lock().unwrap_or_else(PoisonError::into_inner));
        let (manager, rules) = (self.call.manager, self.call.manager.coordinator.protocol);
        let is_in_flight = rules.a_refused_list_is_in_flight_until_it_is_released();
        // The caller may hold what an earlier call with the same request id was granted.
        let is_kept = |one: &Unheard| {
            rules.a_refused_list_keeps(one.grant.again) || !rules.a_refused_list_is_given_back()
        };
        let (kept, refused): (Vec<_>, Vec<_>) = taken.into_iter().partition(is_kept);
        kept.into_iter().for_each(|one| drop(one.heard()));
        // All are marked as refused before the first release is awaited.
        let serving = || self.serving.clone().filter(|_| is_in_flight).map(|serving| serving as _);
        let refused: Vec<_> =
            refused.into_iter().map(|one| one.refused(&manager.coordinator, serving())).collect();
        join_all(refused.into_iter().map(|one| async move {
            let back = one.back(false);
            if manager.give_back(one.key.as_str(), back).await.is_ok() {
                one.heard();
            }
        }))
        .await;
    }
}
