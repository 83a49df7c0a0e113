//! R5: forwards calls about a lease to its home node, where another living node is that, and relays the answer.
//!
//! Guarantees: a call is forwarded at most once, so never in a circle. The body of the home node's answer is relayed
//! byte for byte.
//!
//! Does not guarantee: an answer while the home node cannot be reached. The caller is then told to try again
//! (`home-unreachable`). A release is written here, since it is by consent.
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

/// On a forwarded acquire-any: the call only asks for what the home node granted to an earlier call.
pub const PART: &str = "x-tenure-part";
/// On a forwarded request: the address of the original caller.
pub const FORWARDED_FOR: &str = "x-tenure-forwarded-for";
/// On an answer: the call claims to be forwarded, but does not prove that a node of the same store forwarded it.
pub const UNPROVEN: &str = "x-tenure-unproven";
/// On a relayed answer: the node that gave it. The caller does best to ask that node next time.
const HOME: &str = "x-tenure-node";
/// How long another node may take to accept a connection.
const CONNECT: Duration = Duration::from_millis(500);
/// How long another node may take to answer. Its own calls of the store have about this bound.
pub const ANSWER: Duration = Duration::from_secs(2);
/// The shortest span between two warnings about nodes that cannot be trusted.
const WARNING: Duration = Duration::from_secs(10);
/// The headers that are copied from the caller's request.
const COPIED: [&str; 2] = ["x-request-id", "traceparent"];

/// Forwards requests to other nodes.
pub struct Forwarder {
    client: reqwest::Client,
    seal: Arc<Seal>,
    /// When the last warning about a node that cannot be trusted was logged.
    warned: Mutex<Option<Moment>>,
}

impl Forwarder {
    /// A forwarder with its own connections. It uses `tls` for nodes whose URLs are `https`.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn new(seal: Arc<Seal>, tls: ClientConfig) -> Result<Self, reqwest::Error> {
        let client = tls::http(tls).connect_timeout(CONNECT).timeout(ANSWER).tcp_nodelay(true);
        // A redirect would send a call and its secrets to whatever server it names.
        let client = client.redirect(reqwest::redirect::Policy::none());
        Ok(Self { client: client.build()?, seal, warned: Mutex::default() })
    }

    /// Whether the next warning is due. There may be thousands of calls per second.
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
        let from = app.manager.incarnation();
        self.seal.seal(from, home.url.as_deref().unwrap_or_default(), &mut request);
        self.client.execute(request).await
    }

    /// Forwards a request; `None` when the home node cannot be reached, or does not answer in time.
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

    /// Forwards an acquire-any, only for what an earlier call was granted.
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

/// The path and query to forward. A URL parser resolves the segments `.` and `..`, which a key may contain, so each `/`
/// of a key is encoded. `None` for a key that consists of such a segment only: no URL can name it.
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

/// Sends a request that [`Forwarder::request`] built, and logs a failure.
pub async fn send(
    app: &App,
    home: &Home,
    carried: reqwest::RequestBuilder,
) -> Result<reqwest::Response, reqwest::Error> {
    let answered = match app.forwarder.send(app, home, carried).await {
        // The other node did nothing, and the caller is not at fault.
        Ok(answer) if answer.headers().contains_key(UNPROVEN) => {
            tracing::warn!(
                url = home.url.as_deref(),
                "a node rejects forwarded calls: check that both nodes use the same store and version, and that its \
                 node.advertise_url is its own URL"
            );
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

/// Whether the call only asks for what an earlier call was granted.
pub fn asks_for_part(request: &HttpRequest) -> bool {
    was_forwarded(request) && request.headers().contains_key(PART)
}

/// Serves a call at the lease's home node: here, or by forwarding it. If the home node cannot be reached, does what may
/// be done here without it.
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

/// Forwards a request, and relays the home node's answer.
pub async fn relay(
    request: &HttpRequest,
    app: &App,
    home: &Home,
    body: Bytes,
) -> Option<HttpResponse> {
    let answered = app.forwarder.forward(request, app, home, body).await?;
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
    let carried = app.forwarder.request(request, home, body)?.timeout(wait + 2 * ANSWER);
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
    super::body::echo_request_id(request, response.headers_mut());
    Some(response)
}
