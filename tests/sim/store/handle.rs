//! The store as one process has it.

use std::{
    future::ready,
    sync::{Arc, Mutex, PoisonError},
};

use tenure::{
    lease::{Epoch, Key, NodeRecord, Nonce, Revision, StoreError},
    store::{
        Feed, Found, FoundNode, Health, History, LeaseStore, Meta, NodeOutcome, Position, Raise,
        Range, SecretBytes, SharedStore, StoreFuture, Witness, Write, WriteOutcome,
    },
};
use tokio::{sync::oneshot, time::Instant};

use super::{
    Server, State,
    embedded::{Job, Verdict},
    shape::Kind,
    shared,
    state::{Entry, ProcessId, SECRET},
    view::View,
};

/// One opening of the store, by one process.
pub(super) struct Handle {
    server: Server,
    process: ProcessId,
    kind: Kind,
    feed: tokio::sync::broadcast::Sender<tenure::store::FeedBatch>,
    /// When it was written to last, and how often at that instant.
    written: Mutex<(Option<Instant>, u32)>,
}

/// Writes of one process at one instant: who writes again and again without waiting would never end.
const MOST_WRITES: u32 = 20_000;

fn closed() -> StoreError {
    StoreError::Unavailable("the store is closed".to_owned())
}

impl Handle {
    /// # Panics
    /// When the process was not let in.
    pub fn new(server: Server, process: ProcessId) -> Self {
        let (kind, feed) = {
            let state = server.lock();
            let view = state.processes.get(&process).expect("it was let in");
            (state.kind, view.feed.clone())
        };
        Self { server, process, kind, feed, written: Mutex::default() }
    }

    /// Looks at what the process knows.
    fn look<T>(&self, look: impl FnOnce(&State, &View) -> T) -> Option<T> {
        let state = self.server.lock();
        let view = state.processes.get(&self.process)?;
        Some(look(&state, view))
    }

    fn watch_for_spinning(&self, write: &Write) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let count = if written.0 == Some(now) { written.1 + 1 } else { 0 };
        *written = (Some(now), count);
        drop(written);
        assert!(count < MOST_WRITES, "writes without end, the latest is {write:?}");
    }

    /// Has it done, whether or not anybody polls.
    fn run<T, F>(&self, work: F, lost: fn(StoreError) -> T) -> StoreFuture<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let done = tokio::spawn(work);
        Box::pin(async move { done.await.unwrap_or_else(|_| lost(closed())) })
    }

    fn enqueue(&self, write: Write, forgets: bool) -> StoreFuture<WriteOutcome> {
        let at_ms = self.look(|_, view| view.clock.wall_ms()).unwrap_or(0);
        let now = self.server.now();
        let sent = self.server.lock().sent(&write, at_ms, now);
        let (reply, verdict) = oneshot::channel();
        let key = write.key.clone();
        if let Err(why) = self.server.enqueue(self.process, Job { write, forgets, sent, reply }) {
            return Box::pin(ready(WriteOutcome::Refused(why)));
        }
        let server = self.server.clone();
        Box::pin(async move {
            match verdict.await {
                Ok(Verdict::Settled(outcome)) => outcome,
                Ok(Verdict::Conflict) => WriteOutcome::Conflict(server.lock().data.found(&key)),
                Err(_) => WriteOutcome::Unknown(closed()),
            }
        })
    }

    fn history_of_log(state: &State, after: Position, limit: usize) -> History {
        let data = &state.data;
        if after < data.forgotten || after > data.latest {
            return History::Gap { resume: data.latest };
        }
        let entries = data.log.range(after.revision.0..);
        let changes = entries.flat_map(|(_, Entry { changes, .. })| changes);
        let changes = changes.filter(|change| change.position > after);
        History::Changes(changes.take(limit).cloned().collect())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.server.close(self.process);
    }
}

impl LeaseStore for Handle {
    fn meta(&self) -> Arc<Meta> {
        let known = self.look(|_, view| Arc::clone(&view.meta));
        known.unwrap_or_else(|| Arc::clone(&self.server.lock().data.meta))
    }

    fn secret_bytes(&self) -> Option<SecretBytes> {
        Some(SecretBytes(SECRET))
    }

    fn read(&self, key: &Key) -> StoreFuture<Result<Option<Found>, StoreError>> {
        if self.kind == Kind::Embedded {
            return Box::pin(ready(Ok(self.server.lock().data.found(key))));
        }
        self.run(shared::read(self.server.clone(), self.process, key.clone()), Err)
    }

    fn compare_and_set(&self, write: Write) -> StoreFuture<WriteOutcome> {
        self.watch_for_spinning(&write);
        if self.kind == Kind::Embedded {
            return self.enqueue(write, false);
        }
        let work = shared::compare_and_set(self.server.clone(), self.process, write);
        self.run(work, WriteOutcome::Unknown)
    }

