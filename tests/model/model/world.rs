//! The world around one lease: two clients, a network that delays and loses, a server that crashes,
//! a store with one write in flight.

use std::sync::Arc;

use tenure::lease::{
    Answer, Call, ChangeKind, Effect, Env, FenceReport, FenceResult, Heartbeat, Inherited, Input,
    Key, Lease, Loaded, Moment, Nonce, Record, Revision, Settled, Token, WriteEffect,
};

use super::{
    After, Bounds, MIN_HOLD_MS, NOW, OLDEST, OneKey, TICK_MS,
    caller::Number,
    client::{At, Client, Kind, Told, aged},
    ended::Ended,
};
use crate::harness::{acquire, heartbeat, ms, release};

/// A broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Broken {
    /// A token did not grow.
    Tokens,
    /// The history has a hole, or tells another owner than the record.
    History,
    /// Somebody was told what the store does not hold.
    NotDurable,
    /// A caller was answered twice.
    AnsweredTwice,
    /// A grant was written for somebody who had left.
    GrantedToNobody,
    /// A key was granted before its fence was confirmed, or a fenced tenure went on.
    Unfenced,
    /// A key was granted before its lock-delay was over.
    TooEarly,
}

/// What the last step did, for the checks that the model is not vacuous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    TakenOver,
    HandedOver,
    Revived,
    Repeated,
    RestartedUnderHolder,
    /// Somebody was granted the key after a fence or a lock-delay.
    Followed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    lease: Lease<Number>,
    store: Option<(Revision, Arc<Record>)>,
    flight: Option<WriteEffect>,
    pub clients: [Client; 2],
    crashes: u8,
    ended: Ended,
    pub broken: Option<Broken>,
    pub event: Option<Event>,
}

/// What may happen next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Send(usize, Kind),
    Arrive(usize),
    /// A heartbeat that arrived one tick ago finds the promise cell only now: its thread was stopped.
    ArriveLate(usize),
    Deliver(usize),
    GiveUp(usize),
    Commit,
    Crash {
        written: bool,
    },
    Report(FenceResult),
    Pass,
    Wake,
}

impl World {
    pub fn new(model: &OneKey) -> Self {
        let key = Key::new("k").unwrap();
        let mut nonces = Nonce::default;
        let context = &model.context;
        let mut env = Env { now: NOW, wall_ms: 0, key: &key, context, nonces: &mut nonces };
        let (lease, _) = Lease::recover(Loaded::Absent, Inherited::FromProcess(NOW), &mut env);
        Self {
            lease,
            store: None,
            flight: None,
            clients: [Client::default(); 2],
            crashes: 0,
            ended: Ended::default(),
            broken: None,
            event: None,
        }
    }

    fn revision(&self) -> Revision {
        self.store.as_ref().map_or(Revision::ABSENT, |(revision, _)| *revision)
    }

    fn token(&self) -> Token {
        self.store.as_ref().map_or(Token::default(), |(at, record)| record.token(*at))
    }

    pub fn within(&self, bounds: &Bounds) -> bool {
        self.revision().0 <= bounds.writes
    }

