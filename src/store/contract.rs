//! What a store must do.

use std::{
    future::{Future, ready},
    pin::Pin,
    sync::Arc,
};

use futures_util::{StreamExt, TryStreamExt, stream};

use super::{
    census::Counted,
    found::{Found, FoundNode, Range},
    gate::Gate,
    health::Health,
    history::{Feed, History, Position},
    identity::{Meta, Raise, SecretBytes, Witness},
    tie::Tie,
    write::{NodeOutcome, Write, WriteOutcome},
};
use crate::lease::{Epoch, Key, Level, NodeRecord, Nonce, Policies, Revision, StoreError};

/// How many keys are read at the same time, where the store reads one by one.
const READS_AT_ONCE: usize = 64;

/// A future that a store returns.
pub type StoreFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A store of lease records: compare-and-set, reads, and an ordered history.
///
/// Every future resolves within a few seconds, also while the store is unreachable. A store sends a conditional
/// write once and never repeats it by itself.
pub trait LeaseStore: Send + Sync + 'static {
    /// What the store knows about itself: identity, epoch and secret.
    fn meta(&self) -> Arc<Meta>;

    /// The bytes behind [`Meta::secret`], for a backup. `None` if this store cannot be backed up.
    fn secret_bytes(&self) -> Option<SecretBytes> {
        None
    }

    /// Reads one key's record; `None` if the key has none. The read sees every write, through whichever node,
    /// that was reported committed before the read was requested, unless a server that was cut off answers.
    fn read(&self, key: &Key) -> StoreFuture<Result<Option<Found>, StoreError>>;

    /// Writes a record if the key's revision is the expected one. Resolves when the write is durable.
    fn compare_and_set(&self, write: Write) -> StoreFuture<WriteOutcome>;

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

    /// The last keys that start with `prefix` and sort before `before`, in descending order, `limit` of them at
    /// most. `before` must start with `prefix`, or be [`end_of_prefix`](super::end_of_prefix). Some of the keys may
    /// have no record. What other nodes wrote a moment ago may be missing. `None` if the store reads forwards only.
    fn keys_before(&self, _prefix: &str, _before: Option<&str>, _limit: usize) -> Option<Vec<Key>> {
        None
    }

    /// Whether each [`Self::scan`] is paid for by the record.
    fn charges_scans(&self) -> bool {
        false
    }

    /// How many keys are in each state, and up to `most` keys whose fences failed, if the store keeps count. Records
    /// that other nodes wrote a moment ago may be missing. `None`: the caller must scan the records.
    fn census(&self, _most: usize) -> Option<Counted> {
        None
    }

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

    /// The end of the changes that the write of this revision made, if revisions are positions in the history.
    fn position_of(&self, _revision: Revision) -> Option<Position> {
        None
    }

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
    /// its epoch is above the one under which it froze. A store with another secret than the one that it was opened
    /// with freezes, and stays frozen until it is opened again.
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

    /// Gives the store this level, if it has a lower one and [`Self::own_revision`] is still `seen`. [`LeaseStore::meta`]
    /// names the store's level from now on. Before the call, the caller must have read `seen` and then found that every
    /// node knows the level. A node that registers later is refused if it does not. A store that keeps no level stays
    /// at the first one.
    fn raise_level(&self, _level: Level, _seen: Revision) -> StoreFuture<Result<(), StoreError>> {
        Box::pin(ready(Ok(())))
    }

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
