//! The DynamoDB store: one table that several nodes use.
//!
//! A lease is one item ([`layout`]). A compare-and-set is one conditional `PutItem` ([`mod@write`]). It is
//! never sent twice, and a failed condition returns the item that won. Some milliseconds after a write, its
//! changes go into a log in the same table, many changes at a time ([`mod@log`], [`tail`]). The log gives
//! them one order for all nodes. The appending sessions keep it free of duplicates and holes ([`state`]): an
//! entry can only follow the last one, so its writer has read all entries before. If a writer ends before it
//! has logged a change, the change stays in its item until another session logs it: one that overwrites the
//! item, or one that finds the writer's node dead ([`recover`]). `docs/dynamodb.md` describes the table's
//! layout, the cost of operations, and the required permissions.
//!
//! Guarantees:
//! - Of two writes that expect the same revision, at most one is committed.
//! - Reads are strongly consistent.
//! - A key's revisions strictly increase, also when an operator deletes its item and it is created again.
//! - Every node's feed and history deliver a key's changes in the order of `seq`, and say where some were
//!   lost.
//! - A conditional write is sent once.
//! - Every future resolves within a few seconds, also while the table is unreachable.
//! - If the table went backwards, was restored or was made again, nothing is granted until the epoch is
//!   raised.
//!
//! Does not guarantee:
//! - Increasing revisions of an item that an operator deletes within the flush interval of its last write, if
//!   the node that wrote it dies at the same moment.
//! - A place in the log for a write that was on the wire for longer than the others took to find its node
//!   dead, mark it dead, and read the whole table.
//!
//! Assumes:
//! - Nobody else writes into the table, except that an operator may delete items of leases.
//! - The table is in one region, or its regions are strongly consistent.

mod client;
mod command;
mod error;
mod guard;
mod health;
mod history;
mod layout;
mod load;
mod log;
mod meta;
mod nodes;
mod open;
mod options;
mod outbox;
mod own;
mod position;
mod read;
mod recover;
mod removals;
mod rights;
mod ring;
mod shared;
mod state;
mod streams;
mod table;
mod tail;
mod thread;
mod verify;
mod write;

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

pub use self::error::DynamoOpenError;
#[cfg(feature = "testing")]
pub use self::layout::fuzzing;
pub use self::options::Options;
pub use self::verify::findings;
use self::{
    layout::{LEASE, lease_pk},
    shared::DynamoShared,
    thread::Thread,
};
use super::{
    Feed, Found, FoundNode, Fresh, Gate, Health, History, LeaseStore, Meta, NodeOutcome, Position,
    Raise, Range, SecretBytes, SharedStore, StoreError, StoreFuture, Tie, Witness, Write,
    WriteOutcome, last_keys,
};
use crate::{
    clock::Clock,
    lease::{Epoch, Key, KeyState, Level, NodeRecord, Nonce, Policies, Revision},
    telemetry::Metrics,
};

/// The longest time that closing may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Keys that have a record, as far as the store knows.
    pub keys: u64,
    /// The number of the log's last entry that was read.
    pub log_head: u64,
    /// Writes whose changes are not in the log yet.
    pub unlogged: u64,
}

/// The DynamoDB store. Call [`Self::close`] before dropping it. When it is dropped, its thread ends at once, and
/// other nodes must log what it did not log.
#[derive(Debug)]
pub struct DynamoStore {
    shared: Arc<DynamoShared>,
    thread: Thread,
    max_keys: u64,
    closed: AtomicBool,
}

impl DynamoStore {
    /// Opens the store in a table, or creates it there. Reads the whole table.
    ///
    /// A store that went backwards since `witness`, or whose table is a copy, opens frozen.
    ///
    /// # Errors
    /// See [`DynamoOpenError`], whose text says what to do.
    pub async fn open(
        options: Options,
        fresh: Fresh,
        witness: Option<Witness>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Result<Arc<Self>, DynamoOpenError> {
        let thread = Thread::start()?;
        let max_keys = options.max_keys;
        let opening = thread.spawn(open::open(options, fresh, witness, clock, metrics));
        let ended = |e: tokio::task::JoinError| DynamoOpenError::Thread(std::io::Error::other(e));
        let shared = opening.await.map_err(ended)??;
        Ok(Arc::new(Self { shared, thread, max_keys, closed: AtomicBool::new(false) }))
    }

    /// Waits for the outcome of the writes that were sent, logs the waiting changes, removes this session from
    /// the log's list, and ends the thread. What is not settled within a few seconds is left to other nodes: the
    /// log keeps naming this session until its nodes are known to be gone and its items were read. Calling it
    /// again has no effect.
    pub async fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let closing = self.thread.spawn(async move { shared.take_leave(CLOSE_WITHIN).await });
        if let Ok(Err(why)) = closing.await {
            tracing::warn!(%why, "could not log the last changes; other nodes log them");
        }
        self.thread.stop();
    }