    pub fn actions(&self, bounds: &Bounds, out: &mut Vec<Action>) {
        for (me, client) in self.clients.iter().enumerate() {
            let Some(call) = client.call else {
                let holds = client.proof.is_some() && !client.closed;
                if holds {
                    out.extend([Kind::Heartbeat, Kind::Release].map(|kind| Action::Send(me, kind)));
                } else if client.rounds < bounds.rounds {
                    out.push(Action::Send(me, Kind::Acquire));
                }
                continue;
            };
            match call.at {
                At::Sent => {
                    out.push(Action::Arrive(me));
                    let arrived = NOW - ms(TICK_MS);
                    let open = self.lease.promise_cell().and_then(|cell| cell.promised());
                    let absorbs = open.is_some_and(|promised| promised > arrived);
                    if call.kind == Kind::Heartbeat && call.sent <= arrived && absorbs {
                        out.push(Action::ArriveLate(me));
                    }
                }
                At::Answered(_) => out.push(Action::Deliver(me)),
                At::Server | At::Orphaned => {}
            }
            let may = match call.kind {
                Kind::Acquire => true,
                Kind::Heartbeat | Kind::Release => client.given_up < bounds.given_up,
            };
            if may && call.at != At::Sent {
                out.push(Action::GiveUp(me));
            }
        }
        if self.flight.is_some() {
            out.push(Action::Commit);
        }
        if self.crashes < bounds.crashes {
            out.push(Action::Crash { written: false });
            if self.flight.is_some() {
                out.push(Action::Crash { written: true });
            }
        }
        if self.ended.running.is_some() {
            let results = [FenceResult::Confirmed, FenceResult::Interrupted];
            out.extend(results.map(Action::Report));
        }
        out.push(Action::Pass);
        if self.lease.next_wake() <= NOW {
            out.push(Action::Wake);
        }
    }

    pub fn act(&mut self, model: &OneKey, action: &Action) {
        self.event = None;
        match *action {
            Action::Send(me, kind) => self.clients[me].send(me, kind, model.flaw),
            Action::Arrive(me) => self.arrive(model, me),
            Action::ArriveLate(me) => {
                self.beside(model, me, NOW - ms(TICK_MS));
            }
            Action::Deliver(me) => {
                if let Some(call) = self.clients[me].call.take()
                    && let At::Answered(told) = call.at
                {
                    self.clients[me].hear(told);
                    self.finish_round(me, call.kind);
                }
            }
            Action::GiveUp(me) => self.give_up(model, me),
            Action::Commit => {
                let write = self.flight.take().expect("offered only then");
                let revision = self.land(model, write);
                self.step(model, Input::Settled(Settled::Committed(revision)));
            }
            Action::Crash { written } => self.crash(model, written),
            Action::Report(ref outcome) => self.report(model, outcome.clone()),
            Action::Pass => self.pass(),
            Action::Wake => self.step(model, Input::Tick),
        }
    }

    fn finish_round(&mut self, me: usize, kind: Kind) {
        if kind == Kind::Acquire {
            self.clients[me].rounds += 1;
            self.clients[me].attempts = 0;
        }
    }

    /// The caller leaves; who wanted the key asks again under the same request id.
    fn give_up(&mut self, model: &OneKey, me: usize) {
        let client = &mut self.clients[me];
        let Some(call) = client.call.take() else { return };
        if call.kind != Kind::Acquire {
            client.given_up += 1;
        } else if client.attempts + 1 < model.bounds.attempts[me] {
            client.attempts += 1;
            client.send(me, Kind::Acquire, model.flaw);
        } else {
            self.finish_round(me, Kind::Acquire);
        }
    }

    /// The thread of a heartbeat that arrived at `decided` finds the promise cell. False: the actor is to be asked.
    fn beside(&mut self, model: &OneKey, me: usize, decided: Moment) -> bool {
        let client = &mut self.clients[me];
        let (Some(call), Some((proof, _))) = (&mut client.call, client.proof) else { return false };
        let beat = Heartbeat::new(proof);
        let absorbed = match self.lease.promise_cell() {
            Some(cell) if call.kind == Kind::Heartbeat => {
                model.context.absorb_in(cell, &beat, decided, decided)
            }
            _ => None,
        };
        let Some(absorbed) = absorbed else { return false };
        call.at = At::Server;
        let (caller, token) = (call.caller, absorbed.token);
        let valid_for_ms = absorbed.valid_for_ms;
        self.reply(model, caller, &Answer::Alive { token, valid_for_ms, revived: false });
        true
    }

