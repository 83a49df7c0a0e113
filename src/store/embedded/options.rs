//! How a store is opened, and what it is given for that.

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::{super::Fresh, segment::HEADER};

/// The default size of a log segment, in bytes.
pub const DEFAULT_SEGMENT_BYTES: u64 = 4 << 20;
/// How much of the log is always kept as history by default, in bytes.
pub const DEFAULT_MIN_LOG_BYTES: u64 = 32 << 20;
/// How many keys a store may hold by default.
pub const DEFAULT_MAX_KEYS: u64 = 10_000_000;
/// The smallest segment, in bytes. A key of maximum length with a record of moderate size fits.
const MIN_SEGMENT_BYTES: u64 = 16 << 10;
/// The largest segment, in bytes. Recovery holds one in memory.
const MAX_SEGMENT_BYTES: u64 = 256 << 20;

/// The wall clock, in milliseconds since 1970. Only people read it.
pub type WallClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Observes each sync, for a histogram. The writer's thread calls it, so it must be quick.
pub trait Observer: Send + Sync {
    /// A reading of a clock, in nanoseconds.
    fn nanos(&self) -> u64;
    /// One sync made `writes` writes durable and took `took`.
    fn synced(&self, writes: usize, took: Duration);
}

#[derive(Clone)]
pub struct Options {
    /// The store's directory. It is created if it is missing.
    pub dir: PathBuf,
    /// The size of log segments made from now on, 16 KiB to 256 MiB. Values outside are clamped. No record can be
    /// longer than a segment.
    pub segment_bytes: u64,
    /// The log is not compacted below this many bytes, so the history covers at least that much.
    pub min_log_bytes: u64,
    /// A write that would add a key beyond this number is refused.
    pub max_keys: u64,
    /// The values that a new store is created with.
    pub fresh: Fresh,
    pub observer: Option<Arc<dyn Observer>>,
}

impl Options {
    /// The default options for a directory.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, fresh: Fresh) -> Self {
        Self {
            dir: dir.into(),
            segment_bytes: DEFAULT_SEGMENT_BYTES,
            min_log_bytes: DEFAULT_MIN_LOG_BYTES,
            max_keys: DEFAULT_MAX_KEYS,
            fresh,
            observer: None,
        }
    }

    pub(super) fn segment_bytes(&self) -> u32 {
        let bytes = self.segment_bytes.clamp(MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES);
        // At most 2^28.
        bytes.next_multiple_of(u64::from(HEADER)) as u32
    }
}
