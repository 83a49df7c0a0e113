//! Acquiring any of several leases.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};
use bytes::Bytes;
use futures_util::future::join_all;

use super::{
    body::{Body, json, owner},
    forward::{asks_for_part, relay_waiting},
    leases::{kept_by, mark},
    places::Waiting,
    problem::Problem,
    seal::was_forwarded,
    server::App,
    wire::{AcquireAnyBody, AnyGrant, AnyOrder, Grant, Grants, GrantsOfOthers},
};
use crate::{
    lease::{Key, MAX_KEY_BYTES, Moment, Order, Refusal},
    manager::{
        AcquireAny, AcquireError, CallError, Candidates, Count, Home, MAX_CANDIDATES, SessionError,
    },
};

/// Become the owner of up to `count` of several leases.
///
/// With a `request_id`, of several nodes one serves the call, chosen by the id among those that live, and
/// whichever node is asked passes it on: a repeated call gets all its grants, wherever they are at home by
/// then. Where that node, or the home of a grant, cannot be reached, the answer is `home-unreachable`, until
/// it is back or was found dead. Not promised: that two calls which overlap at two nodes are granted once
/// while these nodes disagree about who lives: for up to a quarter of `node.ttl` after a node came or
/// went.
#[utoipa::path(post, path = "/v1/acquire-any", tag = "leases", request_body = AcquireAnyBody, responses(
    (status = 200, description = "1 to `count` grants", body = Grants),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 409, description = "`none-available`, `request-id-spent`, `request-in-flight` or `session-lost`", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 422, description = "`request-id-reused`", body = Problem),
    (status = 429, description = "`busy`", body = Problem),
    (status = 503, description = "`store-unavailable`, `store-frozen`, `home-unreachable`, `node-lapsed`, `draining`, `key-resting` or `record-quarantined`", body = Problem),
    (status = 507, description = "`store-full` or `too-many-keys`", body = Problem),
))]
pub async fn acquire_any(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<AcquireAnyBody>,
) -> HttpResponse {
    let received = app.manager.now();
    let answer = try_acquire_any(&request, &app, &body, received).await;
    answer.unwrap_or_else(|problem| problem.respond(&request))
}

async fn try_acquire_any(
    request: &HttpRequest,
    app: &App,
    Body(body, bytes): &Body<AcquireAnyBody>,
    received: Moment,
) -> Result<HttpResponse, Problem> {
    let any = read_any(body)?;
    let manager = &app.manager;
    let refused = |error| Problem::acquire(&error, app, None);
    if asks_for_part(request) {
        let here = manager.granted_here(&any, received).await.map_err(refused)?;
        return Ok(json(request, StatusCode::OK, &told(app, &here)));
    }
    let wait = Duration::from_millis(any.wait_ms).min(manager.limits().wait_max);
    let place = if wait.is_zero() { Ok(None) } else { Waiting::of(request).map(Some) };
    let _place = match place {
        Ok(place) => place,
        Err(full) => return acquire_any_at_once(request, app, any, received, full).await,
    };
    // A session's home node serves the calls under the session.
    if let Some((id, _)) = any.mark.filter(|_| any.session.is_none())
        && !was_forwarded(request)
        && !manager.is_draining()
        && let Some(server) = manager.server_of(id)
    {
        let answer = relay_waiting(request, app, &server, bytes.clone(), wait).await;
        return answer.ok_or_else(|| Problem::server_unreachable(&server));
    }
    let taken = match manager.acquire_any(&any, received).await {
        Err(AcquireError::Session(SessionError::Call(CallError::Elsewhere(home))))
            if !was_forwarded(request) =>
        {
            // R6: a session's home node grants the leases that the session keeps.
            let answer = relay_waiting(request, app, &home, bytes.clone(), wait).await;
            return answer.ok_or_else(|| Problem::call(&CallError::Elsewhere(home)));
        }
        taken => taken.map_err(refused)?,
    };
    let mut answer = told(app, &taken.grants);
    if let Some((id, _)) = any.mark
        && !taken.elsewhere.is_empty()
    {
        gather(request, app, bytes, id, taken.elsewhere, &mut answer).await?;
    }
    Ok(json(request, StatusCode::OK, &answer))
}

/// Serves a call while no more calls may wait: it is granted here if that takes no waiting.
async fn acquire_any_at_once(
    request: &HttpRequest,
    app: &App,
    any: AcquireAny,
    received: Moment,
    full: Problem,
) -> Result<HttpResponse, Problem> {
    let manager = &app.manager;
    let server = any.mark.filter(|_| any.session.is_none() && !was_forwarded(request));
    if !manager.is_draining() && server.is_some_and(|(id, _)| manager.server_of(id).is_some()) {
        return Err(full);
    }
    match manager.acquire_any(&AcquireAny { wait_ms: 0, ..any }, received).await {
        Ok(taken) if taken.elsewhere.is_empty() => {
            Ok(json(request, StatusCode::OK, &told(app, &taken.grants)))
        }
        Ok(_) | Err(AcquireError::NoneAvailable(_) | AcquireError::NoneOfShare(..)) => Err(full),
        Err(error) => {
            let problem = Problem::acquire(&error, app, None);
            Err(if problem.home().is_some() { full } else { problem })
        }
    }
}

