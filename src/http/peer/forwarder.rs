//! The client for calls to other nodes.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
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
/// The path of an acquire.
const ACQUIRE: &str = "/v1/acquire";
/// The headers that are copied from the caller's request.
const COPIED: [&str; 3] = ["x-request-id", TRACE_PARENT, "tracestate"];
/// The header that names the span which a call is a part of.
const TRACE_PARENT: &str = "traceparent";

/// Forwards requests to other nodes.
pub struct Forwarder {
    client: reqwest::Client,
    seal: Arc<Seal>,
    /// The nodes that know only older versions of the seal, by incarnation, and the version that each gets.
    older: Mutex<HashMap<Nonce, u8>>,
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
        let (older, warned) = (Mutex::default(), Mutex::default());
        Ok(Self { client: client.build()?, seal, older, warned })
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
            .client
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

    /// Seals a call, and sends it: to a node that does not know the version of the seal once more, in an older one.
    async fn sealed(
        &self,
        from: Nonce,
        home: &Home,
        mut request: reqwest::Request,
    ) -> Result<reqwest::Response, reqwest::Error> {
        let url = home.url.as_deref().unwrap_or_default();
        let newest = Seal::newest();
        // While this program knows one version alone, nothing of this costs anything.
        let choice = self.seal.has_older(newest);
        let known = choice.then(|| self.older().get(&home.node).copied()).flatten();
        let version = known.unwrap_or(newest);
        let again = self.seal.has_older(version).then(|| request.try_clone()).flatten();
        self.seal.seal_in(version, from, url, &mut request);
        let answer = self.client.execute(request).await?;
        let older = self.seal.falls_back(version, answer.headers());
        let (Some(older), Some(mut again)) = (older, again) else { return Ok(answer) };
        tracing::info!(
            url,
            version = older,
            "a node knows only older versions of calls between nodes"
        );
        self.older().insert(home.node, older);
        self.seal.seal_in(older, from, url, &mut again);
        self.client.execute(again).await
    }

    fn older(&self) -> MutexGuard<'_, HashMap<Nonce, u8>> {
        self.older.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
