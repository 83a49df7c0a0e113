//! The embedded store: one directory, one process, an append-only log with group commit.
//!
//! Every write becomes a frame ([`frame`]) in the newest of a sequence of segments ([`segment`]). One thread
//! ([`writer`]) appends all waiting writes and makes them durable with a single sync. Only then does it
//! update the index, publish the changes and answer the callers. An index in memory ([`index`]) knows where
//! each key's current frame is; the records themselves stay on disk. With every group of writes, compaction
//! ([`compaction`]) examines a part of the oldest segment. It copies the current frames to the end of the
//! log, and the segment is then reused. So the retained log is also the history. A second thread ([`spares`])
//! makes segments ahead of their use.
//!
//! Guarantees:
//! - A write that was reported committed survives the end of the process and a power failure.
//! - Revisions strictly increase, also when the newest writes were compacted away.
//! - The changes of a write are published after it is durable, in the order of revisions.
//!   [`history`](LeaseStore::history) returns them or says `Gap`.
//! - Recovery tells a damaged log from a torn one, and does not open a damaged log.
//! - A record that is corrupt on disk, or that a newer program wrote, affects only its own key and never
//!   causes a panic.
//! - A full disk refuses writes and loses none. The store continues by itself when there is room.
//!
//! Damage is any change of a byte, of a file's length or of a file's name. While the operating system lives,
//! however the process ended, the store detects all damage that takes away anything that was reported
//! committed ([`mark`] records up to where the log was durable). After a power failure, the mark may be about
//! half a minute old. The store then still detects damage in a segment before the newest one, damage to all
//! of the newest one, and damage before a group that is still there.
//!
//! Does not guarantee:
//! - That the last group, never acknowledged, is gone after an unclean end. All, some or none of its writes
//!   may be there.
//! - After a power failure, that damage which reaches to the very end of the log behind the mark on disk is
//!   told from a torn write.
//! - Service after the disk failed a write or a sync. Every write is then refused until a restart has read
//!   the log again.
//!
//! Assumes:
//! - A local file system whose `fdatasync` makes data durable.
//! - Blocks that keep their other sectors when one sector is rewritten.
//! - Nobody else changes the files.

mod compaction;
mod directory;
mod disk;
mod error;
mod frame;
mod index;
#[cfg(feature = "testing")]
#[path = "../../../tests/doors/kill.rs"]
mod kill;
mod mark;
mod options;
mod queue;
mod read;
mod recovery;
mod segment;
mod shared;
#[cfg(feature = "testing")]
#[path = "../../../tests/doors/slow.rs"]
mod slow;
mod spares;
mod stats;
mod table;
mod tail;
mod untouched;
mod verify;
mod writer;

#[cfg(test)]
mod tests;

