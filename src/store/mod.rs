//! The stores, and the contract between a store and the coordinator.
//!
//! Guarantees of every store:
//! - A write that was reported committed survives a crash.
//! - Of two writes that expect the same revision of a key, at most one is committed.
//! - The revisions of a key strictly increase, whatever happens.
//! - Changes are reported after their write is durable, and per key in the order of `seq`. A listener that
//!   missed changes is told so.
//!
//! Does not guarantee:
//! - That a read is fresh. A stale read can only make a compare-and-set fail.
//! - That a write whose outcome is [`Outcome::Unknown`] did not happen.
//!
//! Assumes: nobody else writes into the store.

#[cfg(feature = "dynamodb")]
pub mod dynamodb;
pub mod embedded;
#[cfg(feature = "nats")]
pub mod nats;
mod quotas;

use std::{
    fmt,
    future::{Future, ready},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, TryStreamExt, stream};

pub use crate::lease::StoreError;
use crate::lease::{
    Change, ChangeKind, ClusterSecret, CodecError, Epoch, Key, NodeRecord, Nonce, Policies, Record,
    Revision, State,
};

/// How many keys are read at the same time, where the store reads one by one.
const READS_AT_ONCE: usize = 64;

/// The record of a session that has ended, or of a forgotten key, is removed after this time.
pub(crate) const RETENTION: Duration = Duration::from_secs(300);

/// [`RETENTION`], unless a test sets a shorter time.
pub(crate) fn retention() -> Duration {
    #[cfg(any(test, feature = "testing"))]
    if let Some(ms) = std::env::var("TENURE_TEST_RETENTION_MS").ok().and_then(|ms| ms.parse().ok())
    {
        return Duration::from_millis(ms);
    }
    RETENTION
}

/// A future that a store returns.
pub type StoreFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A compare-and-set of one key's record, with the changes that the record makes.
#[derive(Clone, Debug)]
pub struct Write {
    /// The key of the record.
    pub key: Key,
    /// The revision that the caller judged; [`Revision::ABSENT`] for a key without a record.
    pub expected: Revision,
    /// The new record.
    pub record: Arc<Record>,
    /// At most two: how the old tenure ended, and how the new one began.
    pub changes: Vec<Change>,
}

/// The outcome of a [`Write`].
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Durable, under this revision.
    Committed(Revision),
    /// Not written: the key's record has another revision. The value is the record that was found instead.
    Conflict(Option<Found>),
    /// Not written, and never will be.
    Refused(StoreError),
    /// Written, or not, or written later: only a read tells.
    Unknown(StoreError),
}

/// A record that was read, with the revision of its write.
#[derive(Clone, Debug)]
pub struct Found {
    /// The revision of the write.
    pub revision: Revision,
    /// The record, or why it cannot be judged. An unreadable record means that an unknown owner holds the key.
    pub record: Result<Arc<Record>, crate::lease::CodecError>,
}

/// How many records a store holds. Sessions and keys have separate limits: neither takes room from the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Keys of leases.
    pub keys: u64,
    /// Sessions. A session counts until five minutes after its end.
    pub sessions: u64,
}

impl Counts {
    /// One record, of the kind that this key is.
    #[must_use]
    pub fn one(key: &Key) -> Self {
        let session = u64::from(key.is_session());
        Self { keys: 1 - session, sessions: session }
    }

    /// How many records there are of the kind that this key is.
    #[must_use]
    pub fn of(self, key: &Key) -> u64 {
        if key.is_session() { self.sessions } else { self.keys }
    }
}

impl std::ops::Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { keys: self.keys + other.keys, sessions: self.sessions + other.sessions }
    }
}

/// A committed change.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Its place in the store's order.
    pub position: Position,
    /// The key that changed.
    pub key: Key,
    /// The incarnation that wrote it; zero in a store that only one process uses.
    pub node: Nonce,
    /// The change, with its token resolved.
    pub change: Change,
    /// Wall clock at the commit, milliseconds since 1970; for people only.
    pub at_ms: u64,
}

/// A place in the store's history, the same for every node on the store: the number of an entry, and the index of
/// a change in it. An entry is one write in stores with global revisions, and a batch of changes in the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The number of the entry.
    pub revision: Revision,
    /// The change's index in its entry.
    pub index: u32,
}

