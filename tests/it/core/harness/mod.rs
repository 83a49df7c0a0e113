//! A hand-driven world of one key: a clock, a store cell, callers, and a judge of every step.

pub mod ask;
pub mod beside;
pub mod cell;
mod drive;
mod fences_and_delay;
pub mod oracle;
pub mod policy;
pub mod who;

use std::{collections::VecDeque, sync::Arc, time::Duration};

pub use ask::*;
pub use beside::Stopped;
pub use cell::{EPOCH, StoreCell};
pub use oracle::{Oracle, Verdict};
pub use policy::*;
use tenure::lease::{
    Alarm, Call, Change, ChangeKind, ClusterSecret, Effect, Env, FenceRun, Inherited, Input, Key,
    Lease, LeaseId, Level, Loaded, Moment, Mutant, NodeContext, Nonce, PromiseCell, ReadFor,
    Record, Request, Rules, StoreError, Token, WriteEffect,
};
pub use who::Who;

/// The clock starts at an hour, not at zero: zero is nobody's present.
pub const START: Moment = Moment(3_600_000_000_000);

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub fn full() -> StoreError {
    StoreError::Full("no room".into())
}

pub fn broken() -> StoreError {
    StoreError::Unavailable("no reply".into())
}

/// One key's lease, its shell and its store.
pub struct Bench {
    pub now: Moment,
    pub cell: StoreCell,
    pub lease: Lease<Who>,
    pub context: NodeContext,
    /// The promise cell that heartbeats find, and the one that the present actor has shown.
    pub entry: Option<Arc<PromiseCell>>,
    pub shown: Option<Arc<PromiseCell>>,
    /// The write that the shell handed to the store, until its outcome is reported.
    pub flight: Option<WriteEffect>,
    /// Copies of writes whose sender died or gave up: they may land yet.
    pub strays: VecDeque<WriteEffect>,
    /// Reads that are not answered yet.
    pub reads: VecDeque<ReadFor>,
    pub alarms: Vec<Alarm>,
    /// The tenures of whose revocation followers were told.
    pub told_revoked: Vec<Token>,
    /// Fences that the shell handed to plugins.
    pub fences: Vec<FenceRun>,
    /// Sessions that are to be asked about.
    pub inquired: Vec<Nonce>,
    /// Sessions whose present home is to order the end of what they kept anew.
    pub reissued: Vec<Nonce>,
    /// Tenures that no caller knows of, which are to be released.
    pub given_back: Vec<LeaseId>,
    /// Everybody who asked, and is not answered yet, of the present shell.
    pub waiting: Vec<Who>,
    /// What subscribers were told.
    pub published: Vec<Change>,
    /// The rules that the world around the core breaks.
    pub faults: ShellFaults,
    /// The first broken promise.
    pub verdict: Verdict,
    pub oracle: Oracle,
    key: Key,
    last_nonce: u128,
    last_write: Nonce,
}

/// Broken variants of the shell, the store and the client.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShellFaults {
    /// Events leave with the write.
    pub publishes_early: bool,
    /// A free key's record is deleted, and its revisions start again.
    pub deletes_free_keys: bool,
}

/// What every test runs under unless it says otherwise.
pub fn context(broken: Option<Mutant>) -> NodeContext {
    NodeContext {
        node: Nonce(1),
        until: Moment::NEVER,
        resumed: Moment::ZERO,
        policies: std::sync::Arc::default(),
        frozen: false,
        peers: None,
        epoch: EPOCH,
        level: Level::FIRST,
        secret: ClusterSecret::new(&[7; 32]),
        waiters_per_key: 4,
        inflight_per_key: 3,
        rules: Rules::breaking(broken),
    }
}

impl Bench {
    /// A key that was never written.
    pub fn new() -> Self {
        Self::breaking(None)
    }

    /// A key whose core breaks a rule.
    pub fn breaking(broken: Option<Mutant>) -> Self {
        Self::of(Key::new("jobs/1").unwrap(), broken)
    }

    pub fn of(key: Key, broken: Option<Mutant>) -> Self {
        let context = context(broken);
        let mut nonces = || Nonce(2);
        let mut env =
            Env { now: START, wall_ms: 0, key: &key, context: &context, nonces: &mut nonces };
        let (lease, _) = Lease::recover(Loaded::Absent, Inherited::FromProcess(START), &mut env);
        Self {
            now: START,
            cell: StoreCell::default(),
            lease,
            context,
            entry: None,
            shown: None,
            flight: None,
            strays: VecDeque::new(),
            reads: VecDeque::new(),
            alarms: Vec::new(),
            told_revoked: Vec::new(),
            fences: Vec::new(),
            inquired: Vec::new(),
            reissued: Vec::new(),
            given_back: Vec::new(),
            waiting: Vec::new(),
            published: Vec::new(),
            faults: ShellFaults::default(),
            verdict: Ok(()),
            oracle: Oracle::default(),
            key,
            last_nonce: 1000,
            last_write: Nonce::default(),
        }
    }