use std::{
    future::ready,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use tokio::sync::oneshot;

use self::{
    directory::Directory,
    disk::{Disk, RealDisk},
    frame::FrameKind,
    mark::Mark,
    queue::{Job, Verdict},
    recovery::recover,
    shared::EmbeddedShared,
    tail::Tail,
    writer::Writer,
};
pub use self::{
    error::EmbeddedOpenError,
    options::{
        DEFAULT_MAX_KEYS, DEFAULT_MIN_LOG_BYTES, DEFAULT_SEGMENT_BYTES, Observer, Options,
        WallClock,
    },
    stats::Stats,
    verify::findings,
};
pub use super::Fresh;
use super::{
    Counted, Feed, Found, Health, History, LeaseStore, Meta, Position, Range, SecretBytes,
    StoreError, StoreFuture, Write, WriteOutcome,
};
use crate::lease::{Epoch, Key, Nonce, Policies, Revision};

/// The embedded store. Closed when it is dropped.
#[derive(Debug)]
pub struct EmbeddedStore {
    shared: Arc<EmbeddedShared>,
    secret: SecretBytes,
    running: Mutex<Option<Running>>,
}

/// What ends together with the store.
#[derive(Debug)]
struct Running {
    writer: JoinHandle<()>,
    maker: JoinHandle<()>,
    /// Released last: it guards the directory until every thread has ended.
    _lock: std::fs::File,
}

impl EmbeddedStore {
    /// Opens the store in a directory. Creates one if the directory is empty or missing.
    ///
    /// Reads the whole log, which takes about one second per million records. Blocks.
    ///
    /// # Errors
    /// See [`EmbeddedOpenError`], whose text says what to do.
    pub fn open(options: Options, clock: WallClock) -> Result<Self, EmbeddedOpenError> {
        Self::open_on(options, clock, disk_of_this_process())
    }

    fn open_on(
        options: Options,
        clock: WallClock,
        disk: Arc<dyn Disk>,
    ) -> Result<Self, EmbeddedOpenError> {
        let (mut store, writer, lock) = Self::assemble(&options, clock, disk)?;
        let shared = Arc::clone(&store.shared);
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
            thread.map_err(EmbeddedOpenError::at(&options.dir))
        };
        let maker_shared = Arc::clone(&shared);
        let maker = spawn("log-spares", Box::new(move || maker_shared.spares.run()))?;
        let writer = spawn("log-writer", Box::new(move || writer.run()));
        let writer = writer.inspect_err(|_| shared.spares.stop())?;
        store.running = Mutex::new(Some(Running { writer, maker, _lock: lock }));
        Ok(store)
    }

    /// Builds a store whose threads do not run yet. Returns the store, its writer, and the lock to hold.
    fn assemble(
        options: &Options,
        clock: WallClock,
        disk: Arc<dyn Disk>,
    ) -> Result<(Self, Writer, std::fs::File), EmbeddedOpenError> {
        let directory = Directory::open(&options.dir, &options.fresh, &*disk)?;
        directory.refuse_half_restored(options.fresh.identity)?;
        let mark = Mark::open(&directory, &*disk)?;
        let recovered = recover(&directory, &mark, &*disk, options.segment_bytes())?;
        let next_revision = recovered.next_revision;
        let Directory { path, meta, lock } = directory;
        let shared = Arc::new(EmbeddedShared::new(options, path, &meta, recovered, disk));
        let tail = Tail::new(Arc::clone(&shared), clock, next_revision);
        let writer = Writer::new(tail, mark);
        let secret = SecretBytes(meta.secret);
        Ok((Self { shared, secret, running: Mutex::new(None) }, writer, lock))
    }

    /// Gives the store in `dir` another identity and epoch. A restored backup needs this before it is opened, so
    /// that no token is given twice.
    ///
    /// # Errors
    /// [`EmbeddedOpenError`], also if `epoch` is not above the current one.
    pub fn restamp(dir: &Path, identity: Nonce, epoch: Epoch) -> Result<(), EmbeddedOpenError> {
        Self::stamp(dir, identity, epoch, None)
    }

    /// Like [`Self::restamp`], and replaces the secret in the same write. The lease ids of before are void then.
    ///
    /// # Errors
    /// [`EmbeddedOpenError`], also if `epoch` is not above the current one.
    pub fn rotate(
        dir: &Path,
        identity: Nonce,
        epoch: Epoch,
        secret: SecretBytes,
    ) -> Result<(), EmbeddedOpenError> {
        Self::stamp(dir, identity, epoch, Some(secret))
    }

    fn stamp(
        dir: &Path,
        identity: Nonce,
        epoch: Epoch,
        secret: Option<SecretBytes>,
    ) -> Result<(), EmbeddedOpenError> {
        let path = dir.join("META");
        let never = Fresh { identity, secret: [0; 32], created_ms: 0 };
        std::fs::metadata(&path).map_err(EmbeddedOpenError::at(&path))?;
        let mut directory = Directory::open(dir, &never, &RealDisk)?;
        if epoch <= directory.meta.epoch {
            let why = format!("the epoch must be above {}", directory.meta.epoch.0);
            return Err(EmbeddedOpenError::at(path)(std::io::Error::other(why)));
        }
        directory.restamp(identity, epoch, secret, &RealDisk)
    }

    /// Begins a restore. Until [`Self::end_restore`], also after a crash, the store can be opened only with the
    /// identity `by` in [`Options::fresh`].
    ///
    /// # Errors
    /// [`EmbeddedOpenError`].
    pub fn begin_restore(dir: &Path, by: Nonce) -> Result<(), EmbeddedOpenError> {
        directory::begin_restore(dir, by, &RealDisk)
    }

    /// Ends a restore: all of the backup is durable.
    ///
    /// # Errors
    /// [`EmbeddedOpenError`].
    pub fn end_restore(dir: &Path) -> Result<(), EmbeddedOpenError> {
        directory::end_restore(dir, &RealDisk)
    }

    /// Statistics for metrics and tests.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Refuses new writes, settles the waiting ones, ends the threads and releases the lock. Blocks. Reads still
    /// work afterwards. Calling it again has no effect.
    pub fn close(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(running) = running else { return };
        self.shared.queue.close(StoreError::Unavailable("the store is closed".to_owned()));
        let writer = running.writer.join();
        self.shared.spares.stop();
        let maker = running.maker.join();
        if writer.is_err() || maker.is_err() {
            tracing::error!("a thread of the store panicked; restart tenure");
        }
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.close();
    }
}

/// The disk that a store is opened on: the real one, or in some tests one that ends the process.
fn disk_of_this_process() -> Arc<dyn Disk> {
    #[cfg(feature = "testing")]
    if let Some(disk) = kill::KillingDisk::from_environment() {
        return Arc::new(disk);
    }
    #[cfg(feature = "testing")]
    if let Some(disk) = slow::SlowDisk::from_environment() {
        return Arc::new(disk);
    }
    Arc::new(RealDisk)
}

