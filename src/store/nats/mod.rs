//! The store on a NATS JetStream key-value bucket, which several nodes share.
//!
//! One stream holds the bucket ([`bucket`]). Each key has a subject ([`subject`]), whose last message is the
//! key's record with the changes that the record made ([`message`]). A write is a publish that expects the
//! subject's last sequence ([`mod@write`]), and the sequence of the write is its revision. One consumer per
//! node ([`follow`]) delivers everything that any node writes. From it, the store keeps an index of all keys
//! and the latest changes ([`table`]). Older changes are replayed from the stream ([`history`]). Everything
//! runs on the store's own thread ([`open`]), so that callers may be on any runtime.
//!
//! Guarantees:
//! - Of two writes that expect the same revision of a key, at most one is stored.
//! - Revisions strictly increase unless the stream is lost. The store notices that ([`guard`]) and freezes.
//! - A conditional publish is handed to the connection once, and its outcome is reported within a few times
//!   the request time-out.
//! - A listener that missed changes is told so.
//! - A message that cannot be read affects only its own key.
//!
//! Does not guarantee:
//! - More durability than the stream has. It depends on what its servers sync and how many copies they keep.
//! - That a write of unknown outcome will not be stored later, when the connection is back.
//! - That a server which was cut off from its peers notices at once that it no longer leads. For some seconds
//!   it may answer reads from old data.
//!
//! Assumes: nobody else writes below `l.`, `n.` and `meta`. An operator may remove a key there, which then
//! reads as absent. Applications may publish below `app.` (§8).

mod bucket;
mod connect;
mod core;
mod credentials;
mod epoch;
mod error;
mod follow;
mod guard;
mod history;
mod link;
mod message;
mod meta;
mod nodes;
mod open;
mod options;
mod subject;
mod table;
mod verify;
mod write;

use std::{
    future::ready,
    sync::{Arc, Mutex},
};

use tokio::sync::oneshot;

pub(crate) use self::connect::client;
#[cfg(feature = "testing")]
pub use self::subject::fuzzing;
use self::{
    core::{Core, lock},
    open::{Opening, Stop},
};
pub use self::{
    error::NatsOpenError,
    options::{DEFAULT_HISTORY, DEFAULT_REQUEST_TIMEOUT, MAX_HISTORY, Options, Tls},
    verify::findings,
};
use super::{
    Counted, Feed, Found, FoundNode, Fresh, Gate, Health, History, LeaseStore, Meta, NodeOutcome,
    Position, Raise, Range, SecretBytes, SharedStore, StoreError, StoreFuture, Witness, Write,
    WriteOutcome,
};
use crate::{
    clock::Clock,
    lease::{Epoch, Key, KeyState, Level, NodeRecord, Nonce, Policies, Revision},
    telemetry::Metrics,
};

/// A scan holds the lock of the table for this many records at a time.
const SCAN_CHUNK: usize = 1024;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub keys: u64,
    /// Bytes of their latest messages.
    pub live_bytes: u64,
}

/// The store on a bucket. Its thread ends when it is closed or dropped.
pub struct NatsStore {
    core: Arc<Core>,
    max_keys: u64,
    stop: Mutex<Option<Stop>>,
}

impl NatsStore {
    /// Opens a bucket. Creates it if it is missing and the options allow that. Returns once every key's record is
    /// in memory. A store that went backwards is opened frozen.
    ///
    /// # Errors
    /// See [`NatsOpenError`], whose text says what to do.
    pub async fn open(
        options: Options,
        fresh: Fresh,
        witness: Option<Witness>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Result<Arc<Self>, NatsOpenError> {
        let max_keys = options.max_keys;
        let opening = Opening { options, fresh, witness, clock, metrics };
        let (core, stop) = open::open(opening).await?;
        Ok(Arc::new(Self { core, max_keys, stop: Mutex::new(Some(stop)) }))
    }

    /// Refuses new requests, settles those in flight, and ends the connection, within a few seconds. Calling it
    /// again has no effect.
    pub async fn close(&self) {
        self.core.condition().closed = true;
        let stop = lock(&self.stop).take();
        let Some(stop) = stop else { return };
        let (done, ended) = oneshot::channel();
        if stop.send(done).is_ok() {
            // An error means that the thread ended without an answer. It has ended either way.
            let _ = ended.await;
        }
    }

    /// Statistics for metrics and tests.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let table = self.core.table();
        Stats { keys: table.keys(), live_bytes: table.live_bytes() }
    }
}