    fn arrive(&mut self, model: &OneKey, me: usize) {
        if self.beside(model, me, NOW) {
            return;
        }
        let client = &mut self.clients[me];
        let Some(call) = &mut client.call else { return };
        call.at = At::Server;
        let (caller, proof) = (call.caller, client.proof.map(|(proof, _)| proof));
        let request = match (call.kind, proof) {
            (Kind::Heartbeat, Some(proof)) => heartbeat(proof),
            (Kind::Release, Some(proof)) => release(proof),
            _ => {
                let id = u128::from(client.number(me, Kind::Acquire).0 - client.attempts);
                let min_hold = if model.after == After::MinimumHold { MIN_HOLD_MS } else { 0 };
                let ask = acquire(["a", "b"][me]).ttl_ms(2 * TICK_MS).min_hold_ms(min_hold);
                let ask = ask.id(id, 0);
                let mut ask = ask.waiting_until(NOW + ms(2 * TICK_MS));
                ask.0.grant_nonce = granted_to(caller);
                ask.into()
            }
        };
        self.step(
            model,
            Input::Call(Call { caller, received: NOW, request, home_unreachable: false }),
        );
    }

    fn step(&mut self, model: &OneKey, input: Input<Number>) {
        let waiting = self.clients.iter().filter_map(|client| client.call);
        Number::present(waiting.map(|call| call.caller));
        let key = Key::new("k").unwrap();
        // A lost write never lands later here: the number of the next one names it well enough.
        let next = Nonce(u128::from(self.revision().0) + 1);
        let mut nonces = || next;
        let mut env =
            Env { now: NOW, wall_ms: 0, key: &key, context: &model.context, nonces: &mut nonces };
        let effects = self.lease.step(input, &mut env);
        for effect in effects {
            match effect {
                Effect::Write(write) => {
                    self.granted_to_somebody(&write);
                    self.flight = Some(write);
                }
                Effect::Reply(caller, answer) => self.reply(model, caller, &answer),
                Effect::Read(_)
                | Effect::Alarm(_)
                | Effect::Inquire(_)
                | Effect::InquireSession(_)
                | Effect::Reissue(_)
                | Effect::TellRevoked(_)
                | Effect::GiveBack(_) => {}
                Effect::Fence(run) => self.ended.run(&run),
            }
        }
    }

    fn reply(&mut self, model: &OneKey, caller: Number, answer: &Answer) {
        let durable = self.store.as_ref().and_then(|(_, record)| record.tenure.as_ref());
        let nonce = durable.map(|tenure| tenure.grant_nonce);
        let (durable, token) = (durable.is_some(), self.token());
        for client in &mut self.clients {
            let Some(call) = client.call.as_mut().filter(|call| call.caller == caller) else {
                continue;
            };
            let told = Told::new(answer, call.sent, model.flaw);
            if call.at != At::Server {
                self.broken = Some(Broken::AnsweredTwice);
            }
            call.at = At::Answered(told);
            // How long ago it was sent no longer matters.
            call.sent = OLDEST;
            let promised = match told {
                Told::Granted { token, .. } | Told::Alive { token, .. } => token,
                Told::Lost | Told::Other => continue,
            };
            self.ended.tell();
            if !durable || token != promised {
                self.broken = Some(Broken::NotDurable);
            }
            let repeated = nonce.is_some_and(|nonce| nonce != granted_to(caller));
            if repeated && call.kind == Kind::Acquire {
                self.event = Some(Event::Repeated);
            }
        }
    }

    fn granted_to_somebody(&mut self, write: &WriteEffect) {
        let grants = write
            .changes
            .iter()
            .any(|change| change.kind == ChangeKind::Granted && change.reason.is_none());
        let nonce = write.record.tenure.as_ref().map(|tenure| tenure.grant_nonce);
        let mut calls = self.clients.iter().filter_map(|client| client.call);
        if grants && !calls.any(|c| nonce == Some(granted_to(c.caller))) {
            self.broken = Some(Broken::GrantedToNobody);
        }
    }

