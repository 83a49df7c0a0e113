//! The DynamoDB store: one table, used by several nodes.
//!
//! A lease is one item ([`layout`]); a compare-and-set is one conditional `PutItem` ([`mod@write`]) that is
//! never sent twice, and whose failed condition brings the winner along. Changes go, some milliseconds
//! after their write and many at a time, into a log in the same table ([`mod@log`], [`tail`]), which gives
//! them one order for all nodes. The log is kept free of duplicates and holes by those who append
//! ([`state`]): an entry can only follow the last one, so its writer knows all before it. What a writer
//! did not come to log stands in the item that it wrote until somebody else logs it: who overwrites the
//! item, or who finds the writer's node dead ([`recover`]). `docs/dynamodb.md` has the table's layout,
//! what operations cost, and the rights that are needed.
//!
//! Guarantees: of two writes that expect one revision at most one is committed; reads are strongly
//! consistent; a key's revisions strictly increase, also when an operator deletes its item and it is
//! made again; every node's feed and history bring a key's changes in the order of `seq` and say where
//! some were lost; a conditional write is sent once; every future resolves within some seconds, also
//! while the table is out of reach; when the table went back, was restored or made anew, nothing is
//! granted until the epoch was raised.
//!
//! Does not guarantee: rising revisions of an item that an operator deletes within the flush interval
//! of its last write, when the node that wrote it dies in the same moment; a place in the log for a
//! write that was on the wire for longer than it took others to find its node dead, bury it and look
//! through the table.
//!
//! Assumes: nobody else writes into the table, except that an operator may delete items of leases; a
//! table of one region, or one whose regions are strongly consistent.

mod client;
mod error;
mod guard;
mod health;
mod history;
mod layout;
mod load;
mod log;
mod meta;
mod nodes;
mod outbox;
mod read;
mod recover;
mod removals;
mod ring;
mod shared;
mod state;
mod streams;
mod table;
mod tail;
mod thread;
mod write;

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::mpsc;

pub use self::error::OpenError;
#[cfg(feature = "testing")]
pub use self::layout::fuzzing;
use self::{
    client::Client,
    layout::{LEASE, lease_pk},
    shared::Shared,
    thread::Thread,
};
use super::{
    Feed, Found, FoundNode, Fresh, Gate, Health, History, LeaseStore, Meta, NodeOutcome, Outcome,
    Position, Raise, Range, SecretBytes, SharedStore, StoreError, StoreFuture, Tie, Witness, Write,
};
use crate::{
    clock::Clock,
    lease::{Epoch, Key, NodeRecord, Nonce, Policies, Revision, State},
    telemetry::Metrics,
};

/// Requests to the task of the log that may wait; what finds no room is done before long anyway.
const COMMANDS: usize = 64;
/// How long closing may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);
/// How often the log is told of a new session before opening gives up.
const REGISTER_TRIES: u32 = 5;

/// How to open a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The table's name.
    pub table: String,
    /// Its region; by the usual chain of AWS when not said.
    pub region: Option<String>,
    /// Where to reach the service instead of AWS. A loopback address over plain HTTP is a stand-in for
    /// tests: credentials are made up unless `AWS_ACCESS_KEY_ID` is set.
    pub endpoint: Option<String>,
    /// Make the table when it is not there, paid per request.
    pub create_table: bool,
    /// How long one request may take.
    pub request_timeout: Duration,
    /// How often the log is looked at for what other nodes did.
    pub poll_interval: Duration,
    /// How long changes are gathered before they are logged.
    pub flush_interval: Duration,
    /// How long the log of changes is kept.
    pub history: Duration,
    /// Most keys with a record, as far as this process knows: nodes that add keys at the same moment may go beyond it.
    pub max_keys: u64,
    /// It is opened to bring a backup in: also where a restore was cut off.
    pub restore: bool,
}

impl Options {
    /// The defaults for a table.
    #[must_use]
    pub fn new(table: impl Into<String>) -> Self {
        Self {
            table: table.into(),
            region: None,
            endpoint: None,
            create_table: false,
            request_timeout: Duration::from_secs(2),
            poll_interval: Duration::from_millis(200),
            flush_interval: Duration::from_millis(20),
            history: Duration::from_secs(24 * 3600),
            max_keys: u64::MAX,
            restore: false,
        }
    }
}