impl NatsStore {
    /// Counts a new key while its write is being sent, if its policy limits the number of keys.
    fn admit(&self, write: &Write) -> Result<Option<Admission>, StoreError> {
        let new = write.expected == Revision::ABSENT && self.core.table().bounds(&write.key);
        if !new || !self.core.table_mut().admit(&write.key)? {
            return Ok(None);
        }
        Ok(Some(Admission { core: Arc::clone(&self.core), key: write.key.clone() }))
    }
}

/// A new key counts as long as this exists. After that, its record counts.
struct Admission {
    core: Arc<Core>,
    key: Key,
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.core.table_mut().settle(&self.key);
    }
}

impl std::fmt::Debug for NatsStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NatsStore").field("options", &self.core.options).finish_non_exhaustive()
    }
}

fn unread<T>(why: StoreError, _begun: bool) -> Result<T, StoreError> {
    Err(why)
}

/// Reads are answered by the stream's leader, scans from memory.
impl LeaseStore for NatsStore {
    fn meta(&self) -> Arc<Meta> {
        self.core.meta()
    }

    fn secret_bytes(&self) -> Option<SecretBytes> {
        Some(SecretBytes(lock(&self.core.origin).secret))
    }

    fn read(&self, key: &Key) -> StoreFuture<Result<Option<Found>, StoreError>> {
        self.core.run(write::read(Arc::clone(&self.core), key.clone()), unread)
    }

    /// The write is being sent when this returns, whether or not the future is polled.
    fn compare_and_set(&self, write: Write) -> StoreFuture<WriteOutcome> {
        let full = || self.core.table().counts().of(&write.key) >= self.max_keys;
        if write.expected == Revision::ABSENT && full() {
            return Box::pin(ready(WriteOutcome::Refused(StoreError::too_many(
                &write.key,
                self.max_keys,
            ))));
        }
        let Some(encoded) = message::encode(&write, self.core.clock.wall_ms()) else {
            let why = StoreError::TooLong("its length does not fit into a message".to_owned());
            return Box::pin(ready(WriteOutcome::Refused(why)));
        };
        let admission = match self.admit(&write) {
            Ok(admission) => admission,
            Err(why) => return Box::pin(ready(WriteOutcome::Refused(why))),
        };
        let work = write::compare_and_set(Arc::clone(&self.core), write, encoded);
        let work = async move {
            let outcome = work.await;
            drop(admission);
            outcome
        };
        self.core.run(work, |why, begun| {
            if begun { WriteOutcome::Unknown(why) } else { WriteOutcome::Refused(why) }
        })
    }

    fn bound_keys(&self, policies: &Arc<Policies>) {
        self.core.table_mut().bound_keys(policies);
    }

    fn forget(&self, key: &Key, expected: Revision) -> StoreFuture<Result<bool, StoreError>> {
        self.core.run(write::forget(Arc::clone(&self.core), key.clone(), expected), unread)
    }

    fn scan(&self, mut range: Range) -> StoreFuture<Result<Vec<(Key, Found)>, StoreError>> {
        let mut found = Vec::new();
        while found.len() < range.limit {
            let want = SCAN_CHUNK.min(range.limit - found.len());
            let chunk = self.core.table().scan(&range, want);
            let last = chunk.len() < want;
            found.extend(table::decode(chunk));
            match found.last() {
                Some((key, _)) if !last => range.after = Some(key.as_str().to_owned()),
                _ => break,
            }
        }
        Box::pin(ready(Ok(found)))
    }