    /// Statistics for metrics and tests.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let state = self.shared.state();
        Stats {
            keys: state.keys.len() as u64,
            log_head: state.head,
            unlogged: state.outbox.waiting() as u64,
        }
    }

    /// Runs `work` on the store's thread. If the thread has ended, the result is that of `lost`.
    fn run<T, F>(
        &self,
        work: impl FnOnce(Arc<DynamoShared>) -> F,
        lost: impl FnOnce(StoreError) -> T + Send + 'static,
    ) -> StoreFuture<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let done = self.thread.spawn(work(Arc::clone(&self.shared)));
        Box::pin(async move {
            done.await
                .unwrap_or_else(|_| lost(StoreError::Unavailable("the store is closed".to_owned())))
        })
    }

    /// Why no request is sent any more, if so.
    fn refuse(&self) -> Option<StoreError> {
        let closed = self.closed.load(Ordering::Acquire);
        closed.then(|| StoreError::Unavailable("the store is closed".to_owned()))
    }
}

impl DynamoStore {
    /// Counts a new key while its write is being sent, if its policy limits the number of keys.
    fn admit(&self, write: &Write) -> Result<Option<Admission>, StoreError> {
        if write.expected != Revision::ABSENT || !self.shared.state().admit(&write.key)? {
            return Ok(None);
        }
        Ok(Some(Admission { shared: Arc::clone(&self.shared), key: write.key.clone() }))
    }
}

/// A new key counts as long as this exists. After that, its item counts.
struct Admission {
    shared: Arc<DynamoShared>,
    key: Key,
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.shared.state().settle(&self.key);
    }
}

impl LeaseStore for DynamoStore {
    fn meta(&self) -> Arc<Meta> {
        self.shared.meta()
    }

    fn secret_bytes(&self) -> Option<SecretBytes> {
        Some(self.shared.secret)
    }

    fn read(&self, key: &Key) -> StoreFuture<Result<Option<Found>, StoreError>> {
        let key = key.clone();
        self.run(|shared| async move { shared.read_lease(&key).await }, Err)
    }

    /// The write is being sent when this returns, whether or not the future is polled.
    fn compare_and_set(&self, write: Write) -> StoreFuture<WriteOutcome> {
        if let Some(why) = self.refuse() {
            return Box::pin(std::future::ready(WriteOutcome::Refused(why)));
        }
        let full = || self.shared.state().count_like(&write.key) >= self.max_keys;
        if write.expected == Revision::ABSENT && self.stats().keys >= self.max_keys && full() {
            let why = StoreError::too_many(&write.key, self.max_keys);
            return Box::pin(std::future::ready(WriteOutcome::Refused(why)));
        }
        let admission = match self.admit(&write) {
            Ok(admission) => admission,
            Err(why) => return Box::pin(std::future::ready(WriteOutcome::Refused(why))),
        };
        let work = |shared: Arc<DynamoShared>| async move {
            let outcome = shared.compare_and_set(write).await;
            drop(admission);
            outcome
        };
        self.run(work, WriteOutcome::Unknown)
    }

    fn bound_keys(&self, policies: &Arc<Policies>) {
        self.shared.state().bound_keys(policies);
    }

    fn forget(&self, key: &Key, expected: Revision) -> StoreFuture<Result<bool, StoreError>> {
        let key = key.clone();
        self.run(move |shared| async move { shared.forget(&key, expected).await }, Err)
    }

    fn scan(&self, range: Range) -> StoreFuture<Result<Vec<(Key, Found)>, StoreError>> {
        self.run(|shared| async move { shared.scan_leases(range).await }, Err)
    }

    fn keys_before(&self, prefix: &str, before: Option<&str>, limit: usize) -> Option<Vec<Key>> {
        Some(last_keys(&self.shared.state().keys, prefix, before, limit))
    }

    fn charges_scans(&self) -> bool {
        true
    }

    fn take_ties(&self) -> Option<Vec<Tie>> {
        self.shared.state().ties.take()
    }

    fn read_many(&self, keys: &[Key]) -> StoreFuture<Result<Vec<Option<Found>>, StoreError>> {
        let keys = keys.to_vec();
        self.run(|shared| async move { shared.read_leases(&keys).await }, Err)
    }

