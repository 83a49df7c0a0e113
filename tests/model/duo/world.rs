//! The process, its store, and who talks to it.

use std::sync::Arc;

use tenure::lease::{
    Answer, Behavior, Call, Effect, Env, Inherited, Input, Inquiry, Key, KeyState, Lease, LeaseId,
    Loaded, Nonce, ReadFor, Record, Request, Revision, SessionOver, SessionRef, Settled, Token,
    WriteEffect,
};

use super::{
    Bounds, Duo, Flaw, NOW, OLDEST, TICK_MS,
    holder::{BEAT, FIRST, Holder, LEAVE, Rival, SECOND, Stage},
};
use crate::{
    harness::{acquire, broken, heartbeat, ms, release},
    model::caller::Number,
};

/// The two leases.
pub const SESSION: usize = 0;
pub const KEY: usize = 1;

const DIGEST: Nonce = Nonce(0x5e55);

/// A broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Broken {
    Tokens,
    NotDurable,
    /// What a session kept ended before its tombstone was durable.
    BeforeTombstone,
    /// A session was granted or revived after its tombstone.
    Risen,
}

/// What the last step did, for the checks that the model is not vacuous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    Followed,
    LandedLate,
    Back,
    RestartedUnderHolder,
    Settled,
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
    /// The holder wants the key; the shell asks the session first.
    Want,
    /// The shell takes its next step towards that.
    GoOn,
    Beat,
    GiveBackSession,
    GiveBackKey,
    RivalAsks,
    /// The key's lease is told that the session is over.
    Tell,
    Commit(usize),
    LoseReply(usize, Fate),
    LandStray,
    ReadBack(usize),
    Wake(usize),
    Crash([bool; 2]),
    Pass,
}

pub type Found = Option<(Revision, Arc<Record>)>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub leases: [Lease<Number>; 2],
    pub stores: [Found; 2],
    pub flights: [Option<WriteEffect>; 2],
    pub reads: [Option<ReadFor>; 2],
    pub stray: Option<(usize, WriteEffect)>,
    pub proof: LeaseId,
    pub holder: Holder,
    pub rival: Rival,
    pub crashes: u8,
    pub unknowns: u8,
    pub broken: Option<Broken>,
    pub event: Option<Event>,
}

fn loaded(found: &Found) -> Loaded {
    match found {
        None => Loaded::Absent,
        Some((revision, record)) => Loaded::Record(*revision, record.clone()),
    }
}

pub fn key(which: usize) -> Key {
    if which == SESSION { Key::of_session(DIGEST) } else { Key::new("k").unwrap() }
}

pub fn recovered(model: &Duo, which: usize, found: &Found) -> (Lease<Number>, Vec<Effect<Number>>) {
    let (key, mut nonces) = (key(which), Nonce::default);
    let context = &model.context;
    let mut env = Env { now: NOW, wall_ms: 0, key: &key, context, nonces: &mut nonces };
    Lease::recover(loaded(found), Inherited::FromProcess(NOW), &mut env)
}

impl World {
    pub fn new(model: &Duo) -> Self {
        let leases = [SESSION, KEY].map(|which| recovered(model, which, &None).0);
        let proof = model.context.secret.lease_id(&key(SESSION), Nonce(1));
        let mut world = Self {
            leases,
            stores: [None, None],
            flights: [None, None],
            reads: [None; 2],
            stray: None,
            proof,
            holder: Holder::default(),
            rival: Rival::default(),
            crashes: 0,
            unknowns: 0,
            broken: None,
            event: None,
        };
        // The session lives.
        let mut ask = acquire("a").ttl_ms(2 * TICK_MS);
        ask.0.grant_nonce = Nonce(1);
        world.holder.beating = Some(NOW);
        world.call(model, SESSION, BEAT, ask.into());
        world.act(model, &Action::Commit(SESSION));
        world.holder.beating = None;
        world
    }

    pub fn revision(&self, which: usize) -> Revision {
        self.stores[which].as_ref().map_or(Revision::ABSENT, |(revision, _)| *revision)
    }

