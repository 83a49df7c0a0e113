//! Ownership changes, as a stream that resumes without a hole, and by long poll.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
    web,
};
use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::broadcast::error::{RecvError, TryRecvError},
    time::Interval,
};
use utoipa::{IntoParams, ToSchema};

use super::{
    body::{json, query},
    follow::follow,
    problem::Problem,
    server::{App, Source},
};
use crate::{
    actor::{Heard, Published, Subscriber, World},
    clock::rfc3339,
    lease::{ChangeKind, DEFAULT_POOL, Revision},
    store::{Committed, History, Position},
};

/// Changes read from the store's history at a time.
const REPLAY: usize = 512;
/// Bytes that one chunk of the stream gathers at most, while there is more.
const CHUNK_BYTES: usize = 64 * 1024;
/// Most events of one long poll.
const MAX_POLL: usize = 1000;
/// Longest long poll, in milliseconds.
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
    pub format: Option<String>,
    /// How long a long poll waits for the first event, at most 60 000.
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

/// Which events a subscriber wants.
struct Filter {
    prefix: String,
    owner: Option<String>,
    types: Option<Vec<ChangeKind>>,
    pool: Option<String>,
}

impl Filter {
    fn of(query: &EventsQuery) -> Result<Self, Problem> {
        let types = match query.types.as_deref() {
            None | Some("") => None,
            Some(list) => Some(parse_types(list)?),
        };
        Ok(Self {
            prefix: query.prefix.clone().unwrap_or_default(),
            owner: query.owner.clone(),
            types,
            pool: query.pool.clone(),
        })
    }

    fn wants(&self, world: &World, committed: &Committed) -> bool {
        let change = &committed.change;
        let owner_fits = self.owner.as_deref().is_none_or(|owner| {
            let previous = change.previous.as_ref().map(|(owner, _)| owner.as_str());
            change.owner.as_ref().map(|owner| owner.as_str()) == Some(owner)
                || previous == Some(owner)
        });
        let key = committed.key.as_str();
        owner_fits
            && key.starts_with(&self.prefix)
            && self.pool.as_deref().is_none_or(|pool| world.rules().is_of(key, pool))
            && self.types.as_ref().is_none_or(|types| types.contains(&change.kind))
    }
}

/// Short types that the stream knows and that this build has no cause to send.
const SILENT: [&str; 8] = [
    "session-ended",
    "fencing",
    "fenced",
    "fence-failed",
    "cooled",
    "handover-requested",
    "reset",
    "frozen",
];

fn parse_types(list: &str) -> Result<Vec<ChangeKind>, Problem> {
    let mut types = Vec::new();
    for name in list.split(',').map(str::trim) {
        match ChangeKind::ALL.iter().find(|kind| kind.as_str() == name) {
            Some(kind) => types.push(*kind),
            None if SILENT.contains(&name) => {}
            None => {
                return Err(Problem::field("types", format!("names {name:?}, which is no type")));
            }
        }
    }
    Ok(types)
}

/// A cursor: the store's identity, so that another store's is noticed, and the position in it.
fn cursor(source: &Source, at: Position) -> String {
    format!("{}-{}-{}", source.store_tag, at.revision.0, at.index)
}

/// `None` for a cursor of another store.
fn parse_cursor(app: &App, text: &str) -> Result<Option<Position>, Problem> {
    if text == "0" {
        return Ok(Some(app.manager.earliest()));
    }
    let parse = || {
        let mut parts = text.split('-');
        let tag = parts.next()?;
        let revision = Revision(parts.next()?.parse().ok()?);
        let index = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some((tag, Position { revision, index }))
    };
    let (tag, position) = parse().ok_or_else(|| Problem::field("after", "is not a cursor"))?;
    Ok((tag == app.source.store_tag).then_some(position))
}

#[derive(Serialize)]
struct CloudEvent<'a> {
    specversion: &'static str,
    id: String,
    source: &'a str,
    #[serde(rename = "type")]
    kind: String,
    subject: &'a str,
    time: String,
    datacontenttype: &'static str,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    key: &'a str,
    seq: u64,
    owner: Option<&'a str>,
    token: u64,
    previous: Option<Previous<'a>>,
    reason: Option<&'a str>,
    actor: Option<&'a str>,
    session: Option<&'a str>,
    pool: &'a str,
    node: Option<&'a str>,
}

#[derive(Serialize)]
struct Previous<'a> {
    owner: &'a str,
    token: u64,
}

