//! What one subscriber is sent: first the history, then the changes as they happen, without a gap.

use std::{sync::Arc, time::Duration};

use actix_web::web;
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt as _, future::LocalBoxFuture};
use tokio::{
    sync::broadcast::error::{RecvError, TryRecvError},
    time::{Interval, MissedTickBehavior},
};

use super::{
    cloud_event::{Begin, cursor, render, render_frozen, render_reset},
    filter::Filter,
    history::{Piece, next_page, next_piece},
    routes::{Told, render_route},
};
use crate::{
    api::{EventsPage, limits::MAX_POLL_MS},
    http::{answer::Problem, app::App, caller::InUse, door::Waiting},
    lease::Nonce,
    manager::{BusEvent, CallError, Published, Setting, Subscriber},
    store::{Committed, Position, StoreError},
};

/// A comment line, sent to a subscriber that would otherwise get nothing.
const KEEP_ALIVE: Bytes = Bytes::from_static(b":\n\n");
/// The bytes at which a chunk of the stream is sent, although there is more to add.
const CHUNK_BYTES: usize = 64 * 1024;
/// While a subscriber paces its deliveries, the changes are read this often, so that it does not lose its place.
const PACED_READ: Duration = Duration::from_millis(50);
/// The changes after which a page ends although there are more. The caller reads on with another call.
const MOST_LOOKED_AT: usize = 5_000;
/// The most events in the answer of one long poll.
const MAX_POLL: usize = 1000;

/// What a subscriber is sent of each change.
pub enum Shape {
    /// The change, as a CloudEvents object.
    Events,
    /// Who has the key, and what it was told of the members of its pool.
    Routes(Box<Told>),
}

impl Shape {
    /// How a change is rendered.
    fn render(&self) -> fn(&App, &Committed) -> Bytes {
        match self {
            Self::Events => |app, committed| {
                render(&app.source, &Setting::of(&app.manager, committed), committed)
            },
            Self::Routes(_) => render_route,
        }
    }

    /// Resolves when there is something to tell besides changes.
    async fn changed(&mut self) {
        match self {
            Self::Events => std::future::pending().await,
            Self::Routes(told) => told.changed().await,
        }
    }

    /// What there is to tell besides changes.
    fn news(&mut self) -> Bytes {
        match self {
            Self::Events => Bytes::new(),
            Self::Routes(told) => told.news(),
        }
    }
}

/// The state of one subscriber.
pub struct Reader {
    app: web::Data<App>,
    filter: Arc<Filter>,
    shape: Shape,
    /// The place among the calls that wait, until the reader is dropped.
    _place: Option<Waiting>,
    /// What it uses of its principal's limit.
    _in_use: Option<InUse>,
    subscriber: Subscriber,
    position: Position,
    /// The identity of the store that the position belongs to.
    store: Nonce,
    /// The read of the history that is in progress.
    replay: Option<LocalBoxFuture<'static, Result<Piece, StoreError>>>,
    live: bool,
    over: bool,
    /// Whether the subscriber named a position in another store.
    foreign: bool,
    greeting: Option<Bytes>,
    keep_alive: Interval,
    /// When the next chunk of live changes may be sent, if the subscriber paces them.
    pace: Option<Interval>,
}

impl Reader {
    /// The reader of a new subscriber to the store of this identity.
    ///
    /// # Errors
    /// When there are as many subscribers as the settings allow.
    pub fn open(
        app: web::Data<App>,
        filter: Arc<Filter>,
        (place, in_use): (Option<Waiting>, Option<InUse>),
        store: Nonce,
        begin: Begin,
    ) -> Result<Self, Problem> {
        let subscriber =
            app.manager.subscribe().map_err(|error| Problem::too_many_subscribers(error.0))?;
        let latest = app.manager.latest();
        let foreign = begin == Begin::AnotherStore;
        let position = if let Begin::After(position) = begin { position } else { latest };
        let mut greeting = b"retry: 1000\n\n".to_vec();
        if foreign {
            greeting.extend_from_slice(&render_reset(&app.source, position, "another-store"));
        }
        let mut keep_alive = tokio::time::interval(app.keep_alive);
        keep_alive.reset();
        Ok(Self {
            app,
            filter,
            shape: Shape::Events,
            _place: place,
            _in_use: in_use,
            subscriber,
            position,
            store,
            replay: None,
            live: begin == Begin::Now,
            over: false,
            foreign,
            greeting: Some(greeting.into()),
            keep_alive,
            pace: None,
        })
    }

    /// Sends routes instead of events, after `first`.
    pub fn routes(mut self, told: Told, first: &Bytes) -> Self {
        let greeting = self.greeting.take().unwrap_or_default();
        self.greeting = Some([greeting, first.clone()].concat().into());
        self.shape = Shape::Routes(Box::new(told));
        self
    }

    /// Leaves at least this much time between two chunks of live changes.
    pub fn pace(mut self, least: Duration) -> Self {
        self.pace = (!least.is_zero()).then(|| {
            let mut pace = tokio::time::interval(least);
            pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
            pace
        });
        self
    }

