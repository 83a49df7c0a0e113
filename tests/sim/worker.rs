//! What every worker does: asks, and counts its windows as the protocol has it: from before it sent, on a clock
//! of its own, closed forever by a release that it sends and by hearing that the lease is lost.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use tenure::{
    clock::{Chance, Clock},
    lease::{Grant, Key, LeaseId, Mutant, Owner},
};

use super::{
    ask::{Ask, Got},
    dice::Dice,
    history::{Event, IN_DOUBT, Log, Op},
    net::{Net, Place, Unheard, Way},
    plan::Plan,
    run::named,
    time::{MS, SECOND, SimClock, ms, now},
};

/// How long a call without a wait may take.
pub const ANSWER: u64 = 8 * SECOND;
/// A call waits for so long for a write that is late.
const LATE_WRITE: u64 = 10 * SECOND;
/// An order waits this long for the pool's record, which an earlier order may hold after a full store or a crash.
pub const PATIENCE: u64 = 10 * SECOND;
/// So long after the faults calls are answered in time.
pub const SETTLED: u64 = 10 * SECOND;

/// What all workers share.
pub struct Arena {
    pub net: Rc<Net>,
    pub log: Log,
    pub plan: Plan,
    pub calls: Cell<u64>,
    /// The rule that is broken.
    pub mutant: Option<Mutant>,
}

impl Arena {
    /// Whether workers are to come to an end.
    pub fn is_over(&self) -> bool {
        now() >= self.plan.stop
    }

    fn is_calm(&self) -> bool {
        now() >= self.plan.calm
    }
}

/// A lease that a worker believes to hold.
#[derive(Clone, Debug)]
pub struct Held {
    pub key: Key,
    pub id: LeaseId,
    pub token: u64,
    pub ttl_ms: u64,
    /// The end of its window on the worker's clock.
    pub until: u64,
}

pub struct Worker {
    pub place: Place,
    pub name: String,
    pub owner: Owner,
    pub clock: SimClock,
    pub arena: Rc<Arena>,
    pub chance: RefCell<Chance>,
    /// The node that it asks first.
    pub node: Cell<usize>,
}

/// A call that was sent, and what came of it.
pub struct Answer {
    pub call: u64,
    /// On the worker's clock, before it was sent.
    pub sent: u64,
    pub got: Result<Got, Unheard>,
}

impl Worker {
    pub fn new(number: usize, name: &str, arena: &Rc<Arena>, mut chance: Chance) -> Self {
        // The bounds themselves are the hardest.
        let ppm = *chance.pick(&[-10_000, -10_000, -3_000, 0, 4_000, 10_000, 10_000]);
        let clock = SimClock::new(chance.between(0, 1 << 50), ppm, 0);
        Self {
            place: Place::Worker(number),
            name: name.to_owned(),
            owner: named(name),
            clock,
            arena: arena.clone(),
            node: Cell::new(chance.index(arena.plan.nodes)),
            chance: RefCell::new(chance),
        }
    }

    pub fn draw<T>(&self, draw: impl FnOnce(&mut Chance) -> T) -> T {
        draw(&mut self.chance.borrow_mut())
    }

    pub fn per_mille(&self, share: u64) -> bool {
        self.draw(|chance| chance.per_mille(share))
    }

    pub async fn sleep(&self, low_ms: u64, high_ms: u64) {
        let span = self.draw(|chance| chance.between(low_ms, high_ms.max(low_ms)));
        tokio::time::sleep(ms(span)).await;
    }

    pub fn local(&self) -> u64 {
        self.clock.now().0
    }

    fn log(&self, event: Event) {
        self.arena.log.push(now(), event);
    }

    /// Another node from now on.
    pub fn turn(&self) {
        let nodes = self.arena.plan.nodes;
        self.node.set((self.node.get() + 1) % nodes);
    }