    fn report(&mut self, model: &OneKey, outcome: FenceResult) {
        let token = self.ended.running.take().expect("offered only then");
        if outcome == FenceResult::Confirmed {
            self.ended.confirm(token);
        }
        self.step(model, Input::Fenced(FenceReport { plugin: "x".into(), token, outcome }));
    }

    fn land(&mut self, model: &OneKey, write: WriteEffect) -> Revision {
        let revision = Revision(self.revision().0 + 1);
        let (before, mut seq) = match &self.store {
            Some((_, record)) => (self.token(), record.seq),
            None => (Token::default(), 0),
        };
        let mut owner = self
            .store
            .as_ref()
            .and_then(|(_, record)| record.tenure.as_ref().map(|tenure| tenure.owner.clone()));
        for change in &write.changes {
            seq += 1;
            owner.clone_from(&change.owner);
            if change.seq != seq {
                self.broken = Some(Broken::History);
            }
        }
        let record = &write.record;
        if record.seq != seq || owner != record.tenure.as_ref().map(|t| t.owner.clone()) {
            self.broken = Some(Broken::History);
        }
        let granted = matches!(write.changes.last(), Some(c) if c.kind == ChangeKind::Granted);
        let revived = granted && write.changes.last().is_some_and(|c| c.reason.is_some());
        let token = record.token(revision);
        if granted && !revived && token <= before || revived && token != before {
            self.broken = Some(Broken::Tokens);
        }
        self.event = match write.changes.first().map(|change| change.kind) {
            Some(ChangeKind::Expired) if granted => Some(Event::TakenOver),
            Some(ChangeKind::Released) if granted => Some(Event::HandedOver),
            _ if revived => Some(Event::Revived),
            _ if granted && self.ended.is_something() => Some(Event::Followed),
            _ => self.event,
        };
        self.broken = self.ended.landed(model.after, &write).or(self.broken);
        self.store = Some((revision, write.record));
        revision
    }

    fn crash(&mut self, model: &OneKey, written: bool) {
        self.crashes += 1;
        if let Some(write) = self.flight.take()
            && written
        {
            self.land(model, write);
        }
        if self.clients.iter().any(Client::believes) {
            self.event = Some(Event::RestartedUnderHolder);
        }
        for call in self.clients.iter_mut().filter_map(|client| client.call.as_mut()) {
            if call.at == At::Server {
                call.at = At::Orphaned;
            }
        }
        let there = match &self.store {
            None => Loaded::Absent,
            Some((revision, record)) => Loaded::Record(*revision, record.clone()),
        };
        let key = Key::new("k").unwrap();
        let mut nonces = Nonce::default;
        let context = &model.context;
        let mut env = Env { now: NOW, wall_ms: 0, key: &key, context, nonces: &mut nonces };
        let effects;
        (self.lease, effects) = Lease::recover(there, Inherited::FromProcess(NOW), &mut env);
        self.ended.running = None;
        for effect in effects {
            if let Effect::Fence(run) = effect {
                self.ended.run(&run);
            }
        }
    }

    /// One tick passes: everything else lies one tick further back.
    fn pass(&mut self) {
        self.lease.age(ms(TICK_MS), OLDEST);
        self.ended.age();
        for client in &mut self.clients {
            client.until = aged(client.until);
            if let Some(call) = &mut client.call {
                call.sent = (call.sent - ms(TICK_MS)).max(OLDEST);
                if let At::Answered(told) = &mut call.at {
                    told.age();
                }
            }
        }
    }

    /// I1 is broken: two clients believe that they hold the key, under different tokens.
    pub fn windows_overlap(&self) -> bool {
        let [a, b] = &self.clients;
        a.believes() && b.believes() && a.token() != b.token()
    }
}

/// The nonce of the grant that a caller asks for.
fn granted_to(caller: Number) -> Nonce {
    Nonce(100 + u128::from(caller.0))
}