    fn keys_before(&self, prefix: &str, before: Option<&str>, limit: usize) -> Option<Vec<Key>> {
        Some(self.core.table().keys_before(prefix, before, limit))
    }

    fn census(&self, most: usize) -> Option<Counted> {
        Some(self.core.table().census(most))
    }

    fn feed(&self) -> Feed {
        self.core.feed.subscribe()
    }

    fn history(&self, after: Position, limit: usize) -> StoreFuture<Result<History, StoreError>> {
        self.core.run(history::history(Arc::clone(&self.core), after, limit), unread)
    }

    fn latest(&self) -> Position {
        self.core.table().latest()
    }

    fn earliest(&self) -> Position {
        self.core.table().earliest()
    }

    fn position_of(&self, revision: Revision) -> Option<Position> {
        Some(Position { revision, index: u32::MAX })
    }

    fn health(&self) -> Health {
        self.core.health()
    }

    /// Every later write of the same tenure (a pin, a new value, an adoption) changes the sequence too. Then the
    /// gate fails although the tenure continues, and the application must request a new gate.
    fn gate(&self, key: &Key, found: &Found) -> Option<Gate> {
        let held = found.record.as_ref().is_ok_and(|record| record.state == KeyState::Held);
        let subjects = &self.core.link.subjects;
        held.then(|| Gate::Nats {
            stream: subjects.stream.clone(),
            publish_prefix: subjects.app.clone(),
            subject: subjects.lease(key),
            expected_last_sequence: found.revision.0,
        })
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        Some(self)
    }
}

impl SharedStore for NatsStore {
    fn read_node(&self, incarnation: Nonce) -> StoreFuture<Result<Option<FoundNode>, StoreError>> {
        let core = Arc::clone(&self.core);
        self.core.run(async move { nodes::read(&core.link, incarnation).await }, unread)
    }

    /// Also works while the store is frozen, so that a node can write that it is gone.
    fn write_node(&self, expected: Revision, record: NodeRecord) -> StoreFuture<NodeOutcome> {
        self.core.run(nodes::write(Arc::clone(&self.core), expected, record), |why, begun| {
            if begun { NodeOutcome::Unknown(why) } else { NodeOutcome::Refused(why) }
        })
    }

    fn forget_node(
        &self,
        incarnation: Nonce,
        expected: Revision,
    ) -> StoreFuture<Result<(), StoreError>> {
        self.core.run(nodes::forget(Arc::clone(&self.core), incarnation, expected), unread)
    }

    fn scan_nodes(&self) -> StoreFuture<Result<Vec<FoundNode>, StoreError>> {
        let core = Arc::clone(&self.core);
        self.core.run(async move { nodes::scan(&core.link).await }, unread)
    }

    fn refresh_meta(&self) -> StoreFuture<Result<Arc<Meta>, StoreError>> {
        self.core.run(epoch::refresh(Arc::clone(&self.core)), unread)
    }

    fn own_revision(&self) -> StoreFuture<Result<Revision, StoreError>> {
        self.core.run(epoch::own_revision(Arc::clone(&self.core)), unread)
    }

    fn register(&self, epoch: Epoch) -> StoreFuture<Result<bool, StoreError>> {
        self.core.run(epoch::register(Arc::clone(&self.core), epoch), unread)
    }

    fn raise_epoch(&self, raise: Raise) -> StoreFuture<Result<(), StoreError>> {
        self.core.run(epoch::raise(Arc::clone(&self.core), raise), unread)
    }

    fn raise_level(&self, level: Level, seen: Revision) -> StoreFuture<Result<(), StoreError>> {
        self.core.run(epoch::raise_level(Arc::clone(&self.core), level, seen), unread)
    }

    fn end_restore(&self) -> StoreFuture<Result<(), StoreError>> {
        self.core.run(epoch::end_restore(Arc::clone(&self.core)), unread)
    }

    fn is_restoring(&self) -> StoreFuture<Result<bool, StoreError>> {
        self.core.run(epoch::is_restoring(Arc::clone(&self.core)), unread)
    }

    fn witness(&self) -> Witness {
        self.core.witness()
    }
}
