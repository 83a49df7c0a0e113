//! Acquiring, reading and checking one lease, and listing leases.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};
use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::{
    body::{Body, json, key, owner, percent_decode},
    forward::relay,
    gate,
    places::Waiting as Waits,
    problem::Problem,
    query::query,
    queue::{Queued, Waiting, asks_for_place, moved, wait_at_home},
    seal::was_forwarded,
    server::App,
    sessions::session_id,
    wire::{
        AcquireBody, CheckBody, Checked, GatedLease, Grant, Lease, LeaseList, LeaseQuery, ListQuery,
    },
};
use crate::{
    lease::{Key, Refusal, SessionId, State, Token, digest_of},
    manager::{AcquireError, AcquireOne, CallError, Filter},
};

/// The longest request id, in bytes.
const MAX_REQUEST_ID_BYTES: usize = 64;
/// The highest token. Every JSON reader represents it exactly.
const MAX_TOKEN: u64 = (1 << 53) - 1;
/// The number of leases on a page, by default.
const DEFAULT_LIMIT: usize = 100;
/// The most leases on a page.
const MAX_LIMIT: usize = 1000;

/// Digests of a request id and of the rest of the request. The lease's record keeps both.
pub fn mark(request_id: Option<&str>, parts: &[&[u8]]) -> Result<Option<(u128, u64)>, Problem> {
    let Some(id) = request_id else { return Ok(None) };
    if id.is_empty() || id.len() > MAX_REQUEST_ID_BYTES {
        let detail = format!("is {} bytes long; it must be 1 to {MAX_REQUEST_ID_BYTES}", id.len());
        return Err(Problem::field("request_id", detail));
    }
    let mut body = Sha256::new();
    for part in parts {
        body.update(part.len().to_le_bytes());
        body.update(part);
    }
    let id = Sha256::digest(id.as_bytes());
    let mut wide = [0; 16];
    wide.copy_from_slice(&id[..16]);
    let mut narrow = [0; 8];
    narrow.copy_from_slice(&body.finalize()[..8]);
    Ok(Some((u128::from_be_bytes(wide), u64::from_be_bytes(narrow))))
}

/// What is to keep a requested lease: a ttl or a session.
pub fn kept_by(
    ttl_ms: Option<u64>,
    session: Option<&str>,
) -> Result<(u64, Option<SessionId>), Problem> {
    match (ttl_ms, session) {
        (Some(ttl_ms), None) => Ok((ttl_ms, None)),
        (None, Some(id)) => Ok((0, Some(session_id("session", id)?))),
        (None, None) => Err(Problem::field("ttl_ms", "or session must be given")),
        (Some(_), Some(_)) => Err(Problem::field("session", "and ttl_ms exclude each other")),
    }
}

/// Become the owner of a lease.
#[utoipa::path(post, path = "/v1/acquire", tag = "leases", request_body = AcquireBody, responses(
    (status = 200, description = "Granted", body = Grant),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 409, description = "`held`, `held-by-you`, `request-id-spent` or `session-lost`", body = Problem),
    (status = 423, description = "`cooling` (how long yet is in `retry_after_ms`) or `fencing`", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 422, description = "`request-id-reused`", body = Problem),
    (status = 429, description = "`busy`", body = Problem),
    (status = 503, description = "`store-unavailable`, `store-frozen`, `home-unreachable`, `node-lapsed`, `draining`, `key-resting` or `record-quarantined`", body = Problem),
    (status = 507, description = "`store-full` or `too-many-keys`", body = Problem),
))]
pub async fn acquire(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<AcquireBody>,
) -> HttpResponse {
    let wait = Duration::from_millis(body.0.wait_ms).min(app.manager.limits().wait_max);
    let place = if wait.is_zero() { Ok(None) } else { Waits::of(&request).map(Some) };
    let _place = match place {
        Ok(place) => place,
        Err(full) => {
            let answer = acquire_at_once(&request, &app, &body.0, full).await;
            return answer.unwrap_or_else(|problem| problem.respond(&request));
        }
    };
    if asks_for_place(&request) {
        return take_place(&request, &app, &body.0, wait).await;
    }
    let in_session = body.0.session.is_some();
    wait_at_home(&request, &app, &body.1, wait, in_session, async |asked| {
        let one = read_acquire(&body.0)?;
        if in_session {
            let waiting = Waiting::since(asked.received, wait);
            return acquire_in_turn(&request, &app, &one, &body.1, waiting).await;
        }
        match app.manager.acquire(&one, asked).await {
            Ok(grant) => Ok(json(&request, StatusCode::OK, &Grant::of(&app, &one.key, &grant))),
            Err(error) => Err(Problem::acquire(&error, &app, Some(&one.key))),
        }
    })
    .await
}