/// Adds the grants of a repeated call that other nodes answer for. If some of them cannot be had, the caller must try
/// again.
async fn gather(
    request: &HttpRequest,
    app: &App,
    bytes: &Bytes,
    id: u128,
    elsewhere: Vec<(Key, Home)>,
    answer: &mut Grants,
) -> Result<(), Problem> {
    let homes: BTreeMap<_, _> = elsewhere.iter().map(|(_, home)| (home.node, home)).collect();
    let parts = homes.into_values().map(async |home| {
        let part = async {
            let part = app.forwarder.forward_part(request, app, home, bytes.clone()).await?;
            let part = part.error_for_status().ok()?.json::<GrantsOfOthers>().await;
            part.ok().map(|part| part.grants)
        };
        part.await.ok_or_else(|| Problem::call(&CallError::Elsewhere(home.clone())))
    });
    for part in join_all(parts).await {
        answer.grants.extend(part?.into_iter().map(AnyGrant::Others));
    }
    let found: HashSet<String> =
        answer.grants.iter().filter_map(AnyGrant::key).map(str::to_owned).collect();
    for (key, home) in elsewhere.iter().filter(|(key, _)| !found.contains(key.as_str())) {
        // It has ended meanwhile, or it has another home by now.
        let stands = app.manager.stands(key, id).await.map_err(|error| Problem::call(&error))?;
        if stands {
            return Err(Problem::call(&CallError::Elsewhere(home.clone())));
        }
    }
    if answer.grants.is_empty() {
        let spent = AcquireError::Refused(Refusal::RequestSpent(None), None);
        return Err(Problem::acquire(&spent, app, None));
    }
    Ok(())
}

fn told(app: &App, grants: &[(Key, crate::lease::Grant)]) -> Grants {
    let grants = grants.iter().map(|(key, grant)| Grant::of(app, key, grant));
    Grants { grants: grants.map(AnyGrant::Own).collect() }
}

/// Reads the request and checks all that needs no state.
pub fn read_any(body: &AcquireAnyBody) -> Result<AcquireAny, Problem> {
    let (ttl_ms, session) = kept_by(body.ttl_ms, body.session.as_deref())?;
    let mark = match &body.request_id {
        None => None,
        Some(id) => {
            let listed = body.keys.as_deref().unwrap_or_default().join("\0");
            let kind = [u8::from(body.keys.is_some()), body.order as u8];
            let count = match body.count {
                Count::UpTo(count) => count.to_le_bytes().to_vec(),
                Count::Fair => b"fair".to_vec(),
            };
            let ttl = ttl_ms.to_le_bytes();
            let prefix = body.prefix.as_deref().unwrap_or_default();
            let mut parts: Vec<&[u8]> = vec![
                body.owner.as_bytes(),
                &ttl,
                &count,
                &kind,
                listed.as_bytes(),
                prefix.as_bytes(),
            ];
            // A pool and a session are part of the mark only where they are given.
            parts.extend(body.pool.as_deref().map(str::as_bytes));
            parts.extend(body.session.as_deref().map(str::as_bytes));
            mark(Some(id), &parts)?
        }
    };
    let order = match body.order {
        AnyOrder::Random => Order::Random,
        AnyOrder::Listed => Order::Listed,
        AnyOrder::Sticky => Order::Sticky,
    };
    let owner = owner("owner", &body.owner)?;
    Ok(AcquireAny {
        candidates: candidates(body)?,
        owner,
        ttl_ms,
        session,
        count: body.count,
        order,
        wait_ms: body.wait_ms,
        mark,
    })
}

fn candidates(body: &AcquireAnyBody) -> Result<Candidates, Problem> {
    match (body.keys.as_deref(), body.prefix.as_deref(), body.pool.as_deref()) {
        (Some(keys), None, None) => {
            if keys.is_empty() || keys.len() > MAX_CANDIDATES {
                let detail =
                    format!("names {} keys; 1 to {MAX_CANDIDATES} are allowed", keys.len());
                return Err(Problem::field("keys", detail));
            }
            let parse = |(at, key): (usize, &String)| {
                Key::new(key).map_err(|error| Problem::field(&format!("keys[{at}]"), error))
            };
            Ok(Candidates::Keys(keys.iter().enumerate().map(parse).collect::<Result<_, _>>()?))
        }
        (None, Some(prefix), None) if prefix.len() > MAX_KEY_BYTES => {
            let detail =
                format!("is {} bytes long; at most {MAX_KEY_BYTES} are allowed", prefix.len());
            Err(Problem::field("prefix", detail))
        }
        (None, Some(prefix), None) => Ok(Candidates::Prefix(prefix.to_owned())),
        (None, None, Some(pool)) => Ok(Candidates::Pool(pool.to_owned())),
        (Some(_), Some(_), _) => Err(Problem::field("prefix", "and keys exclude each other")),
        (_, _, Some(_)) => Err(Problem::field("pool", "excludes keys and prefix")),
        (None, None, None) => Err(Problem::field("keys", "or prefix or pool must be given")),
    }
}
