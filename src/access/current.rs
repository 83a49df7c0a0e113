//! The principals that are in force now.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use arc_swap::{ArcSwap, Guard};
use tokio::sync::Notify;

use super::{principals::Access, revoked::Revoked, target::Credential};

/// The principals and the revocation list that are in force now. Readers take no lock.
///
/// Whoever keeps a judgement for later calls reads [`Self::generation`] first and [`Self::load`] after it. What it
/// judged is then at least as new as the generation that it keeps.
#[derive(Debug)]
pub struct Current {
    access: ArcSwap<Access>,
    revoked: ArcSwap<Revoked>,
    generation: AtomicU64,
    replaced: Notify,
}

impl Current {
    /// These principals, as the first generation.
    #[must_use]
    pub fn new(access: Access) -> Self {
        Self {
            access: ArcSwap::from_pointee(access),
            revoked: ArcSwap::default(),
            generation: AtomicU64::new(1),
            replaced: Notify::new(),
        }
    }

    /// The principals that are in force.
    pub fn load(&self) -> Guard<Arc<Access>> {
        self.access.load()
    }

    /// The principals that are in force, and their generation or an earlier one.
    #[must_use]
    pub fn load_with_generation(&self) -> (Guard<Arc<Access>>, u64) {
        let generation = self.generation();
        (self.load(), generation)
    }

    /// Resolves with the present generation once it is another one than `seen`.
    pub async fn changed(&self, seen: u64) -> u64 {
        loop {
            let replaced = self.replaced.notified();
            let now = self.generation();
            if now != seen {
                return now;
            }
            replaced.await;
        }
    }

    /// The revocation list that is in force.
    #[must_use]
    pub fn revoked(&self) -> Arc<Revoked> {
        self.revoked.load_full()
    }

    /// Whether a caller may no longer call: its principal or its credential is revoked.
    #[must_use]
    pub fn revokes(&self, principal: &str, shown: &Credential, now_ms: u64) -> bool {
        self.revoked.load().revokes(principal, shown, now_ms)
    }

    /// Puts another revocation list into the place of `known`. Returns whether it did: not if another one than `known` is
    /// in force by now.
    #[must_use]
    pub fn revoke(&self, known: &Arc<Revoked>, revoked: Revoked) -> bool {
        if **known == revoked {
            return Arc::ptr_eq(known, &self.revoked());
        }
        let before = self.revoked.compare_and_swap(known, Arc::new(revoked));
        let is_replaced = Arc::ptr_eq(known, &before);
        if is_replaced {
            self.changed_now();
        }
        is_replaced
    }

    /// How many times the principals or the revocation list were replaced, and 1.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Puts other principals into force.
    pub fn replace(&self, access: Access) {
        self.access.store(Arc::new(access));
        self.changed_now();
    }

    fn changed_now(&self) {
        self.generation.fetch_add(1, Ordering::Release);
        self.replaced.notify_waiters();
    }
}
