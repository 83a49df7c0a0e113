//! The state machine of one lease: inputs in, effects out.
//!
//! One compare-and-set is in flight at a time; a call that needs another one waits behind it. Promises are made from
//! the settled record, never from the one in flight.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use super::{
    Answer, Call, Caller, Change, Effect, Env, FenceReport, Input, LeaseId, Moment, Mutant, Nonce,
    Record, Request, Revision, SessionOver, State, StoreError, Token, WriteEffect,
    waiters::{Waiter, Waiters},
};

/// The pause before a write or read that no caller waits for is tried again.
pub(super) const RETRY: Duration = Duration::from_millis(250);

/// The longest time for which callers wait for a write.
pub(super) const LATE: Duration = Duration::from_secs(10);

/// The effects of one step.
pub type Effects<C> = Vec<Effect<C>>;

/// Which node is the home node of a lease that is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Home {
    /// This node, or the lease is not held.
    #[default]
    Here,
    /// Another node, which is alive as far as this node knows.
    Living,
    /// A node whose record is terminal: the node that writes the lease next becomes its home node.
    Gone,
}

/// The lease of one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease<C> {
    /// The record as last settled.
    pub(super) record: Arc<Record>,
    /// The revision of its write.
    pub(super) revision: Revision,
    /// The token of the current tenure, or of the last one.
    pub(super) token: Token,
    /// The lease id of the current tenure.
    pub(super) lease_id: Option<LeaseId>,
    /// S: the end of the latest promise that this actor made itself.
    pub(super) promised: Moment,
    /// F: the inherited floor; [`Moment::NEVER`] while another node may promise.
    pub(super) floor: Moment,
    /// When the offer runs out or the lock-delay is over.
    pub(super) opens_at: Moment,
    /// The lease's home node.
    pub(super) home: Home,
    /// The tenure got one more ttl after a lapse, and its holder was not heard since.
    pub(super) graced: bool,
    /// Set while the record is quarantined.
    pub(super) quarantine: Option<Quarantine>,
    /// The state that an idle lease does not need.
    pub(super) busy: Option<Box<Busy<C>>>,
}

/// A record that is unreadable or lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Quarantine {
    pub(super) why: Box<str>,
    /// Until when the record is not read again.
    pub(super) until: Moment,
    /// Its session or another node may still promise it: if the store has lost the record, that frees nothing.
    pub(super) promised_elsewhere: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Busy<C> {
    pub(super) waiters: Waiters<C>,
    pub(super) deferred: VecDeque<Call<C>>,
    pub(super) flight: Option<Flight<C>>,
    pub(super) retry_at: Moment,
    /// Why the store refused the latest write. Callers whose time to wait runs out are told this.
    pub(super) trouble: Option<StoreError>,
    /// What is known of the record is being compared with the store: a look.
    pub(super) looking: bool,
    /// When the last look began.
    pub(super) looked: Moment,
    /// A write was sent during the look.
    pub(super) crossed: bool,
    /// The highest number of a change that another node is said to have made.
    pub(super) stale: u64,
    /// The fences that plugins are running: the tenure's token, and the plugin.
    pub(super) running: Vec<(Token, Box<str>)>,
    /// The fences that plugins have run and that are not written yet.
    pub(super) reports: VecDeque<FenceReport>,
    /// The end of the session that keeps the tenure.
    pub(super) over: Option<SessionOver>,
}

impl<C> Default for Busy<C> {
    fn default() -> Self {
        Self {
            waiters: Waiters::default(),
            deferred: VecDeque::new(),
            flight: None,
            retry_at: Moment::ZERO,
            trouble: None,
            looking: false,
            looked: Moment::ZERO,
            crossed: false,
            stale: 0,
            running: Vec::new(),
            reports: VecDeque::new(),
            over: None,
        }
    }
}

/// A write in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flight<C> {
    pub(super) write: WriteEffect,
    /// The write can end the settled tenure, or makes its promises too long. No heartbeat is absorbed while it is in
    /// flight.
    pub(super) ends: bool,
    /// The call that asked for it.
    pub(super) cause: Option<Call<C>>,
    /// The caller that the write grants the key to.
    pub(super) grantee: Option<Waiter<C>>,
    /// When the end that it writes was due.
    pub(super) due: Option<Moment>,
    /// Its grantee was told that the outcome is unknown; whether that caller gave a request id.
    pub(super) unheard: Option<bool>,
    /// The outcome was unknown at some time: a copy of the write may land until the revision has moved on.
    pub(super) doubted: bool,
    /// The outcome is unknown, and the store is being read.
    pub(super) reading: bool,
    /// It took longer than [`LATE`]: no caller waits for it any more.
    pub(super) late: bool,
}

