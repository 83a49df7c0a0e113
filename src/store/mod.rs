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

/// Keys that are read at a time, where the store reads one by one.
const READS_AT_ONCE: usize = 64;

/// The record of a session that is over, or of a key that was forgotten, is removed after this time.
pub(crate) const BURIAL: Duration = Duration::from_secs(300);

/// [`BURIAL`], unless a test is in a hurry.
pub(crate) fn burial() -> Duration {
    #[cfg(any(test, feature = "testing"))]
    if let Some(ms) = std::env::var("TENURE_TEST_BURIAL_MS").ok().and_then(|ms| ms.parse().ok()) {
        return Duration::from_millis(ms);
    }
    BURIAL
}

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

/// How many records a store keeps. Sessions are bounded apart from keys: neither uses up the other's room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Keys of leases.
    pub keys: u64,
    /// Sessions, until five minutes after their end.
    pub sessions: u64,
}

impl Counts {
    /// One record more of this key's sort.
    #[must_use]
    pub fn one(key: &Key) -> Self {
        let session = u64::from(key.is_session());
        Self { keys: 1 - session, sessions: session }
    }

    /// How many there are of this key's sort.
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
    /// Where it stands in the store's order.
    pub position: Position,
    /// Whose change.
    pub key: Key,
    /// The incarnation that wrote it; zero in a store that only one process uses.
    pub node: Nonce,
    /// The change, its token resolved.
    pub change: Change,
    /// Wall clock at the commit, milliseconds since 1970; for people only.
    pub at_ms: u64,
}

/// A place in the store's history, the same for every node on it: the number of an entry, and which
/// of its changes. An entry is a write where revisions are global, else a batch of changes.
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

/// That a session keeps a lease, or does not any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tie {
    /// The lease.
    pub key: Key,
    /// The session.
    pub session: Nonce,
    /// The key's change after which it is so.
    pub seq: u64,
    /// Whether the session keeps it.
    pub kept: bool,
}

impl Tie {
    /// What a change of a lease says.
    #[must_use]
    pub fn of_change(key: &Key, change: &Change) -> Option<Self> {
        let kept = change.kind == ChangeKind::Granted;
        let tie = Self { key: key.clone(), session: change.session?, seq: change.seq, kept };
        (kept || change.kind.ends_tenure()).then_some(tie)
    }

    /// What a record says.
    #[must_use]
    pub fn of_record(key: &Key, record: &Record) -> Option<Self> {
        let bond = record.bond().filter(|_| record.state == State::Held)?;
        Some(Self { key: key.clone(), session: bond.session, seq: record.seq, kept: true })
    }
}

/// What a feed brings.
#[derive(Clone, Debug)]
pub enum News {
    /// Committed changes, in the store's order.
    Changes(Arc<[Committed]>),
    /// Some changes before this position were lost: listeners are to be told so.
    Gap {
        /// Everything after this position follows.
        resume: Position,
    },
}

/// Live batches of committed changes, by whichever node, in the store's order. A receiver that lagged
/// reads [`LeaseStore::history`].
pub type Feed = tokio::sync::broadcast::Receiver<News>;

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

/// The bytes that a store's lease ids are derived from. Only a backup has to know them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SecretBytes(pub [u8; 32]);

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBytes(…)")
    }
}

/// What a new store is made with; of no effect on one that exists.
#[derive(Clone)]
pub struct Fresh {
    /// Names the store.
    pub identity: Nonce,
    /// 32 random bytes, which lease ids are derived from.
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
    /// It can.
    Ready,
    /// It cannot for now; why, in one sentence for people.
    Degraded(String),
    /// It went backwards, or is another one than before: nothing may be granted until an operator
    /// raised the epoch. Why, in one sentence for people.
    Frozen(String),
}

/// What a node remembers of a store from one run to the next, so that it notices when the store went
/// backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Which store it was.
    pub identity: Nonce,
    /// Its generation of tokens.
    pub epoch: Epoch,
    /// The highest entry of its history that was seen.
    pub highest: Revision,
}

/// What an application puts beside a write of its own into the same store, so that the write fails
/// unless the tenure is still the current one (§8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// A `ConditionCheck` of a `TransactWriteItems`.
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
        /// Subjects that the application may publish to under the condition start with this.
        publish_prefix: String,
        /// The lease's subject.
        subject: String,
        /// The sequence that must still be its last.
        expected_last_sequence: u64,
    },
}

/// A node's record that was read.
#[derive(Clone, Debug)]
pub struct FoundNode {
    /// Which incarnation.
    pub incarnation: Nonce,
    /// The revision of the write.
    pub revision: Revision,
    /// The record, or why it cannot be judged: such a node counts as living.
    pub record: Result<NodeRecord, CodecError>,
}

/// What became of a write of a node's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeOutcome {
    /// Durable, as this revision.
    Committed(Revision),
    /// Not written: the record has another revision.
    Conflict,
    /// Not written, and never will be.
    Refused(StoreError),
    /// Perhaps written, perhaps to be written yet.
    Unknown(StoreError),
}

