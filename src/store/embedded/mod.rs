//! The embedded store: one directory, one process, an append-only log with group commit.
//!
//! Every write becomes a frame ([`frame`]) in the newest of a row of segments ([`segment`]); one thread
//! ([`writer`]) appends all writes that are waiting, makes them durable with a single sync, and only
//! then updates the index, tells listeners and answers callers. An index in memory ([`index`]) knows
//! where each key's current frame is; records themselves stay on disk. With every group a bit of the
//! oldest segment is looked through ([`compaction`]): what is current is carried to the end of the log,
//! and the segment is used again. So the retained log is the history too. Segments are made ahead of
//! their use by a second thread ([`spares`]).
//!
//! Guarantees: a write that was reported committed survives the end of the process and of the machine;
//! revisions strictly increase through everything, also when the newest writes were compacted away;
//! the changes of a write are published after it is durable, in the order of revisions, and
//! [`history`](LeaseStore::history) has them or says `Gap`; a damaged log is told from a torn one, and
//! is not opened; a record that rotted or that is too new is one key's trouble, never a panic; a full
//! disk refuses writes and loses none, and the store goes on by itself.
//!
//! Damage, that is any change of any byte, of the length or the name of a file, is told wherever it takes
//! something away that was reported committed, if the process ended in any way and the system did not
//! ([`mark`] says up to where the log went). After the machine's end the mark may be some half a minute
//! old. Then too damage is told in a segment before the newest one, to all of the newest one, and
//! before a group that is still there.
//!
//! Does not guarantee: that an unclean end's last, never acknowledged group is gone (all, some or none
//! of its writes may be there); that, after the machine's end, damage that reaches to the very end of the log
//! is told from a torn write, as far as it lies behind the mark that the disk has; service after the disk
//! failed a write or a sync: then every write is refused until a restart read the log again.
//!
//! Assumes: a local file system on which `fdatasync` means it, whose blocks keep their other sectors
//! when one is written again; nobody else changes the files.

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
mod queue;
mod read;
mod recovery;
mod segment;
mod shared;
mod spares;
mod table;
mod writer;

#[cfg(test)]
mod tests;

use std::{
    future::ready,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::sync::oneshot;

pub use self::error::OpenError;
use self::{
    directory::Directory,
    disk::{Disk, RealDisk},
    frame::Kind,
    mark::Mark,
    queue::{Job, Verdict},
    recovery::recover,
    segment::HEADER,
    shared::Shared,
    writer::Writer,
};
pub use super::Fresh;
use super::{
    Feed, Found, Health, History, LeaseStore, Meta, Outcome, Position, Range, SecretBytes,
    StoreError, StoreFuture, Write,
};
use crate::lease::{Epoch, Key, Nonce, Policies, Revision};

/// Size of a log segment unless said otherwise, bytes.
pub const DEFAULT_SEGMENT_BYTES: u64 = 4 << 20;
/// How much of the log is kept at least, as history, unless said otherwise, bytes.
pub const DEFAULT_MIN_LOG_BYTES: u64 = 32 << 20;
/// How many keys a store may hold unless said otherwise.
pub const DEFAULT_MAX_KEYS: u64 = 10_000_000;
/// Segments are at least this long: a longest key with a record of some size fits.
const MIN_SEGMENT_BYTES: u64 = 16 << 10;
/// And at most this: recovery holds one in memory.
const MAX_SEGMENT_BYTES: u64 = 256 << 20;

/// The wall clock: milliseconds since 1970. Only people read it.
pub type WallClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Learns of each sync, for a histogram. Called on the writer's thread: be quick.
pub trait Observer: Send + Sync {
    /// A reading of a clock, in nanoseconds.
    fn nanos(&self) -> u64;
    /// One sync made `writes` writes durable and took this long.
    fn synced(&self, writes: usize, took: Duration);
}

/// How to open a store.
#[derive(Clone)]
pub struct Options {
    /// The store's directory; made when it is missing.
    pub dir: PathBuf,
    /// Size of log segments made from now on, 16 KiB to 256 MiB; values outside are moved inside.
    /// No record can be longer.
    pub segment_bytes: u64,
    /// The log is not compacted below this many bytes. History reaches back at least so far.
    pub min_log_bytes: u64,
    /// A write that would make one key more is refused.
    pub max_keys: u64,
    /// What a new store is made with.
    pub fresh: Fresh,
    /// Learns of each sync.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Options {
    /// The defaults for a directory.
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

    fn segment_bytes(&self) -> u32 {
        let bytes = self.segment_bytes.clamp(MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES);
        // At most 2^28.
        bytes.next_multiple_of(u64::from(HEADER)) as u32
    }
}

/// Figures about a store since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Keys that have a record.
    pub keys: u64,
    /// Bytes of the current records, with their frames.
    pub live_bytes: u64,
    /// Bytes of all segment files, spare ones too.
    pub log_bytes: u64,
    /// Writes that were committed.
    pub writes: u64,
    /// Syncs, that is group commits.
    pub syncs: u64,
    /// Records that compaction copied.
    pub carried: u64,
    /// Compaction cannot read the oldest segment: the log grows.
    pub stuck: bool,
}

