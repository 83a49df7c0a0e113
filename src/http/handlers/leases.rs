//! Reading, checking and listing leases.

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};

use crate::{
    access::{Broken, Verb},
    api::{
        CheckBody, Checked, GatedLease, HistoryQuery, Lease, LeaseHistory, LeaseList, LeaseQuery,
        ListQuery, Permits,
        limits::{DEFAULT_EVENTS, DEFAULT_PAGE, MAX_PAGE, MAX_TOKEN},
    },
    http::{
        answer::{Problem, json},
        app::App,
        caller::Caller,
        forward::relay,
        peer::was_forwarded,
        percent::{key_part, percent_decode},
        request::{Body, key, owner, query},
        views::gate,
    },
    lease::{Key, KeyState, Named, Token, View, digest_of},
    manager::Filter,
};

/// Reads the key in a path. It is percent-decoded once; `/` may appear unencoded.
pub fn key_of_path(path: &str) -> Result<Key, Problem> {
    let raw = key_part(path).unwrap_or_default();
    let bytes = percent_decode(raw.as_bytes()).map_err(|detail| Problem::field("key", detail))?;
    let text = String::from_utf8(bytes).map_err(|_| Problem::field("key", "is not UTF-8"))?;
    key(&text)
}

/// Get one lease.
#[utoipa::path(get, operation_id = "get_lease", path = "/v1/leases/{key}", tag = "leases",
    params(("key" = String, Path, description = "The key, percent-encoded; `/` may stay unencoded",
        min_length = 1, max_length = 512, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$"), LeaseQuery), responses(
    (status = 200, description = "The lease; a free key has one too", body = GatedLease),
    (status = 400, description = "The key is not valid", body = Problem),
    (status = 404, description = "`unknown-key`: the key has no record", body = Problem),
    (status = 503, description = "`store-unavailable`", body = Problem),
))]
pub async fn get(request: HttpRequest, app: web::Data<App>) -> HttpResponse {
    let result = async {
        let key = key_of_path(request.uri().path())?;
        let LeaseQuery { gate } = query(&request)?;
        let verb = if gate == Some(1) { Verb::Check } else { Verb::Read };
        Caller::of(&request).may(verb, key.as_str())?;
        if let Named::Permits(_) = app.manager.named(key.as_str()) {
            return permits(&request, &app, &key, gate).await;
        }
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
        if let Some(response) = of_home(&request, &app, &view).await {
            return Ok(response);
        }
        Ok(json(&request, StatusCode::OK, &Lease::of(&app, &key, &view)))
    };
    match result.await {
        Ok(response) => response,
        Err(problem) => problem.respond(&request),
    }
}

/// The answer of the key's home node, which knows until when it promised, and who waits.
async fn of_home(request: &HttpRequest, app: &App, view: &View) -> Option<HttpResponse> {
    let node = view.node.filter(|_| view.elsewhere && !was_forwarded(request))?;
    relay(request, app, &app.manager.home(node), bytes::Bytes::new()).await
}

/// A key with permits.
async fn permits(
    request: &HttpRequest,
    app: &App,
    key: &Key,
    gate: Option<u8>,
) -> Result<HttpResponse, Problem> {
    let view = app.manager.view(key).await.map_err(|error| Problem::call(&error))?;
    // A lease from before the key had permits goes on.
    let is_lease = view.state != KeyState::Free;
    match gate {
        None | Some(0) => {}
        Some(1) if is_lease => return gated(request, app, key).await,
        Some(_) => {
            return Err(Problem::field("gate", "is not possible for a key with permits: name one"));
        }
    }
    if is_lease && let Some(response) = of_home(request, app, &view).await {
        return Ok(response);
    }
    let permits = app.manager.permits(key).await.map_err(|error| Problem::call(&error))?;
    let is_free = |view: &View| view.state == KeyState::Free && !view.quarantined;
    let free = permits.iter().filter(|(_, view)| is_free(view)).count();
    let taken = permits.iter().filter(|(_, view)| !is_free(view));
    let taken: Vec<Lease> = taken.map(|(key, view)| Lease::of(app, key, view)).collect();
    // A caller waits in the queues of all permits that it may have.
    let waiters = taken.iter().map(|lease| lease.waiters).max().unwrap_or(0);
    let state = if free == 0 { KeyState::Held } else { KeyState::Free }.as_str();
    let lease = Lease::of(app, key, &view);
    let lease = if is_lease { lease } else { Lease { state, waiters, ..lease } };
    let permits = Some(Permits { count: permits.len(), free, taken });
    Ok(json(request, StatusCode::OK, &GatedLease { lease, gate: None, permits }))
}

async fn gated(request: &HttpRequest, app: &App, key: &Key) -> Result<HttpResponse, Problem> {
    let gated = app.manager.gated(key).await;
    let (view, condition) = gated.map_err(|error| Problem::call(&error))?;
    if !view.known {
        return Err(Problem::unknown_key(key));
    }
    let gate = Some(gate(key, &view, condition));
    let lease = GatedLease { lease: Lease::of(app, key, &view), gate, permits: None };
    Ok(json(request, StatusCode::OK, &lease))
}

/// Check whether a token is the current holder's.
#[utoipa::path(post, path = "/v1/check", tag = "leases", request_body = CheckBody, responses(
    (status = 200, description = "The result of the check", body = Checked),
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
        Caller::of(&request).may(Verb::Check, key.as_str())?;
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

