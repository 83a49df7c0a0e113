//! The state machine of one lease: inputs in, effects out.
//!
//! One compare-and-set is in flight at a time; what needs another waits behind it. A promise is made
//! from the record as settled, never from the one in flight.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use super::{
    Answer, Call, Caller, Change, Effect, Env, FenceReport, Input, LeaseId, Moment, Mutant, Nonce,
    Record, Request, Revision, SessionOver, State, StoreError, Token, WriteEffect,
    waiters::{Waiter, Waiters},
};

/// How long to wait before a write or read that nobody waits for is tried again.
pub(super) const RETRY: Duration = Duration::from_millis(250);

/// For how long callers wait for a write at most.
pub(super) const LATE: Duration = Duration::from_secs(10);

/// The effects of one step.
pub type Effects<C> = Vec<Effect<C>>;

/// Where a lease that somebody holds is answered for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Home {
    /// By this node; or nobody holds it.
    #[default]
    Here,
    /// By another one, which lives as far as is known.
    Living,
    /// By one whose record is terminal: whoever writes the lease next is its home.
    Gone,
}

/// One key's lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease<C> {
    /// The record as last settled.
    pub(super) record: Arc<Record>,
    /// The revision of its write.
    pub(super) revision: Revision,
    /// The token of the present tenure, or of the last.
    pub(super) token: Token,
    /// The proof of the present tenure.
    pub(super) lease_id: Option<LeaseId>,
    /// S: the latest end of a promise that this actor made itself.
    pub(super) promised: Moment,
    /// F: the floor that it inherited; never, while another node may promise.
    pub(super) floor: Moment,
    /// When the offer lapses, or the lock-delay is over.
    pub(super) opens_at: Moment,
    /// Where it is answered for.
    pub(super) home: Home,
    /// It was given one more ttl after a lapse, and its holder was not heard since.
    pub(super) graced: bool,
    /// The record cannot be judged.
    pub(super) quarantine: Option<Quarantine>,
    /// What an idle lease does not need.
    pub(super) busy: Option<Box<Busy<C>>>,
}

/// A record that cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Quarantine {
    pub(super) why: Box<str>,
    /// Until when nobody looks at it again.
    pub(super) until: Moment,
    /// Its session, or another node, may go on promising it: that it is gone from the store frees nothing.
    pub(super) promised_elsewhere: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Busy<C> {
    pub(super) waiters: Waiters<C>,
    pub(super) deferred: VecDeque<Call<C>>,
    pub(super) flight: Option<Flight<C>>,
    pub(super) retry_at: Moment,
    /// Why the store refused the latest write; who waited in vain hears of it.
    pub(super) trouble: Option<StoreError>,
    /// What is known of the record is being compared with the store.
    pub(super) looking: bool,
    /// When that was last begun.
    pub(super) looked: Moment,
    /// A write was sent meanwhile.
    pub(super) crossed: bool,
    /// Another node is said to have made this change.
    pub(super) stale: u64,
    /// Fences that are being run: the tenure's token, and the plugin.
    pub(super) running: Vec<(Token, Box<str>)>,
    /// Fences that were run, and not written yet.
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

/// A write whose outcome is awaited.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flight<C> {
    pub(super) write: WriteEffect,
    /// The write can end the tenure that is settled now, or makes its promises too long: no heartbeat
    /// is absorbed beside it.
    pub(super) ends: bool,
    /// The call that asked for it.
    pub(super) cause: Option<Call<C>>,
    /// The caller that the write grants the key to.
    pub(super) grantee: Option<Waiter<C>>,
    /// When the end that it writes was due.
    pub(super) due: Option<Moment>,
    /// Such a caller was there, and was told that the outcome is in doubt; whether it gave a request
    /// id.
    pub(super) unheard: Option<bool>,
    /// The outcome was unknown once: a copy of the write may land until the revision has moved on.
    pub(super) doubted: bool,
    /// The outcome is unknown, and the store is being read.
    pub(super) reading: bool,
    /// It took longer than [`LATE`]: nobody waits for it any more.
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

    /// When callers stop waiting for it.
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

    /// Handles one input; the effects are to be performed in order.
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

    /// When the lease wants a [`Input::Tick`]; [`Moment::NEVER`] when it does not.
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

    /// Whether nothing would be lost if the lease left memory: nobody whom this node answers for holds
    /// it, and nobody waits for it.
    pub fn is_idle(&self) -> bool {
        let others = self.record.state == State::Free || self.home == Home::Living;
        others && self.busy.is_none() && self.quarantine.is_none()
    }

    /// R2 after the node could not promise for a while: every tenure gets one ttl more from `since`,
    /// though not a second time before its holder was heard.
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

    /// The store refused lately; it is left in peace for a moment.
    pub(super) fn retrying(&self, now: Moment) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.retry_at > now)
    }

    pub(super) fn waiters_len(&self) -> usize {
        self.busy.as_ref().map_or(0, |busy| busy.waiters.len())
    }

    /// Whether somebody who is still there waits.
    pub(super) fn is_awaited(&self) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.waiters.is_awaited())
    }

    pub(super) fn waiters_present(&self) -> usize {
        self.busy.as_ref().map_or(0, |busy| busy.waiters.present())
    }

    pub(super) fn flight(&self) -> Option<&Flight<C>> {
        self.busy.as_ref().and_then(|busy| busy.flight.as_ref())
    }

    /// Starts a write. R2: from here until it is settled the tenure absorbs nothing, if it can end.
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
            // The queue goes first, also when the timer has not fired yet.
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
            Request::Bury => self.bury(call, env, out),
            Request::View => {}
        }
    }

    /// Serves what waited for the write in flight, as long as no other one starts.
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
                // Nobody waits for what the latest look showed.
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

    /// The parts of a record that every write sets anew.
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