/// Serves a call while no more calls may wait: it is granted here if that takes no waiting.
async fn acquire_at_once(
    request: &HttpRequest,
    app: &App,
    body: &AcquireBody,
    full: Problem,
) -> Result<HttpResponse, Problem> {
    if asks_for_place(request) {
        return Err(full);
    }
    let one = AcquireOne { wait_ms: 0, ..read_acquire(body)? };
    match app.manager.acquire(&one, app.manager.now()).await {
        Ok(grant) => Ok(json(request, StatusCode::OK, &Grant::of(app, &one.key, &grant))),
        Err(AcquireError::Refused(Refusal::Held | Refusal::Cooling | Refusal::Fencing, _))
        | Err(AcquireError::Call(CallError::Elsewhere(_))) => Err(full),
        Err(error) => {
            let problem = Problem::acquire(&error, app, Some(&one.key));
            Err(if problem.home().is_some() { full } else { problem })
        }
    }
}

/// Grants a lease under a session, at the session's home node. While another node is the lease's home node, the caller
/// has a place in the queue there.
async fn acquire_in_turn(
    request: &HttpRequest,
    app: &App,
    one: &AcquireOne,
    body: &Bytes,
    mut waiting: Waiting,
) -> Result<HttpResponse, Problem> {
    let mut asked = waiting.asked();
    loop {
        let error = match app.manager.acquire(one, asked).await {
            Ok(grant) => {
                return Ok(json(request, StatusCode::OK, &Grant::of(app, &one.key, &grant)));
            }
            Err(error) => error,
        };
        let problem = Problem::acquire(&error, app, Some(&one.key));
        let AcquireError::Call(CallError::Elsewhere(home)) = &error else { return Err(problem) };
        let queued = match waiting.take_place(request, app, home, body.clone()).await {
            Queued::Answered(response) => return Ok(response),
            queued => queued,
        };
        match waiting.again(app, &queued).await {
            Some(again) => asked = again,
            None => return Ok(problem.respond(request)),
        }
    }
}

/// Serves a request for a place in this node's queue, for a caller at another node. Answers 204 when its turn has come.
async fn take_place(
    request: &HttpRequest,
    app: &App,
    body: &AcquireBody,
    wait: Duration,
) -> HttpResponse {
    let asked = Waiting::of(request, app, wait).asked();
    let one = match read_acquire(body) {
        Ok(one) => one,
        Err(problem) => return problem.respond(request),
    };
    match app.manager.take_place(&one, asked).await {
        Ok(()) => HttpResponse::NoContent().finish(),
        Err(error) => {
            let problem = Problem::acquire(&error, app, Some(&one.key));
            let elsewhere = problem.home().is_some();
            let response = problem.respond(request);
            if elsewhere { moved(response) } else { response }
        }
    }
}