/// What [`LeaseStore::history`] found.
#[derive(Clone, Debug)]
pub enum History {
    /// The changes after the position, oldest first, at most as many as the caller asked for. Empty if there are
    /// none yet.
    Changes(Vec<Committed>),
    /// The changes that followed the position are no longer kept. Continue after `resume`.
    Gap {
        /// The latest position when the store was asked.
        resume: Position,
    },
}

/// Which keys a scan returns: those that start with `prefix` and sort after `after`, at most `limit` of them.
#[derive(Clone, Debug, Default)]
pub struct Range {
    /// Only keys that start with this.
    pub prefix: String,
    /// Only keys that sort after this.
    pub after: Option<String>,
    /// The highest number of keys to return.
    pub limit: usize,
}

/// Whether a session keeps a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tie {
    /// The lease.
    pub key: Key,
    /// The session.
    pub session: Nonce,
    /// The number of the key's change that made it so.
    pub seq: u64,
    /// `true`: the session keeps the lease. `false`: it no longer does.
    pub kept: bool,
}

impl Tie {
    /// The tie that a change of a lease makes or ends.
    #[must_use]
    pub fn of_change(key: &Key, change: &Change) -> Option<Self> {
        let kept = change.kind == ChangeKind::Granted;
        let tie = Self { key: key.clone(), session: change.session?, seq: change.seq, kept };
        (kept || change.kind.ends_tenure()).then_some(tie)
    }

    /// The tie that a record holds.
    #[must_use]
    pub fn of_record(key: &Key, record: &Record) -> Option<Self> {
        let bond = record.bond().filter(|_| record.state == State::Held)?;
        Some(Self { key: key.clone(), session: bond.session, seq: record.seq, kept: true })
    }
}

/// What a feed delivers.
#[derive(Clone, Debug)]
pub enum News {
    /// Committed changes, in the store's order.
    Changes(Arc<[Committed]>),
    /// Some changes before this position were lost. Listeners must be told.
    Gap {
        /// Everything after this position follows.
        resume: Position,
    },
}

/// Live batches of committed changes of all nodes, in the store's order. A receiver that lagged must read
/// [`LeaseStore::history`].
pub type Feed = tokio::sync::broadcast::Receiver<News>;

/// What a store knows about itself.
#[derive(Clone, Debug)]
pub struct Meta {
    /// Differs between any two stores, also between a store and a restored backup of it.
    pub identity: Nonce,
    /// The generation of tokens.
    pub epoch: Epoch,
    /// Wall clock at creation, milliseconds since 1970.
    pub created_ms: u64,
    /// The secret that lease ids are derived from.
    pub secret: ClusterSecret,
}

/// The bytes that a store's lease ids are derived from. Only a backup needs them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SecretBytes(pub [u8; 32]);

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBytes(…)")
    }
}

/// The values that a new store is created with. They have no effect on an existing store.
#[derive(Clone)]
pub struct Fresh {
    /// The identity of the new store.
    pub identity: Nonce,
    /// 32 random bytes that lease ids are derived from.
    pub secret: [u8; 32],
    /// Wall clock, milliseconds since 1970.
    pub created_ms: u64,
}

impl fmt::Debug for Fresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fresh").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// Whether the store can be written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The store accepts writes.
    Ready,
    /// The store accepts no writes for now. The text gives the reason in one sentence for people.
    Degraded(String),
    /// The store went backwards, or is another store than before. Nothing may be granted until an operator has
    /// raised the epoch. The text gives the reason in one sentence for people.
    Frozen(String),
}

/// What a node remembers of a store from one run to the next. It is how the node notices that the store went
/// backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The identity of the store.
    pub identity: Nonce,
    /// Its generation of tokens.
    pub epoch: Epoch,
    /// The highest entry of the store's history that the node saw.
    pub highest: Revision,
}