/// Figures about a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Keys that have a record, as far as is known.
    pub keys: u64,
    /// The number of the log's last entry that was read.
    pub log_head: u64,
    /// Writes whose changes wait to be logged.
    pub unlogged: u64,
}

/// The DynamoDB store. When it is dropped its thread ends at once, and what waits to be logged is left
/// to others: [`Self::close`] first.
#[derive(Debug)]
pub struct DynamoStore {
    shared: Arc<Shared>,
    thread: Thread,
    max_keys: u64,
    closed: AtomicBool,
}

impl DynamoStore {
    /// Opens the store in a table, or makes it there. Reads the whole table.
    ///
    /// A store that went back since `witness`, or whose table is a copy, opens frozen.
    ///
    /// # Errors
    /// [`OpenError`] says what to do.
    pub async fn open(
        options: Options,
        fresh: Fresh,
        witness: Option<Witness>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Result<Arc<Self>, OpenError> {
        let thread = Thread::start()?;
        let max_keys = options.max_keys;
        let opening = thread.spawn(open(options, fresh, witness, clock, metrics));
        let ended = |e: tokio::task::JoinError| OpenError::Thread(std::io::Error::other(e));
        let shared = opening.await.map_err(ended)??;
        Ok(Arc::new(Self { shared, thread, max_keys, closed: AtomicBool::new(false) }))
    }

    /// Waits for what becomes of the writes that were sent, logs what waits, takes this session off the
    /// log, and ends the thread. What is not settled within some seconds is left to others: the log goes on
    /// naming this session until its nodes are known to be gone and its items were looked through. Doing it
    /// twice does nothing.
    pub async fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let closing = self.thread.spawn(async move { shared.take_leave(CLOSE_WITHIN).await });
        if let Ok(Err(why)) = closing.await {
            tracing::warn!(%why, "the last changes are left to other nodes to log");
        }
        self.thread.stop();
    }

    /// Figures for metrics and tests.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let state = self.shared.state();
        Stats {
            keys: state.keys.len() as u64,
            log_head: state.head,
            unlogged: state.outbox.waiting() as u64,
        }
    }

    /// Has the store's thread do it. `lost` is the answer when the thread ended.
    fn run<T, F>(
        &self,
        work: impl FnOnce(Arc<Shared>) -> F,
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

    /// Why nothing is sent any more.
    fn refuse(&self) -> Option<StoreError> {
        let closed = self.closed.load(Ordering::Acquire);
        closed.then(|| StoreError::Unavailable("the store is closed".to_owned()))
    }
}

impl DynamoStore {
    /// Has a new key counted while its write is on its way, where its policy bounds their number.
    fn admit(&self, write: &Write) -> Result<Option<Admission>, StoreError> {
        if write.expected != Revision::ABSENT || !self.shared.state().admit(&write.key)? {
            return Ok(None);
        }
        Ok(Some(Admission { shared: Arc::clone(&self.shared), key: write.key.clone() }))
    }
}

/// A new key counts for as long as this is there; from then on its item does.
struct Admission {
    shared: Arc<Shared>,
    key: Key,
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.shared.state().settle(&self.key);
    }
}

/// What is done on the store's own thread to open it.
async fn open(
    options: Options,
    fresh: Fresh,
    witness: Option<Witness>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
) -> Result<Arc<Shared>, OpenError> {
    let client = Client::new(&options).await?;
    let identity = table::open(&client, options.create_table).await?;
    let own = meta::open(&client, &fresh, &identity).await?;
    if own.restoring && !options.restore {
        return Err(OpenError::Restoring { table: client.table });
    }
    let (commands, to_tail) = mpsc::channel(COMMANDS);
    let parts = (own.clone(), identity.clone());
    let bad = |why: StoreError| OpenError::Unavailable {
        table: client.table.clone(),
        why: why.to_string(),
    };
    let shared = Arc::new(Shared::new(client.clone(), options, clock, metrics, parts, commands));
    shared.load().await.map_err(bad)?;
    let head = shared.state().head;
    match meta::suspicion(&own, &identity, witness.as_ref(), head) {
        Some(why) => {
            let remember = witness.unwrap_or_else(|| shared.witness());
            shared.freeze_as(why, own.meta.epoch.max(remember.epoch), remember);
        }
        None => {
            shared.state().outbox.registered = true;
            register(&shared).await.map_err(bad)?;
        }
    }
    tokio::spawn(tail::run(Arc::clone(&shared), to_tail));
    tokio::spawn(streams::run(Arc::clone(&shared)));
    tokio::spawn(guard::identity(Arc::clone(&shared)));
    tokio::spawn(guard::doubts(Arc::clone(&shared)));
    tokio::spawn(guard::old_entries(Arc::clone(&shared)));
    tokio::spawn(removals::look(Arc::clone(&shared)));
    Ok(shared)
}

