//! What can happen to a store, and between it and the processes.

use std::time::Duration;

use tenure::lease::{CodecError, Epoch, Key, Nonce, Revision};
use tokio::time::{Instant, sleep};

use super::{
    Data, Server, State,
    shape::{Direction, Kind},
    state::ProcessId,
    view::went_backwards,
};

/// How often a process looks whether the stream is still the one that it was (NATS).
const LOOK: Duration = Duration::from_millis(500);
/// So many looks have to show the same.
const CONFIRM: u32 = 4;
/// How often a process looks at the table and the log's end (DynamoDB).
const CHECK: Duration = Duration::from_secs(5);

impl Server {
    /// The process of a node died, before it let go of the store: what it had on its way is done or not, what
    /// it did not sync is lost from some point on.
    pub fn crashed(&self, node: usize) {
        let mut state = self.lock();
        let dead: Vec<ProcessId> = state.of_node(node);
        for process in &dead {
            if let Some(view) = state.processes.remove(process) {
                state.witnesses.insert(node, view.witness());
            }
        }
        let embedded = state.kind == Kind::Embedded;
        drop(state);
        if embedded && !dead.is_empty() {
            self.lose_unsynced();
        }
    }

    /// A process closed the store.
    pub(super) fn close(&self, process: ProcessId) {
        let known = {
            let state = self.lock();
            let failed = state.disk.failed.is_some();
            state.processes.contains_key(&process).then_some((state.kind, failed))
        };
        match known {
            None => return,
            Some((Kind::Embedded, false)) => self.settle(),
            Some((Kind::Embedded, true)) => self.lose_unsynced(),
            Some(_) => {}
        }
        let mut state = self.lock();
        if let Some(view) = state.processes.remove(&process) {
            let witness = view.witness();
            state.witnesses.insert(view.node, witness);
        }
    }

    /// Messages between a node and the store are lost from now on.
    pub fn cut(&self, node: usize, what: Direction) {
        self.lock().cuts.insert(node, what);
    }

    /// They are not any more.
    pub fn heal(&self, node: usize) {
        self.lock().cuts.remove(&node);
        self.back();
    }

    /// The store answers nobody: its leader is away, its disk hangs.
    pub fn stop(&self) {
        self.lock().stopped = true;
    }

    /// It answers again.
    pub fn start(&self) {
        self.lock().stopped = false;
        self.back();
    }

    fn back(&self) {
        let mut state = self.lock();
        for view in state.processes.values_mut() {
            view.away = None;
        }
        self.deliver_soon(&mut state);
        drop(state);
        self.0.changed.send_modify(|times| *times += 1);
    }

    /// There is no room any more, after a few more writes; or there is.
    pub fn full(&self, full: bool) {
        let mut state = self.lock();
        let left = state.draw(16);
        state.room = full.then_some(left);
    }

    /// Each hop, each sync takes so long; `None`: as usual.
    pub fn slow(&self, range: Option<(Duration, Duration)>) {
        self.lock().slow = range;
    }

    /// This share of requests is throttled (DynamoDB).
    pub fn throttle(&self, share: f64) {
        self.lock().throttle = share;
    }

    /// This share of writes comes after its time-out.
    pub fn late(&self, share: f64) {
        self.lock().late = share;
    }

    /// This share of replies is lost.
    pub fn lose(&self, share: f64) {
        self.lock().shape.lost = share;
    }

    /// The next sync fails (embedded): the store stops until its process was started anew.
    pub fn fail_sync(&self) {
        self.lock().disk.fails = true;
    }

    /// The feed of a node stands still for up to some seconds; a stream then brings it only what is last of
    /// each key.
    pub fn gap(&self, node: usize) {
        let mut state = self.lock();
        let stall = Duration::from_millis(100 + state.draw(3_000));
        let until = Instant::now() + stall;
        for process in state.of_node(node) {
            if let Some(view) = state.processes.get_mut(&process) {
                view.stalled = Some(until);
            }
        }
    }

    /// Another server leads the stream (NATS): nobody is answered for a while, and afterwards the old one still
    /// answers some reads with what it had.
    pub fn step_down(&self) {
        let mut state = self.lock();
        if state.kind != Kind::Nats || state.stopped {
            return;
        }
        let away = Duration::from_millis(100 + state.draw(3_000));
        let believed = Duration::from_millis(state.draw(8_000));
        let share = 0.1 + 0.1 * f64::from(u32::try_from(state.draw(8)).unwrap_or(0));
        let until = Instant::now() + away + believed;
        state.stale = Some((Box::new(state.data.clone()), until, share));
        state.stopped = true;
        let server = self.clone();
        drop(state);
        tokio::spawn(async move {
            sleep(away).await;
            server.start();
        });
    }