/// A condition that an application adds to its own write into the same store. The write then fails unless the
/// tenure is still the current one (§8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// A `ConditionCheck` in a `TransactWriteItems`.
    DynamoDb {
        /// The table.
        table: String,
        /// The key of the item: attribute names and string values.
        key: Vec<(String, String)>,
        /// The `ConditionExpression`.
        expression: String,
        /// The `ExpressionAttributeNames`.
        names: Vec<(String, String)>,
        /// The `ExpressionAttributeValues`: the name, the type (`S` or `N`), the value.
        values: Vec<(String, &'static str, String)>,
    },
    /// Headers of a JetStream publish into the bucket's stream.
    Nats {
        /// The stream.
        stream: String,
        /// The application may publish under the condition to subjects that start with this.
        publish_prefix: String,
        /// The lease's subject.
        subject: String,
        /// The sequence that must still be the subject's last.
        expected_last_sequence: u64,
    },
}

/// A node's record as it was read.
#[derive(Clone, Debug)]
pub struct FoundNode {
    /// The incarnation of the node.
    pub incarnation: Nonce,
    /// The revision of the write.
    pub revision: Revision,
    /// The record, or why it cannot be judged. A node whose record cannot be judged counts as alive.
    pub record: Result<NodeRecord, CodecError>,
}

/// The outcome of a write of a node's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeOutcome {
    /// Durable, under this revision.
    Committed(Revision),
    /// Not written: the record has another revision.
    Conflict,
    /// Not written, and never will be.
    Refused(StoreError),
    /// Written, or not, or written later.
    Unknown(StoreError),
}

/// A store of lease records: compare-and-set, reads, and an ordered history.
///
/// Every future resolves within a few seconds, also while the store is unreachable. A store sends a conditional
/// write once and never repeats it by itself.
pub trait LeaseStore: Send + Sync + 'static {
    /// The store's own record.
    fn meta(&self) -> Arc<Meta>;

    /// The bytes behind [`Meta::secret`], for a backup. `None` if this store cannot be backed up.
    fn secret_bytes(&self) -> Option<SecretBytes> {
        None
    }

    /// Reads one key's record; `None` if the key has none. The read sees every write, through whichever node,
    /// that was reported committed before the read was requested.
    fn read(&self, key: &Key) -> StoreFuture<Result<Option<Found>, StoreError>>;

    /// Writes a record if the key's revision is the expected one. Resolves when the write is durable.
    fn compare_and_set(&self, write: Write) -> StoreFuture<Outcome>;

    /// From now on, refuses new keys beyond what their policies allow ([`StoreError::PolicyFull`]). A store that
    /// several nodes use counts the keys that it knows of. This call may look at all keys of the policies that
    /// have a limit.
    fn bound_keys(&self, _policies: &Arc<Policies>) {}

    /// Removes the record of a session that has ended, or of a forgotten key, if its revision is the expected
    /// one. Returns whether the key has no record now. The caller must first wait until every write sent earlier
    /// has landed or can no longer land: after the removal, a late first grant finds no record in its way. Later
    /// revisions of the key are above the earlier ones. The changes that the record made stay in the history as
    /// long as others do, or go with the record.
    fn forget(&self, key: &Key, expected: Revision) -> StoreFuture<Result<bool, StoreError>>;

    /// The keys of a range in byte order, with their records. What other nodes wrote a moment ago may be missing.
    fn scan(&self, range: Range) -> StoreFuture<Result<Vec<(Key, Found)>, StoreError>>;

    /// What sessions kept when the store last read all records by itself, with the changes since then. Only the
    /// first call after such a read gets it. `None`: the caller must scan the records.
    fn take_ties(&self) -> Option<Vec<Tie>> {
        None
    }

    /// Reads the records of several keys, in the order of the keys. Each is as fresh as one by [`Self::read`].
    fn read_many(&self, keys: &[Key]) -> StoreFuture<Result<Vec<Option<Found>>, StoreError>> {
        let reads: Vec<_> = keys.iter().map(|key| self.read(key)).collect();
        Box::pin(stream::iter(reads).buffered(READS_AT_ONCE).try_collect())
    }

    /// Committed changes from now on.
    fn feed(&self) -> Feed;

    /// Committed changes after a position, at most `limit`.
    fn history(&self, after: Position, limit: usize) -> StoreFuture<Result<History, StoreError>>;

    /// The position of the latest change that the feed brought.
    fn latest(&self) -> Position;

    /// The position after which every change is still kept, as far as the store knows.
    fn earliest(&self) -> Position;

    /// Whether the store accepts writes now.
    fn health(&self) -> Health;

    /// The condition that an application can put on its own write. `None` where `/v1/check` is the only way.
    fn gate(&self, _key: &Key, _found: &Found) -> Option<Gate> {
        None
    }

    /// The additional operations of a store that several nodes use; `None` for a store that only one process uses
    /// (R10).
    fn shared(&self) -> Option<&dyn SharedStore> {
        None
    }
}

