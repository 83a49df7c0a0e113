//! One stream: reads calls, answers them, and tells what its client must know at once.
//!
//! Guarantees: all that can be answered when the client's frames are read goes out in one write. A call is judged when
//! it is read, and no call of a principal that is no longer who it was. What a client that does not read costs is
//! bounded: while its answers wait to be written, none of its calls is read, and none that waits goes on. Each message is
//! charged before it is parsed. What a client sends beyond its rate is refused, at a bounded pace.
//!
//! Does not guarantee: an order of the answers.
//!
//! Assumes: whoever polls this writes what it got before it polls again.

mod begin;

use std::{
    rc::Rc,
    task::{Context, Poll},
};

use actix_web::web;
use bytes::Bytes;
use futures_util::{
    FutureExt as _, StreamExt as _,
    future::{AbortHandle, Abortable, LocalBoxFuture},
    stream::FuturesUnordered,
};
use tokio::time::{Interval, MissedTickBehavior};

use super::{
    calls::Calls,
    controls::Controls,
    ending::Ending,
    frames::{Frames, Incoming, MOST},
    front::{FRONT, Front},
    message::{Answer, Outgoing, read},
    notices::notice,
    operations::pace_of,
    watch::Watch,
};
use crate::{
    access::Broken,
    api::Hello,
    clock::HashMap,
    http::{
        answer::Problem,
        app::App,
        caller::{Caller, Charged, InUse, Pace},
        door::Waiting,
        streams::Open,
    },
    lease::Moment,
    manager::Decided,
};

/// The bytes at which what there is to send is sent, although there is more to do.
const CHUNK: usize = 32 * 1024;
/// The most messages that are read before other streams of the thread have their turn.
const TURN: usize = 256;
/// A stream ends when nothing came during so many spans between two pings.
const SILENT: u32 = 3;

/// A call that is not answered yet.
struct InFlight {
    /// Whether others depend on it.
    keeps: bool,
    abort: AbortHandle,
}

/// A stream, and what it holds while it is open.
pub struct Talk {
    app: web::Data<App>,
    caller: Caller,
    calls: Rc<Calls>,
    frames: Frames,
    outgoing: Outgoing,
    /// The calls in flight, by their ids.
    in_flight: HashMap<u64, InFlight>,
    /// How many of these are calls that others do not depend on.
    others: usize,
    pending: FuturesUnordered<Abortable<LocalBoxFuture<'static, Answer>>>,
    watch: Option<Watch>,
    /// The call that begins the watch, until it is answered.
    beginning: Option<u64>,
    /// When the heartbeats that are being read arrived, and the reading of the clock on which promises are made.
    reading: Option<(Moment, Decided)>,
    removed: LocalBoxFuture<'static, Problem>,
    drained: LocalBoxFuture<'static, ()>,
    is_draining: bool,
    pings: Interval,
    /// How many pings were sent since anything came.
    unanswered: u32,
    /// A message that has not come to its end, and how many pings were sent since.
    unfinished: Option<(u64, u32)>,
    /// The pings and pongs of the client.
    controls: Controls,
    /// Until it is over, nothing is read: the client sends too much beyond its rate.
    pause: Option<LocalBoxFuture<'static, ()>>,
    open: Open,
    _kept: (Waiting, InUse),
}

impl Talk {
    /// A stream of this caller, which takes a place and a part of its principal's limit.
    pub fn new(
        app: web::Data<App>,
        caller: Caller,
        calls: Calls,
        frames: Frames,
        open: Open,
        kept: (Waiting, InUse),
    ) -> Self {
        let removed = {
            let caller = caller.clone();
            async move { caller.removed().await }.boxed_local()
        };
        let drained = {
            let app = app.clone();
            async move { app.manager.drained().await }.boxed_local()
        };
        let ping = open.ping();
        let mut pings = tokio::time::interval(ping);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        pings.reset();
        let mut outgoing = Outgoing::default();
        let hello = Hello {
            calls: open.calls(),
            message_bytes: MOST,
            ping_ms: u64::try_from(ping.as_millis()).unwrap_or(u64::MAX),
            node: &app.source.node,
        };
        outgoing.push("hello", &hello);
        Self {
            app,
            caller,
            calls: Rc::new(calls),
            frames,
            outgoing,
            in_flight: HashMap::default(),
            others: 0,
            pending: FuturesUnordered::new(),
            watch: None,
            beginning: None,
            reading: None,
            removed,
            drained,
            is_draining: false,
            pings,
            unanswered: 0,
            unfinished: None,
            controls: Controls::default(),
            pause: None,
            open,
            _kept: kept,
        }
    }

