//! The state that callers, the writer and the maker of spares share.

use std::{
    path::PathBuf,
    sync::{
        Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::sync::broadcast;

use super::{
    super::{Counts, FeedBatch, Health, Meta, Position, StoreError},
    directory::MetaFile,
    disk::Disk,
    options::{Observer, Options},
    queue::Queue,
    recovery::Recovered,
    segment::{HEADER, Segment},
    spares::Spares,
    stats::{Counters, Stats},
    table::Table,
};
use crate::lease::Revision;

/// How many groups a slow listener may fall behind before it must read the history. The changes of a group take
/// about as much memory as its bytes, at most about 1 MiB.
const FEED_GROUPS: usize = 128;

/// A write to the disk that takes longer than this counts as hung.
const HUNG: Duration = Duration::from_secs(5);

pub(super) struct EmbeddedShared {
    pub meta: Arc<Meta>,
    pub log_id: u128,
    pub min_log_bytes: u64,
    pub max_keys: u64,
    pub observer: Option<Arc<dyn Observer>>,
    pub queue: Queue,
    pub spares: Spares,
    pub feed: broadcast::Sender<FeedBatch>,
    pub counters: Counters,
    table: RwLock<Table>,
    /// The revision and index of the last change, packed.
    latest: AtomicU64,
    keys: AtomicU64,
    sessions: AtomicU64,
    failure: OnceLock<StoreError>,
    /// When the current write began, by the observer's clock; 0 if there is none.
    writing_since: AtomicU64,
}

impl EmbeddedShared {
    pub fn new(
        options: &Options,
        dir: PathBuf,
        meta: &MetaFile,
        recovered: Recovered,
        disk: Arc<dyn Disk>,
    ) -> Self {
        let Recovered { table, latest, spares, next_id, .. } = recovered;
        let spares = Spares::new(dir, options.segment_bytes(), disk, spares, next_id);
        let shared = Self {
            meta: Arc::new(meta.meta()),
            log_id: meta.log_id,
            min_log_bytes: options.min_log_bytes,
            max_keys: options.max_keys,
            observer: options.observer.clone(),
            queue: Queue::default(),
            spares,
            feed: broadcast::Sender::new(FEED_GROUPS),
            counters: Counters::default(),
            keys: AtomicU64::new(table.counts().keys),
            sessions: AtomicU64::new(table.counts().sessions),
            table: RwLock::new(table),
            latest: AtomicU64::new(0),
            failure: OnceLock::new(),
            writing_since: AtomicU64::new(0),
        };
        shared.set_latest(latest);
        shared
    }

    // The table is changed in steps that do not panic, so a poisoned lock is harmless.
    pub fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn table_mut(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The segment that is being written, and the position in it.
    pub fn active(&self) -> (Option<Arc<Segment>>, u32) {
        match self.table_mut().newest() {
            Some(slot) => (Some(Arc::clone(&slot.segment)), slot.end),
            None => (None, HEADER),
        }
    }

    /// How many records the store holds.
    pub fn counts(&self) -> Counts {
        Counts { keys: self.keys.load(Relaxed), sessions: self.sessions.load(Relaxed) }
    }

    pub fn note_sizes(&self, table: &Table) {
        let Counts { keys, sessions } = table.counts();
        self.keys.store(keys, Relaxed);
        self.sessions.store(sessions, Relaxed);
    }

    pub fn latest(&self) -> Position {
        let packed = self.latest.load(Relaxed);
        // The low byte is the index.
        Position { revision: Revision(packed >> 8), index: (packed & 0xff) as u32 }
    }

    pub fn set_latest(&self, latest: Position) {
        self.latest.store(latest.revision.0 << 8 | u64::from(latest.index), Relaxed);
    }

    pub fn set_failed(&self, why: StoreError) {
        // Only the first reason matters.
        let _ = self.failure.set(why);
    }

    /// A write to the disk begins.
    pub fn begin_write(&self) {
        let began = self.observer.as_ref().map_or(0, |observer| observer.nanos());
        self.writing_since.store(began, Relaxed);
    }

    #[cfg(test)]
    pub fn is_writing(&self) -> bool {
        self.writing_since.load(Relaxed) > 0
    }

    /// The write is durable, or failed.
    pub fn end_write(&self) {
        self.writing_since.store(0, Relaxed);
    }

    /// Whether the disk hangs, or has had no room for a write for long. While it does, the store accepts nothing
    /// more, and waiting writes are refused.
    pub fn hung(&self) -> Option<StoreError> {
        let since = self.writing_since.load(Relaxed);
        let now = self.observer.as_ref().filter(|_| since > 0)?.nanos();
        let span = Duration::from_nanos(now.saturating_sub(since));
        if span < HUNG {
            return None;
        }
        let why = format!("the disk has made no write durable for {} s", span.as_secs());
        let why = StoreError::Unavailable(why);
        self.queue.refuse_waiting(&why);
        Some(why)
    }

    pub fn health(&self) -> Health {
        let fault = self.failure.get().cloned();
        let fault = fault.or_else(|| self.queue.closed()).or_else(|| self.hung());
        let fault = fault.or_else(|| self.spares.fault());
        fault.map_or(Health::Ready, |why| Health::Degraded(why.to_string()))
    }

    pub fn stats(&self) -> Stats {
        let table = self.table();
        let (live_bytes, files) = (table.live_bytes(), table.file_bytes());
        drop(table);
        Stats {
            keys: self.counts().keys + self.counts().sessions,
            live_bytes,
            log_bytes: files + self.spares.file_bytes(),
            ..self.counters.stats()
        }
    }
}

impl std::fmt::Debug for EmbeddedShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedShared").field("meta", &self.meta).finish_non_exhaustive()
    }
}
