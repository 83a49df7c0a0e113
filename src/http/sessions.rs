//! Sessions: one heartbeat for many leases.

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};

use super::{
    body::{Body, OptionalBody, json, owner},
    forward::act_at_home,
    problem::Problem,
    query::query,
    server::App,
    wire::{
        BeatBody, BeatWire, BehaviorName, CheckSpec, ClosedWire, DrainingWire, Notice, OpenedWire,
        SessionBody, SessionDrainBody, SessionWire, SessionsQuery, SessionsWire,
    },
};
use crate::{
    lease::{
        Behavior, Check, CheckKind, MAX_CHECKS, MAX_LOCK_DELAY_MS, NotASessionId, SessionId,
        SessionSpec, digest_of,
    },
    manager::{Asked, Limits, Target},
};

/// The most sessions on a page.
const MAX_LIMIT: usize = 1000;
/// The highest capacity that a member of a pool may declare, in keys.
const MAX_CAPACITY: u32 = 1_000_000;
/// The bounds of the interval between two rounds of a check, and of the timeout of one round, in milliseconds.
const CHECK_SPANS: std::ops::RangeInclusive<u64> = 100..=3_600_000;
/// The longest timeout of one round, in milliseconds. A round takes one of the node's slots for checks meanwhile.
const CHECK_TIMEOUT_MAX: u64 = 60_000;

/// Reads a session id from a body or a path.
pub fn session_id(field: &str, text: &str) -> Result<SessionId, Problem> {
    text.parse().map_err(|error: NotASessionId| Problem::field(field, error))
}

fn span(field: &str, at: usize, value: u64, max: u64) -> Result<u64, Problem> {
    let min = *CHECK_SPANS.start();
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    let detail = format!("is {value}; it must be from {min} to {max}");
    Err(Problem::field(&format!("checks[{at}].{field}"), detail))
}

fn check(limits: &Limits, at: usize, body: &CheckSpec) -> Result<Check, Problem> {
    let wrong =
        |field: &str, detail: &str| Err(Problem::field(&format!("checks[{at}].{field}"), detail));
    // A host name is checked each time it is resolved.
    let reachable = |field: &str, target: &Target| match target.literal() {
        Some(address) if !limits.reach.allows(address) => {
            let detail = "names an address that checks of this coordinator may not connect to (checks.allow)";
            Err(Problem::field(&format!("checks[{at}].{field}"), detail))
        }
        _ => Ok(()),
    };
    let (kind, interval_ms, timeout_ms, fail_after) = match body {
        CheckSpec::Http { url, interval_ms, timeout_ms, fail_after } => {
            let known = ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme));
            // The URL parser would drop some control characters.
            let control = url.contains(char::is_control);
            let target = reqwest::Url::parse(url).ok().and_then(|url| Target::of_url(&url));
            let Some(target) = target.filter(|_| known && !control && url.len() <= 2048) else {
                return wrong("url", "must be an http:// or https:// URL of at most 2048 bytes");
            };
            reachable("url", &target)?;
            (CheckKind::Http(url.as_str().into()), *interval_ms, *timeout_ms, *fail_after)
        }
        CheckSpec::Tcp { address, interval_ms, timeout_ms, fail_after } => {
            let target = Target::of_address(address);
            let control = address.contains(char::is_control);
            let Some(target) = target.filter(|_| !control && address.len() <= 256) else {
                return wrong("address", "must be host:port, of at most 256 bytes");
            };
            reachable("address", &target)?;
            (CheckKind::Tcp(address.as_str().into()), *interval_ms, *timeout_ms, *fail_after)
        }
        CheckSpec::Exec { command, interval_ms, timeout_ms, fail_after } => {
            if !limits.exec_checks {
                return wrong(
                    "type",
                    "is exec, which this coordinator does not allow (limits.exec_checks)",
                );
            }
            let long = command.iter().map(String::len).sum::<usize>() > 4096;
            if command.is_empty() || command[0].is_empty() || long {
                return wrong("command", "must be a program and its arguments, at most 4096 bytes");
            }
            let control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
            if command.iter().any(|part| part.contains(control)) {
                return wrong("command", "holds a control character");
            }
            let command = command.iter().map(|part| part.as_str().into()).collect();
            (CheckKind::Exec(command), *interval_ms, *timeout_ms, *fail_after)
        }
        CheckSpec::Progress { interval_ms, fail_after } => {
            (CheckKind::Progress, *interval_ms, *interval_ms, *fail_after)
        }
    };
    if !(1..=1000).contains(&fail_after) {
        return wrong("fail_after", &format!("is {fail_after}; it must be from 1 to 1000"));
    }
    let interval_ms = span("interval_ms", at, interval_ms, *CHECK_SPANS.end())?;
    let timeout_ms = match kind {
        // Such a check has no round that takes time.
        CheckKind::Progress => timeout_ms,
        _ => span("timeout_ms", at, timeout_ms, CHECK_TIMEOUT_MAX)?,
    };
    Ok(Check { kind, interval_ms, timeout_ms, fail_after })
}