/// Reads complete immediately on the caller's thread, from memory and the page cache. They take about one
/// microsecond per record. Request at most about 1000 records or changes at a time.
impl LeaseStore for EmbeddedStore {
    fn meta(&self) -> Arc<Meta> {
        self.shared.meta.clone()
    }

    fn secret_bytes(&self) -> Option<SecretBytes> {
        Some(self.secret)
    }

    fn read(&self, key: &Key) -> StoreFuture<Result<Option<Found>, StoreError>> {
        Box::pin(ready(self.shared.read(key.as_str())))
    }

    /// The write has been queued when this returns, whether or not the future is polled.
    fn compare_and_set(&self, write: Write) -> StoreFuture<WriteOutcome> {
        let Write { key, expected, record, changes } = write;
        let Some(draft) = frame::draft(&key, &record, &changes) else {
            let why = StoreError::TooLong("its length does not fit into the log".to_owned());
            return Box::pin(ready(WriteOutcome::Refused(why)));
        };
        drop(record);
        let (reply, verdict) = oneshot::channel();
        let kind = FrameKind::Write;
        let job = Job { key: key.clone(), expected, draft, kind, changes, reply };
        if let Err(why) = self.shared.hung().map_or_else(|| self.shared.queue.push(job), Err) {
            return Box::pin(ready(WriteOutcome::Refused(why)));
        }
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            match verdict.await {
                Ok(Verdict::Settled(outcome)) => outcome,
                Ok(Verdict::Conflict) => match shared.read(key.as_str()) {
                    Ok(found) => WriteOutcome::Conflict(found),
                    // The write did not happen, but the record that is there instead cannot be read.
                    Err(why) => WriteOutcome::Refused(why),
                },
                Err(_) => {
                    let why = "the store's writer has ended; restart tenure".to_owned();
                    WriteOutcome::Unknown(StoreError::Unavailable(why))
                }
            }
        })
    }

    fn bound_keys(&self, policies: &Arc<Policies>) {
        self.shared.table_mut().bound_keys(policies);
    }

    fn forget(&self, key: &Key, expected: Revision) -> StoreFuture<Result<bool, StoreError>> {
        if expected == Revision::ABSENT {
            return Box::pin(ready(self.shared.read(key.as_str()).map(|found| found.is_none())));
        }
        let mut draft = Vec::new();
        // A key is far shorter than the longest frame.
        let _ = frame::draft_raw(&mut draft, key.as_str(), &[], None);
        let (reply, verdict) = oneshot::channel();
        let (kind, changes) = (FrameKind::Forgotten, Vec::new());
        let job = Job { key: key.clone(), expected, draft, kind, changes, reply };
        if let Err(why) = self.shared.hung().map_or_else(|| self.shared.queue.push(job), Err) {
            return Box::pin(ready(Err(why)));
        }
        let (shared, key) = (Arc::clone(&self.shared), key.clone());
        Box::pin(async move {
            match verdict.await {
                Ok(Verdict::Settled(WriteOutcome::Committed(_))) => Ok(true),
                Ok(Verdict::Settled(WriteOutcome::Refused(why) | WriteOutcome::Unknown(why))) => {
                    Err(why)
                }
                Ok(Verdict::Settled(WriteOutcome::Conflict(_)) | Verdict::Conflict) => {
                    Ok(shared.read(key.as_str())?.is_none())
                }
                Err(_) => Err(StoreError::Unavailable("the store's writer has ended".to_owned())),
            }
        })
    }

    fn scan(&self, range: Range) -> StoreFuture<Result<Vec<(Key, Found)>, StoreError>> {
        Box::pin(ready(self.shared.scan(&range)))
    }

    fn keys_before(&self, prefix: &str, before: Option<&str>, limit: usize) -> Option<Vec<Key>> {
        Some(self.shared.keys_before(prefix, before, limit))
    }

    fn census(&self, most: usize) -> Option<Counted> {
        Some(self.shared.census(most))
    }

    fn feed(&self) -> Feed {
        self.shared.feed.subscribe()
    }

    fn history(&self, after: Position, limit: usize) -> StoreFuture<Result<History, StoreError>> {
        Box::pin(ready(self.shared.history(after, limit)))
    }

    fn earliest(&self) -> Position {
        self.shared.table().forgotten()
    }

    fn latest(&self) -> Position {
        self.shared.latest()
    }

    fn position_of(&self, revision: Revision) -> Option<Position> {
        Some(Position { revision, index: u32::MAX })
    }

    fn health(&self) -> Health {
        self.shared.health()
    }
}