    /// Takes a copy of everything that is durable.
    pub fn snapshot(&self) {
        let mut state = self.lock();
        state.snapshot = Some(state.data.clone());
    }

    /// Puts the last copy in place of what is there; an empty store if none was taken.
    ///
    /// The embedded store's operator stamps it anew, and nobody may have it open. What several nodes use is
    /// found out by those nodes: as the same stream or table that went back, or as one that was made anew.
    ///
    /// # Panics
    /// When somebody has the embedded store open.
    pub fn regress(&self) {
        let mut state = self.lock();
        let identity = state.data.meta.identity;
        let was = state.data.meta.epoch;
        let copy = state.snapshot.clone().unwrap_or_else(|| Data::new(identity));
        let made_anew = state.draw(2) == 0;
        let made = state.data.made + 1;
        state.stale = None;
        state.data = copy;
        if state.kind == Kind::Embedded {
            assert!(state.processes.is_empty(), "nobody restores a store that is open");
            let identity = Nonce(identity.0 ^ (u128::from(made) << 64));
            state.data.made = made;
            return state.data.restamp(identity, Epoch(was.0 + 1));
        }
        // A table is restored into a new one.
        if made_anew {
            state.data.made = made;
        }
        self.check_identity_everywhere(&state);
    }

    /// Every process will look whether the store is still the one that it was.
    pub(super) fn check_identity_everywhere(&self, state: &State) {
        for process in state.processes.keys().copied() {
            let server = self.clone();
            tokio::spawn(async move { server.doubt(process).await });
        }
    }

    /// A process finds out, or not, that the store went back.
    async fn doubt(self, process: ProcessId) {
        let mut suspicions = 0;
        loop {
            let pause = {
                let mut state = self.lock();
                let nats = state.kind == Kind::Nats;
                let pause = if nats { LOOK } else { CHECK };
                let pause = if suspicions == 0 { state.chance.jitter(pause) } else { pause };
                pause + Duration::from_millis(1)
            };
            sleep(pause).await;
            let mut state = self.lock();
            let away = {
                let Some(node) = state.processes.get(&process).map(|view| view.node) else {
                    return;
                };
                state.stopped || state.cut(node).is_some()
            };
            let State { processes, data, kind, .. } = &mut *state;
            let Some(view) = processes.get_mut(&process) else { return };
            if view.frozen.is_some() {
                return;
            }
            if away {
                continue;
            }
            let remember = view.witness();
            let Some(why) = went_backwards(&remember, data) else {
                view.suspect = None;
                if data.meta.epoch > view.meta.epoch {
                    view.freeze("its epoch was raised, which this node has not taken up", remember);
                }
                return;
            };
            suspicions += 1;
            let sure = *kind == Kind::DynamoDb || data.made != view.made || suspicions >= CONFIRM;
            if sure {
                view.suspect = None;
                view.freeze(&why, remember);
                return;
            }
            view.suspect = Some(why);
        }
    }

    /// Which store it is.
    pub fn kind(&self) -> Kind {
        self.lock().kind
    }

    /// The epoch that tokens are given under, and the store's name: for who raises it.
    pub fn epoch(&self) -> Epoch {
        self.lock().data.meta.epoch
    }

    /// How many writes of leases are durable, and how many keys there are.
    pub fn size(&self) -> (u64, usize) {
        let state = self.lock();
        (state.data.sequence, state.data.items.len())
    }
}

impl State {
    fn of_node(&self, node: usize) -> Vec<ProcessId> {
        let of_node =
            |(process, view): (&ProcessId, &super::View)| (view.node == node).then_some(*process);
        self.processes.iter().filter_map(of_node).collect()
    }
}

/// What operators do behind a store's back.
impl Server {
    /// Removes a key's record by hand.
    pub fn delete_by_hand(&self, key: &Key) -> bool {
        let mut state = self.lock();
        let (kind, keep) = (state.kind, state.shape.keep);
        let there = state.data.revision(key);
        state.data.forget(kind, key, there, keep);
        self.deliver_soon(&mut state);
        there != Revision::ABSENT
    }

    /// Spoils a key's record: it rotted, or a newer program wrote it.
    pub fn spoil(&self, key: &Key, newer: bool) -> bool {
        let mut state = self.lock();
        let State { data, processes, .. } = &mut *state;
        let Some(item) = data.items.get_mut(key) else { return false };
        item.record = Err(if newer { CodecError::Version(9) } else { CodecError::Checksum });
        for view in processes.values_mut() {
            view.keys.insert(key.clone(), item.clone());
        }
        true
    }

    /// The history is short from now on.
    pub fn remember_little(&self) {
        let mut state = self.lock();
        (state.shape.keep, state.shape.history) = (8, 8);
    }
}