    fn with_env<T>(&mut self, act: impl FnOnce(&mut Lease<Who>, &mut Env<'_>, Loaded) -> T) -> T {
        let last = &mut self.last_nonce;
        let mut nonces = || {
            *last += 1;
            Nonce(*last)
        };
        let mut env = Env {
            now: self.now,
            wall_ms: 1_000,
            key: &self.key,
            context: &self.context,
            nonces: &mut nonces,
        };
        act(&mut self.lease, &mut env, self.cell.load())
    }

    /// Hands one input to the core and performs what it wants done.
    pub fn input(&mut self, input: Input<Who>) {
        let effects = self.with_env(|lease, env, _| lease.step(input, env));
        self.perform(effects);
        self.show_cell();
    }

    fn perform(&mut self, effects: Vec<Effect<Who>>) {
        for effect in effects {
            match effect {
                Effect::Write(write) => {
                    if self.flight.is_some() {
                        self.judge(Err("two compare-and-sets in flight".into()));
                    }
                    self.sent(&write);
                    self.flight = Some(write);
                }
                Effect::Read(read_for) => self.reads.push_back(read_for),
                Effect::Inquire(_) => {}
                Effect::InquireSession(session) => self.inquired.push(session),
                Effect::Reissue(session) => self.reissued.push(session),
                Effect::TellRevoked(token) => self.told_revoked.push(token),
                Effect::GiveBack(lease_id) => self.given_back.push(lease_id),
                Effect::Fence(run) => {
                    let due = self.oracle.fencing(&run);
                    self.judge(due);
                    self.fences.push(run);
                }
                Effect::Reply(who, answer) => {
                    who.tell(answer.clone());
                    self.waiting.retain(Who::waits);
                    let told = self.oracle.told(&who, &answer, self.now, &self.cell);
                    self.judge(told);
                }
                Effect::Alarm(alarm) => self.alarms.push(alarm),
            }
        }
        let idle_and_awaited = self.lease.is_idle() && self.lease.view(self.now).waiters > 0;
        if idle_and_awaited {
            self.judge(Err("an idle lease has waiters".into()));
        }
    }

    /// R9: no grant is even written for a caller that had left. A write that is repeated because its
    /// outcome is in doubt is the same write.
    fn sent(&mut self, write: &WriteEffect) {
        self.oracle.ruled(write, self.context.policies.of(self.key.as_str()));
        if self.faults.publishes_early {
            self.published.extend(write.changes.iter().cloned());
        }
        let repeated = std::mem::replace(&mut self.last_write, write.record.nonce);
        let granted = write.record.tenure.as_ref().map(|tenure| tenure.grant_nonce);
        let left = self.waiting.iter().find(|who| {
            who.has_left()
                && matches!(&*who.asked, Request::Acquire(a) if Some(a.grant_nonce) == granted)
        });
        if let Some(who) = left
            && repeated != write.record.nonce
            && !write.changes.is_empty()
            && write.changes.iter().any(|change| change.kind == ChangeKind::Granted)
        {
            self.judge(Err(format!("R9: a grant is written for {who:?}, who had left")));
        }
    }

    pub fn judge(&mut self, verdict: Verdict) {
        if self.verdict.is_ok() {
            self.verdict = verdict;
        }
    }

    /// Sends a request as a new caller.
    pub fn ask(&mut self, request: impl Into<Request>) -> Who {
        let who = Who::new(self.now, self.named(request.into()));
        self.ask_as(&who);
        who
    }

    /// Sends the request of a caller that exists already.
    pub fn ask_as(&mut self, who: &Who) {
        self.oracle.sent(&who.asked);
        self.waiting.push(who.clone());
        let request = (*who.asked).clone();
        self.input(Input::Call(Call {
            caller: who.clone(),
            received: self.now,
            request,
            home_unreachable: false,
        }));
    }

    /// Gives an acquire the nonce of the grant to be.
    pub fn named(&mut self, mut request: Request) -> Request {
        if let Request::Acquire(acquire) = &mut request
            && acquire.grant_nonce == Nonce::default()
        {
            self.last_nonce += 1;
            acquire.grant_nonce = Nonce(self.last_nonce);
        }
        request
    }

    /// I4: what subscribers heard is what the store holds.
    pub fn judge_events(&mut self) {
        if self.published != self.cell.history {
            let (heard, held) = (&self.published, &self.cell.history);
            self.judge(Err(format!("I4: published {heard:?}, but the store holds {held:?}")));
        }
    }

    /// I8: once faults stop, everybody is answered and no key is stuck.
    pub fn judge_liveness(&mut self) {
        self.strays.clear();
        for _ in 0..50 {
            self.run(4_000);
            self.confirm_all();
            if self.lease.view(self.now).fence_failed {
                self.done(skip());
            }
        }
        let fenced = self.oracle.all_fenced();
        self.judge(fenced);
        let stuck = self.waiting.iter().find(|who| !who.has_left());
        if let Some(who) = stuck {
            self.judge(Err(format!("I8: {who:?} was never answered")));
        }
        if self.lease.next_wake() <= self.now {
            self.judge(Err("I8: the lease never sleeps".into()));
        }
        self.judge_events();
    }

    /// What the store holds.
    #[track_caller]
    pub fn record(&self) -> Arc<Record> {
        self.cell.there.as_ref().expect("a record").1.clone()
    }

    /// The history as words.
    pub fn events(&self) -> Vec<&'static str> {
        self.cell.history.iter().map(|change| change.kind.as_str()).collect()
    }

    pub fn state(&self) -> &'static str {
        self.lease.view(self.now).state.as_str()
    }

    pub fn owner(&self) -> Option<String> {
        self.lease.view(self.now).owner.map(|owner| owner.to_string())
    }
}

impl Drop for Bench {
    /// Every test ends with the judge's word.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.verdict, Ok(()), "the judge objects");
        }
    }
}

/// A key that `name` holds, with its caller.
pub fn held_by(name: &str) -> (Bench, Who) {
    let mut bench = Bench::new();
    let holder = bench.done(acquire(name));
    assert_eq!(bench.state(), "held");
    (bench, holder)
}
