//! The world around two nodes: two clients, and the store that the nodes share.

use std::collections::BTreeMap;

use tenure::lease::{
    Answer, Call, Effect, Env, Input, Key, Moment, NodeRecord, Nonce, Settled, State, WriteEffect,
};

use super::{
    Bounds, NOW, OLDEST, TICK_MS, TwoNodes,
    client::{Client, Kind},
    node::{Found, Node, loaded},
};
use crate::{
    harness::{acquire, broken, heartbeat, ms, release},
    model::caller::Number,
};

/// A broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Broken {
    /// A token did not grow.
    Tokens,
    /// The history has a hole, or tells another owner than the record.
    History,
    /// Somebody was told what the store does not hold.
    NotDurable,
    /// A node promised at or after the D that the store has of it.
    PromisedTooLate,
    /// A caller was answered twice.
    AnsweredTwice,
    /// A lease names a node that never had a record.
    Homeless,
}

/// What the last step did, for the checks that the model is not vacuous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A tenure of a dead node ended by expiry, and the key went to somebody else.
    TakenOver,
    Adopted,
    /// An adopter waited for the floor that it inherited.
    FloorMattered,
    /// A node that is not the living home wrote a release.
    ReleasedByConsent,
    /// A write in doubt was found to be durable.
    Settled,
    /// A node went on under another name.
    Reborn,
    /// A read of the key's record showed what is no longer there.
    StaleRead,
    /// The same for the nodes' records.
    StaleScan,
    /// A node was to be found dead from a record that it has renewed since.
    TooLateToBury,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub nodes: [Node; 2],
    pub cell: Found,
    pub records: BTreeMap<Nonce, NodeRecord>,
    /// A write that its author gave up, or did not survive: it may land yet.
    pub stray: Option<WriteEffect>,
    pub clients: [Client; 2],
    pub incarnations: u8,
    pub crashes: u8,
    pub drains: u8,
    pub doubts: u8,
    pub broken: Option<Broken>,
}

/// What becomes of a write whose reply is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    Landed,
    LandsLate,
    Lost,
}

/// What may happen next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A client sends a request to a node, having given up the one before.
    Send(usize, Kind, usize),
    Commit(usize),
    LoseReply(usize, Fate),
    LandStray,
    /// The read that is under way gets to the store only now.
    Sample(usize),
    Answer(usize),
    /// A node reads the records of all nodes.
    Scan(usize),
    /// It gets to see this one only now.
    SampleNode(usize, Nonce),
    Scanned(usize),
    /// What it asked about one node is answered.
    SampleInquiry(usize),
    Inquired(usize),
    News(usize),
    Wake(usize),
    /// A node renews its record and reads those of others.
    Keep(usize),
    Leave(usize),
    Crash(usize, Fate),
    Start(usize),
    Pass,
}

const URLS: [&str; 2] = ["a", "b"];

impl World {
    pub fn new(model: &TwoNodes) -> Self {
        let nodes = [0, 1].map(|at| Node::new(model, Nonce(1 + at as u128), URLS[at], &None));
        let mut world = Self {
            nodes,
            cell: None,
            records: BTreeMap::new(),
            stray: None,
            clients: [Client::default(); 2],
            incarnations: 2,
            crashes: 0,
            drains: 0,
            doubts: 0,
            broken: None,
        };
        world.renew(model, 0);
        world.watch(model, 0);
        if model.bounds.successor {
            world.nodes[1] = Node::new(model, Nonce(2), URLS[0], &None);
        } else {
            world.renew(model, 1);
            world.watch(model, 1);
            world.watch(model, 0);
        }
        // The first client was granted the key at the first node; whether it heard of it is open.
        world.send(model, 0, Kind::Acquire, 0);
        world.act(model, &Action::Commit(0));
        if !model.bounds.heard {
            world.clients[0] = Client { attempts: 1, ..Client::default() };
        }
        world
    }

    pub fn within(&self, bounds: &Bounds) -> bool {
        self.revision().0 <= bounds.writes
    }