/// Reads the request and checks all that needs no state.
pub fn read_acquire(body: &AcquireBody) -> Result<AcquireOne, Problem> {
    let value = body.value.as_deref().unwrap_or_default();
    let has_value = [u8::from(body.value.is_some()), u8::from(body.reclaim)];
    let (ttl_ms, session) = kept_by(body.ttl_ms, body.session.as_deref())?;
    let proof = body.session.as_deref().unwrap_or_default();
    let mark = mark(
        body.request_id.as_deref(),
        &[
            body.owner.as_bytes(),
            &ttl_ms.to_le_bytes(),
            &has_value,
            value.as_bytes(),
            proof.as_bytes(),
        ],
    )?;
    Ok(AcquireOne {
        key: key(&body.key)?,
        owner: owner("owner", &body.owner)?,
        ttl_ms,
        value: body.value.as_deref().map(Into::into),
        allow_stale: false,
        reclaim: body.reclaim,
        wait_ms: body.wait_ms,
        mark,
        session,
    })
}

/// Reads the key in a path. It is percent-decoded once; `/` may appear unencoded.
pub fn key_of_path(path: &str) -> Result<Key, Problem> {
    let raw = path.strip_prefix("/v1/leases/").unwrap_or_default();
    let bytes = percent_decode(raw.as_bytes()).map_err(|detail| Problem::field("key", detail))?;
    let text = String::from_utf8(bytes).map_err(|_| Problem::field("key", "is not UTF-8"))?;
    key(&text)
}

/// Look at one lease.
#[utoipa::path(get, operation_id = "get_lease", path = "/v1/leases/{key}", tag = "leases",
    params(("key" = String, Path, description = "Percent-encoded; `/` may stand as it is",
        min_length = 1, max_length = 512, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$"), LeaseQuery), responses(
    (status = 200, description = "The lease, also of a free key", body = GatedLease),
    (status = 400, description = "The key is not valid", body = Problem),
    (status = 404, description = "`unknown-key`: never seen", body = Problem),
    (status = 503, description = "`store-unavailable`", body = Problem),
))]
pub async fn get(request: HttpRequest, app: web::Data<App>) -> HttpResponse {
    let result = async {
        let key = key_of_path(request.uri().path())?;
        let LeaseQuery { gate } = query(&request)?;
        match gate {
            None | Some(0) => {}
            Some(1) => return gated(&request, &app, &key).await,
            Some(other) => {
                return Err(Problem::field("gate", format!("is {other}; it must be 0 or 1")));
            }
        }
        let view = app.manager.view(&key).await.map_err(|error| Problem::call(&error))?;
        if !view.known {
            return Err(Problem::unknown_key(&key));
        }
        // The home node knows until when it promised, and who waits.
        if let (true, Some(node)) = (view.elsewhere && !was_forwarded(&request), view.node) {
            let home = app.manager.home(node);
            if let Some(response) = relay(&request, &app, &home, bytes::Bytes::new()).await {
                return Ok(response);
            }
        }
        Ok(json(&request, StatusCode::OK, &Lease::of(&app, &key, &view)))
    };
    match result.await {
        Ok(response) => response,
        Err(problem) => problem.respond(&request),
    }
}

async fn gated(request: &HttpRequest, app: &App, key: &Key) -> Result<HttpResponse, Problem> {
    let gated = app.manager.gated(key).await;
    let (view, condition) = gated.map_err(|error| Problem::call(&error))?;
    if !view.known {
        return Err(Problem::unknown_key(key));
    }
    let gate = Some(gate::document(key, &view, condition));
    let lease = GatedLease { lease: Lease::of(app, key, &view), gate };
    Ok(json(request, StatusCode::OK, &lease))
}

/// Ask whether a token is the present holder's.
#[utoipa::path(post, path = "/v1/check", tag = "leases", request_body = CheckBody, responses(
    (status = 200, description = "Whether it is", body = Checked),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 503, description = "`store-unavailable`", body = Problem),
))]
pub async fn check(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<CheckBody>,
) -> HttpResponse {
    let result = async {
        let (key, token) = read_check(&body.0)?;
        let checked = app.manager.check(&key, token).await;
        let (current, view) = checked.map_err(|error| Problem::call(&error))?;
        Ok::<_, Problem>(Checked { current, lease: Lease::of(&app, &key, &view) })
    };
    match result.await {
        Ok(checked) => json(&request, StatusCode::OK, &checked),
        Err(problem) => problem.respond(&request),
    }
}

