//! R5: calls about a lease that another living node answers for are passed on to it, and its answer back.
//!
//! Guarantees: a call is passed on at most once, never around in a circle; what the home answered is
//! answered, byte for byte.
//!
//! Does not guarantee: an answer of the home while it cannot be reached: then the caller is told to come
//! again (`home-unreachable`), but a release is written here, by consent.
//!
//! Assumes: nodes reach each other at the URLs that they advertise.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, Uri},
};
use bytes::Bytes;
use rustls::ClientConfig;

use super::{
    body::percent_decode,
    problem::Problem,
    seal::{Seal, was_forwarded},
    server::App,
};
use crate::{
    lease::Moment,
    manager::{Asked, Home},
    tls,
};

/// On such an acquire-any: only what an earlier call was granted is asked for, where it is at home.
pub const PART: &str = "x-tenure-part";
/// On such a request: the address that it first came from.
pub const FORWARDED_FOR: &str = "x-tenure-forwarded-for";
/// On the answer to a call that does not prove that a node of the store passed it on.
pub const UNPROVEN: &str = "x-tenure-unproven";
/// On an answer that was relayed: the node that gave it, which is best asked next time.
const HOME: &str = "x-tenure-node";
/// How long another node may take to accept a connection.
const CONNECT: Duration = Duration::from_millis(500);
/// How long it may take to answer: its own calls of the store are bounded by about this.
pub const ANSWER: Duration = Duration::from_secs(2);
/// What lies between two warnings about nodes that cannot be trusted.
const WARNING: Duration = Duration::from_secs(10);
/// What is copied from the caller's request.
const COPIED: [&str; 2] = ["x-request-id", "traceparent"];

/// Carries requests to other nodes.
pub struct Forwarder {
    client: reqwest::Client,
    seal: Arc<Seal>,
    /// When it was last said that a node cannot be trusted.
    warned: Mutex<Option<Moment>>,
}

impl Forwarder {
    /// A forwarder with its own connections, by this configuration to nodes whose addresses are `https`.
    ///
    /// # Errors
    /// When no client can be made.
    pub fn new(seal: Arc<Seal>, tls: ClientConfig) -> Result<Self, reqwest::Error> {
        let client = tls::http(tls).connect_timeout(CONNECT).timeout(ANSWER).tcp_nodelay(true);
        // A redirect would take a call and its secrets to whoever is named.
        let client = client.redirect(reqwest::redirect::Policy::none());
        Ok(Self { client: client.build()?, seal, warned: Mutex::default() })
    }

    /// Whether it is time to say it again: there may be thousands of calls a second.
    fn may_warn(&self, now: Moment) -> bool {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        let due = warned.is_none_or(|last| now.since(last) >= WARNING);
        if due {
            *warned = Some(now);
        }
        due
    }

    async fn send(
        &self,
        app: &App,
        home: &Home,
        carried: reqwest::RequestBuilder,
    ) -> Result<reqwest::Response, reqwest::Error> {
        let mut request = carried.build()?;
        let from = app.manager.world().terms().node;
        self.seal.seal(from, home.url.as_deref().unwrap_or_default(), &mut request);
        self.client.execute(request).await
    }

    /// Passes a request on; `None` when the home cannot be reached, or does not answer in time.
    pub(super) async fn forward(
        &self,
        request: &HttpRequest,
        app: &App,
        home: &Home,
        body: Bytes,
    ) -> Option<reqwest::Response> {
        let carried = self.request(request, home, body)?;
        send(app, home, carried).await.ok()
    }

    /// [`Self::carry`] of an acquire-any, for what it was granted before.
    pub(super) async fn forward_part(
        &self,
        request: &HttpRequest,
        app: &App,
        home: &Home,
        body: Bytes,
    ) -> Option<reqwest::Response> {
        let carried = self.request(request, home, body)?.header(PART, "1");
        send(app, home, carried).await.ok()
    }