    pub fn actions(&self, bounds: &Bounds, out: &mut Vec<Action>) {
        for (me, client) in self.clients.iter().enumerate() {
            for at in 0..2 {
                let holds = client.proof.is_some() && !client.closed;
                if holds && client.call.is_none() {
                    if me == 0 || bounds.rival_calls {
                        let kinds = bounds.calls.iter();
                        out.extend(kinds.map(|kind| Action::Send(me, *kind, at)));
                    }
                } else if me == 1 && at == 0 && !bounds.rival_calls {
                    // The rival asks where the key is not at home at first.
                } else if client.proof.is_none() && client.attempts < bounds.attempts[me] {
                    out.push(Action::Send(me, Kind::Acquire, at));
                }
            }
        }
        for (at, node) in self.nodes.iter().enumerate() {
            if node.runs {
                self.actions_at(at, node, bounds, out);
            } else if self.incarnations < bounds.incarnations {
                out.push(Action::Start(at));
            }
        }
        if self.stray.is_some() {
            out.push(Action::LandStray);
        }
        if self.nodes.iter().all(|node| node.may_wait(bounds)) {
            out.push(Action::Pass);
        }
    }

    fn actions_at(&self, at: usize, node: &Node, bounds: &Bounds, out: &mut Vec<Action>) {
        out.push(Action::Keep(at));
        if node.flight.is_some() {
            out.push(Action::Commit(at));
            if self.doubts < bounds.doubts && self.stray.is_none() {
                let fates = [Fate::Landed, Fate::LandsLate, Fate::Lost];
                out.extend(fates.map(|fate| Action::LoseReply(at, fate)));
            }
        }
        self.actions_of_reads(at, node, bounds, out);
        if node.news {
            out.push(Action::News(at));
        }
        if node.lease.next_wake() <= NOW {
            out.push(Action::Wake(at));
        }
        if self.drains < bounds.drains && !node.keeper.is_leaving() {
            out.push(Action::Leave(at));
        }
        if self.crashes < bounds.crashes {
            out.push(Action::Crash(at, Fate::Lost));
            if node.flight.is_some() {
                out.push(Action::Crash(at, Fate::Landed));
                if self.stray.is_none() {
                    out.push(Action::Crash(at, Fate::LandsLate));
                }
            }
        }
    }

    pub fn act(&mut self, model: &TwoNodes, action: &Action) {
        match *action {
            Action::Send(me, kind, at) => self.send(model, me, kind, at),
            Action::Commit(at) => {
                let write = self.nodes[at].flight.take().expect("offered only then");
                let settled = match self.land(model, write) {
                    Some(revision) => Settled::Committed(revision),
                    None => Settled::Conflict(loaded(&self.cell)),
                };
                self.step(model, at, Input::Settled(settled));
            }
            Action::LoseReply(at, fate) => {
                self.doubts += 1;
                self.meet(model, at, fate);
                self.step(model, at, Input::Settled(Settled::Unknown(broken())));
            }
            Action::LandStray => {
                let write = self.stray.take().expect("offered only then");
                self.land(model, write);
            }
            Action::Answer(at) => self.answer(model, at),
            Action::Sample(_)
            | Action::Scan(_)
            | Action::SampleNode(..)
            | Action::Scanned(_)
            | Action::SampleInquiry(_)
            | Action::Inquired(_) => self.act_on_nodes(model, action),
            Action::News(at) => {
                self.nodes[at].news = false;
                let seq = self.cell.as_ref().map_or(0, |(_, record)| record.seq);
                self.step(model, at, Input::Stale(seq));
            }
            Action::Wake(at) => self.step(model, at, Input::Tick),
            Action::Keep(at) => {
                self.renew(model, at);
                if !model.bounds.slow_scans[at] {
                    self.watch(model, at);
                }
            }
            Action::Leave(at) => {
                self.drains += 1;
                if let Some((_, record)) = self.nodes[at].keeper.leave(Nonce::default()) {
                    self.write_terminal(record);
                }
            }
            Action::Crash(at, fate) => self.crash(model, at, fate),
            Action::Start(at) => {
                self.incarnations += 1;
                let url = URLS[if model.bounds.successor { 0 } else { at }];
                let incarnation = Nonce(u128::from(self.incarnations));
                self.nodes[at] = Node::new(model, incarnation, url, &self.cell);
            }
            Action::Pass => {
                self.pass(model);
                for at in 0..2 {
                    let node = &self.nodes[at];
                    let first = node.keeper.incarnation().0 <= 2;
                    let sleeps = first && model.bounds.sleeps[at];
                    if node.runs && node.keeper.is_committed() && !sleeps {
                        self.renew(model, at);
                        if !model.bounds.slow_scans[at] {
                            self.watch(model, at);
                        }
                    }
                }
            }
        }
    }