fn cloud_event<'a>(
    source: &'a Source,
    setting: &'a Setting,
    committed: &'a Committed,
) -> CloudEvent<'a> {
    let node = setting.writer.as_ref().map_or(Some(&*source.node), Option::as_deref);
    let change = &committed.change;
    let key = committed.key.as_str();
    CloudEvent {
        specversion: "1.0",
        id: cursor(source, committed.position),
        // Who says so, when it is forgotten who did it.
        source: node.unwrap_or(&source.node),
        kind: format!("io.tenure.lease.{}", change.kind.as_str()),
        subject: key,
        time: rfc3339(committed.at_ms),
        datacontenttype: "application/json",
        data: Data {
            key,
            seq: change.seq,
            owner: change.owner.as_ref().map(|owner| owner.as_str()),
            token: change.token.0,
            previous: change
                .previous
                .as_ref()
                .map(|(owner, token)| Previous { owner: owner.as_str(), token: token.0 }),
            reason: change.reason.as_deref(),
            actor: change.actor.as_deref(),
            session: None,
            pool: &setting.pool,
            node,
        },
    }
}

/// What an event says besides the change.
pub struct Setting {
    /// The URL of the node that made it, when it was another: `Some(None)` when that is forgotten.
    writer: Option<Option<Box<str>>>,
    /// The pool that the key is in now.
    pool: Arc<str>,
}

impl Setting {
    /// As the world knows it now.
    pub fn of(world: &World, committed: &Committed) -> Self {
        Self {
            writer: (!world.is_own(committed.node)).then(|| world.url_of(committed.node)),
            pool: world.pool_of(committed.key.as_str()),
        }
    }

    /// Of a coordinator that is gone.
    pub fn unknown() -> Self {
        Self { writer: None, pool: DEFAULT_POOL.into() }
    }
}

/// One event of the stream. JSON has no line breaks, so one `data:` line is enough.
pub fn render(source: &Source, setting: &Setting, committed: &Committed) -> Bytes {
    let event = cloud_event(source, setting, committed);
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(
        format!("id: {}\nevent: {}\ndata: ", event.id, committed.change.kind.as_str()).as_bytes(),
    );
    // Writing into memory does not fail.
    let _ = serde_json::to_writer(&mut out, &event);
    out.extend_from_slice(b"\n\n");
    out.into()
}

fn render_reset(source: &Source, at: Position, reason: &str) -> Bytes {
    let id = cursor(source, at);
    let data = serde_json::json!({ "cursor": id, "reason": reason });
    format!("id: {id}\nevent: reset\ndata: {data}\n\n").into()
}

/// No cursor: it is no change of a key, and is not replayed.
fn render_frozen(why: Option<&str>) -> Bytes {
    let data = serde_json::json!({ "frozen": why.is_some(), "reason": why });
    format!("event: frozen\ndata: {data}\n\n").into()
}

