//! Acquiring one lease, at once or by waiting in its queue.

use std::{pin::pin, time::Duration};

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};

use super::{
    call::Call,
    place::{refused, take_place},
};
use crate::{
    api::{AcquireBody, Grant},
    http::{
        about::{about, about_tenure},
        answer::{Problem, json},
        app::App,
        caller::Caller,
        door::Waiting as Waits,
        following::keeps,
        forward::{Queued, Waiting, asks_for_place, wait_at_home},
        request::{Body, kept_by, mark},
    },
    lease::{Grant as Granted, Key, Moment, Named},
    manager::{AcquireAll, AcquireError, AcquireOne, CallError},
};

/// Acquire a lease, at once or by waiting in its queue.
#[utoipa::path(post, path = "/v1/acquire", tag = "leases", request_body = AcquireBody, responses(
    (status = 200, description = "The lease is granted", body = Grant),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 409, description = "`held`, `held-by-you`, `request-id-spent` or `session-lost`", body = Problem),
    (status = 423, description = "`cooling`, with the rest of the lock-delay in `retry_after_ms`, or `fencing`", body = Problem),
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
    about(&app, &body.0.key, Some(&body.0.owner));
    let (caller, wait_ms) = (Caller::of(&request), body.0.wait_ms);
    if !asks_for_place(&request)
        && let Named::Permits(permits) = app.manager.named(&body.0.key)
    {
        let received = app.manager.now();
        let answer = acquire_permit(&request, &app, &caller, (&body, permits), received);
        return caller.answer(&request, wait_ms, pin!(answer)).await;
    }
    let wait = Duration::from_millis(wait_ms).min(app.manager.limits().wait_max);
    let _place = match Waits::for_up_to(wait, &request) {
        Ok(place) => place,
        Err(full) => {
            let answer = acquire_at_once(&request, &app, &body.0, full).await;
            return answer.unwrap_or_else(|problem| problem.respond(&request));
        }
    };
    let answer = acquire_in_time(&request, &app, &caller, &body, wait);
    caller.answer(&request, wait_ms, pin!(answer)).await
}

/// Takes one of the `permits` of a key.
async fn acquire_permit(
    request: &HttpRequest,
    app: &App,
    caller: &Caller,
    (body, permits): (&Body<AcquireBody>, u32),
    received: Moment,
) -> Result<HttpResponse, Problem> {
    let one = read_acquire(caller, &body.0)?;
    let last = one.key.permit(permits);
    last.map_err(|error| Problem::field("key", format!("has a permit that {error}")))?;
    let wanted = AcquireAll::permit(&one).map_err(|error| Problem::call(&error.into()))?;
    let call = Call { request, app, bytes: &body.1, received, wanted };
    call.answer(|grants| permit_granted(request, app, grants)).await
}

/// Goes on with a call whose key got permits while the call waited for the key. The call keeps its age and its place among
/// the waiting calls of this node.
async fn go_on_for_permit(
    request: &HttpRequest,
    app: &App,
    body: &Body<AcquireBody>,
    (one, received): (&AcquireOne, Moment),
) -> Result<HttpResponse, Problem> {
    let wanted = AcquireAll::permit(one).map_err(|error| Problem::call(&error.into()))?;
    let call = Call { request, app, bytes: &body.1, received, wanted };
    call.answer_in_place(|grants| permit_granted(request, app, grants)).await
}

fn permit_granted(request: &HttpRequest, app: &App, grants: &[(Key, Granted)]) -> HttpResponse {
    match grants {
        [(key, grant)] => granted(request, app, key, grant),
        _ => Problem::call(&CallError::Unexpected).respond(request),
    }
}

