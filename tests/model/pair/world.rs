//! The world around two nodes: two clients, a session of the first, a plugin that fences, and the store that the
//! nodes share.

use std::{collections::BTreeMap, sync::Arc};

use tenure::lease::{
    Answer, Call, Effect, Elsewhere, Env, FenceReport, FenceResult, Input, Moment, NodeRecord,
    Nonce, Record, Request, Revision, Settled, Token, WriteEffect,
};

use super::{
    Bounds, KEY, NOW, OLDEST, SESSION, TICK_MS, TwoNodes,
    client::{Client, Kind},
    node::{Found, Node, key_of, loaded},
    session::{BEAT, Session},
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
    /// A tenure ended with its session, which has no tombstone.
    BeforeTombstone,
    /// A session was granted or revived after its tombstone.
    Risen,
    /// A key was granted before its fence was confirmed, or a fenced tenure went on.
    Unfenced,
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
    TooLateToMarkDead,
    /// A session of a dead node went on at the other.
    SessionAdopted,
    /// The key of a dead node ended with its session, at the hands of the other.
    SweptElsewhere,
    /// A grant under a session was written after the session's tombstone.
    LandedAfterTombstone,
    /// A grant was told once its session was seen alive after it.
    ToldUnderSession,
    /// A fence was confirmed, and that is durable.
    Fenced,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub nodes: [Node; 2],
    pub cells: [Found; 2],
    pub records: BTreeMap<Nonce, NodeRecord>,
    /// A write that its author gave up, or did not survive: it may land yet.
    pub stray: Option<(usize, WriteEffect)>,
    pub clients: [Client; 2],
    pub session: Session,
    /// The tenure of the key that ended, and is not durably fenced; and whether the plugin has confirmed.
    pub fence: Option<(Token, bool)>,
    pub incarnations: u8,
    pub crashes: u8,
    pub drains: u8,
    pub unknowns: u8,
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
    /// The holder's heartbeat of the session, and its end.
    Beat(usize),
    EndSession(usize),
    /// The holder wants the key, kept by the session; the node takes its next step towards that.
    Want(usize),
    GoOn,
    /// The key's lease is told that the session is over.
    Tell(usize),
    /// The plugin confirms.
    Confirm(usize),
    Commit(usize, usize),
    LoseReply(usize, usize, Fate),
    LandStray,
    /// The read that is under way gets to the store only now.
    Sample(usize, usize),
    Answer(usize, usize),
    /// A node reads the records of all nodes.
    Scan(usize),
    /// It gets to see this one only now.
    SampleNode(usize, Nonce),
    Scanned(usize),
    /// What it asked about one node is answered.
    SampleInquiry(usize),
    Inquired(usize),
    News(usize, usize),
    Wake(usize, usize),
    /// A node renews its record and reads those of others.
    Keep(usize),
    Leave(usize),
    Crash(usize, [Fate; 2]),
    Start(usize),
    Pass,
}

const URLS: [&str; 2] = ["a", "b"];

impl World {
    pub fn new(model: &TwoNodes) -> Self {
        let nodes =
            [0, 1].map(|at| Node::new(model, Nonce(1 + at as u128), URLS[at], &[None, None]));
        let mut world = Self {
            nodes,
            cells: [None, None],
            records: BTreeMap::new(),
            stray: None,
            clients: [Client::default(); 2],
            session: Session::default(),
            fence: None,
            incarnations: 2,
            crashes: 0,
            drains: 0,
            unknowns: 0,
            broken: None,
        };
        world.renew(model, 0);
        world.watch(model, 0);
        if model.bounds.successor {
            world.nodes[1] = Node::new(model, Nonce(2), URLS[0], &[None, None]);
        } else {
            world.renew(model, 1);
            world.watch(model, 1);
            world.watch(model, 0);
        }
        if model.bounds.session {
            world.with_session(model);
            return world;
        }
        // The first client was granted the key at the first node; whether it heard of it is open.
        world.send(model, 0, Kind::Acquire, 0);
        world.act(model, &Action::Commit(0, KEY));
        if !model.bounds.heard {
            world.clients[0] = Client { attempts: 1, ..Client::default() };
        }
        world
    }

