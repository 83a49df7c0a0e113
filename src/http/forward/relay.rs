//! Forwards calls to another node, and relays its answers.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, http::StatusCode};
use bytes::Bytes;
use serde::Deserialize;

use crate::{
    api::Code,
    http::{
        answer::{Problem, echo_request_id},
        app::App,
        caller::Caller,
        peer::{ANSWER, PART, UNPROVEN, was_forwarded},
    },
    manager::Home,
    tls,
};

/// On a relayed answer: the node that gave it. The caller does best to ask that node next time.
pub const HOME: &str = "x-tenure-node";

/// What the problem document of another node says.
#[derive(Deserialize)]
struct Denial {
    code: String,
    detail: String,
}

/// A call that carries the request to another node, on behalf of its caller; `None` when no URL leads there.
pub fn carried_by(
    request: &HttpRequest,
    app: &App,
    home: &Home,
    body: Bytes,
) -> Option<reqwest::RequestBuilder> {
    let caller = Caller::of(request);
    app.forwarder.request(request, caller.name(), home, body)
}

/// An acquire at another node, on behalf of the caller of this request, whatever the request is.
pub fn acquire_for(
    request: &HttpRequest,
    app: &App,
    home: &Home,
    body: Bytes,
) -> Option<reqwest::RequestBuilder> {
    let caller = Caller::of(request);
    app.forwarder.acquire(request, caller.name(), home, body)
}

/// Seals and sends a call that the forwarder built, and logs a failure.
pub async fn send(
    app: &App,
    home: &Home,
    carried: reqwest::RequestBuilder,
) -> Result<reqwest::Response, reqwest::Error> {
    let answered = match app.forwarder.send(app.manager.incarnation(), home, carried).await {
        // The other node did nothing, and the caller is not at fault.
        Ok(answer) if answer.headers().contains_key(UNPROVEN) => {
            let knows = answer.headers().get(UNPROVEN).and_then(|known| known.to_str().ok());
            if app.forwarder.may_warn(app.manager.now()) {
                tracing::warn!(
                    url = home.url.as_deref(),
                    knows_seal = knows,
                    "a node rejects forwarded calls. If it was restarted a moment ago, this ends by itself. Otherwise \
                     check that both nodes use the same store, that their versions are at most one release apart, and \
                     that its node.advertise_url is its own URL"
                );
            }
            answer.error_for_status()
        }
        answered => answered,
    };
    app.manager.count_forwarded(answered.is_ok());
    let url = home.url.as_deref();
    // The whole URL may contain a session id, which is a secret.
    let answered = answered.map_err(reqwest::Error::without_url);
    answered.inspect_err(|error| {
        if tls::fault(error).is_some() && app.forwarder.may_warn(app.manager.now()) {
            let why = tls::explain(error, "node.ca");
            tracing::warn!(url, why, "TLS to a node failed: no call is forwarded to it");
        } else {
            tracing::debug!(%error, url, "a node cannot be reached");
        }
    })
}

/// Forwards a request; `None` when the home node cannot be reached, or does not answer in time.
pub async fn forward(
    request: &HttpRequest,
    app: &App,
    home: &Home,
    body: Bytes,
) -> Option<reqwest::Response> {
    let carried = carried_by(request, app, home, body)?;
    send(app, home, carried).await.ok()
}

/// Forwards an acquire-any, only for what an earlier call was granted.
pub async fn forward_part(
    request: &HttpRequest,
    app: &App,
    home: &Home,
    body: Bytes,
) -> Option<reqwest::Response> {
    let carried = carried_by(request, app, home, body)?.header(PART, "1");
    send(app, home, carried).await.ok()
}

/// Forwards an order for the revocation list, only to have the list with so many changes in force at that node.
pub async fn forward_to_confirm(
    request: &HttpRequest,
    app: &App,
    home: &Home,
    (body, changes): (Bytes, u64),
) -> Option<reqwest::Response> {
    let carried = carried_by(request, app, home, body)?.header(PART, changes);
    send(app, home, carried).await.ok()
}

/// How many changes the list must have that another node asks to have in force; `None` for an order.
pub fn asked_to_confirm(request: &HttpRequest) -> Option<u64> {
    let changes = request.headers().get(PART).filter(|_| was_forwarded(request))?;
    changes.to_str().ok()?.parse().ok()
}

/// Whether the call only asks for what an earlier call was granted.
pub fn asks_for_part(request: &HttpRequest) -> bool {
    was_forwarded(request) && request.headers().contains_key(PART)
}

/// The answer of another node, unless that node denies the caller's right. It is then no use to act without that node:
/// its access file may be newer than this node's.
///
/// # Errors
/// The other node's refusal.
pub async fn unless_denied(
    answered: reqwest::Response,
    home: &Home,
) -> Result<reqwest::Response, Problem> {
    if !matches!(answered.status().as_u16(), 401 | 403) {
        return Ok(answered);
    }
    let denial = answered.json::<Denial>().await.ok();
    let named = denial.as_ref().and_then(|denial| Code::named(&denial.code));
    let code = named.unwrap_or(Code::Forbidden);
    let detail = denial.map_or_else(|| code.title().to_owned(), |denial| denial.detail);
    let node = home.url.as_deref().map(str::to_owned);
    Err(Problem { node, ..Problem::of(code, detail) })
}

/// Forwards a request, and relays the home node's answer.
pub async fn relay(
    request: &HttpRequest,
    app: &App,
    home: &Home,
    body: Bytes,
) -> Option<HttpResponse> {
    let answered = forward(request, app, home, body).await?;
    respond(request, home, answered).await
}

/// [`relay`] for a request that may wait at the home node for `wait`.
pub async fn relay_waiting(
    request: &HttpRequest,
    app: &App,
    home: &Home,
    body: Bytes,
    wait: Duration,
) -> Option<HttpResponse> {
    // The home node may in turn ask other nodes for their parts.
    let carried = carried_by(request, app, home, body)?.timeout(wait + 2 * ANSWER);
    respond(request, home, send(app, home, carried).await.ok()?).await
}

/// Relays the answer of another node.
pub async fn respond(
    request: &HttpRequest,
    home: &Home,
    answered: reqwest::Response,
) -> Option<HttpResponse> {
    let status = StatusCode::from_u16(answered.status().as_u16()).ok()?;
    let mut response = HttpResponse::build(status);
    for name in ["content-type", "retry-after"] {
        if let Some(value) = answered.headers().get(name) {
            response.insert_header((name, value.as_bytes()));
        }
    }
    response.insert_header((HOME, home.url.as_deref().unwrap_or_default()));
    let bytes = answered.bytes().await.ok()?;
    let mut response = response.body(bytes);
    echo_request_id(request, response.headers_mut());
    Some(response)
}