/// A store of lease records: compare-and-set, reads, and an ordered history.
///
/// Every future resolves within some seconds, also while the store is out of reach. Nothing is
/// written twice behind the caller's back: a conditional write is sent once.
pub trait LeaseStore: Send + Sync + 'static {
    /// The store's own record.
    fn meta(&self) -> Arc<Meta>;

    /// The bytes behind [`Meta::secret`], for a backup; `None`: this store cannot be backed up.
    fn secret_bytes(&self) -> Option<SecretBytes> {
        None
    }

    /// Reads one key's record; `None` when the key was never written. Sees every write that was
    /// reported committed, to whichever node, before the read was asked for.
    fn read(&self, key: &Key) -> StoreFuture<Result<Option<Found>, StoreError>>;

    /// Writes a record if the key's revision is the expected one. Resolves when the write is durable.
    fn compare_and_set(&self, write: Write) -> StoreFuture<Outcome>;

    /// Refuses new keys beyond what their policies allow from now on ([`StoreError::PolicyFull`]). A store that several
    /// nodes use counts what it knows of. May look at all keys of the policies that have a bound.
    fn bound_keys(&self, _policies: &Arc<Policies>) {}

    /// Removes the record of a session that is over, or of a key that was forgotten, if its revision is the expected
    /// one. Whether there is none any more. Not before every write that was sent earlier has landed or cannot: a first
    /// grant finds no record in its way. Revisions go on above what they were. Changes that the record made stay in the
    /// history for as long as others do, or go with it.
    fn forget(&self, key: &Key, expected: Revision) -> StoreFuture<Result<bool, StoreError>>;

    /// Keys of a range in byte order, with their records; what other nodes wrote a moment ago may be
    /// missing.
    fn scan(&self, range: Range) -> StoreFuture<Result<Vec<(Key, Found)>, StoreError>>;

    /// What sessions kept when the store last read all records by itself, and the changes since, for whoever asks
    /// first; `None` where nobody did: they are to be scanned.
    fn take_ties(&self) -> Option<Vec<Tie>> {
        None
    }

    /// Reads the records of several keys, in their order; each as fresh as by [`Self::read`].
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

    /// The position after which every change is still kept, as far as is known.
    fn earliest(&self) -> Position;

    /// Whether writes can succeed now.
    fn health(&self) -> Health;

    /// What an application's own write can be gated on; `None` where only `/v1/check` can be asked.
    fn gate(&self, _key: &Key, _found: &Found) -> Option<Gate> {
        None
    }

    /// What several nodes need of it; `None` for a store that only one process uses (R10).
    fn shared(&self) -> Option<&dyn SharedStore> {
        None
    }
}

/// How an epoch is raised.
#[derive(Clone, Copy, Debug)]
pub struct Raise {
    /// The store's new identity.
    pub identity: Nonce,
    /// The new epoch, which must be above the one of before.
    pub epoch: Epoch,
    /// [`SharedStore::own_revision`] must still be this one.
    pub seen: Revision,
    /// A restore fills the store from now on: until [`SharedStore::end_restore`] it is opened only to be restored, and
    /// who has it open is frozen.
    pub restoring: bool,
}

/// What a store that several nodes use offers besides.
pub trait SharedStore: Send + Sync {
    /// Reads one node's record; as fresh as [`LeaseStore::read`].
    fn read_node(&self, incarnation: Nonce) -> StoreFuture<Result<Option<FoundNode>, StoreError>>;

    /// Writes the record of the incarnation that it names, if its revision is the expected one;
    /// [`Revision::ABSENT`] for a new one. Sent once. Where each record counts its own writes, a terminal record is never
    /// written over: a store that went backwards gives its revision twice.
    fn write_node(&self, expected: Revision, record: NodeRecord) -> StoreFuture<NodeOutcome>;

    /// Removes a node's record, if its revision is the expected one.
    fn forget_node(
        &self,
        incarnation: Nonce,
        expected: Revision,
    ) -> StoreFuture<Result<(), StoreError>>;

    /// Every node's record; as fresh as [`LeaseStore::read`].
    fn scan_nodes(&self) -> StoreFuture<Result<Vec<FoundNode>, StoreError>>;

    /// Reads the store's own record again: [`LeaseStore::meta`] is this from now on. A store that was
    /// frozen thaws when its epoch is above the one under which it froze.
    fn refresh_meta(&self) -> StoreFuture<Result<Arc<Meta>, StoreError>>;

    /// The revision of the store's own record. Each [`Self::register`] and each raised epoch changes it.
    fn own_revision(&self) -> StoreFuture<Result<Revision, StoreError>>;

    /// Changes [`Self::own_revision`] if the store's epoch is this one. Returns whether it is.
    ///
    /// A node registers after its first record is durable and before it promises anything. Of a node that registers
    /// and an operator who raises the epoch at the same time, one notices the other: either the raise fails, or the
    /// node is told `false`.
    fn register(&self, epoch: Epoch) -> StoreFuture<Result<bool, StoreError>>;

    /// Gives the store another identity and a higher epoch. The caller must have found that no node of a lower epoch is
    /// alive after it read [`Raise::seen`].
    fn raise_epoch(&self, raise: Raise) -> StoreFuture<Result<(), StoreError>>;

    /// Everything is there, after a [`Raise`] for a restore. Fails where another restore was begun since.
    fn end_restore(&self) -> StoreFuture<Result<(), StoreError>> {
        Box::pin(ready(Ok(())))
    }

    /// Whether a restore was begun and has not ended.
    fn is_restoring(&self) -> StoreFuture<Result<bool, StoreError>> {
        Box::pin(ready(Ok(false)))
    }

    /// What to remember of the store until the next run.
    fn witness(&self) -> Witness;
}

/// Why a raise of the epoch fails that did not see a node which registered since.
#[cfg(any(feature = "nats", feature = "dynamodb"))]
const REGISTERED: &str =
    "a node started meanwhile. Stop every coordinator of the store, and run the command again";

/// Why a node freezes that finds the mark of a [`Raise`] for a restore.
#[cfg(any(feature = "nats", feature = "dynamodb"))]
const RESTORING: &str = "a restore into it is under way, or was cut off: it does not hold everything. Where no restore \
                         runs, run the same `tenure restore` again";
