//! Ownership changes, as a stream that resumes without a gap, and by long poll.

use std::{sync::Arc, time::Duration};

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
    web,
};
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt as _, future::LocalBoxFuture};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::broadcast::error::{RecvError, TryRecvError},
    time::Interval,
};
use utoipa::{IntoParams, ToSchema};

use super::{
    body::json,
    cloud_event::{Setting, cursor, parse_cursor, render, render_frozen, render_reset},
    event_filter::Filter,
    follow::follow,
    places::Waiting,
    problem::Problem,
    query::query,
    replay::{Piece, Replays},
    server::App,
};
use crate::{
    lease::Nonce,
    manager::{CallError, Heard, Published, Subscriber},
    store::{Committed, Position, StoreError},
};

/// A comment line, sent to a subscriber that would otherwise get nothing.
const KEEP_ALIVE: Bytes = Bytes::from_static(b":\n\n");
/// The bytes at which a chunk of the stream is sent, although there is more to add.
const CHUNK_BYTES: usize = 64 * 1024;
/// The most events in the answer of one long poll.
const MAX_POLL: usize = 1000;
/// The longest wait of a long poll, in milliseconds.
const MAX_POLL_MS: u64 = 60_000;

/// Query of `GET /v1/events`.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// Only keys that start so.
    pub prefix: Option<String>,
    /// Only changes from or to this owner.
    pub owner: Option<String>,
    /// Only changes of keys that are of this pool now.
    pub pool: Option<String>,
    /// Only these short types, separated by commas.
    pub types: Option<String>,
    /// The cursor after which to begin; `0` is the beginning of what is kept. Without one, now.
    pub after: Option<String>,
    /// `json` for a long poll.
    #[param(pattern = "^(sse|json)$")]
    pub format: Option<String>,
    /// How long a long poll waits for the first event, at most 60 000.
    #[param(maximum = 60000)]
    pub wait_ms: Option<u64>,
}

/// Answer of a long poll.
#[derive(Debug, Serialize, ToSchema)]
pub struct EventsPage {
    /// CloudEvents, oldest first.
    #[schema(value_type = Vec<Object>)]
    pub events: Vec<serde_json::Value>,
    /// `after` of the next poll.
    pub next: String,
    /// What followed `after` is no longer kept: look at the leases, then go on from `next`.
    pub reset: bool,
}

/// The state of one subscriber.
pub struct Reader {
    app: web::Data<App>,
    filter: Arc<Filter>,
    /// The place among the calls that wait, until the reader is dropped.
    _place: Option<Waiting>,
    subscriber: Subscriber,
    position: Position,
    /// The identity of the store that the position belongs to.
    store: Nonce,
    /// The read of the history that is in progress.
    replay: Option<LocalBoxFuture<'static, Result<Piece, StoreError>>>,
    live: bool,
    over: bool,
    greeting: Option<Bytes>,
    keep_alive: Interval,
}

impl Reader {
    /// The next chunk of the stream; `None` at its end.
    pub async fn chunk(&mut self) -> Option<Bytes> {
        if let Some(greeting) = self.greeting.take() {
            return Some(greeting);
        }
        if self.over {
            return None;
        }
        let app = self.app.clone();
        while !self.live {
            let replay = self.replay.get_or_insert_with(|| {
                Replays::next(app.clone(), self.filter.clone(), self.position).boxed_local()
            });
            let piece = tokio::select! {
                biased;
                () = app.manager.drained() => return None,
                piece = replay => piece.ok()?,
                // The read stays in progress.
                _ = self.keep_alive.tick() => return Some(KEEP_ALIVE),
            };
            (self.replay, self.position, self.live) = (None, piece.position, piece.is_last);
            if !piece.events.is_empty() {
                self.keep_alive.reset();
                return Some(piece.events);
            }
        }
        let mut out = BytesMut::new();
        while out.is_empty() && !self.over {
            tokio::select! {
                () = app.manager.drained() => return None,
                received = self.subscriber.changes.recv() => match received {
                    Ok(heard) => self.hear(&heard, &mut out),
                    Err(RecvError::Lagged(_)) => self.cut_off(&mut out),
                    Err(RecvError::Closed) => return None,
                },
                _ = self.keep_alive.tick() => out.extend_from_slice(&KEEP_ALIVE),
            }
            while out.len() < CHUNK_BYTES && !self.over {
                match self.subscriber.changes.try_recv() {
                    Ok(heard) => self.hear(&heard, &mut out),
                    Err(TryRecvError::Lagged(_)) => self.cut_off(&mut out),
                    Err(_) => break,
                }
            }
        }
        self.keep_alive.reset();
        Some(out.freeze())
    }

    fn render(&self, committed: &Committed) -> Bytes {
        let setting = Setting::of(&self.app.manager, committed);
        render(&self.app.source, &setting, committed)
    }

    fn hear(&mut self, heard: &Heard, out: &mut BytesMut) {
        match heard {
            Heard::Change(published) => self.take(published, out),
            Heard::Lost(resume) => {
                let store = self.app.source.identity();
                // A position from before the store went backwards means nothing in the store as it is now.
                let same = std::mem::replace(&mut self.store, store) == store;
                self.position = if same { self.position.max(*resume) } else { *resume };
                out.extend_from_slice(&render_reset(&self.app.source, self.position, "lost"));
            }
            Heard::Frozen(why) => out.extend_from_slice(&render_frozen(why.as_deref())),
        }
    }