/// Reads the key and the token to check.
pub fn read_check(body: &CheckBody) -> Result<(Key, Token), Problem> {
    let (key, token) = (key(&body.key)?, body.token);
    if token > MAX_TOKEN {
        return Err(Problem::field("token", format!("is {token}; tokens are below 2^53")));
    }
    Ok((key, Token(token)))
}

/// List leases, a page at a time.
#[utoipa::path(get, operation_id = "list_leases", path = "/v1/leases", tag = "leases", params(ListQuery), responses(
    (status = 200, description = "A page; it may be short and still have a `next`", body = LeaseList),
    (status = 400, description = "A parameter is not valid", body = Problem),
    (status = 503, description = "`store-unavailable`", body = Problem),
))]
pub async fn list(request: HttpRequest, app: web::Data<App>) -> HttpResponse {
    match try_list(&request, &app).await {
        Ok(list) => json(&request, StatusCode::OK, &list),
        Err(problem) => problem.respond(&request),
    }
}

async fn try_list(request: &HttpRequest, app: &App) -> Result<LeaseList, Problem> {
    let (only, filter) = read_filter(query(request)?)?;
    if let Some(pool) = &filter.pool {
        app.manager.check_pool(pool).map_err(|invalid| Problem::invalid(&invalid))?;
    }
    if let Some(key) = only {
        let view = app.manager.view(&key).await.map_err(|error| Problem::call(&error))?;
        let of_pool = |pool: &str| app.manager.is_in_pool(key.as_str(), pool);
        let fits = view.known
            && filter.pool.as_deref().is_none_or(of_pool)
            && key.as_str().starts_with(&filter.prefix)
            && filter.owner.is_none_or(|owner| view.owner == Some(owner))
            && (filter.session.is_none() || filter.session == view.session)
            && filter.state.is_none_or(|state| state == view.state);
        let leases = if fits { vec![Lease::of(app, &key, &view)] } else { Vec::new() };
        return Ok(LeaseList { leases, next: None });
    }
    let listing = app.manager.list(&filter).await.map_err(|error| Problem::call(&error))?;
    let leases = listing.leases.iter().map(|(key, view)| Lease::of(app, key, view)).collect();
    Ok(LeaseList { leases, next: listing.next })
}

/// Reads a query for leases: the one key that is asked for, if any, and the filter.
pub fn read_filter(query: ListQuery) -> Result<(Option<Key>, Filter), Problem> {
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    if limit == 0 || limit > MAX_LIMIT {
        let detail = format!("is {limit}; it must be from 1 to {MAX_LIMIT}");
        return Err(Problem::field("limit", detail));
    }
    let owner = query.owner.as_deref().map(|name| owner("owner", name)).transpose()?;
    let state = match query.state.as_deref() {
        None => None,
        Some("free") => Some(State::Free),
        Some("held") => Some(State::Held),
        Some("offered") => Some(State::Offered),
        Some("fencing") => Some(State::Fencing),
        Some("cooling") => Some(State::Cooling),
        Some(other) => {
            let detail =
                format!("is {other:?}; it must be free, held, fencing, cooling or offered");
            return Err(Problem::field("state", detail));
        }
    };
    let session = query.session.as_deref().map(digest_of).transpose();
    let session = session.map_err(|_| {
        Problem::field("session", "is not a session's digest, which is 32 hexadecimal digits")
    })?;
    let only = query.key.as_deref().map(key).transpose()?;
    let prefix = query.prefix.unwrap_or_default();
    let (pool, after) = (query.pool, query.after);
    Ok((only, Filter { prefix, pool, owner, state, session, after, limit }))
}