/// Where a subscriber stands.
pub struct Reader {
    app: web::Data<App>,
    filter: Filter,
    subscriber: Subscriber,
    position: Position,
    /// Read from the store's history, not yet sent.
    backlog: VecDeque<Committed>,
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
        let mut out = BytesMut::new();
        if !self.live {
            self.replay(&mut out).await;
            if !out.is_empty() {
                return Some(out.freeze());
            }
        }
        while out.is_empty() && !self.over {
            let app = self.app.clone();
            tokio::select! {
                () = app.manager.drained() => return None,
                received = self.subscriber.changes.recv() => match received {
                    Ok(heard) => self.hear(&heard, &mut out),
                    Err(RecvError::Lagged(_)) => self.cut_off(&mut out),
                    Err(RecvError::Closed) => return None,
                },
                _ = self.keep_alive.tick() => out.extend_from_slice(b":\n\n"),
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

    /// Sends what the history has, until it has no more.
    async fn replay(&mut self, out: &mut BytesMut) {
        while out.len() < CHUNK_BYTES {
            match self.app.manager.history(self.position, REPLAY).await {
                Ok(History::Changes(changes)) if changes.is_empty() => {
                    self.live = true;
                    return;
                }
                Ok(History::Changes(changes)) => {
                    for committed in changes {
                        self.position = committed.position;
                        if self.filter.wants(self.app.manager.world(), &committed) {
                            out.extend_from_slice(&self.render(&committed));
                        }
                    }
                }
                Ok(History::Gap { resume }) => {
                    self.position = resume;
                    out.extend_from_slice(&render_reset(
                        &self.app.source,
                        resume,
                        "no-longer-kept",
                    ));
                }
                Err(_) => {
                    self.over = true;
                    return;
                }
            }
        }
    }

    fn render(&self, committed: &Committed) -> Bytes {
        let setting = Setting::of(self.app.manager.world(), committed);
        render(&self.app.source, &setting, committed)
    }

    fn hear(&mut self, heard: &Heard, out: &mut BytesMut) {
        match heard {
            Heard::Change(published) => self.take(published, out),
            Heard::Lost(resume) => {
                self.position = self.position.max(*resume);
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
        if self.filter.wants(self.app.manager.world(), committed) {
            out.extend_from_slice(published.rendered.get_or_init(|| self.render(committed)));
        }
    }

    /// A subscriber that did not read is told where it stands, and must come back.
    fn cut_off(&mut self, out: &mut BytesMut) {
        out.extend_from_slice(&self.too_slow());
        self.over = true;
    }

    fn too_slow(&self) -> Bytes {
        self.app.manager.world().metrics.subscribers_dropped.increment(1);
        render_reset(&self.app.source, self.position, "too-slow")
    }

    /// What is to be said when the bus no longer has what comes next; counted.
    pub fn fell_behind(&self) -> Option<Bytes> {
        let buffer = self.app.manager.world().limits.bus_buffer.next_power_of_two();
        (self.subscriber.changes.len() > buffer).then(|| self.too_slow())
    }
}

/// Follow ownership changes.
#[utoipa::path(get, path = "/v1/events", tag = "events", params(EventsQuery), responses(
    (status = 200, description = "Server-sent events, or with `format=json` a page", content(
        (String = "text/event-stream"), (EventsPage = "application/json"))),
    (status = 400, description = "A parameter is not valid", body = Problem),
    (status = 429, description = "`too-many-subscribers`", body = Problem),
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
    let filter = Filter::of(&query)?;
    let last = request.headers().get("last-event-id").map(header::HeaderValue::to_str);
    let last = last.transpose().map_err(|_| Problem::field("Last-Event-ID", "is not a cursor"))?;
    let after = query.after.as_deref().filter(|after| !after.is_empty());
    let after = match last.or(after) {
        Some(text) => Some(parse_cursor(&app, text)?),
        None => None,
    };
    let subscriber =
        app.manager.subscribe().map_err(|error| Problem::too_many_subscribers(error.0))?;
    let latest = app.manager.latest();
    let (position, foreign) = match after {
        None => (latest, false),
        Some(Some(position)) => (position, false),
        Some(None) => (latest, true),
    };
    let (backlog, live) = (VecDeque::new(), after.is_none());
    let mut greeting = b"retry: 1000\n\n".to_vec();
    if foreign {
        greeting.extend_from_slice(&render_reset(&app.source, position, "another-store"));
    }
    let keep_alive = tokio::time::interval(app.keep_alive);
    let mut reader = Reader {
        app,
        filter,
        subscriber,
        position,
        backlog,
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
    /// The answer of a long poll: what there is, or the first that comes within `wait_ms`.
    async fn page(&mut self, wait_ms: u64, foreign: bool) -> Result<EventsPage, Problem> {
        if wait_ms > MAX_POLL_MS {
            return Err(Problem::field("wait_ms", format!("is {wait_ms}; at most {MAX_POLL_MS}")));
        }
        let mut events = Vec::new();
        let mut reset = foreign;
        let wait = tokio::time::sleep(Duration::from_millis(wait_ms));
        tokio::pin!(wait);
        loop {
            while events.len() < MAX_POLL {
                let limit = REPLAY.min(MAX_POLL - events.len());
                let found = self.app.manager.history(self.position, limit).await;
                match found.map_err(|error| Problem::store(&error))? {
                    History::Changes(changes) if changes.is_empty() => break,
                    History::Changes(changes) => self.backlog.extend(changes),
                    History::Gap { resume } => {
                        (self.position, reset) = (resume, true);
                        break;
                    }
                }
                while let Some(committed) = self.backlog.pop_front() {
                    self.position = committed.position;
                    let world = self.app.manager.world();
                    if self.filter.wants(world, &committed) {
                        let setting = Setting::of(world, &committed);
                        let event = cloud_event(&self.app.source, &setting, &committed);
                        events.push(serde_json::to_value(event).unwrap_or_default());
                    }
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
                () = app.manager.drained() => return Err(Problem::trouble(&crate::manager::Trouble::Draining)),
                () = &mut wait => {}
                _ = self.subscriber.changes.recv() => {}
            }
        }
    }
}
