//! One node: its clock, its membership, and the shell of one lease.

use std::{collections::VecDeque, sync::Arc};

use tenure::lease::{
    Answer, Effect, Effects, Elsewhere, Env, FenceReport, FenceResult, FenceRun, Inherited, Input,
    Lease, LeaseId, Loaded, Membership, Moment, Mutant, NodeContext, NodeRecord, NodeState, Nonce,
    Peers, ReadFor, Record, Renewal, Revision, WriteEffect,
};

use super::{NODE_TTL_MS, world::World};
use crate::core::harness::*;

/// When every test begins, in real time.
pub const BEGIN: Moment = Moment(365 * 86_400 * 1_000_000_000);

pub struct Node {
    /// What its clock showed at first, and how much faster than real time it runs, in millionths.
    origin: Moment,
    ppm: i64,
    /// Whether it does anything.
    pub up: bool,
    pub membership: Membership,
    pub lease: Lease<Who>,
    pub context: NodeContext,
    pub flight: Option<WriteEffect>,
    pub reads: VecDeque<ReadFor>,
    pub inquiries: Vec<Nonce>,
    /// Sessions whose present home is to order the end of what they kept anew.
    pub reissued: Vec<Nonce>,
    /// Tenures that no caller knows of.
    pub given_back: Vec<LeaseId>,
    /// Fences that its plugins run.
    pub fences: Vec<FenceRun>,
    /// Its lease was not told yet that the node could not promise for a while.
    lapsed: bool,
}

impl Node {
    pub fn new(origin: Moment, ppm: i64, broken: Option<Mutant>) -> Self {
        let mut context = context(broken);
        (context.until, context.peers) = (Moment::ZERO, Some(Arc::default()));
        let key = tenure::lease::Key::new("jobs/1").unwrap();
        let mut nonces = Nonce::default;
        let mut env =
            Env { now: origin, wall_ms: 0, key: &key, context: &context, nonces: &mut nonces };
        let (lease, _) = Lease::recover(Loaded::Absent, Inherited::FromProcess(origin), &mut env);
        Self {
            origin,
            ppm,
            up: false,
            membership: Membership::new(Nonce::default(), "", "", NODE_TTL_MS, EPOCH),
            lease,
            context,
            flight: None,
            reads: VecDeque::new(),
            inquiries: Vec::new(),
            reissued: Vec::new(),
            given_back: Vec::new(),
            fences: Vec::new(),
            lapsed: false,
        }
    }

    /// Its clock in real time.
    fn clock(&self, real: Moment) -> Moment {
        let real = i128::from(real.0 - BEGIN.0);
        let own = real * i128::from(1_000_000 + self.ppm) / 1_000_000;
        Moment(self.origin.0 + u64::try_from(own).unwrap())
    }
}

impl World {
    pub fn clock(&self, at: usize) -> Moment {
        self.nodes[at].clock(self.real)
    }

    pub fn incarnation(&self, at: usize) -> Nonce {
        self.nodes[at].membership.incarnation()
    }

    /// The record of a node's present incarnation is terminal, as the store has it.
    pub fn is_terminal(&self, at: usize) -> bool {
        self.state_of(self.incarnation(at)) != Some(NodeState::Alive)
    }

    pub fn state_of(&self, incarnation: Nonce) -> Option<NodeState> {
        self.records.get(&incarnation).map(|(_, record)| record.state)
    }

    /// A process starts at an address: it writes its record and reads those of others.
    pub fn start(&mut self, at: usize, url: &str) {
        self.boot(at, url);
        self.renew(at);
        self.watch(at);
    }

    /// The same, before it wrote or read anything of nodes.
    pub fn boot(&mut self, at: usize, url: &str) {
        let incarnation = self.nonce();
        let there = self.cell.load();
        let node = &mut self.nodes[at];
        node.membership = Membership::new(incarnation, url, "0", NODE_TTL_MS, EPOCH);
        (node.up, node.lapsed, node.flight) = (true, false, None);
        node.reads.clear();
        node.inquiries.clear();
        node.fences.clear();
        (node.context.until, node.context.resumed) = (Moment::ZERO, Moment::ZERO);
        node.context.peers = Some(Arc::default());
        self.publish(at);
        let inherited = Inherited::FromProcess(self.clock(at));
        let (lease, effects) = self.with_env(at, |_, env| Lease::recover(there, inherited, env));
        self.nodes[at].lease = lease;
        self.perform(at, effects);
    }