    /// The next chunk of the stream; `None` at its end.
    pub async fn chunk(&mut self) -> Option<Bytes> {
        if let Some(greeting) = self.greeting.take() {
            return Some(greeting);
        }
        if self.over {
            return None;
        }
        let (app, filter) = (self.app.clone(), self.filter.clone());
        while !self.live {
            let replay = self.replay.get_or_insert_with(|| {
                let shape = self.shape.render();
                next_piece(app.clone(), filter.clone(), self.position, shape).boxed_local()
            });
            let piece = tokio::select! {
                biased;
                () = app.manager.drained() => return None,
                _ = filter.caller().removed() => return None,
                piece = replay => piece.ok()?,
                // The read stays in progress.
                _ = self.keep_alive.tick() => return Some(KEEP_ALIVE),
            };
            (self.replay, self.position, self.live) = (None, piece.position, piece.is_last);
            filter.caller().looked_at(piece.looked_at);
            if !piece.events.is_empty() {
                self.keep_alive.reset();
                return Some(piece.events);
            }
        }
        let mut out = BytesMut::new();
        while out.is_empty() && !self.over {
            tokio::select! {
                biased;
                () = app.manager.drained() => return None,
                _ = filter.caller().removed() => return None,
                () = self.shape.changed() => out.extend_from_slice(&self.shape.news()),
                received = self.subscriber.changes.recv() => match received {
                    Ok(heard) => self.hear(&heard, &mut out),
                    Err(RecvError::Lagged(_)) => self.cut_off(&mut out),
                    Err(RecvError::Closed) => return None,
                },
                _ = self.keep_alive.tick() => out.extend_from_slice(&KEEP_ALIVE),
            }
            self.hear_more(&mut out);
        }
        let mut pace = self.pace.take();
        while let Some(pace) = &mut pace
            && out.len() < CHUNK_BYTES
            && !self.over
        {
            tokio::select! {
                biased;
                () = app.manager.drained() => return None,
                _ = filter.caller().removed() => return None,
                _ = pace.tick() => break,
                () = tokio::time::sleep(PACED_READ) => self.hear_more(&mut out),
            }
        }
        self.pace = pace;
        self.hear_more(&mut out);
        self.keep_alive.reset();
        Some(out.freeze())
    }

    /// Adds the changes that there are, as far as they fit into the chunk.
    fn hear_more(&mut self, out: &mut BytesMut) {
        while out.len() < CHUNK_BYTES && !self.over {
            match self.subscriber.changes.try_recv() {
                Ok(heard) => self.hear(&heard, out),
                Err(TryRecvError::Lagged(_)) => self.cut_off(out),
                Err(_) => break,
            }
        }
    }

    fn hear(&mut self, heard: &BusEvent, out: &mut BytesMut) {
        match heard {
            BusEvent::Change(published) => self.take(published, out),
            BusEvent::Lost(resume) => {
                self.position = resume.after(self.position);
                out.extend_from_slice(&render_reset(&self.app.source, self.position, "lost"));
            }
            BusEvent::Frozen(why) => out.extend_from_slice(&render_frozen(why.as_deref())),
        }
    }

    fn take(&mut self, published: &Arc<Published>, out: &mut BytesMut) {
        let committed = &published.committed;
        if committed.position <= self.position {
            return;
        }
        self.position = committed.position;
        if self.filter.wants(&self.app.manager, committed) {
            let cell = match self.shape {
                Shape::Events => &published.rendered,
                Shape::Routes(_) => &published.routed,
            };
            let render = || self.shape.render()(&self.app, committed);
            out.extend_from_slice(cell.get_or_init(render));
        }
    }

    /// Ends the stream of a subscriber that did not read. It gets its position, and must connect again.
    fn cut_off(&mut self, out: &mut BytesMut) {
        out.extend_from_slice(&self.too_slow());
        self.over = true;
    }

    fn too_slow(&self) -> Bytes {
        self.app.manager.count_dropped_subscriber();
        render_reset(&self.app.source, self.position, "too-slow")
    }

    /// The reset to send when the bus no longer has the subscriber's next change. Counts the dropped subscriber.
    pub fn fell_behind(&self) -> Option<Bytes> {
        self.app.manager.has_overtaken(&self.subscriber).then(|| self.too_slow())
    }

    /// The answer of a long poll: the changes that there are, or the first to come within `wait_ms`.
    ///
    /// # Errors
    /// When the wait is too long, the store cannot be read, or the coordinator stops.
    pub async fn page(&mut self, wait_ms: u64) -> Result<EventsPage, Problem> {
        if wait_ms > MAX_POLL_MS {
            return Err(Problem::field("wait_ms", format!("is {wait_ms}; at most {MAX_POLL_MS}")));
        }
        let mut events = Vec::new();
        let (mut reset, mut looked_at, mut more) = (self.foreign, 0, false);
        let wait = tokio::time::sleep(Duration::from_millis(wait_ms));
        tokio::pin!(wait);
        loop {
            let store = self.app.source.identity();
            if std::mem::replace(&mut self.store, store) != store {
                (self.position, reset) = (self.app.manager.latest(), true);
            }
            while events.len() < MAX_POLL && !reset {
                more = looked_at >= MOST_LOOKED_AT;
                if more {
                    break;
                }
                let most = MAX_POLL - events.len();
                let (app, filter) = (self.app.clone(), self.filter.clone());
                let page = next_page(app, filter, self.position, most).await;
                let page = page.map_err(|error| Problem::store(&error))?;
                events.extend(page.events);
                (self.position, reset) = (page.position, page.reset);
                looked_at += page.looked_at;
                self.filter.caller().looked_at(page.looked_at);
                more = !page.is_last;
                if page.is_last {
                    break;
                }
            }
            if !events.is_empty() || reset || more || wait_ms == 0 || wait.is_elapsed() {
                return Ok(EventsPage {
                    events,
                    next: cursor(&self.app.source, self.position),
                    reset,
                    more: more && !reset,
                });
            }
            let (app, filter) = (self.app.clone(), self.filter.clone());
            tokio::select! {
                () = app.manager.drained() => return Err(Problem::call(&CallError::Draining)),
                problem = filter.caller().removed() => return Err(problem),
                () = &mut wait => {}
                _ = self.subscriber.changes.recv() => {}
            }
        }
    }
}
