//! Who has each key of a pool, for routers.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};

use super::{
    events::{begin_of, sse},
    pools::unknown,
};
use crate::{
    api::{Assignment, AssignmentQuery, Route, RoutesQuery, limits::MAX_ASSIGNMENT},
    http::{
        answer::{Problem, json},
        app::App,
        caller::{Caller, Kind},
        door::Waiting,
        events::{Filter, Reader, Told},
        request::query,
    },
    manager::write_cursor,
};

/// Get who has each key of a pool, one page per call.
///
/// Read all pages. Then follow the changes after the `cursor` of the first page, and keep the newest route of each key.
#[utoipa::path(get, operation_id = "get_assignment", path = "/v1/pools/{pool}/assignment", tag = "sessions",
    params(("pool" = String, Path, description = "The pool's name"), AssignmentQuery), responses(
    (status = 200, description = "A page of keys, each with its owner, token and address", body = Assignment),
    (status = 400, description = "A parameter is not valid", body = Problem),
    (status = 404, description = "`unknown-pool`: no policy names it", body = Problem),
    (status = 503, description = "`store-unavailable`", body = Problem),
))]
pub async fn get(
    request: HttpRequest,
    app: web::Data<App>,
    path: web::Path<String>,
) -> HttpResponse {
    match page(&request, &app, path.into_inner()).await {
        Ok(page) => json(&request, StatusCode::OK, &page),
        Err(problem) => problem.respond(&request),
    }
}

async fn page(request: &HttpRequest, app: &App, pool: String) -> Result<Assignment, Problem> {
    let AssignmentQuery { after, limit } = query(request)?;
    let limit = limit.unwrap_or(MAX_ASSIGNMENT);
    if limit == 0 || limit > MAX_ASSIGNMENT {
        let detail = format!("is {limit}; it must be from 1 to {MAX_ASSIGNMENT}");
        return Err(Problem::field("limit", detail));
    }
    let caller = known(request, app, &pool)?;
    let within = caller.readable();
    let looks = caller.looks();
    let page = app.manager.assignment(&pool, within.as_ref(), after, limit, &looks).await;
    let page = page.map_err(|error| Problem::call(&error))?;
    let keys = page.keys.into_iter().map(|(key, route)| Route::of(&app.manager, &key, route));
    let cursor = write_cursor(&app.source.store_tag(), page.position);
    Ok(Assignment { pool, cursor, keys: keys.collect(), next: page.next })
}

/// Follow the changes of who has the keys of a pool.
///
/// The stream begins with a `member` event for each member. Each `route` event is the newest route of its key. A `reset`
/// event says that changes are missing: drop all routes and get the assignment again.
#[utoipa::path(get, operation_id = "follow_assignment", path = "/v1/pools/{pool}/assignment/changes", tag = "events",
    params(("pool" = String, Path, description = "The pool's name"), RoutesQuery), responses(
    (status = 200, description = "Server-sent events: `route`, `member`, `reset` and `frozen`", content_type = "text/event-stream", body = String),
    (status = 400, description = "A parameter is not valid", body = Problem),
    (status = 404, description = "`unknown-pool`: no policy names it", body = Problem),
    (status = 429, description = "`too-many-subscribers`, or `busy` if too many calls wait or stream", body = Problem),
    (status = 503, description = "`store-unavailable`", body = Problem),
))]
pub async fn changes(
    request: HttpRequest,
    app: web::Data<App>,
    path: web::Path<String>,
) -> HttpResponse {
    match open(&request, app, &path) {
        Ok(reader) => sse(&request, reader),
        Err(problem) => problem.respond(&request),
    }
}

fn open(request: &HttpRequest, app: web::Data<App>, pool: &str) -> Result<Reader, Problem> {
    let RoutesQuery { after } = query(request)?;
    let caller = known(request, &app, pool)?;
    let store = app.source.identity();
    let begin = begin_of(request, &app, after.as_deref())?;
    let in_use = caller.uses(Kind::Streams)?;
    let place = Waiting::of(request)?;
    let (told, first) = Told::new(app.manager.roster(pool));
    let filter = Arc::new(Filter::of_pool(caller, pool));
    let reader = Reader::open(app, filter, (Some(place), Some(in_use)), store, begin)?;
    Ok(reader.routes(told, &first))
}

/// Who calls, if it may read keys of the pool, and a policy names the pool.
fn known(request: &HttpRequest, app: &App, pool: &str) -> Result<Caller, Problem> {
    let caller = Caller::of(request);
    let is_known = app.manager.pool_names().iter().any(|known| **known == *pool);
    if is_known && caller.reads_pool(app, pool) {
        return Ok(caller);
    }
    Err(unknown(&caller, app, pool))
}