    fn take(&mut self, published: &Arc<Published>, out: &mut BytesMut) {
        let committed = &published.committed;
        if committed.position <= self.position {
            return;
        }
        self.position = committed.position;
        if self.filter.wants(&self.app.manager, committed) {
            out.extend_from_slice(published.rendered.get_or_init(|| self.render(committed)));
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
}

/// Follow ownership changes.
#[utoipa::path(get, path = "/v1/events", tag = "events", params(EventsQuery), responses(
    (status = 200, description = "Server-sent events, or with `format=json` a page", content(
        (String = "text/event-stream"), (EventsPage = "application/json"))),
    (status = 400, description = "A parameter is not valid", body = Problem),
    (status = 429, description = "`too-many-subscribers`, or `busy`: too many calls wait or stream", body = Problem),
    (status = 503, description = "`store-unavailable`", body = Problem),
))]
pub async fn events(request: HttpRequest, app: web::Data<App>) -> HttpResponse {
    match open(&request, app).await {
        Ok(response) => response,
        Err(problem) => problem.respond(&request),
    }
}

async fn open(request: &HttpRequest, app: web::Data<App>) -> Result<HttpResponse, Problem> {
    let query: EventsQuery = query(request)?;
    let filter = Arc::new(Filter::of(&query)?);
    let store = app.source.identity();
    if let Some(pool) = &query.pool {
        app.manager.check_pool(pool).map_err(|invalid| Problem::invalid(&invalid))?;
    }
    let last = request.headers().get("last-event-id").map(header::HeaderValue::to_str);
    let last = last.transpose().map_err(|_| Problem::field("Last-Event-ID", "is not a cursor"))?;
    let after = query.after.as_deref().filter(|after| !after.is_empty());
    let after = match last.or(after) {
        Some(text) => Some(parse_cursor(&app, text)?),
        None => None,
    };
    let is_poll = query.format.as_deref() == Some("json");
    let waits = !is_poll || query.wait_ms.is_some_and(|wait_ms| wait_ms > 0);
    let place = waits.then(|| Waiting::of(request)).transpose()?;
    let subscriber =
        app.manager.subscribe().map_err(|error| Problem::too_many_subscribers(error.0))?;
    let latest = app.manager.latest();
    let (position, foreign) = match after {
        None => (latest, false),
        Some(Some(position)) => (position, false),
        Some(None) => (latest, true),
    };
    let live = after.is_none();
    let mut greeting = b"retry: 1000\n\n".to_vec();
    if foreign {
        greeting.extend_from_slice(&render_reset(&app.source, position, "another-store"));
    }
    let mut keep_alive = tokio::time::interval(app.keep_alive);
    keep_alive.reset();
    let mut reader = Reader {
        app,
        filter,
        _place: place,
        subscriber,
        position,
        store,
        replay: None,
        live,
        over: false,
        greeting: Some(greeting.into()),
        keep_alive,
    };
    match query.format.as_deref() {
        None | Some("sse") => {
            let mut response = HttpResponse::Ok()
                .insert_header((header::CONTENT_TYPE, "text/event-stream"))
                .insert_header((header::CACHE_CONTROL, "no-store"))
                .streaming(follow(reader));
            super::body::echo_request_id(request, response.headers_mut());
            Ok(response)
        }
        Some("json") => {
            let page = reader.page(query.wait_ms.unwrap_or(0), foreign).await?;
            Ok(json(request, StatusCode::OK, &page))
        }
        Some(other) => {
            Err(Problem::field("format", format!("is {other:?}; it must be sse or json")))
        }
    }
}

impl Reader {
    /// The answer of a long poll: the changes that there are, or the first to come within `wait_ms`.
    async fn page(&mut self, wait_ms: u64, foreign: bool) -> Result<EventsPage, Problem> {
        if wait_ms > MAX_POLL_MS {
            return Err(Problem::field("wait_ms", format!("is {wait_ms}; at most {MAX_POLL_MS}")));
        }
        let mut events = Vec::new();
        let mut reset = foreign;
        let wait = tokio::time::sleep(Duration::from_millis(wait_ms));
        tokio::pin!(wait);
        loop {
            let store = self.app.source.identity();
            if std::mem::replace(&mut self.store, store) != store {
                (self.position, reset) = (self.app.manager.latest(), true);
            }
            while events.len() < MAX_POLL && !reset {
                let most = MAX_POLL - events.len();
                let (app, filter) = (self.app.clone(), self.filter.clone());
                let page = Replays::page(app, filter, self.position, most).await;
                let page = page.map_err(|error| Problem::store(&error))?;
                events.extend(page.events);
                (self.position, reset) = (page.position, page.reset);
                if page.is_last {
                    break;
                }
            }
            if !events.is_empty() || reset || wait_ms == 0 || wait.is_elapsed() {
                return Ok(EventsPage {
                    events,
                    next: cursor(&self.app.source, self.position),
                    reset,
                });
            }
            let app = self.app.clone();
            tokio::select! {
                () = app.manager.drained() => return Err(Problem::call(&CallError::Draining)),
                () = &mut wait => {}
                _ = self.subscriber.changes.recv() => {}
            }
        }
    }
}