impl<C> Flight<C> {
    pub(super) fn new(record: Record, expected: Revision, changes: Vec<Change>) -> Self {
        let write = WriteEffect { expected, record: Arc::new(record), changes };
        Self {
            write,
            ends: false,
            cause: None,
            grantee: None,
            due: None,
            unheard: None,
            doubted: false,
            reading: false,
            late: false,
        }
    }

    /// When callers stop waiting for the write.
    pub(super) fn late_at(&self) -> Moment {
        self.write.record.written + LATE
    }
}

impl<C: Caller> Lease<C> {
    pub(super) fn with(record: Arc<Record>, revision: Revision) -> Self {
        Self {
            record,
            revision,
            token: Token::default(),
            lease_id: None,
            promised: Moment::ZERO,
            floor: Moment::ZERO,
            opens_at: Moment::ZERO,
            home: Home::Here,
            graced: false,
            quarantine: None,
            busy: None,
        }
    }

    /// Handles one input. The effects must be performed in order.
    pub fn step(&mut self, input: Input<C>, env: &mut Env<'_>) -> Effects<C> {
        let mut out = Vec::new();
        self.reckon(env, &mut out);
        match input {
            Input::Call(call) => self.admit(call, env, &mut out),
            Input::Settled(settled) => self.settle(settled, env, &mut out),
            Input::Loaded(loaded) => self.loaded(loaded, env, &mut out),
            Input::Tick => self.tick(env, &mut out),
            Input::Stale(seq) => self.stale(seq, env, &mut out),
            Input::Fenced(report) => self.reported(report, env, &mut out),
            Input::SessionOver(over) => self.session_over(over, env, &mut out),
        }
        self.catch_up(env, &mut out);
        self.run_fences(env, &mut out);
        out
    }

    /// When the lease needs an [`Input::Tick`]; [`Moment::NEVER`] when it needs none.
    pub fn next_wake(&self) -> Moment {
        let Some(busy) = &self.busy else { return self.own_deadline() };
        let own = match &busy.flight {
            Some(flight) if flight.reading => busy.retry_at,
            Some(flight) if flight.late => Moment::NEVER,
            Some(flight) => flight.late_at(),
            None if busy.retry_at != Moment::ZERO => busy.retry_at,
            None => self.own_deadline(),
        };
        own.min(busy.waiters.earliest())
    }

    /// Whether the lease can leave memory without losing anything: this node is not the home node of a tenure, and no
    /// caller waits.
    pub fn is_idle(&self) -> bool {
        let others = self.record.state == State::Free || self.home == Home::Living;
        others && self.busy.is_none() && self.quarantine.is_none()
    }

    /// R2, after the node could not promise for a while: every tenure gets one more ttl from `since`, but not a second
    /// time before its holder was heard.
    pub fn void_promises(&mut self, since: Moment) {
        if self.record.state == State::Held && !self.graced {
            self.floor = self.floor.max(since + super::recover::own_ttl(&self.record));
            self.graced = true;
        }
    }

    pub(super) fn busy(&mut self) -> &mut Busy<C> {
        self.busy.get_or_insert_default()
    }

    pub(super) fn waiters(&mut self) -> &mut Waiters<C> {
        &mut self.busy().waiters
    }