    /// Its process is killed.
    pub fn crash(&mut self, at: usize) {
        self.nodes[at].up = false;
        let lost = self.nodes[at].flight.take();
        self.strays.extend(lost);
    }

    /// Makes what the membership knows the lease's.
    pub fn publish(&mut self, at: usize) {
        let (faults, now) = (self.faults, self.clock(at));
        let node = &mut self.nodes[at];
        let drained = node.membership.is_leaving() && faults.drained_answers;
        let context = &mut node.context;
        context.node = node.membership.incarnation();
        context.epoch = node.membership.record().epoch;
        context.until =
            if drained { node.membership.record().until } else { node.membership.until() };
        context.resumed = node.membership.resumed();
        let mut peers = node.membership.peers().clone();
        if faults.older_copy {
            let known = context.peers.take().unwrap_or_default();
            peers = older_copies(&known, peers, now);
        }
        context.peers = Some(Arc::new(peers));
    }

    /// One renewal of its record, settled.
    pub fn renew(&mut self, at: usize) {
        if self.nodes[at].membership.is_leaving() {
            return;
        }
        let (now, nonce) = (self.clock(at), self.nonce());
        let (expected, record) = self.nodes[at].membership.renewal(now, nonce, 0);
        if let Some(revision) = self.write_node(expected, record.clone()) {
            self.renewed(at, record, revision);
        } else if !self.outage {
            self.look_at_oneself(at);
        }
        self.publish(at);
    }

    pub fn renewed(&mut self, at: usize, record: NodeRecord, revision: Revision) {
        let now = self.clock(at);
        if self.nodes[at].membership.renewed(record, revision, now) == Renewal::Resumed {
            self.nodes[at].lapsed = true;
        }
    }

    fn look_at_oneself(&mut self, at: usize) {
        let found = self.records.get(&self.incarnation(at)).cloned();
        match found {
            Some((revision, record)) if !record.state.is_terminal() => {
                self.renewed(at, record, revision);
            }
            _ => {
                let (incarnation, now) = (self.nonce(), self.clock(at));
                self.nodes[at].membership.reborn(incarnation, EPOCH, now);
            }
        }
    }

    /// It says that it leaves.
    pub fn leave(&mut self, at: usize) {
        let nonce = self.nonce();
        let left = self.nodes[at].membership.leave(nonce);
        self.publish(at);
        if let Some((expected, record)) = left {
            self.write_node(expected, record);
        }
    }

    /// Reads every node's record, and marks those dead whose time is over.
    pub fn watch(&mut self, at: usize) {
        if !self.outage {
            let found: Vec<_> = self.records.values().cloned().collect();
            self.watch_as(at, self.clock(at), &found);
        }
    }

    /// The same, with what was asked for and read some time ago.
    pub fn watch_as(&mut self, at: usize, asked: Moment, found: &[(Revision, NodeRecord)]) {
        let now = if self.faults.counts_from_before { asked } else { self.clock(at) };
        let mut last = self.last_nonce;
        let findings = self.nodes[at].membership.read(found, asked, now, || {
            last += 1;
            Nonce(last)
        });
        self.last_nonce = last;
        let mut gone = !findings.gone.is_empty();
        for (expected, mut tombstone) in findings.dead {
            if self.faults.own_instants {
                let own = self.nodes[at].membership.record();
                (tombstone.written, tombstone.until) = (own.written, own.until);
            }
            if let Some(revision) = self.write_node(expected, tombstone.clone()) {
                let now = self.clock(at);
                self.nodes[at].membership.marked_dead(tombstone, revision, now);
                gone = true;
            }
        }
        self.nodes[at].inquiries.extend(findings.lost);
        self.inquire(at);
        self.publish(at);
        if gone {
            self.tell(at);
        }
    }

    /// What is known of the nodes changed.
    pub fn tell(&mut self, at: usize) {
        self.input(at, Input::Tick);
        self.settle(at);
    }

    /// Another node changed the key, says the feed.
    pub fn news(&mut self, at: usize) {
        let latest = self.latest();
        self.input(at, Input::Stale(latest));
        self.settle(at);
    }

    /// The change that the feed reports last.
    pub fn latest(&self) -> Elsewhere {
        self.cell.latest()
    }

    /// Finds out about nodes that a lease named and that were not known.
    fn inquire(&mut self, at: usize) {
        for node in std::mem::take(&mut self.nodes[at].inquiries) {
            let found = self.records.get(&node).cloned();
            let (revision, record) = match found {
                Some(found) => found,
                None => {
                    let record = NodeRecord::unseen(node, self.nonce());
                    let written = self.write_node(Revision::ABSENT, record.clone());
                    (written.expect("nobody else wrote it"), record)
                }
            };
            let now = self.clock(at);
            self.nodes[at].membership.marked_dead(record, revision, now);
        }
    }