    fn forget(&self, key: &Key, expected: Revision) -> StoreFuture<Result<bool, StoreError>> {
        if self.kind != Kind::Embedded {
            let work = shared::forget(self.server.clone(), self.process, key.clone(), expected);
            return self.run(work, Err);
        }
        let there = self.server.lock().data.found(key);
        let Some(record) = there.and_then(|found| found.record.ok()) else {
            return Box::pin(ready(Ok(true)));
        };
        if expected == Revision::ABSENT {
            return Box::pin(ready(Ok(false)));
        }
        let write = Write { key: key.clone(), expected, record, changes: Vec::new() };
        let gone = self.enqueue(write, true);
        Box::pin(async move {
            match gone.await {
                WriteOutcome::Committed(_) => Ok(true),
                WriteOutcome::Conflict(there) => Ok(there.is_none()),
                WriteOutcome::Refused(why) | WriteOutcome::Unknown(why) => Err(why),
            }
        })
    }

    fn scan(&self, range: Range) -> StoreFuture<Result<Vec<(Key, Found)>, StoreError>> {
        if self.kind == Kind::DynamoDb {
            return self.run(shared::scan(self.server.clone(), self.process, range), Err);
        }
        let state = self.server.lock();
        let items = match (self.kind, state.processes.get(&self.process)) {
            (Kind::Nats, Some(view)) => &view.keys,
            _ => &state.data.items,
        };
        Box::pin(ready(Ok(shared::pick(items, &range))))
    }

    fn feed(&self) -> Feed {
        self.feed.subscribe()
    }

    fn history(&self, after: Position, limit: usize) -> StoreFuture<Result<History, StoreError>> {
        if self.kind == Kind::Embedded {
            let found = Self::history_of_log(&self.server.lock(), after, limit);
            return Box::pin(ready(Ok(found)));
        }
        self.run(shared::history(self.server.clone(), self.process, after, limit), Err)
    }

    fn latest(&self) -> Position {
        if self.kind == Kind::Embedded {
            return self.server.lock().data.latest;
        }
        self.look(|_, view| view.latest).unwrap_or_default()
    }

    fn earliest(&self) -> Position {
        if self.kind == Kind::Embedded {
            return self.server.lock().data.forgotten;
        }
        self.look(|_, view| view.earliest()).unwrap_or_default()
    }

    fn health(&self) -> Health {
        let health = |state: &State, view: &View| match (&state.disk.failed, state.room) {
            (Some(why), _) => Health::Degraded(why.to_string()),
            (None, Some(0)) => Health::Degraded("no space left on device".to_owned()),
            (None, _) => view.health(Instant::now()),
        };
        self.look(health).unwrap_or_else(|| Health::Degraded(closed().to_string()))
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        self.kind.is_shared().then_some(self)
    }
}

impl SharedStore for Handle {
    fn read_node(&self, incarnation: Nonce) -> StoreFuture<Result<Option<FoundNode>, StoreError>> {
        self.run(shared::read_node(self.server.clone(), self.process, incarnation), Err)
    }

    fn write_node(&self, expected: Revision, record: NodeRecord) -> StoreFuture<NodeOutcome> {
        let work = shared::write_node(self.server.clone(), self.process, expected, record);
        self.run(work, NodeOutcome::Unknown)
    }

    fn forget_node(
        &self,
        incarnation: Nonce,
        expected: Revision,
    ) -> StoreFuture<Result<(), StoreError>> {
        self.run(shared::forget_node(self.server.clone(), self.process, incarnation, expected), Err)
    }

    fn scan_nodes(&self) -> StoreFuture<Result<Vec<FoundNode>, StoreError>> {
        self.run(shared::scan_nodes(self.server.clone(), self.process), Err)
    }

    fn refresh_meta(&self) -> StoreFuture<Result<Arc<Meta>, StoreError>> {
        self.run(shared::refresh_meta(self.server.clone(), self.process), Err)
    }

    fn own_revision(&self) -> StoreFuture<Result<Revision, StoreError>> {
        self.run(shared::own_revision(self.server.clone(), self.process), Err)
    }

    fn register(&self, epoch: Epoch) -> StoreFuture<Result<bool, StoreError>> {
        self.run(shared::register(self.server.clone(), self.process, epoch), Err)
    }

    fn raise_epoch(&self, raise: Raise) -> StoreFuture<Result<(), StoreError>> {
        self.run(shared::raise_epoch(self.server.clone(), self.process, raise), Err)
    }

    fn witness(&self) -> Witness {
        let mut state = self.server.lock();
        let Some(view) = state.processes.get(&self.process) else {
            let (identity, epoch) = (state.data.meta.identity, state.data.meta.epoch);
            return Witness { identity, epoch, highest: Revision(0) };
        };
        let (node, witness) = (view.node, view.witness());
        state.witnesses.insert(node, witness);
        witness
    }
}
