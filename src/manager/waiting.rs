//! Callers that wait in queues: how many there may be, and how many there are.
//!
//! Guarantees: a call costs one place for each key that it waits at. One principal has at most half of all places, and no
//! more than its limit `waits`, so that others may wait too.
//!
//! Does not guarantee: a share for each of several principals, or for callers without one.

use std::sync::Arc;

use arc_swap::ArcSwap;
use dashmap::Entry;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    access::Access,
    clock::{DashMap, HashMap, dash_map},
    lease::PrincipalDigest,
    telemetry::{LimitKind, PoolMetrics},
};

/// One principal has one part in this many of all places.
const SHARE: usize = 2;

/// The places in the queues of all keys together.
pub struct WaitingPlaces {
    most: usize,
    left: Arc<Semaphore>,
    /// The limits of principals that have one.
    waits: ArcSwap<HashMap<PrincipalDigest, u32>>,
    /// How many each principal has.
    used: DashMap<PrincipalDigest, usize>,
}

/// Why a call may not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// All places are taken.
    Crowded,
    /// Its principal has as many as it may: by its limit, or by the share that one principal has.
    Over { limit: LimitKind, most: usize },
}

/// The places of one call, until this is dropped.
pub struct Taken {
    places: Arc<WaitingPlaces>,
    of: Option<(PrincipalDigest, usize)>,
    _permit: OwnedSemaphorePermit,
}

impl WaitingPlaces {
    /// This many places.
    pub fn new(most: usize) -> Arc<Self> {
        let most = most.min(Semaphore::MAX_PERMITS);
        let left = Arc::new(Semaphore::new(most));
        Arc::new(Self { most, left, waits: ArcSwap::default(), used: dash_map() })
    }

    /// Puts the limits of these principals into force.
    pub fn limit(&self, access: &Access) {
        let limited = access
            .principals()
            .iter()
            .filter_map(|principal| Some((principal.id().digest(), principal.limit().waits?)));
        self.waits.store(Arc::new(limited.collect()));
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        self.most.saturating_sub(self.left.available_permits())
    }

    /// The most places that a principal may have, and what says so.
    fn most_of(&self, principal: PrincipalDigest) -> (LimitKind, usize) {
        let share = (self.most / SHARE).max(1);
        let own = self.waits.load().get(&principal).map(|most| *most as usize);
        match own.filter(|own| *own <= share) {
            Some(own) => (LimitKind::Waits, own),
            None => (LimitKind::WaitingPlaces, share),
        }
    }

    /// Takes places for a call, until what is returned is dropped.
    ///
    /// # Errors
    /// Why the call may not wait.
    pub fn take(
        self: &Arc<Self>,
        principal: Option<PrincipalDigest>,
        count: usize,
    ) -> Result<Taken, NoPlace> {
        if let Some(principal) = principal {
            let (limit, most) = self.most_of(principal);
            let mut used = self.used.entry(principal).or_insert(0);
            if *used + count > most {
                let is_idle = *used == 0;
                drop(used);
                if is_idle {
                    self.used.remove_if(&principal, |_, used| *used == 0);
                }
                return Err(NoPlace::Over { limit, most });
            }
            *used += count;
        }
        let of = principal.map(|principal| (principal, count));
        let permits = u32::try_from(count).ok();
        let permit = permits.and_then(|count| self.left.clone().try_acquire_many_owned(count).ok());
        match permit {
            Some(permit) => Ok(Taken { places: self.clone(), of, _permit: permit }),
            None => {
                self.give_back(of);
                Err(NoPlace::Crowded)
            }
        }
    }

    fn give_back(&self, of: Option<(PrincipalDigest, usize)>) {
        let Some((principal, count)) = of else { return };
        if let Entry::Occupied(mut used) = self.used.entry(principal) {
            *used.get_mut() = used.get().saturating_sub(count);
            if *used.get() == 0 {
                used.remove();
            }
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.places.give_back(self.of.take());
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn of(access: &Access, name: &str) -> Option<PrincipalDigest> {
        Some(access.by_name(name).expect("a principal").id().digest())
    }

    #[test]
    fn a_call_costs_its_keys_and_one_principal_has_half_of_all_places() {
        let file = "[[principal]]\nname = \"one\"\nuid = [1]\nmay = [{ verb = \"observe\" }]\n\
                    [[principal]]\nname = \"two\"\nuid = [2]\nmay = [{ verb = \"observe\" }]\n\
                    limit = { waits = 3 }\n";
        let access = Access::parse(Path::new("f"), file, 0).expect("a file");
        let places = WaitingPlaces::new(10);
        places.limit(&access);
        let (one, two) = (of(&access, "one"), of(&access, "two"));
        let refused = |principal, count| places.take(principal, count).err();
        let share = NoPlace::Over { limit: LimitKind::WaitingPlaces, most: 5 };
        let own = NoPlace::Over { limit: LimitKind::Waits, most: 3 };
        assert_eq!(refused(one, 6), Some(share));
        let kept = places.take(one, 4).expect("places");
        assert_eq!((refused(one, 2), refused(two, 4)), (Some(share), Some(own)));
        let others = places.take(two, 3).expect("places");
        assert_eq!((refused(two, 1), places.taken()), (Some(own), 7));
        // Callers without a principal share what is left.
        assert_eq!(refused(None, 4), Some(NoPlace::Crowded));
        let rest = places.take(None, 3).expect("places");
        assert_eq!(refused(one, 1), Some(NoPlace::Crowded));
        drop((kept, others, rest));
        assert_eq!((places.taken(), places.used.len()), (0, 0));
        assert_eq!(refused(one, 5), None);
    }
}