/// Has the log name this session, before it writes anything that is to be logged.
async fn register(shared: &Shared) -> Result<(), StoreError> {
    let mut tries = 1;
    loop {
        match tail::flush(shared, false).await {
            Ok(()) => return Ok(()),
            Err(_) if tries < REGISTER_TRIES => tries += 1,
            Err(why) => return Err(why),
        }
        tokio::time::sleep(shared.options.poll_interval).await;
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

    /// The write is on its way when this returns, whether or not the future is polled.
    fn compare_and_set(&self, write: Write) -> StoreFuture<Outcome> {
        if let Some(why) = self.refuse() {
            return Box::pin(std::future::ready(Outcome::Refused(why)));
        }
        let full = || self.shared.state().count_like(&write.key) >= self.max_keys;
        if write.expected == Revision::ABSENT && self.stats().keys >= self.max_keys && full() {
            let why = StoreError::too_many(&write.key, self.max_keys);
            return Box::pin(std::future::ready(Outcome::Refused(why)));
        }
        let admission = match self.admit(&write) {
            Ok(admission) => admission,
            Err(why) => return Box::pin(std::future::ready(Outcome::Refused(why))),
        };
        let work = |shared: Arc<Shared>| async move {
            let outcome = shared.compare_and_set(write).await;
            drop(admission);
            outcome
        };
        self.run(work, Outcome::Unknown)
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
                self.shared.trouble().health(now)
            }
        }
    }

    fn gate(&self, key: &Key, found: &Found) -> Option<Gate> {
        let record = found.record.as_ref().ok().filter(|record| record.state == State::Held)?;
        let tenure = record.tenure.as_ref()?;
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Some(Gate::DynamoDb {
            table: self.shared.client.table.clone(),
            key: vec![pair("pk", &lease_pk(key)), pair("sk", LEASE)],
            expression: "#state = :held AND #token = :token AND #owner = :owner".to_owned(),
            names: vec![pair("#state", "state"), pair("#token", "token"), pair("#owner", "owner")],
            values: vec![
                (":held".to_owned(), "S", State::Held.as_str().to_owned()),
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
        let write =
            move |shared: Arc<Shared>| async move { shared.write_node(expected, record).await };
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
        let scan = |shared: Arc<Shared>| async move {
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
        let read = |shared: Arc<Shared>| async move {
            let own = shared.read_meta().await?;
            Ok(own.map_or(Revision::ABSENT, |own| own.revision))
        };
        self.run(read, Err)
    }

    fn register(&self, epoch: Epoch) -> StoreFuture<Result<bool, StoreError>> {
        self.run(move |shared| async move { shared.register(epoch).await }, Err)
    }

    fn raise_epoch(&self, raise: Raise) -> StoreFuture<Result<(), StoreError>> {
        self.run(move |shared| async move { shared.raise_epoch(raise).await }, Err)
    }

    fn end_restore(&self) -> StoreFuture<Result<(), StoreError>> {
        self.run(|shared| async move { shared.end_restore().await }, Err)
    }

    fn is_restoring(&self) -> StoreFuture<Result<bool, StoreError>> {
        let read = |shared: Arc<Shared>| async move {
            Ok(shared.read_meta().await?.is_some_and(|own| own.restoring))
        };
        self.run(read, Err)
    }

    fn witness(&self) -> Witness {
        self.shared.witness()
    }
}
