//! The world: real time, the store, the judge.

use std::{collections::BTreeMap, time::Duration};

use tenure::lease::{
    Call, Input, Key, Moment, Mutant, NodeRecord, Nonce, Request, Revision, Settled, WriteEffect,
};

use super::shell::{BEGIN, Node};
use crate::core::harness::*;

const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// What keeps one rule of the world around the core broken.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShellFaults {
    /// D of a dead node is taken from an older copy of its record.
    pub older_copy: bool,
    /// Who writes a tombstone puts its own U and D there.
    pub own_instants: bool,
    /// LB counts from before the record was read.
    pub counts_from_before: bool,
    /// A node goes on answering after it sent `drained`.
    pub drained_answers: bool,
    /// A write in doubt is sent once more, against whatever revision is there.
    pub retries_blindly: bool,
}

pub struct World {
    /// Real time, which nobody sees.
    pub real: Moment,
    pub cell: StoreCell,
    /// The nodes' records.
    pub records: BTreeMap<Nonce, (Revision, NodeRecord)>,
    pub nodes: Vec<Node>,
    pub oracle: Oracle,
    pub verdict: Verdict,
    pub faults: ShellFaults,
    /// The store is out of reach for everybody.
    pub outage: bool,
    /// Writes that everybody had given up: they may land yet.
    pub strays: Vec<WriteEffect>,
    pub(super) key: Key,
    pub(super) last_nonce: u128,
    pub(super) last_revision: u64,
}

impl World {
    pub fn breaking(mutant: Option<Mutant>) -> Self {
        // A's clock is a year behind and fast, B's a year ahead and slow; C is seldom there.
        let (behind, ahead) = (START, START + 2 * YEAR);
        let nodes = [(behind, 1_998), (ahead, -1_998), (START + YEAR, 0)];
        let nodes = nodes.map(|(origin, ppm)| Node::new(origin, ppm, mutant)).into();
        Self {
            real: BEGIN,
            cell: StoreCell::default(),
            records: BTreeMap::new(),
            nodes,
            oracle: Oracle::default(),
            verdict: Ok(()),
            faults: ShellFaults::default(),
            outage: false,
            strays: Vec::new(),
            key: Key::new("jobs/1").unwrap(),
            last_nonce: 1000,
            last_revision: 0,
        }
    }

    pub fn nonce(&mut self) -> Nonce {
        self.last_nonce += 1;
        Nonce(self.last_nonce)
    }

    pub fn judge(&mut self, verdict: Verdict) {
        if self.verdict.is_ok() {
            self.verdict = verdict;
        }
    }

    /// The judge's word, which is then forgotten.
    pub fn word(&mut self) -> Verdict {
        std::mem::replace(&mut self.verdict, Ok(()))
    }

    /// Compare-and-set on the nodes' records.
    pub fn write_node(&mut self, expected: Revision, record: NodeRecord) -> Option<Revision> {
        let there = self.records.get(&record.incarnation);
        if self.outage || there.map_or(Revision::ABSENT, |(at, _)| *at) != expected {
            return None;
        }
        self.last_revision += 1;
        let revision = Revision(self.last_revision);
        self.records.insert(record.incarnation, (revision, record));
        Some(revision)
    }

    /// A write of a lease reaches the store.
    pub fn land(&mut self, write: &WriteEffect) -> Option<Revision> {
        let revision = self.cell.compare_and_set(write)?;
        let judged = self.oracle.committed(write, &self.cell);
        self.judge(judged);
        let judged = self.oracle.ended_in_time(write, self.real);
        self.judge(judged);
        Some(revision)
    }

    /// Sends a request to a node as a new caller.
    pub fn ask(&mut self, at: usize, request: impl Into<Request>) -> Who {
        let who = self.caller(request.into());
        self.ask_as(at, &who, false);
        who
    }

    fn caller(&mut self, mut request: Request) -> Who {
        if let Request::Acquire(acquire) = &mut request
            && acquire.grant_nonce == Nonce::default()
        {
            acquire.grant_nonce = self.nonce();
        }
        Who::new(self.real, request)
    }

    /// A call that arrived at this moment, and waited since.
    pub fn ask_late(&mut self, at: usize, request: impl Into<Request>, received: Moment) -> Who {
        let who = self.caller(request.into());
        self.hand(at, &who, received, false);
        who
    }

