//! Counts the lines that the log lacks.

use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Counter, counter};

use super::chain::Chain;
use crate::lease::Moment;

/// Lines that the audit log lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostLines {
    /// How many times since it was opened: lines that were lost, or ends of a chain that were gone.
    pub count: u64,
    /// When it was last so.
    pub latest: Moment,
}

/// Counts losses of one kind.
struct Tally {
    count: AtomicU64,
    /// A reading of the clock.
    latest: AtomicU64,
    total: Counter,
}

impl Tally {
    fn new(total: Counter) -> Self {
        Self { count: AtomicU64::new(0), latest: AtomicU64::new(0), total }
    }

    fn add(&self, now: Moment) {
        self.latest.fetch_max(now.0, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.total.increment(1);
    }

    fn read(&self) -> Option<LostLines> {
        let count = self.count.load(Ordering::Relaxed);
        let latest = Moment(self.latest.load(Ordering::Relaxed));
        (count > 0).then_some(LostLines { count, latest })
    }
}

/// The losses of a log.
pub(super) struct Lacks {
    /// Lines of each chain that were lost and are not mentioned yet.
    unmentioned: [AtomicU64; 2],
    lost: Tally,
    gaps: Tally,
}

impl Lacks {
    pub(super) fn new() -> Self {
        Self {
            unmentioned: [AtomicU64::new(0), AtomicU64::new(0)],
            lost: Tally::new(counter!("tenure_audit_lost_total")),
            gaps: Tally::new(counter!("tenure_audit_gaps_total")),
        }
    }

    /// A line was lost.
    pub(super) fn lose(&self, chain: Chain, now: Moment) {
        self.unmentioned[chain as usize].fetch_add(1, Ordering::Relaxed);
        self.lost.add(now);
    }

    /// Lines that were written are gone.
    pub(super) fn gap(&self, now: Moment) {
        self.gaps.add(now);
    }

    /// The lines that were lost, if any were.
    pub(super) fn lost(&self) -> Option<LostLines> {
        self.lost.read()
    }

    /// The times at which lines that were written were gone, if there were any.
    pub(super) fn gaps(&self) -> Option<LostLines> {
        self.gaps.read()
    }

    /// Takes the number of lost lines that no line mentions yet.
    pub(super) fn take(&self, chain: Chain) -> u64 {
        self.unmentioned[chain as usize].swap(0, Ordering::Relaxed)
    }

    /// They could not be mentioned.
    pub(super) fn give_back(&self, chain: Chain, lost: u64) {
        self.unmentioned[chain as usize].fetch_add(lost, Ordering::Relaxed);
    }
}