    pub(super) fn request(
        &self,
        request: &HttpRequest,
        home: &Home,
        body: Bytes,
    ) -> Option<reqwest::RequestBuilder> {
        let url = home.url.as_deref()?;
        let path = target(request.uri())?;
        let method = reqwest::Method::from_bytes(request.method().as_str().as_bytes()).ok()?;
        let mut carried = self
            .client
            .request(method, format!("{}{path}", url.trim_end_matches('/')))
            .header("content-type", "application/json")
            .body(body);
        if let Some(peer) = request.peer_addr() {
            carried = carried.header(FORWARDED_FOR, peer.ip().to_string());
        }
        for name in COPIED {
            if let Some(value) = request.headers().get(name) {
                carried = carried.header(name, value.as_bytes());
            }
        }
        Some(carried)
    }
}

/// The path and query to pass on. A URL resolves the segments `.` and `..`, which a key may have: so each `/` of a key is
/// encoded. `None` for a key that is such a segment and nothing else, which no URL can name.
fn target(uri: &Uri) -> Option<String> {
    let path = match uri.path().strip_prefix("/v1/leases/") {
        Some(key) => {
            let named = percent_decode(key.as_bytes()).ok()?;
            if [&b"."[..], b".."].contains(&&*named) {
                return None;
            }
            format!("/v1/leases/{}", key.replace('/', "%2F"))
        }
        None => uri.path().to_owned(),
    };
    Some(uri.query().map_or_else(|| path.clone(), |query| format!("{path}?{query}")))
}

/// Sends it.
pub async fn send(
    app: &App,
    home: &Home,
    carried: reqwest::RequestBuilder,
) -> Result<reqwest::Response, reqwest::Error> {
    let answered = match app.forwarder.send(app, home, carried).await {
        // Nothing was done there, and it is no fault of the caller's.
        Ok(answer) if answer.headers().contains_key(UNPROVEN) => {
            tracing::warn!(
                url = home.url.as_deref(),
                "a node does not believe that this one is of its store: their versions or node.advertise_url differ"
            );
            answer.error_for_status()
        }
        answered => answered,
    };
    app.manager.world().metrics.forwarded(answered.is_ok());
    let url = home.url.as_deref();
    // The whole URL may hold the id of a session.
    let answered = answered.map_err(reqwest::Error::without_url);
    answered.inspect_err(|error| {
        if tls::fault(error).is_some() && app.forwarder.may_warn(app.manager.now()) {
            let why = tls::explain(error, "node.ca");
            tracing::warn!(url, why, "a node cannot prove who it is: no call is passed on to it");
        } else {
            tracing::debug!(%error, url, "a node cannot be reached");
        }
    })
}

/// Whether only what an earlier call was granted is asked for.
pub fn asks_for_part(request: &HttpRequest) -> bool {
    was_forwarded(request) && request.headers().contains_key(PART)
}

/// Acts here; or, where the lease is at home elsewhere, there; or, where that cannot be reached, does
/// what may be done here without it.
pub async fn act_at_home(
    request: &HttpRequest,
    app: &App,
    body: &Bytes,
    act: impl AsyncFn(Asked) -> Result<HttpResponse, Problem>,
) -> HttpResponse {
    let received = app.manager.now();
    let problem = match act(received.into()).await {
        Ok(response) => return response,
        Err(problem) => problem,
    };
    let Some(home) = problem.home().filter(|_| !was_forwarded(request)) else {
        return problem.respond(request);
    };
    if let Some(response) = relay(request, app, home, body.clone()).await {
        return response;
    }
    match act(Asked { received, owner_unreachable: true }).await {
        Ok(response) => response,
        Err(problem) => problem.respond(request),
    }
}

/// The home's answer as our own.
pub async fn relay(
    request: &HttpRequest,
    app: &App,
    home: &Home,
    body: Bytes,
) -> Option<HttpResponse> {
    let answered = app.forwarder.forward(request, app, home, body).await?;
    respond(request, home, answered).await
}

/// [`relay`] of a request that may wait there for so long.
pub async fn relay_waiting(
    request: &HttpRequest,
    app: &App,
    home: &Home,
    body: Bytes,
    wait: Duration,
) -> Option<HttpResponse> {
    // That node may ask others for their parts.
    let carried = app.forwarder.request(request, home, body)?.timeout(wait + 2 * ANSWER);
    respond(request, home, send(app, home, carried).await.ok()?).await
}

/// The answer of another node as our own.
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
    super::body::echo_request_id(request, response.headers_mut());
    Some(response)
}
