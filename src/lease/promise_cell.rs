//! The promise cell of a lease. It answers the heartbeats that change nothing in the record, on the thread on which they
//! arrive: they do not visit the mailbox of the lease's actor.
//!
//! The lease opens its cell while it would absorb every such heartbeat, and closes it before each of its steps. While
//! the cell is open, S is in the cell, and in no other place.
//!
//! Guarantees: a promise raises S in one atomic step, which fails if the cell is closed. So S as [`PromiseCell::close`]
//! returns it covers every promise that was made, and no promise is made from then until the cell is opened again.
//!
//! Assumes: one lease opens and closes the cell. A caller of [`PromiseCell::promise`] read the clock before.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::{
    primitives::{Epoch, LeaseId, Moment, Nonce, Token},
    rules::Rules,
};

/// What a closed cell holds in the place of S. No promise lasts until then.
const CLOSED: Moment = Moment::NEVER;

/// What a promise cell promises, to whom, and in whose name. A lease whose terms change gets another cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PromiseTerms {
    /// Proves that a caller is the holder.
    pub lease_id: LeaseId,
    /// The token of the tenure.
    pub token: Token,
    /// How long a promise lasts, in milliseconds.
    pub ttl_ms: u64,
    /// The incarnation that promises.
    pub node: Nonce,
    /// The epoch of that incarnation.
    pub epoch: Epoch,
}

/// The end of the latest promise of one tenure, which the threads of a node raise.
#[derive(Debug)]
pub struct PromiseCell {
    /// S in nanoseconds, or [`CLOSED`].
    promised: AtomicU64,
    terms: PromiseTerms,
}

impl PromiseCell {
    /// A closed cell.
    pub(super) fn new(terms: PromiseTerms) -> Self {
        Self { promised: AtomicU64::new(CLOSED.0), terms }
    }

    /// What the cell promises.
    #[must_use]
    pub fn terms(&self) -> &PromiseTerms {
        &self.terms
    }

    /// S at this moment. `None` if the cell is closed.
    #[must_use]
    pub fn promised(&self) -> Option<Moment> {
        Some(self.read()).filter(|promised| *promised != CLOSED)
    }

    fn read(&self) -> Moment {
        Moment(self.promised.load(Ordering::Acquire))
    }

    /// From now on promises are made here. The latest one so far ends at `promised`.
    pub(super) fn open(&self, promised: Moment) {
        self.promised.store(promised.0, Ordering::Release);
    }

    /// From now on no promise is made here. Returns S, or `None` if the cell was closed before.
    pub(super) fn close(&self) -> Option<Moment> {
        let promised = Moment(self.promised.swap(CLOSED.0, Ordering::AcqRel));
        Some(promised).filter(|promised| *promised != CLOSED)
    }

    /// R1: promises one ttl from `decided` on. Returns S as it was before. `None`: nothing is promised, because the cell
    /// is closed, or because S has passed. Then the actor decides whether the tenure goes on.
    pub(super) fn promise(&self, decided: Moment) -> Option<Moment> {
        let ttl = Duration::from_millis(self.terms.ttl_ms);
        let until = Rules::a_promise_lasts_until(Moment::ZERO, decided, ttl);
        let promised = self.read();
        if promised == CLOSED || decided >= promised || until == CLOSED {
            return None;
        }
        // S := max(S, until), unless the cell was closed meanwhile: then this changes nothing, and shows it.
        let before = Moment(self.promised.fetch_max(until.0, Ordering::AcqRel));
        (before != CLOSED).then_some(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::primitives::{ClusterSecret, Key};

    const TTL: Duration = Duration::from_secs(10);
    const NOW: Moment = Moment(3_600_000_000_000);

    fn cell() -> PromiseCell {
        let lease_id =
            ClusterSecret::new(&[7; 32]).lease_id(&Key::new("k").expect("a key"), Nonce(1));
        let (token, node, epoch) = (Token(5), Nonce(2), Epoch(0));
        PromiseCell::new(PromiseTerms { lease_id, token, ttl_ms: 10_000, node, epoch })
    }

    #[test]
    fn a_closed_cell_promises_nothing_and_an_open_one_raises_what_closing_returns() {
        let cell = cell();
        assert_eq!((cell.promise(NOW), cell.promised(), cell.close()), (None, None, None));
        cell.open(NOW + TTL);
        let later = NOW + TTL / 2;
        assert_eq!(cell.promise(later), Some(NOW + TTL));
        assert_eq!(cell.promised(), Some(later + TTL));
        assert_eq!(cell.close(), Some(later + TTL));
        assert_eq!((cell.promise(later), cell.close()), (None, None));
    }

    #[test]
    fn an_older_reading_of_the_clock_takes_nothing_back() {
        let cell = cell();
        cell.open(NOW + 3 * TTL);
        assert_eq!(cell.promise(NOW), Some(NOW + 3 * TTL));
        assert_eq!(cell.close(), Some(NOW + 3 * TTL));
    }

    #[test]
    fn at_s_the_actor_decides() {
        let cell = cell();
        cell.open(NOW);
        assert_eq!(cell.promise(NOW), None);
        assert_eq!(cell.promise(NOW - Duration::from_nanos(1)), Some(NOW));
        // A promise that never ends cannot be told from a closed cell.
        cell.open(NOW);
        assert_eq!(cell.promise(Moment(NOW.0 - 1)), Some(NOW));
        let end = Moment(u64::MAX - 1);
        cell.open(end);
        assert_eq!(cell.promise(Moment(u64::MAX - 2)), None);
        assert_eq!(cell.close(), Some(end));
    }
}