    pub fn session_is_over(&self) -> bool {
        Inquiry::of(DIGEST, &loaded(&self.stores[SESSION])).is_over()
    }

    pub fn within(&self, bounds: &Bounds) -> bool {
        self.revision(KEY).0 <= bounds.writes
    }

    pub fn actions(&self, model: &Duo, out: &mut Vec<Action>) {
        let (bounds, holder) = (&model.bounds, &self.holder);
        match holder.stage {
            Stage::Idle if holder.attempts < bounds.attempts[0] && !holder.leaving => {
                out.push(Action::Want);
            }
            Stage::Seen | Stage::Granted(..) => out.push(Action::GoOn),
            _ => {}
        }
        if holder.beating.is_none() && !holder.leaving {
            out.extend([Action::Beat, Action::GiveBackSession]);
        }
        if holder.kept.is_some() {
            out.push(Action::GiveBackKey);
        }
        if self.rival.asked.is_none() && self.rival.attempts < bounds.attempts[1] {
            out.push(Action::RivalAsks);
        }
        let seen_over = self.leases[SESSION].view(NOW).expires_in_ms == Some(0);
        let observed = model.flaw == Some(Flaw::ObservedExpiry) && seen_over;
        if self.session_is_over() || observed {
            out.push(Action::Tell);
        }
        for which in [SESSION, KEY] {
            if self.flights[which].is_some() {
                out.push(Action::Commit(which));
                if self.unknowns < bounds.unknowns {
                    let fates = [Fate::Landed, Fate::LandsLate, Fate::Lost];
                    out.extend(fates.map(|fate| Action::LoseReply(which, fate)));
                }
            }
            if self.reads[which].is_some() {
                out.push(Action::ReadBack(which));
            }
            if self.leases[which].next_wake() <= NOW {
                out.push(Action::Wake(which));
            }
        }
        if self.stray.is_some() {
            out.push(Action::LandStray);
        }
        if self.crashes < bounds.crashes {
            let may = |which: usize| [false, self.flights[which].is_some()];
            for (session, key) in [(false, false), (false, true), (true, false), (true, true)] {
                if (!session || may(SESSION)[1]) && (!key || may(KEY)[1]) {
                    out.push(Action::Crash([session, key]));
                }
            }
        }
        out.push(Action::Pass);
    }

    pub fn act(&mut self, model: &Duo, action: &Action) {
        self.event = None;
        match *action {
            Action::Want => {
                self.holder.stage = Stage::Asking;
                self.call(model, SESSION, FIRST, heartbeat(self.proof));
            }
            Action::GoOn => self.go_on(model),
            Action::Beat => {
                self.holder.beating = Some(NOW);
                self.call(model, SESSION, BEAT, heartbeat(self.proof));
            }
            Action::GiveBackSession => {
                self.holder.leaving = true;
                self.call(model, SESSION, LEAVE, release(self.proof));
            }
            Action::GiveBackKey => {
                // Nobody waits for the answer: the window is closed.
                let (proof, _) = self.holder.kept.take().expect("offered only then");
                self.holder.until = tenure::lease::Moment::ZERO;
                self.call(model, KEY, Number(4), release(proof));
            }
            Action::RivalAsks => {
                self.rival.asked = Some(NOW);
                let ask = acquire("b").ttl_ms(TICK_MS).waiting_until(NOW + ms(3 * TICK_MS));
                let number = self.rival.number();
                self.call(model, KEY, number, named(ask, number));
            }
            Action::Tell => {
                let over = SessionOver {
                    session: DIGEST,
                    cause: "over".into(),
                    is_lost: false,
                    actor: None,
                };
                self.step(model, KEY, Input::SessionOver(over));
            }
            Action::Commit(which) => {
                let write = self.flights[which].take().expect("offered only then");
                let settled = match self.land(which, write) {
                    Some(revision) => Settled::Committed(revision),
                    None => Settled::Conflict(loaded(&self.stores[which])),
                };
                self.step(model, which, Input::Settled(settled));
            }
            Action::LoseReply(which, fate) => self.lose_reply(model, which, fate),
            Action::LandStray => {
                let (which, write) = self.stray.take().expect("offered only then");
                self.land(which, write);
            }
            Action::ReadBack(which) => {
                let read_for = self.reads[which].take().expect("offered only then");
                let waited = self.leases[which].is_writing();
                let there = loaded(&self.stores[which]);
                self.step(model, which, Input::Loaded(read_for, Ok(there)));
                if waited && !self.leases[which].is_writing() {
                    self.event = Some(Event::Settled);
                }
            }
            Action::Wake(which) => self.step(model, which, Input::Tick),
            Action::Crash(written) => self.crash(model, written),
            Action::Pass => {
                for lease in &mut self.leases {
                    lease.age(ms(TICK_MS), OLDEST);
                }
                self.holder.age();
                self.rival.age();
            }
        }
    }