    /// What is to be sent next.
    ///
    /// # Errors
    /// Why the stream ends, after all that there is to send.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, (Bytes, Ending)>> {
        match self.step(context) {
            Ok(()) => self.outgoing.take().map_or(Poll::Pending, |bytes| Poll::Ready(Ok(bytes))),
            Err(ending) => {
                self.outgoing.close(&ending);
                Poll::Ready(Err((self.outgoing.take().unwrap_or_default(), ending)))
            }
        }
    }

    /// Counts the end of the stream.
    pub fn ended(&self, ending: &Ending) {
        self.open.ended(ending.kind());
    }

    fn step(&mut self, context: &mut Context<'_>) -> Result<(), Ending> {
        // What the client sent after that is not judged any more.
        if let Poll::Ready(problem) = self.removed.poll_unpin(context) {
            return Err(Ending::removed(&problem));
        }
        if !self.is_draining {
            self.is_draining = self.drained.poll_unpin(context).is_ready();
        }
        if !self.is_draining {
            self.tick(context)?;
            self.hear(context)?;
        }
        self.finish(context);
        self.tell(context);
        if self.is_draining && self.pending.is_empty() {
            return Err(Ending::Draining);
        }
        Ok(())
    }

    /// Sends a ping if one is due.
    fn tick(&mut self, context: &mut Context<'_>) -> Result<(), Ending> {
        while self.pings.poll_tick(context).is_ready() {
            if self.unanswered >= SILENT {
                return Err(Ending::Silent);
            }
            self.unanswered += 1;
            self.unfinished = match (self.frames.unfinished(), self.unfinished) {
                (Some(now), Some((before, SILENT))) if now == before => return Err(Ending::Slow),
                (Some(now), Some((before, pings))) if now == before => Some((now, pings + 1)),
                (Some(now), _) => Some((now, 1)),
                (None, _) => None,
            };
            self.outgoing.ping();
        }
        Ok(())
    }

    /// Reads what the client sends, as much as may be read now.
    fn hear(&mut self, context: &mut Context<'_>) -> Result<(), Ending> {
        // All that is read now has arrived: the server reads before it asks for what to send.
        self.reading = None;
        for _ in 0..TURN {
            if self.outgoing.len() >= CHUNK || self.is_full() {
                return Ok(());
            }
            if let Some(pause) = &mut self.pause {
                if pause.poll_unpin(context).is_pending() {
                    return Ok(());
                }
                self.pause = None;
            }
            let Poll::Ready(incoming) = self.frames.poll(context) else { return Ok(()) };
            self.unanswered = 0;
            match incoming? {
                Incoming::Message(message) => self.read(&message, context)?,
                Incoming::Ping(payload) => {
                    self.controls.hear(self.app.manager.now())?;
                    self.outgoing.pong(&payload);
                }
                Incoming::Pong => self.controls.hear(self.app.manager.now())?,
                Incoming::Close => return Err(Ending::Closed),
                Incoming::Gone => return Err(Ending::Gone),
            }
        }
        // There may be more.
        context.waker().wake_by_ref();
        Ok(())
    }

    /// Whether no call may be read, not even one that others depend on.
    fn is_full(&self) -> bool {
        self.in_flight.len() >= 2 * self.open.calls()
    }

    /// Reads a message. It is charged before it is parsed, and by what is parsed if its front does not name the call.
    fn read(&mut self, message: &Bytes, context: &mut Context<'_>) -> Result<(), Ending> {
        self.open.count_call();
        let front = Front::of(message).call();
        let charged = front.map(|(_, op)| self.charge(pace_of(op), message));
        if !matches!(charged, Some(Ok(_))) {
            self.slow_down(message);
        }
        if let (Some(Err(problem)), Some((id, _))) = (&charged, front)
            && message.len() > FRONT
        {
            // It is not parsed, so it is not known whether it could be read.
            self.check(id)?;
            self.outgoing.answer(&Answer::problem(id, problem));
            return Ok(());
        }
        let call = match read(message) {
            Ok(call) => call,
            Err(Ok((id, problem))) => {
                let charged = charged.unwrap_or_else(|| self.charge(Pace::Other, message));
                charged.map_err(|_| Ending::Misreads)?;
                self.check(id)?;
                self.outgoing.answer(&Answer::problem(id, &problem));
                return Ok(());
            }
            Err(Err(ending)) => return Err(ending),
        };
        self.check(call.id)?;
        let charged = charged.unwrap_or_else(|| self.charge(pace_of(&call.op), message));
        match charged.and_then(|charged| self.begin(&call, message, charged)) {
            Ok(Some((future, keeps))) => self.start(call.id, future, keeps, context),
            Ok(None) => {}
            Err(problem) => self.outgoing.answer(&Answer::problem(call.id, &problem)),
        }
        Ok(())
    }

    /// Charges a message.
    fn charge(&self, pace: Pace, message: &Bytes) -> Result<Charged, Problem> {
        let peer = self.calls.peer.map(|peer| peer.ip());
        if Broken::FreeMessages.is_active() {
            return Ok(None);
        }
        self.app.door.gatekeeper().charge_message(&self.caller, peer, pace, message.len())
    }

    /// Reads no more for a while if the caller has sent too much beyond its rate.
    fn slow_down(&mut self, message: &Bytes) {
        let peer = self.calls.peer.map(|peer| peer.ip());
        let pause = self.app.door.gatekeeper().pause_after(&self.caller, peer, message.len());
        self.pause = pause.map(|pause| tokio::time::sleep(pause).boxed_local());
    }

    /// An answer under an id that two calls have could be that of either.
    fn check(&self, id: u64) -> Result<(), Ending> {
        if self.in_flight.contains_key(&id) { Err(Ending::IdInUse) } else { Ok(()) }
    }

    /// Answers a call at once if nothing keeps it waiting.
    fn start(
        &mut self,
        id: u64,
        mut future: LocalBoxFuture<'static, Answer>,
        keeps: bool,
        context: &mut Context<'_>,
    ) {
        match future.poll_unpin(context) {
            Poll::Ready(answer) => self.answer(&answer),
            Poll::Pending => {
                let (abort, registration) = AbortHandle::new_pair();
                self.in_flight.insert(id, InFlight { keeps, abort });
                self.others += usize::from(!keeps);
                self.pending.push(Abortable::new(future, registration));
            }
        }
    }

    /// Sends the answers to calls that waited.
    fn finish(&mut self, context: &mut Context<'_>) {
        let was_full = self.is_full();
        while self.outgoing.len() < CHUNK
            && let Poll::Ready(Some(answered)) = self.pending.poll_next_unpin(context)
        {
            // One that was given up is forgotten already.
            if let Ok(answer) = answered {
                self.forget(answer.id);
                self.answer(&answer);
            }
        }
        if was_full && !self.is_full() {
            // More may be read now.
            context.waker().wake_by_ref();
        }
    }

    /// A call is in flight no longer.
    fn forget(&mut self, id: u64) -> Option<InFlight> {
        let call = self.in_flight.remove(&id)?;
        self.others -= usize::from(!call.keeps);
        Some(call)
    }

    fn answer(&mut self, answer: &Answer) {
        if self.beginning == Some(answer.id) {
            self.beginning = None;
            let begins = self.watch.as_mut().is_some_and(|watch| watch.begin(answer));
            if !begins {
                self.watch = None;
            }
        }
        self.outgoing.answer(answer);
    }

    /// Sends notices, and the events that are watched.
    fn tell(&mut self, context: &mut Context<'_>) {
        let following = self.calls.following.clone();
        let mut follower = following.0.borrow_mut();
        while self.outgoing.len() < CHUNK
            && let Poll::Ready(told) = self.app.manager.poll_notice(&mut follower, context)
        {
            self.open.count_notice();
            self.outgoing.push("notice", &notice(told));
        }
        drop(follower);
        while self.outgoing.len() < CHUNK
            && let Some(watch) = &mut self.watch
            && let Poll::Ready(goes_on) = watch.poll(context, &mut self.outgoing)
        {
            if !goes_on {
                self.watch = None;
            }
        }
    }
}
