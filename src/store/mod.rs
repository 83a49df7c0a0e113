//! What the coordinator needs of a store, and the stores.
//!
//! Guarantees of every store: a write that was reported committed survives a crash; of two writes
//! that expect the same revision of a key at most one is committed; revisions of a key strictly
//! increase through everything; changes are reported after their write is durable, per key in the
//! order of `seq`, and what was skipped is said.
//!
//! Does not guarantee: that a read is fresh (a stale one can only make a compare-and-set fail), or
//! that a write whose outcome is [`Outcome::Unknown`] did not happen.
//!
//! Assumes: nobody else writes into the store.

pub mod embedded;

use std::{future::Future, pin::Pin, sync::Arc};

pub use crate::lease::StoreError;
use crate::lease::{Change, ClusterSecret, Epoch, Key, Nonce, Record, Revision};

/// A future that a store returns.
pub type StoreFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A compare-and-set of one key's record, with the changes that it makes true.
#[derive(Clone, Debug)]
pub struct Write {
    /// Whose record.
    pub key: Key,
    /// The revision that was judged; [`Revision::ABSENT`] for a key without a record.
    pub expected: Revision,
    /// The record to be.
    pub record: Arc<Record>,
    /// At most two: how the old tenure ended, how the new one began.
    pub changes: Vec<Change>,
}

/// What became of a [`Write`].
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Durable, as this revision.
    Committed(Revision),
    /// Not written: the key's record has another revision. Here is what is there.
    Conflict(Option<Found>),
    /// Not written, and never will be.
    Refused(StoreError),
    /// Perhaps written, perhaps to be written yet: settle it by reading.
    Unknown(StoreError),
}

/// A record that was read, with the revision of its write.
#[derive(Clone, Debug)]
pub struct Found {
    /// The revision of the write.
    pub revision: Revision,
    /// The record, or why it cannot be judged: then the key is held by somebody unknown.
    pub record: Result<Arc<Record>, crate::lease::CodecError>,
}

/// A committed change.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Where it stands in the store's order.
    pub position: Position,
    /// Whose change.
    pub key: Key,
    /// The change, its token resolved.
    pub change: Change,
    /// Wall clock at the commit, milliseconds since 1970; for people only.
    pub at_ms: u64,
}

/// A place in the store's history: the revision of a write, and which of its changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The revision of the write.
    pub revision: Revision,
    /// The change's index in its write.
    pub index: u8,
}

/// What [`LeaseStore::history`] found.
#[derive(Clone, Debug)]
pub enum History {
    /// The changes after the position, oldest first, as many as asked for. Empty: none yet.
    Changes(Vec<Committed>),
    /// What followed the position is no longer kept. Go on after `resume`.
    Gap {
        /// The latest position at the time of asking.
        resume: Position,
    },
}

/// Which keys a scan returns: those that start with `prefix` and sort after `after`, at most `limit`.
#[derive(Clone, Debug, Default)]
pub struct Range {
    /// Only keys that start with it.
    pub prefix: String,
    /// Only keys that sort after it.
    pub after: Option<String>,
    /// At most so many.
    pub limit: usize,
}

/// Live batches of committed changes, in the store's order. A receiver that lagged reads
/// [`LeaseStore::history`].
pub type Feed = tokio::sync::broadcast::Receiver<Arc<[Committed]>>;

/// What a store knows about itself.
#[derive(Clone, Debug)]
pub struct Meta {
    /// Differs between any two stores, also between a store and its restored backup.
    pub identity: Nonce,
    /// The generation of tokens.
    pub epoch: Epoch,
    /// Wall clock at creation, milliseconds since 1970.
    pub created_ms: u64,
    /// What lease ids are derived from.
    pub secret: ClusterSecret,
}

/// Whether the store can be written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It can.
    Ready,
    /// It cannot for now; why, in one sentence for people.
    Degraded(String),
}

/// A store of lease records: compare-and-set, reads, and an ordered history.
pub trait LeaseStore: Send + Sync + 'static {
    /// The store's own record.
    fn meta(&self) -> &Meta;

    /// Reads one key's record; `None` when the key was never written.
    fn read(&self, key: &Key) -> StoreFuture<Result<Option<Found>, StoreError>>;

    /// Writes a record if the key's revision is the expected one. Resolves when the write is durable.
    fn compare_and_set(&self, write: Write) -> StoreFuture<Outcome>;

    /// Keys of a range in byte order, with their records.
    fn scan(&self, range: Range) -> StoreFuture<Result<Vec<(Key, Found)>, StoreError>>;

    /// Committed changes from now on.
    fn feed(&self) -> Feed;

    /// Committed changes after a position, at most `limit`.
    fn history(&self, after: Position, limit: usize) -> StoreFuture<Result<History, StoreError>>;

    /// The position of the latest committed change.
    fn latest(&self) -> Position;

    /// The position after which every change is still kept.
    fn earliest(&self) -> Position;

    /// Whether writes can succeed now.
    fn health(&self) -> Health;
}