    pub fn ask_as(&mut self, at: usize, who: &Who, home_unreachable: bool) {
        self.hand(at, who, self.clock(at), home_unreachable);
    }

    fn hand(&mut self, at: usize, who: &Who, received: Moment, home_unreachable: bool) {
        self.oracle.sent(&who.asked);
        let request = (*who.asked).clone();
        let caller = who.clone();
        self.input(at, Input::Call(Call { caller, received, request, home_unreachable }));
    }

    /// Sends a request, and lets the store do whatever comes of it.
    pub fn done(&mut self, at: usize, request: impl Into<Request>) -> Who {
        let who = self.ask(at, request);
        self.settle(at);
        who
    }

    /// A request whose home was asked and does not answer.
    pub fn home_unreachable(&mut self, at: usize, request: impl Into<Request>) -> Who {
        let who = self.caller(request.into());
        self.ask_as(at, &who, true);
        self.settle(at);
        who
    }

    /// The write in flight reaches the store, and the node hears of it.
    #[track_caller]
    pub fn commit(&mut self, at: usize) {
        let write = self.nodes[at].flight.take().expect("a write is in flight");
        let settled = match self.land(&write) {
            Some(revision) => Settled::Committed(revision),
            None => Settled::Conflict(self.cell.load()),
        };
        self.input(at, Input::Settled(settled));
    }

    /// Its outcome is unknown.
    #[track_caller]
    pub fn lose_reply(&mut self, at: usize, landed: bool) {
        let write = self.nodes[at].flight.take().expect("a write is in flight");
        if landed {
            self.land(&write);
        } else {
            self.strays.push(write.clone());
        }
        if self.faults.retries_blindly {
            let again = WriteEffect { expected: self.cell.revision(), ..write };
            let revision = self.land(&again).expect("blind");
            return self.input(at, Input::Settled(Settled::Committed(revision)));
        }
        self.input(at, Input::Settled(Settled::Unknown(broken())));
    }

    /// What was given up lands after all.
    pub fn strays_land(&mut self) {
        for write in std::mem::take(&mut self.strays) {
            self.land(&write);
        }
    }

    /// A read of the lease is answered.
    #[track_caller]
    pub fn read_back(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let read_for = node.reads.pop_front().expect("a read is under way");
        let loaded = if self.outage { Err(broken()) } else { Ok(self.cell.load()) };
        self.input(at, Input::Loaded(read_for, loaded));
    }

    /// Until a node's lease wants nothing of the store.
    pub fn settle(&mut self, at: usize) {
        for _ in 0..100 {
            if self.outage {
                return;
            }
            if !self.nodes[at].reads.is_empty() {
                self.read_back(at);
            } else if self.nodes[at].flight.is_some() {
                self.commit(at);
            } else {
                return;
            }
        }
        panic!("the core never stops writing");
    }

    /// Real time passes, and nobody does anything.
    pub fn pass(&mut self, span_ms: u64) {
        self.real = self.real + ms(span_ms);
    }

    /// Time passes as among healthy nodes: records are renewed and read, timers fire on time.
    pub fn run(&mut self, span_ms: u64) {
        self.run_until(span_ms, |_| false);
    }

    /// The same, until something is so.
    pub fn run_until(&mut self, span_ms: u64, so: impl Fn(&Self) -> bool) -> bool {
        const STEP_MS: u64 = 50;
        for step in 0..span_ms / STEP_MS {
            if so(self) {
                return true;
            }
            for at in 0..self.nodes.len() {
                if !self.nodes[at].up {
                    continue;
                }
                if step % (NODE_STEP_MS / STEP_MS) == 0 {
                    self.renew(at);
                    self.watch(at);
                }
                self.wake(at);
                self.settle(at);
            }
            self.pass(STEP_MS);
        }
        so(self)
    }

    /// Which owner the store knows.
    pub fn owner(&self) -> Option<String> {
        let (_, record) = self.cell.there.as_ref()?;
        Some(record.tenure.as_ref()?.owner.to_string())
    }

    /// The node that the record names.
    pub fn home(&self) -> Nonce {
        self.cell.there.as_ref().expect("a record").1.node
    }

    pub fn events(&self) -> Vec<&'static str> {
        self.cell.history.iter().map(|change| change.kind.as_str()).collect()
    }
}

/// A node renews its record so often.
const NODE_STEP_MS: u64 = 750;

impl Drop for World {
    /// Every test ends with the judge's word.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.verdict, Ok(()), "the judge objects");
        }
    }
}
