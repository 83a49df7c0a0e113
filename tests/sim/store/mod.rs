//! Simulated stores: what the real ones promise, and no more than that.
//!
//! A [`Server`] is what is durable, and everything between it and the processes that use it. It outlives
//! them. Each process [opens](Server::open) it and gets a [`LeaseStore`] of its own, with its own feed and its
//! own cache. All time is tokio's, which a simulation pauses; every choice comes from one [`Chance`].
//!
//! | | embedded | NATS | DynamoDB |
//! | --- | --- | --- | --- |
//! | revisions | one sequence of all writes | the stream's sequence, which node records use too | a counter for each item |
//! | a write is answered | after the sync of its group | after one hop each way | the same |
//! | it is ambiguous | its sync failed, its process died | its answer is lost, the leader is away, it comes late | the same |
//! | `read` | at once | the leader's, or, for some seconds after [`Server::step_down`], an old leader's, never older than what the process saw | the leader's |
//! | `scan` | at once | what the feed brought | known keys, as they are |
//! | feed | with the answer | follows the stream; what the stream dropped meanwhile is a gap | a log in batches, polled |
//! | history | the last writes | what the stream keeps of each key | the last entries |
//! | went backwards | restored and stamped anew by its operator | noticed by its sequence or its time of creation | noticed by its table or its log |
//!
//! Guarantees, as the trait: of two writes that expect one revision at most one is committed; every future
//! resolves within some seconds; nothing is sent twice. The lines `Committed` and `Tombstone` are written at the
//! instant of the commit.
//!
//! Assumes: [`Server::crashed`] is called before a process that dies lets go of its store. A store that is
//! dropped without it was closed.

#![allow(
    clippy::disallowed_methods,
    reason = "simulated time: what `tokio::time::Instant` says is true time here"
)]
#![allow(dead_code, reason = "each test binary that includes it uses its own part")]

mod embedded;
mod faults;
mod feed;
mod handle;
mod shape;
mod shared;
mod state;
mod view;
mod wire;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tenure::actor::watch;
use tenure::{
    clock::{Chance, Clock},
    lease::{Key, Nonce, StoreError},
    store::{Found, LeaseStore, StoreFuture, Witness, Write},
};
use tokio::time::Instant;

#[allow(unused_imports, reason = "each test binary that includes it uses its own part")]
pub use self::shape::{Direction, Flaw, Kind, Shape};
use self::{
    embedded::Disk,
    handle::Handle,
    state::{Data, ProcessId, Sent},
    view::{View, went_backwards},
    wire::Class,
};
use crate::history::{Event, Log, Sight};

/// The store itself; clones are the same one.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    log: Log,
    began: Instant,
}

/// Everything that changes.
struct State {
    kind: Kind,
    shape: Shape,
    chance: Chance,
    data: Data,
    snapshot: Option<Data>,
    processes: BTreeMap<ProcessId, View>,
    /// When each record was first sent, by its nonce: a write of unknown outcome is sent again.
    sent: HashMap<Nonce, u64>,
    next_process: ProcessId,
    /// What each node remembers of the store from one process to the next.
    witnesses: BTreeMap<usize, Witness>,
    cuts: BTreeMap<usize, Direction>,
    stopped: bool,
    slow: Option<(Duration, Duration)>,
    /// How many writes there is room for, once the disk is nearly full.
    room: Option<u64>,
    throttle: f64,
    late: f64,
    /// What a leader that leads no more still has, until when, and in which share of reads.
    stale: Option<(Box<Data>, Instant, f64)>,
    disk: Disk,
}

impl State {
    /// When this write was sent for the first time, if it is sent now.
    fn sent(&mut self, write: &Write, at_ms: u64, now: u64) -> Sent {
        Sent { at_ms, at: *self.sent.entry(write.record.nonce).or_insert(now) }
    }

    fn cut(&self, node: usize) -> Option<Direction> {
        self.cuts.get(&node).copied()
    }
}

impl Server {
    /// An empty store. True time counts from now on.
    pub fn new(kind: Kind, mut chance: Chance, log: Log, shape: Shape) -> Self {
        let identity = Nonce(u128::from(chance.next_u64()) << 64 | u128::from(chance.next_u64()));
        let state = State {
            kind,
            shape,
            chance,
            data: Data::new(identity),
            snapshot: None,
            processes: BTreeMap::new(),
            sent: HashMap::new(),
            next_process: 1,
            witnesses: BTreeMap::new(),
            cuts: BTreeMap::new(),
            stopped: false,
            slow: None,
            room: None,
            throttle: 0.0,
            late: 0.0,
            stale: None,
            disk: Disk::default(),
        };
        let (state, changed) = (Mutex::new(state), watch::Sender::new(0));
        Self(Arc::new(Inner { state, changed, log, began: Instant::now() }))
    }

    /// What a process of a node sees of the store.
    pub fn open(
        &self,
        node: usize,
        clock: Arc<dyn Clock>,
    ) -> StoreFuture<Result<Arc<dyn LeaseStore>, StoreError>> {
        let witness = self.lock().witnesses.get(&node).copied();
        self.open_with(node, clock, witness)
    }

    /// The same by a node that remembers this of the store.
    pub fn open_with(
        &self,
        node: usize,
        clock: Arc<dyn Clock>,
        witness: Option<Witness>,
    ) -> StoreFuture<Result<Arc<dyn LeaseStore>, StoreError>> {
        let server = self.clone();
        Box::pin(async move {
            let process = server.lock().admit(node, clock)?;
            let handle = Handle::new(server.clone(), process);
            if server.lock().kind.is_shared() {
                let loaded = server.ask(process, Class::Read, move |_, state| {
                    state.load(process, witness);
                });
                loaded.await.map_err(wire::Failure::into_error)?;
            }
            Ok(Arc::new(handle) as Arc<dyn LeaseStore>)
        })
    }

    /// What is in the store now.
    pub fn items(&self) -> Vec<(Key, Found)> {
        let state = self.lock();
        state.data.items.iter().map(|(key, item)| (key.clone(), item.found())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears when the network or the store is back.
    fn changed(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// True time.
    fn now(&self) -> u64 {
        u64::try_from(self.0.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn write_down(&self, events: impl IntoIterator<Item = Event>) {
        let now = self.now();
        for event in events {
            self.0.log.push(now, event);
        }
    }

    fn saw(&self, sight: Sight) {
        self.write_down([Event::Seen { sight }]);
    }
}

impl State {
    /// Lets a process in.
    fn admit(&mut self, node: usize, clock: Arc<dyn Clock>) -> Result<ProcessId, StoreError> {
        if self.kind == Kind::Embedded && !self.processes.is_empty() {
            let why = "in use by another process; a store has one at a time".to_owned();
            return Err(StoreError::Unavailable(why));
        }
        let process = self.next_process;
        self.next_process += 1;
        let ring = self.shape.history.min(16_384);
        self.processes.insert(process, View::new(self.kind, node, clock, &self.data, ring));
        self.disk.reopened();
        Ok(process)
    }

    /// What a process learns when it opens a shared store.
    fn load(&mut self, process: ProcessId, witness: Option<Witness>) {
        let Some(view) = self.processes.get_mut(&process) else { return };
        view.meta = Arc::clone(&self.data.meta);
        view.load(self.kind, &self.data);
        let remember = witness.unwrap_or_else(|| view.witness());
        if let Some(why) = went_backwards(&remember, &self.data) {
            view.freeze(&why, remember);
        }
    }
}