/// How to raise the epoch.
#[derive(Clone, Copy, Debug)]
pub struct Raise {
    /// The store's new identity.
    pub identity: Nonce,
    /// The new epoch. It must be above the current one.
    pub epoch: Epoch,
    /// [`SharedStore::own_revision`] must still be this one.
    pub seen: Revision,
    /// A restore fills the store from now on. Until [`SharedStore::end_restore`], it can be opened only to
    /// restore it, and coordinators that have it open are frozen.
    pub restoring: bool,
}

/// The additional operations of a store that several nodes use.
pub trait SharedStore: Send + Sync {
    /// Reads one node's record. The read is as fresh as [`LeaseStore::read`].
    fn read_node(&self, incarnation: Nonce) -> StoreFuture<Result<Option<FoundNode>, StoreError>>;

    /// Writes the record of the incarnation that it names, if its revision is the expected one
    /// ([`Revision::ABSENT`] for a new record). Sends the write once. Where each record counts its own writes, a
    /// terminal record is never overwritten, because a store that went backwards gives a revision twice.
    fn write_node(&self, expected: Revision, record: NodeRecord) -> StoreFuture<NodeOutcome>;

    /// Removes a node's record, if its revision is the expected one.
    fn forget_node(
        &self,
        incarnation: Nonce,
        expected: Revision,
    ) -> StoreFuture<Result<(), StoreError>>;

    /// Reads every node's record. The read is as fresh as [`LeaseStore::read`].
    fn scan_nodes(&self) -> StoreFuture<Result<Vec<FoundNode>, StoreError>>;

    /// Reads the store's own record again. [`LeaseStore::meta`] returns it from now on. A frozen store thaws if
    /// its epoch is above the one under which it froze.
    fn refresh_meta(&self) -> StoreFuture<Result<Arc<Meta>, StoreError>>;

    /// The revision of the store's own record. Each [`Self::register`] and each raised epoch changes it.
    fn own_revision(&self) -> StoreFuture<Result<Revision, StoreError>>;

    /// Changes [`Self::own_revision`] if the store has this epoch. Returns whether it has.
    ///
    /// A node registers after its first record is durable and before it promises anything. If a node registers
    /// while an operator raises the epoch, one of them notices the other: either the raise fails, or this call
    /// returns `false` to the node.
    fn register(&self, epoch: Epoch) -> StoreFuture<Result<bool, StoreError>>;

    /// Gives the store another identity and a higher epoch. Before the call, the caller must have read
    /// [`Raise::seen`] and then found that no node of a lower epoch is alive.
    fn raise_epoch(&self, raise: Raise) -> StoreFuture<Result<(), StoreError>>;

    /// Ends the restore that a [`Raise`] began, once everything is in the store. Fails if another restore has
    /// begun since.
    fn end_restore(&self) -> StoreFuture<Result<(), StoreError>> {
        Box::pin(ready(Ok(())))
    }

    /// Whether a restore has begun and has not ended.
    fn is_restoring(&self) -> StoreFuture<Result<bool, StoreError>> {
        Box::pin(ready(Ok(false)))
    }

    /// What to remember of the store until the next run.
    fn witness(&self) -> Witness;
}

/// Why raising the epoch fails: a node registered after the caller had read the store's own record.
#[cfg(any(feature = "nats", feature = "dynamodb"))]
const REGISTERED: &str =
    "a node started meanwhile. Stop every coordinator of the store, and run the command again";

/// Why a node freezes when it finds the mark of a [`Raise`] for a restore.
#[cfg(any(feature = "nats", feature = "dynamodb"))]
const RESTORING: &str = "a restore into it is under way, or was cut off: the store is incomplete. \
                         If no restore is running, run the same `tenure restore` again";