/// Answers within the call's time.
async fn acquire_in_time(
    request: &HttpRequest,
    app: &App,
    caller: &Caller,
    body: &Body<AcquireBody>,
    wait: Duration,
) -> Result<HttpResponse, Problem> {
    if asks_for_place(request) {
        return Ok(take_place(request, app, &read_acquire(caller, &body.0)?).await);
    }
    let in_session = body.0.session.is_some();
    let answer = wait_at_home(request, app, &body.1, wait, in_session, async |asked| {
        let one = read_acquire(caller, &body.0)?;
        if in_session {
            let waiting = Waiting::since(asked.received, wait);
            return acquire_in_turn(request, app, body, (&one, waiting)).await;
        }
        match app.manager.acquire(&one, asked).await {
            Ok(grant) => Ok(granted(request, app, &one.key, &grant)),
            Err(AcquireError::Call(CallError::PolicyChanged)) => {
                Box::pin(go_on_for_permit(request, app, body, (&one, asked.received))).await
            }
            Err(error) => Err(refused(&error, request, app, &one.key)),
        }
    });
    Ok(answer.await)
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
    let one = AcquireOne { wait_ms: 0, ..read_acquire(&Caller::of(request), body)? };
    match app.manager.acquire(&one, app.manager.now()).await {
        Ok(grant) => Ok(granted(request, app, &one.key, &grant)),
        Err(error) => Err(refused(&error, request, app, &one.key).unless_waiting(full)),
    }
}

/// Grants a lease under a session, at the session's home node. While another node is the lease's home node, the caller
/// has a place in the queue there.
async fn acquire_in_turn(
    request: &HttpRequest,
    app: &App,
    body: &Body<AcquireBody>,
    (one, mut waiting): (&AcquireOne, Waiting),
) -> Result<HttpResponse, Problem> {
    let mut asked = waiting.asked();
    loop {
        let error = match app.manager.acquire(one, asked).await {
            Ok(grant) => return Ok(granted(request, app, &one.key, &grant)),
            Err(AcquireError::Call(CallError::PolicyChanged)) => {
                let since = (one, waiting.asked().received);
                return Box::pin(go_on_for_permit(request, app, body, since)).await;
            }
            Err(error) => error,
        };
        let problem = refused(&error, request, app, &one.key);
        let AcquireError::Call(CallError::Elsewhere(home)) = &error else { return Err(problem) };
        let queued = match waiting.take_place(request, app, home, one).await {
            Queued::Answered(response) => return Ok(response),
            queued => queued,
        };
        match waiting.again(app, &queued).await {
            Some(again) => asked = again,
            None => return Ok(problem.respond(request)),
        }
    }
}

/// Reads the request and checks all that needs no state.
pub fn read_acquire(caller: &Caller, body: &AcquireBody) -> Result<AcquireOne, Problem> {
    let value = body.value.as_deref().unwrap_or_default();
    let has_value = [u8::from(body.value.is_some()), u8::from(body.reclaim)];
    let (ttl_ms, session) = kept_by(caller, body.ttl_ms, body.session.as_deref())?;
    let proof = body.session.as_deref().unwrap_or_default();
    let (ttl, min_hold) = (ttl_ms.to_le_bytes(), body.min_hold_ms.to_le_bytes());
    let parts: [&[u8]; 6] =
        [body.owner.as_bytes(), &ttl, &has_value, value.as_bytes(), proof.as_bytes(), &min_hold];
    // A coordinator that does not know minimum holds must find the same digest for a call without one.
    let parts = if body.min_hold_ms == 0 { &parts[..5] } else { &parts };
    let mark = mark(caller, body.request_id.as_deref(), parts)?;
    Ok(AcquireOne {
        key: caller.held_key(&body.key)?,
        owner: caller.owner("owner", &body.owner)?,
        ttl_ms,
        value: body.value.as_deref().map(Into::into),
        allow_stale: false,
        reclaim: body.reclaim,
        wait_ms: body.wait_ms,
        mark,
        session,
        min_hold_ms: body.min_hold_ms,
    })
}

/// The answer with a grant.
fn granted(request: &HttpRequest, app: &App, key: &Key, grant: &Granted) -> HttpResponse {
    keeps(request, key.as_str(), grant.view.token);
    about_tenure(grant.view.token);
    json(request, StatusCode::OK, &Grant::of(app, key, grant))
}
