//! Sessions: one heartbeat for many leases.

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};

use crate::{
    access::Verb,
    api::{
        BeatBody, ClosedSession, DrainingSession, HealthCheck, Notice, OpenedSession, Session,
        SessionBeat, SessionBody, SessionDrainBody, Sessions, SessionsQuery,
        limits::{DEFAULT_PAGE, MAX_PAGE},
    },
    http::{
        about::about_any,
        answer::{Problem, json},
        app::App,
        caller::Caller,
        following::keeps_session,
        forward::act_at_home,
        request::{
            Body, OptionalBody, owner, query, read_announced, read_labels, read_prepared,
            read_report, read_spec,
        },
    },
    lease::digest_of,
    manager::{Asked, SessionView},
};

/// Open a session.
#[utoipa::path(post, operation_id = "open_session", path = "/v1/sessions", tag = "sessions", request_body = SessionBody, responses(
    (status = 201, description = "The session is open", body = OpenedSession),
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
    about_any(&body.0.owner);
    let result = async {
        let caller = Caller::of(&request);
        let owner = caller.owner("owner", &body.0.owner)?;
        may_open(&caller, &app, &body.0)?;
        let spec = read_spec(app.manager.actor_limits(), &body.0)?;
        let announced = read_announced(&body.0)?;
        let ttl_ms = body.0.ttl_ms;
        let opened = app.manager.open_member(&owner, ttl_ms, spec, &announced, received).await;
        opened.map_err(|error| Problem::session(&error))
    };
    match result.await {
        Ok(opened) => {
            keeps_session(&request, opened.session.digest);
            let session = Session::of(&app, &opened.session);
            let (id, valid_for_ms) = (opened.id.reveal(), opened.valid_for_ms);
            json(&request, StatusCode::CREATED, &OpenedSession { id, valid_for_ms, session })
        }
        Err(problem) => problem.respond(&request),
    }
}

/// Requires the rights that a session needs besides its owner's: to hold every key of its pool, and to have checks run.
fn may_open(caller: &Caller, app: &App, body: &SessionBody) -> Result<(), Problem> {
    if let Some(pool) = &body.pool {
        caller.may_work_for(app, pool)?;
    }
    caller.may_weigh(body.weight.unwrap_or(1))?;
    if body.checks.iter().any(|check| !matches!(check, HealthCheck::Progress { .. })) {
        caller.has(Verb::Probe)?;
    }
    Ok(())
}

/// Send the heartbeat of a session, which keeps it and all its leases.
#[utoipa::path(post, operation_id = "heartbeat_session", path = "/v1/sessions/{id}/heartbeat", tag = "sessions",
    params(("id" = String, Path, description = "The session's id",
        pattern = "^[0-9a-f]{32}[0-9a-fA-F]{32}$")), request_body = Option<BeatBody>, responses(
    (status = 200, description = "The session continues", body = SessionBeat),
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
        let id = Caller::of(&request).session_id("id", &path)?;
        let (report, labels) = (read_report(&body.0)?, read_labels(&body.0)?);
        let prepared = read_prepared(&body.0)?;
        match body.0.ready {
            Some(false) => {
                return Err(Problem::field("ready", "must be true: a member stays ready"));
            }
            Some(true) => app
                .manager
                .ready_session(id, asked)
                .await
                .map_err(|error| Problem::session(&error))?,
            None => {}
        }
        if let Some(labels) = labels {
            let labelled = app.manager.label_session(id, &labels, asked).await;
            labelled.map_err(|error| Problem::session(&error))?;
        }
        let alive = app.manager.beat_session(id, body.0.progress.as_deref(), asked).await;
        let alive = alive.map_err(|error| Problem::session(&error))?;
        let reported = app.manager.report_loads(id, report.as_ref(), asked.received);
        reported.map_err(|error| Problem::session(&error))?;
        if !prepared.is_empty() {
            let noted = app.manager.note_prepared(id, &prepared);
            noted.map_err(|invalid| Problem::field(invalid.field, invalid.detail))?;
        }
        keeps_session(&request, id.digest);
        let beat = SessionBeat {
            valid_for_ms: alive.valid_for_ms,
            leases: alive.holdings.into(),
            notices: Notice::all(alive),
        };
        Ok(json(&request, StatusCode::OK, &beat))
    })
    .await
}

