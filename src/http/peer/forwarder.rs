//! The client for calls to other nodes.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use actix_web::{HttpRequest, http::Uri};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use bytes::Bytes;
use rustls::ClientConfig;

use super::{
    headers::{FORWARDED_FOR, PRINCIPAL},
    seal::Seal,
};
use crate::{
    http::percent::{key_part, percent_decode},
    lease::{Moment, Nonce},
    manager::Home,
    telemetry::trace::{self, Span},
    tls,
};

/// How long another node may take to accept a connection.
const CONNECT: Duration = Duration::from_millis(500);
/// How long another node may take to answer. Its own calls of the store have about this bound.
pub const ANSWER: Duration = Duration::from_secs(2);
/// The shortest span between two warnings about nodes that cannot be trusted.
const WARNING: Duration = Duration::from_secs(10);
/// How long the connections of one client are used. A connection does not end with the certificate of the node that it
/// leads to, so this is how long that certificate counts beyond its end.
const RENEWAL: Duration = Duration::from_secs(900);
/// The path of an acquire.
const ACQUIRE: &str = "/v1/acquire";
/// The headers that are copied from the caller's request.
const COPIED: [&str; 3] = ["x-request-id", TRACE_PARENT, "tracestate"];
/// The header that names the span which a call is a part of.
const TRACE_PARENT: &str = "traceparent";

/// Forwards requests to other nodes.
pub struct Forwarder {
    tls: ClientConfig,
    /// The client, and when it was made.
    client: Mutex<(reqwest::Client, Moment)>,
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
        let client = Mutex::new((client(tls.clone())?, seal.now()));
        Ok(Self { tls, client, seal, warned: Mutex::default() })
    }

    /// The client, whose connections are not older than [`RENEWAL`].
    fn client(&self) -> reqwest::Client {
        let now = self.seal.now();
        let mut kept = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if now.since(kept.1) >= RENEWAL
            && let Ok(client) = client(self.tls.clone())
        {
            // The calls that are under way keep their connections until they are answered.
            *kept = (client, now);
        }
        kept.0.clone()
    }

    /// Whether the next warning is due. There may be thousands of calls per second.
    pub(in crate::http) fn may_warn(&self, now: Moment) -> bool {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        let due = warned.is_none_or(|last| now.since(last) >= WARNING);
        if due {
            *warned = Some(now);
        }
        due
    }

    /// A call that carries the request of `caller`, a principal, to another node; `None` when no URL leads there.
    pub(in crate::http) fn request(
        &self,
        request: &HttpRequest,
        caller: Option<&str>,
        home: &Home,
        body: Bytes,
    ) -> Option<reqwest::RequestBuilder> {
        let path = target(request.uri())?;
        let method = reqwest::Method::from_bytes(request.method().as_str().as_bytes()).ok()?;
        self.carried((method, &path), request, caller, home, body)
    }

    /// An acquire of `caller`, a principal that sent this request, at another node; `None` when no URL leads there.
    pub(in crate::http) fn acquire(
        &self,
        request: &HttpRequest,
        caller: Option<&str>,
        home: &Home,
        body: Bytes,
    ) -> Option<reqwest::RequestBuilder> {
        self.carried((reqwest::Method::POST, ACQUIRE), request, caller, home, body)
    }

    fn carried(
        &self,
        (method, path): (reqwest::Method, &str),
        request: &HttpRequest,
        caller: Option<&str>,
        home: &Home,
        body: Bytes,
    ) -> Option<reqwest::RequestBuilder> {
        let url = home.url.as_deref()?;
        let mut carried = self
            .client()
            .request(method, format!("{}{path}", url.trim_end_matches('/')))
            .header("content-type", "application/json")
            .body(body);
        if let Some(peer) = request.peer_addr() {
            carried = carried.header(FORWARDED_FOR, peer.ip().to_string());
        }
        if let Some(name) = caller {
            carried = carried.header(PRINCIPAL, BASE64.encode(name));
        }
        let is_traced = trace::current().is_some();
        for name in COPIED {
            // The call is a part of a span of its own, which `send` begins.
            if is_traced && name == TRACE_PARENT {
                continue;
            }
            if let Some(value) = request.headers().get(name) {
                carried = carried.header(name, value.as_bytes());
            }
        }
        Some(carried)
    }

    /// Seals a call, and sends it.
    pub(in crate::http) async fn send(
        &self,
        from: Nonce,
        home: &Home,
        carried: reqwest::RequestBuilder,
    ) -> Result<reqwest::Response, reqwest::Error> {
        let span = trace::current().map(|trace| trace.child("tenure.forward").outgoing());
        let carried = match &span {
            Some(span) => carried.header(TRACE_PARENT, span.trace().header()),
            None => carried,
        };
        let answered = self.sealed(from, home, carried.build()?).await;
        if let Some(span) = span {
            told(span, home, &answered);
        }
        answered
    }

    async fn sealed(
        &self,
        from: Nonce,
        home: &Home,
        mut request: reqwest::Request,
    ) -> Result<reqwest::Response, reqwest::Error> {
        let url = home.url.as_deref().unwrap_or_default();
        self.seal.seal(from, (home.node, url), &mut request);
        self.client().execute(request).await
    }
}

fn client(tls: ClientConfig) -> Result<reqwest::Client, reqwest::Error> {
    let client = tls::http(tls).connect_timeout(CONNECT).timeout(ANSWER).tcp_nodelay(true);
    // A redirect would send a call and its secrets to whatever server it names.
    client.redirect(reqwest::redirect::Policy::none()).build()
}

/// A call of another node ended.
fn told(mut span: Span, home: &Home, answered: &Result<reqwest::Response, reqwest::Error>) {
    if let Some(url) = home.url.as_deref() {
        span.trace().note("server.address", url);
    }
    match answered {
        Ok(answer) => {
            let status = u64::from(answer.status().as_u16());
            span.trace().note("http.response.status_code", status);
        }
        Err(_) => span.fail(),
    }
}

/// The path and query to forward. A URL parser resolves the segments `.` and `..`, which a key may contain, so each `/`
/// of a key is encoded. `None` for a key that consists of such a segment only: no URL can name it.
fn target(uri: &Uri) -> Option<String> {
    let path = match key_part(uri.path()) {
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
