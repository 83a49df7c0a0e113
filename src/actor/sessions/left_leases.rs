//! The leases that an earlier home node left to sessions with this home node. No actor counts them: an actor adopts such a
//! lease when a call needs it.
//!
//! Guarantees: a lease counts as held here from when this node knows that the session is at home here and that the lease's home
//! node is gone. It counts until an actor of this node adopts it, until its next change, or until the session has another
//! home node.
//!
//! Does not guarantee: that no other node counts it meanwhile. A node may adopt it by a call that changes nothing.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU32, Ordering},
};

use crate::{
    clock::HashMap,
    lease::{Key, Nonce},
    telemetry::PoolMetrics,
};

/// What is counted, by session.
#[derive(Default)]
pub struct LeftLeases {
    of: Mutex<HashMap<Nonce, HashMap<Key, Left>>>,
    count: AtomicU32,
}

struct Left {
    /// The number of the change after which it was read.
    seq: u64,
    pool: Arc<PoolMetrics>,
}

impl LeftLeases {
    fn of(&self) -> MutexGuard<'_, HashMap<Nonce, HashMap<Key, Left>>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many leases are counted.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// Counts a lease of a session, whose record has this number, in its pool.
    pub(super) fn found(&self, session: Nonce, key: &Key, seq: u64, pool: &Arc<PoolMetrics>) {
        let mut of = self.of();
        let left = of.entry(session).or_default();
        if let Some(known) = left.get_mut(key) {
            known.seq = known.seq.max(seq);
            return;
        }
        left.insert(key.clone(), Left { seq, pool: pool.clone() });
        pool.held.increment(1.0);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// An actor of this node has adopted the lease, or its change of this number was reported.
    pub(in crate::actor) fn changed(&self, session: Nonce, key: &Key, seq: u64) {
        if self.count() == 0 {
            return;
        }
        let mut of = self.of();
        let Some(left) = of.get_mut(&session) else { return };
        if left.get(key).is_some_and(|known| known.seq <= seq)
            && let Some(gone) = left.remove(key)
        {
            self.uncount(&gone);
        }
        if left.is_empty() {
            of.remove(&session);
        }
    }

    /// The session has another home node, or is over.
    pub(super) fn session_left(&self, session: Nonce) {
        if self.count() > 0 {
            self.of()
                .remove(&session)
                .into_iter()
                .flatten()
                .for_each(|(_, gone)| self.uncount(&gone));
        }
    }

    /// Changes were missed: the leases of all sessions are searched for again.
    pub(super) fn missed_changes(&self) {
        let all = std::mem::take(&mut *self.of());
        all.into_values().flatten().for_each(|(_, gone)| self.uncount(&gone));
    }

    fn uncount(&self, gone: &Left) {
        gone.pool.held.decrement(1.0);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_counts_once_until_its_next_change_or_the_end_of_its_session() {
        let (left, pool) = (LeftLeases::default(), PoolMetrics::register("left"));
        let [a, b, c] = ["a", "b", "c"].map(|key| Key::new(key).expect("a key"));
        for key in [&a, &b, &c, &a] {
            left.found(Nonce(7), key, 3, &pool);
        }
        assert_eq!(left.count(), 3);
        left.changed(Nonce(7), &a, 2);
        left.changed(Nonce(8), &a, 9);
        assert_eq!(left.count(), 3, "an earlier change, and another session");
        left.changed(Nonce(7), &a, 3);
        assert_eq!(left.count(), 2);
        left.session_left(Nonce(7));
        assert_eq!((left.count(), left.of().len()), (0, 0));
        left.found(Nonce(7), &a, 3, &pool);
        left.missed_changes();
        assert_eq!((left.count(), left.of().len()), (0, 0));
    }
}