/// List leases, one page per call.
#[utoipa::path(get, operation_id = "list_leases", path = "/v1/leases", tag = "leases", params(ListQuery), responses(
    (status = 200, description = "A page of leases; a page with few or no leases may still have a `next`", body = LeaseList),
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
    let caller = Caller::of(request);
    let mut wanted: ListQuery = query(request)?;
    let before = wanted.before.take();
    if before.is_some() && wanted.after.is_some() {
        return Err(Problem::field("before", "and after exclude each other"));
    }
    let (only, mut filter) = read_filter(wanted)?;
    filter.within = caller.readable().filter(|_| !Broken::FilterAfterPaging.is_active());
    if let Some(pool) = &filter.pool {
        caller.known_pool(app, pool)?;
    }
    if let Some(key) = only {
        let view = app.manager.view(&key).await.map_err(|error| Problem::call(&error))?;
        let of_pool = |pool: &str| app.manager.is_in_pool(key.as_str(), pool);
        let fits = view.known
            && caller.reads(key.as_str())
            && filter.pool.as_deref().is_none_or(of_pool)
            && key.as_str().starts_with(&filter.prefix)
            && filter
                .owner
                .is_none_or(|owner| view.owner.as_ref().is_some_and(|it| it.has_name_of(&owner)))
            && (filter.session.is_none() || filter.session == view.session)
            && (filter.states.is_empty() || filter.states.contains(&view.state));
        let leases = if fits { vec![Lease::of(app, &key, &view)] } else { Vec::new() };
        return Ok(LeaseList { leases, next: None, previous: None });
    }
    let looks = caller.looks();
    let listing = match &before {
        Some(before) => app.manager.list_before(&filter, before, &looks).await,
        None => app.manager.list(&filter, &looks).await,
    };
    let listing = listing.map_err(|error| Problem::call(&error))?;
    let visible = listing.leases.iter().filter(|(key, _)| caller.reads(key.as_str()));
    let leases = visible.map(|(key, view)| Lease::of(app, key, view)).collect();
    Ok(LeaseList { leases, next: listing.next, previous: listing.previous })
}

/// Reads a query for leases: the one key that is asked for, if any, and the filter.
pub fn read_filter(query: ListQuery) -> Result<(Option<Key>, Filter), Problem> {
    let limit = query.limit.unwrap_or(DEFAULT_PAGE);
    if limit == 0 || limit > MAX_PAGE {
        let detail = format!("is {limit}; it must be from 1 to {MAX_PAGE}");
        return Err(Problem::field("limit", detail));
    }
    let owner = query.owner.as_deref().map(|name| owner("owner", name)).transpose()?;
    let states = query.state.as_deref().map(states).transpose()?.unwrap_or_default();
    let session = query.session.as_deref().map(digest_of).transpose();
    let session = session.map_err(|_| {
        Problem::field("session", "is not a session's digest, which is 32 hexadecimal digits")
    })?;
    let only = query.key.as_deref().map(key).transpose()?;
    let prefix = query.prefix.unwrap_or_default();
    let (pool, after) = (query.pool, query.after);
    Ok((only, Filter { prefix, within: None, pool, owner, states, session, after, limit }))
}

/// Reads the names of states, separated by commas.
fn states(list: &str) -> Result<Vec<KeyState>, Problem> {
    const ALL: [KeyState; 5] =
        [KeyState::Free, KeyState::Held, KeyState::Fencing, KeyState::Cooling, KeyState::Offered];
    let state = |name: &str| {
        ALL.into_iter().find(|state| state.as_str() == name).ok_or_else(|| {
            let detail = format!("is {name:?}; it must be free, held, fencing, cooling or offered");
            Problem::field("state", detail)
        })
    };
    list.split(',').map(state).collect()
}

/// See what became of one lease.
#[utoipa::path(get, operation_id = "lease_history", path = "/v1/history", tag = "leases", params(HistoryQuery), responses(
    (status = 200, description = "The latest events of the key, and the tenures that they tell of", body = LeaseHistory),
    (status = 400, description = "A parameter is not valid", body = Problem),
    (status = 404, description = "`unknown-key`: the key has no record", body = Problem),
    (status = 503, description = "`store-unavailable`", body = Problem),
))]
pub async fn history(request: HttpRequest, app: web::Data<App>) -> HttpResponse {
    match try_history(&request, &app).await {
        Ok(history) => json(&request, StatusCode::OK, &history),
        Err(problem) => problem.respond(&request),
    }
}

async fn try_history(request: &HttpRequest, app: &web::Data<App>) -> Result<LeaseHistory, Problem> {
    let HistoryQuery { key: name, limit } = query(request)?;
    let key = key(&name)?;
    Caller::of(request).may(Verb::Read, key.as_str())?;
    let limit = limit.unwrap_or(DEFAULT_EVENTS);
    if limit == 0 || limit > MAX_PAGE {
        let detail = format!("is {limit}; it must be from 1 to {MAX_PAGE}");
        return Err(Problem::field("limit", detail));
    }
    let view = app.manager.view(&key).await.map_err(|error| Problem::call(&error))?;
    if !view.known {
        return Err(Problem::unknown_key(&key));
    }
    let (of, wanted, looks) = (app.clone(), key.clone(), Caller::of(request).looks());
    let past = app.replays.run(async move { of.manager.past(&wanted, limit, &looks).await });
    let past = past.await.map_err(|error| Problem::store(&error))?;
    Ok(LeaseHistory::of(app, Lease::of(app, &key, &view), &past))
}