/// Drain a session: its holder leaves and must hand over all its leases.
///
/// From then on, `count: "fair"` grants the session nothing more of its pool, and the answers to its heartbeats have the
/// notice `draining`. At the deadline the session is revoked. This call counts as a heartbeat.
#[utoipa::path(post, operation_id = "drain_session", path = "/v1/sessions/{id}/drain", tag = "sessions",
    params(("id" = String, Path, description = "The session's id",
        pattern = "^[0-9a-f]{32}[0-9a-fA-F]{32}$")), request_body = Option<SessionDrainBody>, responses(
    (status = 200, description = "The session is draining, since this call or an earlier one", body = DrainingSession),
    (status = 400, description = "The path has no valid session id", body = Problem),
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
        let id = Caller::of(&request).session_id("id", &path)?;
        let deadline_ms = app.manager.drain_session(id, asked).await;
        let deadline_ms = deadline_ms.map_err(|error| Problem::session(&error))?;
        let warm_ms = app.manager.warm_ms(id, deadline_ms);
        let draining = DrainingSession { draining: true, deadline_ms, warm_ms };
        Ok(json(&request, StatusCode::OK, &draining))
    })
    .await
}

/// Close a session and end all its leases.
#[utoipa::path(delete, operation_id = "close_session", path = "/v1/sessions/{id}", tag = "sessions",
    params(("id" = String, Path, description = "The session's id",
        pattern = "^[0-9a-f]{32}[0-9a-fA-F]{32}$")), responses(
    (status = 200, description = "The session has ended, with this call or before", body = ClosedSession),
    (status = 400, description = "The path has no valid session id", body = Problem),
    (status = 409, description = "`session-lost`: there is no such session", body = Problem),
    (status = 503, description = "`store-unavailable`, `home-unreachable` or `node-lapsed`", body = Problem),
))]
pub async fn close(
    request: HttpRequest,
    app: web::Data<App>,
    path: web::Path<String>,
) -> HttpResponse {
    act_at_home(&request, &app, &bytes::Bytes::new(), async |asked: Asked| {
        let id = Caller::of(&request).session_id("id", &path)?;
        let destroyed = app.manager.close_session(id, asked).await;
        let destroyed = destroyed.map_err(|error| Problem::session(&error))?;
        Ok(json(&request, StatusCode::OK, &ClosedSession { destroyed }))
    })
    .await
}

/// Get one session.
#[utoipa::path(get, operation_id = "get_session", path = "/v1/sessions/{id}", tag = "sessions",
    params(("id" = String, Path, description = "The id or the digest of the session",
        pattern = "^[0-9a-f]{32}([0-9a-fA-F]{32})?$")), responses(
    (status = 200, description = "The session, which has not ended as far as this node knows", body = Session),
    (status = 400, description = "The path has neither a session id nor a digest", body = Problem),
    (status = 404, description = "`unknown-session`: the session has ended or never existed", body = Problem),
    (status = 503, description = "`store-unavailable`", body = Problem),
))]
pub async fn get(
    request: HttpRequest,
    app: web::Data<App>,
    path: web::Path<String>,
) -> HttpResponse {
    let result = async {
        let caller = Caller::of(&request);
        let digest = match caller.session_id("id", &path) {
            Ok(id) => id.digest,
            Err(problem) => digest_of(&path).map_err(|_| problem)?,
        };
        let found = app.manager.session(digest).await;
        let found = found.map_err(|error| Problem::call(&error))?;
        let found = found.filter(|session| caller.sees(session));
        found.ok_or_else(|| Problem::unknown_session(digest))
    };
    match result.await {
        Ok(session) => json(&request, StatusCode::OK, &Session::of(&app, &session)),
        Err(problem) => problem.respond(&request),
    }
}

/// List sessions, one page per call.
#[utoipa::path(get, operation_id = "list_sessions", path = "/v1/sessions", tag = "sessions", params(SessionsQuery), responses(
    (status = 200, description = "A page of sessions", body = Sessions),
    (status = 400, description = "A parameter is not valid", body = Problem),
    (status = 503, description = "`store-unavailable`", body = Problem),
))]
pub async fn list(request: HttpRequest, app: web::Data<App>) -> HttpResponse {
    let result = async {
        let wanted: SessionsQuery = query(&request)?;
        let limit = wanted.limit.unwrap_or(DEFAULT_PAGE);
        if !(1..=MAX_PAGE).contains(&limit) {
            let detail = format!("is {limit}; it must be from 1 to {MAX_PAGE}");
            return Err(Problem::field("limit", detail));
        }
        let of = wanted.owner.as_deref().map(|text| owner("owner", text)).transpose()?;
        let after = wanted.after.as_deref().map(digest_of).transpose();
        let after = after.map_err(|_| Problem::field("after", "is not the `next` of a page"))?;
        let caller = Caller::of(&request);
        let sees = |session: &SessionView| caller.sees(session);
        let page = app.manager.sessions(of.as_ref(), after, limit, sees, &caller.looks()).await;
        page.map_err(|error| Problem::call(&error))
    };
    match result.await {
        Ok((sessions, next)) => {
            let sessions = sessions.iter().map(|session| Session::of(&app, session)).collect();
            let next = next.map(|digest| digest.to_string());
            json(&request, StatusCode::OK, &Sessions { sessions, next })
        }
        Err(problem) => problem.respond(&request),
    }
}