/// The embedded store. Closed when it is dropped.
#[derive(Debug)]
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    secret: SecretBytes,
    running: Mutex<Option<Running>>,
}

/// What ends with the store.
#[derive(Debug)]
struct Running {
    writer: JoinHandle<()>,
    maker: JoinHandle<()>,
    /// Let go of last.
    _lock: std::fs::File,
}

impl EmbeddedStore {
    /// Opens the store in a directory, or makes one there when the directory is empty or missing.
    ///
    /// Reads the whole log, so it takes about a second per million records. Blocks.
    ///
    /// # Errors
    /// [`OpenError`] says what to do.
    pub fn open(options: Options, clock: WallClock) -> Result<Self, OpenError> {
        Self::open_on(options, clock, disk::of_this_process())
    }

    fn open_on(options: Options, clock: WallClock, disk: Arc<dyn Disk>) -> Result<Self, OpenError> {
        let (mut store, writer, lock) = Self::assemble(&options, clock, disk)?;
        let shared = Arc::clone(&store.shared);
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
            thread.map_err(OpenError::at(&options.dir))
        };
        let maker_shared = Arc::clone(&shared);
        let maker = spawn("log-spares", Box::new(move || maker_shared.spares.run()))?;
        let writer = spawn("log-writer", Box::new(move || writer.run()));
        let writer = writer.inspect_err(|_| shared.spares.stop())?;
        store.running = Mutex::new(Some(Running { writer, maker, _lock: lock }));
        Ok(store)
    }

    /// A store whose threads do not run yet: its writer, and the lock to hold.
    fn assemble(
        options: &Options,
        clock: WallClock,
        disk: Arc<dyn Disk>,
    ) -> Result<(Self, Writer, std::fs::File), OpenError> {
        let directory = Directory::open(&options.dir, &options.fresh, &*disk)?;
        directory.refuse_half_restored(options.fresh.identity)?;
        let mark = Mark::open(&directory, &*disk)?;
        let recovered = recover(&directory, &mark, &*disk, options.segment_bytes())?;
        let next_revision = recovered.next_revision;
        let Directory { path, meta, lock } = directory;
        let shared = Arc::new(Shared::new(options, path, &meta, recovered, disk));
        let (active, end) = shared.active();
        let writer = Writer::new(Arc::clone(&shared), clock, active, end, next_revision, mark);
        let secret = SecretBytes(meta.secret);
        Ok((Self { shared, secret, running: Mutex::new(None) }, writer, lock))
    }

    /// Gives the store in `dir` another identity and epoch: what has to be done with a restored
    /// backup before it is opened, so that no token is given twice.
    ///
    /// # Errors
    /// [`OpenError`], also when `epoch` is not above the present one.
    pub fn restamp(dir: &Path, identity: Nonce, epoch: Epoch) -> Result<(), OpenError> {
        let path = dir.join("META");
        let never = Fresh { identity, secret: [0; 32], created_ms: 0 };
        std::fs::metadata(&path).map_err(OpenError::at(&path))?;
        let mut directory = Directory::open(dir, &never, &RealDisk)?;
        if epoch <= directory.meta.epoch {
            let why = format!("the epoch must be above {}", directory.meta.epoch.0);
            return Err(OpenError::at(path)(std::io::Error::other(why)));
        }
        directory.restamp(identity, epoch, &RealDisk)
    }

    /// A restore begins: until [`Self::end_restore`] the store is opened to nobody whose [`Options::fresh`] has another
    /// identity, also after a crash.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn begin_restore(dir: &Path, by: Nonce) -> Result<(), OpenError> {
        directory::begin_restore(dir, by, &RealDisk)
    }

    /// All of the backup is durable.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn end_restore(dir: &Path) -> Result<(), OpenError> {
        directory::end_restore(dir, &RealDisk)
    }

    /// Figures for metrics and tests.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Refuses new writes, settles those that wait, ends the threads and lets go of the lock. Blocks.
    /// Reads go on to work. Doing it twice does nothing.
    pub fn close(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(running) = running else { return };
        self.shared.queue.close(StoreError::Unavailable("the store is closed".to_owned()));
        let writer = running.writer.join();
        self.shared.spares.stop();
        let maker = running.maker.join();
        if writer.is_err() || maker.is_err() {
            tracing::error!("a thread of the store panicked");
        }
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.close();
    }
}