    fn with_env<T>(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut Lease<Who>, &mut Env<'_>) -> T,
    ) -> T {
        let now = self.clock(at);
        let last = &mut self.last_nonce;
        let mut nonces = || {
            *last += 1;
            Nonce(*last)
        };
        let node = &mut self.nodes[at];
        let mut env = Env {
            now,
            wall_ms: 1_000,
            key: &self.key,
            context: &node.context,
            nonces: &mut nonces,
        };
        act(&mut node.lease, &mut env)
    }

    /// Hands one input to a node's lease, and performs what it wants done.
    pub fn input(&mut self, at: usize, input: Input<Who>) {
        if std::mem::take(&mut self.nodes[at].lapsed) {
            let resumed = self.nodes[at].context.resumed;
            self.nodes[at].lease.extend_by_one_ttl(resumed);
        }
        let effects = self.with_env(at, |lease, env| lease.step(input, env));
        self.perform(at, effects);
    }

    fn perform(&mut self, at: usize, effects: Effects<Who>) {
        for effect in effects {
            match effect {
                Effect::Write(write) => {
                    assert!(self.nodes[at].flight.is_none(), "two writes in flight");
                    let policy = self.nodes[at].context.policies.of(self.key.as_str());
                    self.oracle.ruled(&write, policy);
                    self.nodes[at].flight = Some(write);
                }
                Effect::Read(read_for) => self.nodes[at].reads.push_back(read_for),
                Effect::Inquire(node) => self.nodes[at].inquiries.push(node),
                Effect::Reply(who, answer) => self.reply(at, &who, &answer),
                Effect::Fence(run) => {
                    let due = self.oracle.fencing(&run);
                    self.judge(due);
                    self.nodes[at].fences.push(run);
                }
                Effect::Reissue(session) => self.nodes[at].reissued.push(session),
                Effect::GiveBack(lease_id) => self.nodes[at].given_back.push(lease_id),
                Effect::Alarm(_) | Effect::InquireSession(_) | Effect::TellRevoked(_) => {}
            }
        }
    }

    pub(super) fn reply(&mut self, at: usize, who: &Who, answer: &Answer) {
        who.tell(answer.clone());
        // The slowest client that the home's clock allows for.
        self.oracle.ppm = self.nodes[at].ppm;
        let told = self.oracle.told(who, answer, self.real, &self.cell);
        self.judge(told);
        let promised = matches!(answer, Answer::Granted(_) | Answer::Alive { .. });
        let committed = self.records.get(&self.incarnation(at)).map(|(_, record)| record.until);
        let now = self.clock(at);
        if promised && committed.is_none_or(|until| now >= until) {
            self.judge(Err(format!("I7: {answer:?} at {now:?} by {at}, D is {committed:?}")));
        }
    }

    /// The oldest fence that a node runs ends like this.
    #[track_caller]
    pub fn report(&mut self, at: usize, outcome: FenceResult) {
        let run = self.nodes[at].fences.remove(0);
        let report = FenceReport { plugin: run.plugin, token: run.token, outcome };
        self.oracle.reported(&report);
        self.input(at, Input::Fenced(report));
        self.settle(at);
    }

    /// A node's timer fires if it is due.
    pub fn wake(&mut self, at: usize) {
        for _ in 0..5 {
            if self.nodes[at].lease.next_wake() > self.clock(at) {
                return;
            }
            self.input(at, Input::Tick);
            self.settle(at);
        }
        let since = self.nodes[at].lease.next_wake();
        self.judge(Err(format!("still awake since {since:?}")));
    }
}

/// What is known of the nodes, where D of one that died is that of the record before.
fn older_copies(known: &Peers, found: Peers, now: Moment) -> Peers {
    let mut peers = Peers::default();
    for peer in found.iter() {
        let mut record = peer.record.clone();
        if let Some(older) = known.get(record.incarnation)
            && record.state.is_terminal()
        {
            record.until = older.record.until;
        }
        let mut first = record.clone();
        first.written = peer.pair.0;
        first.state = NodeState::Alive;
        peers.read(first, peer.pair.1);
        peers.read(record, now);
    }
    peers
}

impl World {
    /// What the store holds for the key.
    #[track_caller]
    pub fn record(&self) -> Arc<Record> {
        self.cell.there.as_ref().expect("a record").1.clone()
    }
}