    fn lose_reply(&mut self, model: &Duo, which: usize, fate: Fate) {
        self.unknowns += 1;
        let write = self.flights[which].take().expect("offered only then");
        match fate {
            Fate::Landed => drop(self.land(which, write)),
            Fate::LandsLate => self.stray = Some((which, write)),
            Fate::Lost => {}
        }
        self.step(model, which, Input::Settled(Settled::Unknown(broken())));
    }

    fn go_on(&mut self, model: &Duo) {
        match self.holder.stage {
            Stage::Seen => {
                self.holder.stage = Stage::Acquiring;
                let session_ref = SessionRef {
                    session: DIGEST,
                    lock_delay_ms: None,
                    behavior: Behavior::Release,
                };
                let ask = acquire("a").ttl_ms(2 * TICK_MS).kept_by(session_ref);
                let number = self.holder.acquires();
                let ask = ask.waiting_until(NOW + ms(3 * TICK_MS));
                self.call(model, KEY, number, named(ask, number));
            }
            Stage::Granted(proof, token) if model.flaw == Some(Flaw::GrantUnseen) => {
                self.tell_grant(proof, token);
                self.holder.believe(NOW, 2 * TICK_MS);
            }
            Stage::Granted(proof, token) => {
                self.holder.stage = Stage::AskingAgain(proof, token);
                self.holder.sent = NOW;
                self.call(model, SESSION, SECOND, heartbeat(self.proof));
            }
            _ => {}
        }
    }

    pub fn tell_grant(&mut self, proof: LeaseId, token: Token) {
        self.holder.kept = Some((proof, token));
        self.next_attempt();
        let durable =
            self.stores[KEY].as_ref().filter(|(_, record)| record.state == KeyState::Held);
        if durable.map(|(at, record)| record.token(*at)) != Some(token) {
            self.broken = Some(Broken::NotDurable);
        }
        if self.rival.token.is_some_and(|other| other < token) {
            self.event = Some(Event::Back);
        }
    }

    pub fn next_attempt(&mut self) {
        self.holder.stage = Stage::Idle;
        self.holder.sent = tenure::lease::Moment::ZERO;
        self.holder.attempts += 1;
    }

    /// A heartbeat whose promise cell is open does not come to the actor.
    fn call(&mut self, model: &Duo, which: usize, caller: Number, request: Request) {
        if let (Request::Heartbeat(beat), Some(cell)) =
            (&request, self.leases[which].promise_cell())
            && let Some(absorbed) = model.context.absorb_in(cell, beat, NOW, NOW)
        {
            let (token, valid_for_ms) = (absorbed.token, absorbed.valid_for_ms);
            let answer = Answer::Alive { token, valid_for_ms, revived: false };
            return self.reply(caller, &answer);
        }
        let call = Call { caller, received: NOW, request, home_unreachable: false };
        self.step(model, which, Input::Call(call));
    }

    /// I1 is broken: both believe that they hold the key.
    pub fn windows_overlap(&self) -> bool {
        self.holder.believes() && self.rival.believes()
    }
}

/// An acquire whose grant is named by its caller.
fn named(mut ask: crate::harness::Ask, caller: Number) -> Request {
    ask.0.grant_nonce = Nonce(1000 + u128::from(caller.0));
    ask.into()
}
