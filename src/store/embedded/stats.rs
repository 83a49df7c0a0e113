//! What a store counts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Statistics of a store since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub keys: u64,
    /// Bytes of the current records, including their frames.
    pub live_bytes: u64,
    /// Bytes of all segment files, including spare ones.
    pub log_bytes: u64,
    pub writes: u64,
    /// Syncs. Each is one group commit.
    pub syncs: u64,
    /// Records that compaction copied into newer segments.
    pub carried: u64,
    /// Compaction cannot read the oldest segment, so the log grows.
    pub stuck: bool,
}

/// Counters since the store was opened.
#[derive(Debug, Default)]
pub(super) struct Counters {
    writes: AtomicU64,
    syncs: AtomicU64,
    carried: AtomicU64,
    stuck: AtomicBool,
}

impl Counters {
    pub fn committed(&self, writes: usize) {
        self.writes.fetch_add(writes as u64, Relaxed);
        self.syncs.fetch_add(1, Relaxed);
    }

    /// Sets whether compaction cannot read the log.
    pub fn set_stuck(&self, stuck: bool) {
        self.stuck.store(stuck, Relaxed);
    }

    pub fn carried(&self) {
        self.carried.fetch_add(1, Relaxed);
    }

    /// Statistics with these figures alone.
    pub fn stats(&self) -> Stats {
        Stats {
            writes: self.writes.load(Relaxed),
            syncs: self.syncs.load(Relaxed),
            carried: self.carried.load(Relaxed),
            stuck: self.stuck.load(Relaxed),
            ..Stats::default()
        }
    }
}
