//! Ownership changes, as a stream that resumes without a gap, and by long poll.

use std::{sync::Arc, time::Duration};

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
    web,
};

use crate::{
    api::{EventsPage, EventsQuery, limits::MAX_PACE_MS},
    http::{
        answer::{Problem, echo_request_id, json},
        app::App,
        caller::{Caller, Kind},
        door::Waiting,
        events::{Begin, Filter, Reader, follow, parse_cursor},
        request::query,
    },
};

/// Follow ownership changes.
#[utoipa::path(get, path = "/v1/events", tag = "events", params(EventsQuery), responses(
    (status = 200, description = "Server-sent events, or one page of events with `format=json`", content(
        (String = "text/event-stream"), (EventsPage = "application/json"))),
    (status = 400, description = "A parameter is not valid", body = Problem),
    (status = 429, description = "`too-many-subscribers`, or `busy` if too many calls wait or stream", body = Problem),
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
    let filter = Arc::new(Filter::of(Caller::of(request), &query)?);
    let store = app.source.identity();
    if let Some(pool) = &query.pool {
        Caller::of(request).known_pool(&app, pool)?;
    }
    let pace = pace_of(&query)?;
    let begin = begin_of(request, &app, query.after.as_deref())?;
    let is_poll = query.format.as_deref() == Some("json");
    let waits = !is_poll || query.wait_ms.is_some_and(|wait_ms| wait_ms > 0);
    let caller = Caller::of(request);
    let in_use = waits.then(|| caller.uses(Kind::Streams)).transpose()?;
    let place = waits.then(|| Waiting::of(request)).transpose()?;
    let mut reader = Reader::open(app, filter, (place, in_use), store, begin)?;
    match query.format.as_deref() {
        None | Some("sse") => Ok(sse(request, reader.pace(pace))),
        Some("json") => {
            let page = reader.page(query.wait_ms.unwrap_or(0)).await?;
            Ok(json(request, StatusCode::OK, &page))
        }
        Some(other) => {
            Err(Problem::field("format", format!("is {other:?}; it must be sse or json")))
        }
    }
}

/// The time between two deliveries for which the subscriber asks.
fn pace_of(query: &EventsQuery) -> Result<Duration, Problem> {
    let pace_ms = query.pace_ms.unwrap_or_default();
    if pace_ms > MAX_PACE_MS {
        let detail = format!("is {pace_ms}; it must be from 0 to {MAX_PACE_MS}");
        return Err(Problem::field("pace_ms", detail));
    }
    Ok(Duration::from_millis(pace_ms))
}

/// Where the subscriber asks to begin.
pub(super) fn begin_of(
    request: &HttpRequest,
    app: &App,
    after: Option<&str>,
) -> Result<Begin, Problem> {
    let last = request.headers().get("last-event-id").map(header::HeaderValue::to_str);
    let last = last.transpose().map_err(|_| Problem::field("Last-Event-ID", "is not a cursor"))?;
    let after = after.filter(|after| !after.is_empty());
    last.or(after).map_or(Ok(Begin::Now), |text| parse_cursor(app, text))
}

/// The stream of a subscriber.
pub(super) fn sse(request: &HttpRequest, reader: Reader) -> HttpResponse {
    let mut response = HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "text/event-stream"))
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .streaming(follow(reader));
    echo_request_id(request, response.headers_mut());
    response
}