    fn send(&mut self, model: &TwoNodes, me: usize, kind: Kind, at: usize) {
        let client = &mut self.clients[me];
        if kind == Kind::Acquire {
            client.attempts += 1;
        }
        let caller = client.send(me, kind, at);
        if !self.nodes[at].runs {
            self.clients[me].call = None;
            return;
        }
        let request = match (kind, client.proof) {
            (Kind::Heartbeat, Some((proof, _))) => heartbeat(proof),
            (Kind::Release, Some((proof, _))) => release(proof),
            _ => {
                let ask = acquire(["a", "b"][me]).ttl_ms(TICK_MS).id(me as u128, 0);
                // It waits for as long as it takes.
                let mut ask = ask.waiting_until(Moment::NEVER);
                ask.0.grant_nonce = Nonce(1000 + u128::from(caller.0));
                ask.into()
            }
        };
        let stranded = kind == Kind::Release;
        self.step(model, at, Input::Call(Call { caller, received: NOW, request, stranded }));
    }

    pub fn step(&mut self, model: &TwoNodes, at: usize, input: Input<Number>) {
        let waiting = self.clients.iter().filter_map(|client| client.call);
        Number::present(waiting.map(|call| call.caller));
        let key = Key::new("k").unwrap();
        // One incarnation starts one write on one revision: what a lost one expected has moved on.
        let incarnation = self.nodes[at].keeper.incarnation().0;
        let next = Nonce(incarnation * 64 + u128::from(self.revision().0) + 1);
        let mut nonces = || next;
        let terms = self.nodes[at].terms(model);
        let mut env = Env { now: NOW, wall_ms: 0, key: &key, terms: &terms, nonces: &mut nonces };
        let lease = &mut self.nodes[at].lease;
        let effects = lease.step(input, &mut env);
        lease.for_records(|record| record.age(ms(0), OLDEST));
        for effect in effects {
            match effect {
                Effect::Write(mut write) => {
                    write.record.age(ms(0), OLDEST);
                    self.nodes[at].flight = Some(write);
                }
                Effect::Read => self.nodes[at].reads.push(self.cell.clone()),
                Effect::Reply(caller, answer) => self.reply(at, caller, &answer),
                Effect::Inquire(node) => self.inquire(model, at, node),
                Effect::Alarm(_)
                | Effect::InquireSession(_)
                | Effect::Reorder(_)
                | Effect::Fence(_) => {}
            }
        }
        if !model.bounds.slow_reads && !self.nodes[at].reads.is_empty() {
            self.answer(model, at);
        }
    }

    fn reply(&mut self, at: usize, caller: Number, answer: &Answer) {
        let me = usize::from(caller.0 / 8);
        let client = &mut self.clients[me];
        let current = client.call.filter(|call| call.caller == caller);
        let Some(call) = current else {
            // Nobody listens: it gave up, unless it has its answer.
            let kind = if caller.0 % 8 == 7 { Kind::Heartbeat } else { Kind::Acquire };
            if client.call.is_none() && client.number(me, kind) == caller {
                self.broken = Some(Broken::AnsweredTwice);
            }
            return;
        };
        client.call = None;
        client.hear(answer, call.sent);
        let token = match answer {
            Answer::Granted(grant) => grant.view.token,
            Answer::Alive { token, .. } => *token,
            _ => return,
        };
        let held = self.cell.as_ref().is_some_and(|(_, record)| record.state == State::Held);
        if !held || token != self.token() {
            self.broken = Some(Broken::NotDurable);
        }
        let record = self.records.get(&self.nodes[at].keeper.incarnation());
        if record.is_none_or(|record| NOW >= record.until) {
            self.broken = Some(Broken::PromisedTooLate);
        }
    }

    /// One tick passes: everything else lies one tick further back.
    fn pass(&mut self, model: &TwoNodes) {
        let by = ms(TICK_MS);
        for node in self.nodes.iter_mut().filter(|node| node.runs) {
            node.age(NOW, model.recent());
        }
        for client in &mut self.clients {
            client.age(NOW);
        }
        self.records.values_mut().for_each(|record| record.age(by, OLDEST));
        if let Some((_, record)) = &mut self.cell {
            record.age(by, OLDEST);
        }
        if let Some(write) = &mut self.stray {
            write.record.age(by, OLDEST);
        }
    }

    /// I1 is broken: two clients believe that they hold the key, under different tokens.
    pub fn windows_overlap(&self) -> bool {
        let [a, b] = &self.clients;
        a.believes() && b.believes() && a.token() != b.token()
    }
}