/// Reads the specification of a session. Refuses checks that the settings do not allow.
pub fn read_spec(limits: &Limits, body: &SessionBody) -> Result<SessionSpec, Problem> {
    if body.lock_delay_ms.is_some_and(|delay| delay > MAX_LOCK_DELAY_MS) {
        let detail = format!("must be from 0 to {MAX_LOCK_DELAY_MS}");
        return Err(Problem::field("lock_delay_ms", detail));
    }
    let capacity = body.capacity.unwrap_or(1);
    if !(1..=MAX_CAPACITY).contains(&capacity) {
        let detail = format!("is {capacity}; it must be from 1 to {MAX_CAPACITY}");
        return Err(Problem::field("capacity", detail));
    }
    if body.pool.is_none() {
        let given = [("weight", body.weight), ("capacity", body.capacity)];
        if let Some((field, _)) = given.into_iter().find(|(_, number)| number.is_some()) {
            return Err(Problem::field(field, "needs a pool: it describes a member of one"));
        }
    }
    if body.checks.len() > MAX_CHECKS {
        let detail = format!("are {}; at most {MAX_CHECKS} are allowed", body.checks.len());
        return Err(Problem::field("checks", detail));
    }
    let checks = body.checks.iter().enumerate().map(|(at, body)| check(limits, at, body));
    Ok(SessionSpec {
        behavior: match body.behavior {
            BehaviorName::Release => Behavior::Release,
            BehaviorName::Delete => Behavior::Delete,
        },
        lock_delay_ms: body.lock_delay_ms,
        pool: body.pool.as_deref().map(Into::into),
        weight: body.weight.unwrap_or(1),
        capacity: body.capacity,
        checks: checks.collect::<Result<_, _>>()?,
    })
}

/// Make a session.
#[utoipa::path(post, operation_id = "open_session", path = "/v1/sessions", tag = "sessions", request_body = SessionBody, responses(
    (status = 201, description = "It lives", body = OpenedWire),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 503, description = "`store-unavailable`, `store-frozen`, `node-lapsed` or `draining`", body = Problem),
    (status = 507, description = "`store-full` or `too-many-keys`", body = Problem),
))]
pub async fn open(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<SessionBody>,
) -> HttpResponse {
    let received = app.manager.now();
    let result = async {
        let owner = owner("owner", &body.0.owner)?;
        let spec = read_spec(app.manager.actor_limits(), &body.0)?;
        let opened = app.manager.open_session(&owner, body.0.ttl_ms, spec, received).await;
        opened.map_err(|error| Problem::session(&error))
    };
    match result.await {
        Ok(opened) => {
            let session = SessionWire::of(&app, &opened.session);
            let (id, valid_for_ms) = (opened.id.reveal(), opened.valid_for_ms);
            json(&request, StatusCode::CREATED, &OpenedWire { id, valid_for_ms, session })
        }
        Err(problem) => problem.respond(&request),
    }
}

/// Keep a session, and with it every lease of it.
#[utoipa::path(post, operation_id = "heartbeat_session", path = "/v1/sessions/{id}/heartbeat", tag = "sessions",
    params(("id" = String, Path, description = "The session's id",
        pattern = "^[0-9a-f]{32}[0-9a-fA-F]{32}$")), request_body = Option<BeatBody>, responses(
    (status = 200, description = "It lives", body = BeatWire),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 409, description = "`session-lost`, with the reason", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 429, description = "`busy`", body = Problem),
    (status = 503, description = "`store-unavailable`, `home-unreachable` or `node-lapsed`", body = Problem),
))]
pub async fn heartbeat(
    request: HttpRequest,
    app: web::Data<App>,
    path: web::Path<String>,
    body: OptionalBody<BeatBody>,
) -> HttpResponse {
    act_at_home(&request, &app, &body.1, async |asked: Asked| {
        let id = session_id("id", &path)?;
        let alive = app.manager.beat_session(id, body.0.progress.as_deref(), asked).await;
        let alive = alive.map_err(|error| Problem::session(&error))?;
        let beat = BeatWire {
            valid_for_ms: alive.valid_for_ms,
            leases: alive.holdings.into(),
            notices: Notice::all(alive),
        };
        Ok(json(&request, StatusCode::OK, &beat))
    })
    .await
}