    fn feed(&self) -> Feed {
        self.shared.feed.subscribe()
    }

    fn history(&self, after: Position, limit: usize) -> StoreFuture<Result<History, StoreError>> {
        self.run(move |shared| async move { shared.history(after, limit).await }, Err)
    }

    fn latest(&self) -> Position {
        self.shared.state().latest
    }

    fn earliest(&self) -> Position {
        self.shared.state().earliest
    }

    fn health(&self) -> Health {
        match self.refuse() {
            Some(why) => Health::Degraded(why.to_string()),
            None => {
                let now = self.shared.clock.now();
                self.shared.recent_failures().health(now)
            }
        }
    }

    fn gate(&self, key: &Key, found: &Found) -> Option<Gate> {
        let record = found.record.as_ref().ok().filter(|record| record.state == KeyState::Held)?;
        let tenure = record.tenure.as_ref()?;
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Some(Gate::DynamoDb {
            table: self.shared.client.table.clone(),
            key: vec![pair("pk", &lease_pk(key)), pair("sk", LEASE)],
            expression: "#state = :held AND #token = :token AND #owner = :owner".to_owned(),
            names: vec![pair("#state", "state"), pair("#token", "token"), pair("#owner", "owner")],
            values: vec![
                (":held".to_owned(), "S", KeyState::Held.as_str().to_owned()),
                (":token".to_owned(), "N", record.token(found.revision).to_string()),
                (":owner".to_owned(), "S", tenure.owner.as_str().to_owned()),
            ],
        })
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        Some(self)
    }
}

impl SharedStore for DynamoStore {
    fn read_node(&self, incarnation: Nonce) -> StoreFuture<Result<Option<FoundNode>, StoreError>> {
        self.run(move |shared| async move { shared.read_node(incarnation).await }, Err)
    }

    fn write_node(&self, expected: Revision, record: NodeRecord) -> StoreFuture<NodeOutcome> {
        if let Some(why) = self.refuse() {
            return Box::pin(std::future::ready(NodeOutcome::Refused(why)));
        }
        let write = move |shared: Arc<DynamoShared>| async move {
            shared.write_node(expected, record).await
        };
        self.run(write, NodeOutcome::Unknown)
    }

    fn forget_node(
        &self,
        incarnation: Nonce,
        expected: Revision,
    ) -> StoreFuture<Result<(), StoreError>> {
        self.run(move |shared| async move { shared.forget_node(incarnation, expected).await }, Err)
    }

    fn scan_nodes(&self) -> StoreFuture<Result<Vec<FoundNode>, StoreError>> {
        let scan = |shared: Arc<DynamoShared>| async move {
            let nodes = shared.all_nodes().await?;
            shared.recover(&nodes);
            Ok(nodes.into_iter().map(|node| node.found).collect())
        };
        self.run(scan, Err)
    }

    fn refresh_meta(&self) -> StoreFuture<Result<Arc<Meta>, StoreError>> {
        self.run(|shared| async move { shared.refresh_meta().await }, Err)
    }

    fn own_revision(&self) -> StoreFuture<Result<Revision, StoreError>> {
        let read = |shared: Arc<DynamoShared>| async move {
            let own = shared.read_meta().await?;
            Ok(own.map_or(Revision::ABSENT, |own| own.revision))
        };
        self.run(read, Err)
    }

    fn register(&self, epoch: Epoch) -> StoreFuture<Result<bool, StoreError>> {
        self.run(move |shared| async move { shared.register(epoch).await }, Err)
    }

    fn raise_level(&self, level: Level, seen: Revision) -> StoreFuture<Result<(), StoreError>> {
        self.run(move |shared| async move { shared.raise_level(level, seen).await }, Err)
    }

    fn raise_epoch(&self, raise: Raise) -> StoreFuture<Result<(), StoreError>> {
        self.run(move |shared| async move { shared.raise_epoch(raise).await }, Err)
    }

    fn end_restore(&self) -> StoreFuture<Result<(), StoreError>> {
        self.run(|shared| async move { shared.end_restore().await }, Err)
    }

    fn is_restoring(&self) -> StoreFuture<Result<bool, StoreError>> {
        let read = |shared: Arc<DynamoShared>| async move {
            Ok(shared.read_meta().await?.is_some_and(|own| own.restoring))
        };
        self.run(read, Err)
    }

    fn witness(&self) -> Witness {
        self.shared.witness()
    }
}