    /// Whether the store refused a request recently and must not be asked again yet.
    pub(super) fn retrying(&self, now: Moment) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.retry_at > now)
    }

    pub(super) fn waiters_len(&self) -> usize {
        self.busy.as_ref().map_or(0, |busy| busy.waiters.len())
    }

    /// Whether a caller waits that is still there.
    pub(super) fn is_awaited(&self) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.waiters.is_awaited())
    }

    pub(super) fn waiters_present(&self) -> usize {
        self.busy.as_ref().map_or(0, |busy| busy.waiters.present())
    }

    pub(super) fn flight(&self) -> Option<&Flight<C>> {
        self.busy.as_ref().and_then(|busy| busy.flight.as_ref())
    }

    /// Starts a write. R2: if it can end the tenure, no heartbeat is absorbed until it is settled.
    pub(super) fn launch(&mut self, flight: Flight<C>, out: &mut Effects<C>) {
        debug_assert!(self.flight().is_none(), "one compare-and-set in flight");
        out.push(Effect::Write(flight.write.clone()));
        let busy = self.busy();
        busy.flight = Some(flight);
        busy.crossed |= busy.looking;
    }

    fn admit(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        if matches!(call.request, Request::View) {
            let view = self.view(env.now);
            out.push(Effect::Reply(call.caller, Answer::Viewed(Box::new(view))));
            return;
        }
        if self.waiters_len() > 0 && self.flight().is_none() {
            // The queue is served first, even if the timer has not fired yet.
            self.tick(env, out);
        }
        let Some(flight) = self.flight() else { return self.handle(call, env, out) };
        let absorbs = (!flight.ends && self.home == Home::Here)
            || env.terms.breaks(Mutant::HeartbeatAbsorbedWhileEnding);
        if absorbs && self.is_plain_heartbeat(&call.request) {
            self.handle(call, env, out);
        } else if flight.reading || flight.late {
            let error = StoreError::Unavailable("an earlier write is not settled yet".into());
            out.push(Effect::Reply(call.caller, Answer::Store(error)));
        } else if self.busy().deferred.len() >= env.terms.inflight_per_key {
            out.push(Effect::Reply(call.caller, Answer::Busy));
        } else {
            self.busy().deferred.push_back(call);
        }
    }

    pub(super) fn handle(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        if let Some(Quarantine { why, until, .. }) = &self.quarantine {
            if env.now >= *until {
                return self.look_for(call, env, out);
            }
            out.push(Effect::Reply(call.caller, Answer::Quarantined(why.clone())));
            return;
        }
        if self.belongs_home(&call, env) {
            out.push(Effect::Reply(call.caller, Answer::Elsewhere(self.record.node)));
            return;
        }
        if self.needs_look(&call, env) {
            return self.look_for(call, env, out);
        }
        let Some(call) = self.refuse_kept(call, out) else { return };
        match call.request {
            Request::Acquire(acquire) => {
                let Call { caller, received, owner_unreachable, .. } = call;
                let waiter = Waiter { caller, received, acquire, owner_unreachable };
                if self.queues_elsewhere(&waiter, env) {
                    let home = Answer::Elsewhere(self.record.node);
                    out.push(Effect::Reply(waiter.caller, home));
                    return;
                }
                self.acquire(waiter, env, out);
            }
            Request::Heartbeat(_) => self.heartbeat(call, env, out),
            Request::Release(_) => self.release(call, env, out),
            Request::Transfer(_) => self.transfer(call, env, out),
            Request::Revoke(_) => self.revoke(call, env, out),
            Request::Pin(..) | Request::Unpin(..) => self.pin(call, env, out),
            Request::FenceSkip(..) => self.skip_fences(call, env, out),
            Request::AskHandover(_) => self.ask_handover(call, env, out),
            Request::Forget(..) => self.forget(call, env, out),
            Request::WriteTombstone => self.write_tombstone(call, env, out),
            Request::View => {}
        }
    }

    /// Handles the calls that waited for the write in flight, until another write starts.
    fn catch_up(&mut self, env: &mut Env<'_>, out: &mut Effects<C>) {
        while let Some(busy) = &mut self.busy {
            if busy.flight.is_some() || busy.looking {
                return;
            }
            if busy.stale > self.record.seq && busy.retry_at <= env.now {
                self.look(env, out);
            } else if let Some(report) = busy.reports.pop_front() {
                self.confirm_fence(report, env, out);
            } else if let Some(call) = busy.deferred.pop_front() {
                self.handle(call, env, out);
            } else {
                // No call needs the result of the latest look any more.
                busy.looked = Moment::ZERO;
                let bond = self.record.bond().map(|bond| bond.session);
                busy.over.take_if(|over| Some(over.session) != bond);
                if busy.waiters.len() == 0
                    && busy.retry_at == Moment::ZERO
                    && busy.running.is_empty()
                    && busy.over.is_none()
                {
                    self.busy = None;
                }
                return;
            }
        }
    }

    fn tick(&mut self, env: &mut Env<'_>, out: &mut Effects<C>) {
        self.refuse_overdue(env, out);
        self.leave_late(env, out);
        if self.sits_out(env) {
            return;
        }
        if let Some(busy) = &mut self.busy
            && busy.retry_at != Moment::ZERO
            && busy.retry_at <= env.now
        {
            busy.retry_at = Moment::ZERO;
            if busy.flight.as_ref().is_some_and(|flight| flight.reading) {
                busy.retry_at = env.now + RETRY;
                out.push(Effect::Read);
            }
        }
        if self.flight().is_none() {
            self.expire(env, out);
        }
        if self.flight().is_none() {
            self.serve_waiters(env, out);
        }
        if self.flight().is_none() && !self.retrying(env.now) {
            self.lapse(env, out);
        }
    }

    /// The next record, with the fields that every write sets.
    pub(super) fn successor(&self, nonce: Nonce, env: &Env<'_>) -> Record {
        let mut record = Record {
            nonce,
            node: env.terms.node,
            epoch: env.terms.epoch,
            written: env.now,
            ..(*self.record).clone()
        };
        self.settle_token(&mut record);
        self.restate(&mut record, env);
        record
    }
}