/// Leave: hand over every lease of a session.
///
/// It is given nothing more of its pool by `count: "fair"`, its heartbeats say `draining`, and at the deadline
/// it is ordered to end. Counts as a heartbeat.
#[utoipa::path(post, operation_id = "drain_session", path = "/v1/sessions/{id}/drain", tag = "sessions",
    params(("id" = String, Path, description = "The session's id",
        pattern = "^[0-9a-f]{32}[0-9a-fA-F]{32}$")), request_body = Option<SessionDrainBody>, responses(
    (status = 200, description = "It is to hand over, now or from before", body = DrainingWire),
    (status = 400, description = "It is no session id", body = Problem),
    (status = 409, description = "`session-lost`, with the reason", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 429, description = "`busy`", body = Problem),
    (status = 503, description = "`store-unavailable`, `home-unreachable` or `node-lapsed`", body = Problem),
    (status = 507, description = "`store-full`", body = Problem),
))]
pub async fn drain(
    request: HttpRequest,
    app: web::Data<App>,
    path: web::Path<String>,
    body: OptionalBody<SessionDrainBody>,
) -> HttpResponse {
    act_at_home(&request, &app, &body.1, async |asked: Asked| {
        let id = session_id("id", &path)?;
        let deadline_ms = app.manager.drain_session(id, asked).await;
        let deadline_ms = deadline_ms.map_err(|error| Problem::session(&error))?;
        Ok(json(&request, StatusCode::OK, &DrainingWire { draining: true, deadline_ms }))
    })
    .await
}

/// End a session, and every lease of it.
#[utoipa::path(delete, operation_id = "close_session", path = "/v1/sessions/{id}", tag = "sessions",
    params(("id" = String, Path, description = "The session's id",
        pattern = "^[0-9a-f]{32}[0-9a-fA-F]{32}$")), responses(
    (status = 200, description = "It is over, now or before", body = ClosedWire),
    (status = 400, description = "It is no session id", body = Problem),
    (status = 409, description = "`session-lost`: there is no such session", body = Problem),
    (status = 503, description = "`store-unavailable`, `home-unreachable` or `node-lapsed`", body = Problem),
))]
pub async fn close(
    request: HttpRequest,
    app: web::Data<App>,
    path: web::Path<String>,
) -> HttpResponse {
    act_at_home(&request, &app, &bytes::Bytes::new(), async |asked: Asked| {
        let id = session_id("id", &path)?;
        let destroyed = app.manager.close_session(id, asked).await;
        let destroyed = destroyed.map_err(|error| Problem::session(&error))?;
        Ok(json(&request, StatusCode::OK, &ClosedWire { destroyed }))
    })
    .await
}

/// Look at a session.
#[utoipa::path(get, operation_id = "get_session", path = "/v1/sessions/{id}", tag = "sessions",
    params(("id" = String, Path, description = "The session's id, or its digest",
        pattern = "^[0-9a-f]{32}([0-9a-fA-F]{32})?$")), responses(
    (status = 200, description = "It lives, or was not found to be over", body = SessionWire),
    (status = 400, description = "It is neither", body = Problem),
    (status = 404, description = "`unknown-session`: it is over, or never was", body = Problem),
    (status = 503, description = "`store-unavailable`", body = Problem),
))]
pub async fn get(
    request: HttpRequest,
    app: web::Data<App>,
    path: web::Path<String>,
) -> HttpResponse {
    let result = async {
        let digest = match session_id("id", &path) {
            Ok(id) => id.digest,
            Err(problem) => digest_of(&path).map_err(|_| problem)?,
        };
        let found = app.manager.session(digest).await;
        found.map_err(|error| Problem::call(&error))?.ok_or_else(Problem::unknown_session)
    };
    match result.await {
        Ok(session) => json(&request, StatusCode::OK, &SessionWire::of(&app, &session)),
        Err(problem) => problem.respond(&request),
    }
}

/// List sessions.
#[utoipa::path(get, operation_id = "list_sessions", path = "/v1/sessions", tag = "sessions", params(SessionsQuery), responses(
    (status = 200, description = "A page of them", body = SessionsWire),
    (status = 400, description = "A parameter is not valid", body = Problem),
    (status = 503, description = "`store-unavailable`", body = Problem),
))]
pub async fn list(request: HttpRequest, app: web::Data<App>) -> HttpResponse {
    let result = async {
        let wanted: SessionsQuery = query(&request)?;
        let limit = wanted.limit.unwrap_or(100);
        if !(1..=MAX_LIMIT).contains(&limit) {
            let detail = format!("is {limit}; it must be from 1 to {MAX_LIMIT}");
            return Err(Problem::field("limit", detail));
        }
        let of = wanted.owner.as_deref().map(|text| owner("owner", text)).transpose()?;
        let after = wanted.after.as_deref().map(digest_of).transpose();
        let after = after.map_err(|_| Problem::field("after", "is not the `next` of a page"))?;
        let page = app.manager.sessions(of.as_ref(), after, limit).await;
        page.map_err(|error| Problem::call(&error))
    };
    match result.await {
        Ok((sessions, next)) => {
            let sessions = sessions.iter().map(|session| SessionWire::of(&app, session)).collect();
            let next = next.map(|digest| digest.to_string());
            json(&request, StatusCode::OK, &SessionsWire { sessions, next })
        }
        Err(problem) => problem.respond(&request),
    }
}