/// Reads complete at once on the caller's thread, from memory and the page cache: about a microsecond
/// per record. Ask for at most some 1000 records or changes at a time.
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

    /// The write is on its way when this returns, whether or not the future is polled.
    fn compare_and_set(&self, write: Write) -> StoreFuture<Outcome> {
        let Write { key, expected, record, changes } = write;
        let Some(draft) = frame::draft(&key, &record, &changes) else {
            let why = StoreError::Unavailable("the record is too long".to_owned());
            return Box::pin(ready(Outcome::Refused(why)));
        };
        drop(record);
        let (reply, verdict) = oneshot::channel();
        let kind = Kind::Write;
        let job = Job { key: key.clone(), expected, draft, kind, changes, reply };
        if let Err(why) = self.shared.hung().map_or_else(|| self.shared.queue.push(job), Err) {
            return Box::pin(ready(Outcome::Refused(why)));
        }
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            match verdict.await {
                Ok(Verdict::Settled(outcome)) => outcome,
                Ok(Verdict::Conflict) => match shared.read(key.as_str()) {
                    Ok(found) => Outcome::Conflict(found),
                    // It was not written; what is there instead cannot be told.
                    Err(why) => Outcome::Refused(why),
                },
                Err(_) => {
                    let why = "the store's writer ended; a restart is needed".to_owned();
                    Outcome::Unknown(StoreError::Unavailable(why))
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
        // A key is far shorter than a frame may be.
        let _ = frame::draft_raw(&mut draft, key.as_str(), &[]);
        let (reply, verdict) = oneshot::channel();
        let (kind, changes) = (Kind::Forgotten, Vec::new());
        let job = Job { key: key.clone(), expected, draft, kind, changes, reply };
        if let Err(why) = self.shared.hung().map_or_else(|| self.shared.queue.push(job), Err) {
            return Box::pin(ready(Err(why)));
        }
        let (shared, key) = (Arc::clone(&self.shared), key.clone());
        Box::pin(async move {
            match verdict.await {
                Ok(Verdict::Settled(Outcome::Committed(_))) => Ok(true),
                Ok(Verdict::Settled(Outcome::Refused(why) | Outcome::Unknown(why))) => Err(why),
                Ok(Verdict::Settled(Outcome::Conflict(_)) | Verdict::Conflict) => {
                    Ok(shared.read(key.as_str())?.is_none())
                }
                Err(_) => Err(StoreError::Unavailable("the store's writer ended".to_owned())),
            }
        })
    }

    fn scan(&self, range: Range) -> StoreFuture<Result<Vec<(Key, Found)>, StoreError>> {
        Box::pin(ready(self.shared.scan(&range)))
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

    fn health(&self) -> Health {
        self.shared.health()
    }
}