    pub fn within(&self, bounds: &Bounds) -> bool {
        self.revision(KEY).0 <= bounds.writes && self.revision(SESSION).0 <= bounds.session_writes
    }

    pub fn act(&mut self, model: &TwoNodes, action: &Action) {
        match *action {
            Action::Send(me, kind, at) => self.send(model, me, kind, at),
            Action::Beat(_)
            | Action::EndSession(_)
            | Action::Want(_)
            | Action::GoOn
            | Action::Tell(_) => self.act_on_session(model, action),
            Action::Confirm(at) => self.confirm(model, at),
            Action::Commit(at, which) => {
                let write = self.nodes[at].flights[which].take().expect("offered only then");
                let settled = match self.land(model, which, write) {
                    Some(revision) => Settled::Committed(revision),
                    None => Settled::Conflict(loaded(&self.cells[which])),
                };
                self.step(model, at, which, Input::Settled(settled));
            }
            Action::LoseReply(at, which, fate) => {
                self.unknowns += 1;
                self.meet(model, at, which, fate);
                self.step(model, at, which, Input::Settled(Settled::Unknown(broken())));
            }
            Action::LandStray => {
                let (which, write) = self.stray.take().expect("offered only then");
                self.land(model, which, write);
            }
            Action::Answer(at, which) => self.answer(model, at, which),
            Action::Sample(..)
            | Action::Scan(_)
            | Action::SampleNode(..)
            | Action::Scanned(_)
            | Action::SampleInquiry(_)
            | Action::Inquired(_) => self.act_on_nodes(model, action),
            Action::News(at, which) => {
                self.nodes[at].news[which] = false;
                let cell = self.cells[which].as_ref();
                let latest = |(revision, record): &(Revision, Arc<Record>)| {
                    (record.seq, record.token(*revision))
                };
                let (seq, token) = cell.map_or_else(Default::default, latest);
                self.step(model, at, which, Input::Stale(Elsewhere::Change { seq, token }));
            }
            Action::Wake(at, which) => self.step(model, at, which, Input::Tick),
            Action::Keep(at) => {
                self.renew(model, at);
                if !model.bounds.slow_scans[at] {
                    self.watch(model, at);
                }
            }
            Action::Leave(at) => {
                self.drains += 1;
                if let Some((_, record)) = self.nodes[at].membership.leave(Nonce::default()) {
                    self.write_terminal(record);
                }
            }
            Action::Crash(at, fates) => self.crash(model, at, fates),
            Action::Start(at) => {
                self.incarnations += 1;
                let url = URLS[if model.bounds.successor { 0 } else { at }];
                let incarnation = Nonce(u128::from(self.incarnations));
                self.nodes[at] = Node::new(model, incarnation, url, &self.cells);
            }
            Action::Pass => {
                self.pass(model);
                for at in 0..2 {
                    let node = &self.nodes[at];
                    let first = node.membership.incarnation().0 <= 2;
                    let sleeps = first && model.bounds.sleeps[at];
                    if node.runs && node.membership.is_committed() && !sleeps {
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
        if self.beside(model, (at, KEY), caller, &request) {
            return;
        }
        let home_unreachable = kind == Kind::Release;
        self.step(
            model,
            at,
            KEY,
            Input::Call(Call { caller, received: NOW, request, home_unreachable }),
        );
    }

    /// A heartbeat arrives at a node, and finds the promise cell of the lease. False: the actor is to be asked.
    pub fn beside(
        &mut self,
        model: &TwoNodes,
        (at, which): (usize, usize),
        caller: Number,
        request: &Request,
    ) -> bool {
        let context = self.nodes[at].context(model);
        let absorbed = match (request, self.nodes[at].leases[which].promise_cell()) {
            (Request::Heartbeat(beat), Some(cell)) => context.absorb_in(cell, beat, NOW, NOW),
            _ => None,
        };
        let Some(absorbed) = absorbed else { return false };
        let (token, valid_for_ms) = (absorbed.token, absorbed.valid_for_ms);
        self.reply(model, at, caller, &Answer::Alive { token, valid_for_ms, revived: false });
        true
    }

    /// The plugin did its work, and says so.
    fn confirm(&mut self, model: &TwoNodes, at: usize) {
        let token = self.nodes[at].fencing.take().expect("offered only then");
        if let Some((ended, confirmed)) = &mut self.fence {
            *confirmed |= *ended == token;
        }
        let outcome = FenceResult::Confirmed;
        let report = FenceReport { plugin: "x".into(), token, outcome };
        self.step(model, at, KEY, Input::Fenced(report));
    }

    pub fn step(&mut self, model: &TwoNodes, at: usize, which: usize, input: Input<Number>) {
        let waiting = self.clients.iter().filter_map(|client| client.call);
        Number::present(waiting.map(|call| call.caller).chain(self.session.present()));
        let key = key_of(which);
        // One incarnation starts one write on one revision: what a lost one expected has moved on.
        let incarnation = self.nodes[at].membership.incarnation().0;
        let next = Nonce(incarnation * 64 + u128::from(self.revision(which).0) + 1);
        let mut nonces = || next;
        let context = self.nodes[at].context(model);
        let mut env =
            Env { now: NOW, wall_ms: 0, key: &key, context: &context, nonces: &mut nonces };
        let lease = &mut self.nodes[at].leases[which];
        let effects = lease.step(input, &mut env);
        lease.for_records(|record| record.age(ms(0), OLDEST));
        for effect in effects {
            match effect {
                Effect::Write(mut write) => {
                    write.record.age(ms(0), OLDEST);
                    self.nodes[at].flights[which] = Some(write);
                }
                Effect::Read(read_for) => {
                    let now = self.cells[which].clone();
                    self.nodes[at].reads[which].push((read_for, now));
                }
                Effect::Reply(caller, answer) => self.reply(model, at, caller, &answer),
                Effect::Inquire(node) => self.inquire(model, at, node),
                Effect::Fence(run) => self.nodes[at].fencing = Some(run.token),
                // What is to be found out about a session may be told at any time.
                Effect::Alarm(_)
                | Effect::InquireSession(_)
                | Effect::Reissue(_)
                | Effect::TellRevoked(_)
                | Effect::GiveBack(_) => {}
            }
        }
        if !model.bounds.slow_reads && !self.nodes[at].reads[which].is_empty() {
            self.answer(model, at, which);
        }
    }

    fn reply(&mut self, model: &TwoNodes, at: usize, caller: Number, answer: &Answer) {
        if caller.0 >= BEAT.0 {
            return self.session_hears(model, at, caller, answer);
        }
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
        let granted = me == 0 && model.bounds.session && call.kind == Kind::Acquire;
        if granted {
            self.session_granted(answer);
        } else {
            client.hear(answer, call.sent);
        }
        match answer {
            Answer::Granted(grant) => self.promised(at, KEY, grant.view.token),
            Answer::Alive { token, .. } => self.promised(at, KEY, *token),
            _ => {}
        }
    }

    /// A node promised that this tenure goes on.
    pub fn promised(&mut self, at: usize, which: usize, token: Token) {
        if !self.is_durable(which, token) {
            self.broken = Some(Broken::NotDurable);
        }
        let record = self.records.get(&self.nodes[at].membership.incarnation());
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
        self.session.age();
        self.records.values_mut().for_each(|record| record.age(by, OLDEST));
        for (_, record) in self.cells.iter_mut().flatten() {
            record.age(by, OLDEST);
        }
        if let Some((_, write)) = &mut self.stray {
            write.record.age(by, OLDEST);
        }
    }

    /// I1 is broken: two clients believe that they hold the key, under different tokens.
    pub fn windows_overlap(&self) -> bool {
        let [a, b] = &self.clients;
        let kept = || a.proof.is_some() && !a.closed && self.session.until > NOW;
        (a.believes() || kept()) && b.believes() && a.token() != b.token()
    }
}