    /// Sends a call to its node, and waits for the answer. What came of it is to be [noted](Self::note).
    pub async fn call(&self, op: Op, key: &str, ask: &Ask) -> Answer {
        let wait = ask.wait_ms() * MS;
        let calm = self.arena.is_calm();
        let call = self.arena.calls.get();
        self.arena.calls.set(call + 1);
        let (asked, sent) = (now(), self.local());
        let plan = &self.arena.plan;
        // The parts of a list are taken, or given back, one after another; and so again when the policies change.
        let steps = match ask {
            Ask::All(_) | Ask::Acquire(_) if !plan.reloads.is_empty() => 8,
            Ask::All(_) => 4,
            _ => 1,
        };
        let mut within = wait + steps * plan.answer_within(op);
        if matches!(ask, Ask::OrderPool(_)) {
            within += PATIENCE;
        }
        if plan.disk_hangs(asked, asked + within + SECOND) {
            within += LATE_WRITE;
        }
        let mut limit = Duration::from_nanos(within + SECOND);
        let impatient = !calm && self.per_mille(self.arena.plan.impatience);
        // A node that stands still makes its callers wait for so much longer, and so may a store that does not answer.
        let delayed = self.arena.plan.delays(self.place, asked, asked + within + SECOND);
        // An order waits for the pool's record, which a node that the store forgot keeps shut for longer than a run takes.
        let waits_long = matches!(ask, Ask::OrderPool(_)) && self.arena.plan.forgets(asked);
        let counts = !(impatient || delayed || waits_long);
        let answer_by = counts.then_some(asked + within);
        let (worker, key) = (self.name.clone(), key.to_owned());
        self.log(Event::Asked { call, worker, op, key, answer_by });
        if impatient {
            limit = self.draw(|chance| ms(chance.between(1, wait / MS + 300)));
        }
        if self.per_mille(50) {
            self.turn();
        }
        let net = &self.arena.net;
        let got = net.call(self.place, self.node.get(), ask, Way::Direct, limit).await;
        match &got {
            // The node has it, and could say something: it was never answered.
            Err(Unheard { unanswered: true, .. }) if counts => {}
            Err(Unheard { sent: true, .. }) => self.log(Event::Lost { call }),
            Err(Unheard { sent: false, .. }) => {
                self.log(Event::Refused { call, why: "nobody listens".to_owned() });
            }
            // It may have been carried out.
            Ok(Got::Later(why)) => self.refused(call, &format!("{IN_DOUBT}{why}")),
            Ok(Got::No(why) | Got::Lost(why)) => self.refused(call, why),
            // It asked for nothing that lasts.
            Ok(Got::Ordered | Got::Holder(_)) => self.refused(call, "done"),
            Ok(_) => {}
        }
        if matches!(got, Err(_) | Ok(Got::Later(_))) {
            self.turn();
        }
        Answer { call, sent, got }
    }

    /// It was granted a key; `None` when the window had ended before the answer came.
    pub fn granted(
        &self,
        answer: (u64, u64),
        (key, grant): (&Key, &Grant),
        session: Option<String>,
    ) -> Option<Held> {
        let token = grant.view.token.0;
        let until = self.told(answer, key, token, grant.valid_for_ms, true, session)?;
        let ttl_ms = grant.view.ttl_ms.unwrap_or(0);
        Some(Held { key: key.clone(), id: grant.lease_id, token, ttl_ms, until })
    }

    /// Its window reaches until then.
    pub fn told(
        &self,
        (call, sent): (u64, u64),
        key: &Key,
        token: u64,
        valid_for_ms: u64,
        grant: bool,
        session: Option<String>,
    ) -> Option<u64> {
        let from = if self.faults(Mutant::ClientCountsFromReply) { self.local() } else { sent };
        let end = from + valid_for_ms * MS;
        if end <= self.local() {
            self.refused(call, &format!("{IN_DOUBT}it came too late"));
            return None;
        }
        let (worker, key) = (self.name.clone(), key.as_str().to_owned());
        let until = self.clock.true_at(end);
        self.log(Event::Told { call: Some(call), worker, key, token, until, grant, session });
        Some(end)
    }

    fn faults(&self, mutant: Mutant) -> bool {
        self.arena.mutant == Some(mutant)
    }

    /// It is about to give the lease back, or to hand it over.
    pub fn gives_up(&self, held: &Held, why: &str) {
        if !self.faults(Mutant::WindowOpenAfterRelease) {
            self.shut(held, why);
        }
    }

    pub fn shut(&self, held: &Held, why: &str) {
        let (worker, key) = (self.name.clone(), held.key.as_str().to_owned());
        self.log(Event::Shut { worker, key, token: held.token, why: why.to_owned() });
    }

    pub fn refused(&self, call: u64, why: &str) {
        self.log(Event::Refused { call, why: why.to_owned() });
    }

    pub fn acknowledged(&self, call: u64, op: Op, held: &Held) {
        let key = held.key.as_str().to_owned();
        self.log(Event::Acknowledged { call, op, key, token: held.token });
    }

    pub fn session_ended(&self, call: u64, session: String) {
        self.log(Event::SessionEndAcknowledged { call, session });
    }
}
