//! Which calls the audit log has, and what it says of them.
//!
//! Guarantees: no line has a session id, a lease id or a query. A call that is an administrator's order has a line
//! even if its caller leaves before there is an answer.

use std::sync::Arc;

use actix_web::{
    HttpMessage as _, HttpRequest, HttpResponse,
    dev::ServiceResponse,
    http::{Method, header::HeaderValue},
};

use crate::{
    api::Code,
    http::{
        answer::{Problem, ProblemCode},
        caller::Caller,
        peer::{FORWARDED_FOR, was_forwarded},
        percent::path_of,
    },
    telemetry::audit::{
        Acting, AuditEntry, AuditEvent, AuditLog, Ordered, Subject, Unkept, bounded,
    },
};

/// The beginning of the paths of administrators' calls.
const ADMIN: &str = "/v1/admin/";
/// The paths whose reads show what all callers hold.
const READS: [&str; 5] = ["/v1/leases", "/v1/sessions", "/v1/nodes", "/v1/pools", "/v1/events"];
/// The length from which a segment of hexadecimal digits counts as a secret.
const SECRET_DIGITS: usize = 32;

/// Records a call when it has its answer.
pub struct Recording {
    log: Arc<AuditLog>,
    /// The line of a call that has one whatever its answer is.
    entry: Option<AuditEntry>,
}

impl Recording {
    /// Follows a call that the door admits.
    pub fn of(log: &Arc<AuditLog>, request: &HttpRequest) -> Self {
        let entry = event(request.method(), path_of(request)).map(|event| entry(event, request));
        Self { log: log.clone(), entry }
    }

    /// The call has its answer.
    pub fn answered<B>(mut self, response: &ServiceResponse<B>) {
        let (request, response) = (response.request(), response.response());
        let is_refused = refuses(response);
        let mut line = match self.entry.take() {
            Some(line) => line,
            None if is_refused => entry(AuditEvent::Refused, request),
            None => return,
        };
        if is_refused {
            line.event = AuditEvent::Refused;
        }
        line.principal = principal(request);
        describe(&mut line, request);
        finish(&mut line, response);
        self.log.record(line);
    }
}

/// An order may have been carried out although its caller left.
impl Drop for Recording {
    fn drop(&mut self) {
        if let Some(line) = self.entry.take() {
            self.log.record(line);
        }
    }
}

/// Records a call that the door refuses.
pub fn refused<B>(log: &AuditLog, request: &HttpRequest, response: &HttpResponse<B>) {
    let mut line = entry(AuditEvent::Refused, request);
    line.principal = principal(request);
    finish(&mut line, response);
    log.record(line);
}

/// Writes that an order is about to be carried out, where the log must have a line of each order.
///
/// # Errors
/// The line cannot be kept. The order must not be carried out.
pub async fn intends(log: &AuditLog, request: &HttpRequest) -> Result<(), Problem> {
    if !log.is_required() {
        return Ok(());
    }
    let mut line = entry(AuditEvent::Intent, request);
    line.principal = principal(request);
    describe(&mut line, request);
    log.intend(line).await.map_err(|Unkept| Problem::unaudited())
}

/// Adds the subject, the action and the reason that the body names.
fn describe(line: &mut AuditEntry, request: &HttpRequest) {
    let extensions = request.extensions();
    if let Some(subject) = extensions.get::<Subject>() {
        line.about(subject);
    }
    if let Some(ordered) = extensions.get::<Ordered>() {
        line.orders(ordered);
    }
}

/// The name of the principal that makes the call, if it is known.
fn principal(request: &HttpRequest) -> Option<Arc<str>> {
    let extensions = request.extensions();
    match extensions.get::<Caller>().and_then(Caller::account) {
        Some(principal) => Some(principal.name.clone()),
        None => extensions.get::<Acting>().map(|acting| acting.0.clone()),
    }
}

fn finish<B>(line: &mut AuditEntry, response: &HttpResponse<B>) {
    line.status = Some(response.status().as_u16());
    line.code = code(response);
}

fn code<B>(response: &HttpResponse<B>) -> Option<&'static str> {
    response.extensions().get::<ProblemCode>().map(|code| code.0)
}

/// Whether an answer turns a call away because of where it came from or who made it.
fn refuses<B>(response: &HttpResponse<B>) -> bool {
    let by_code = [Code::ForgedHeader, Code::NotJson];
    matches!(response.status().as_u16(), 401 | 403 | 421)
        || code(response).is_some_and(|code| by_code.iter().any(|by| by.as_str() == code))
}

/// Why a call has a line, whatever its answer is.
fn event(method: &Method, path: &str) -> Option<AuditEvent> {
    if path.starts_with(ADMIN) && method != Method::GET && method != Method::HEAD {
        return Some(AuditEvent::Change);
    }
    let reads = (method == Method::GET || method == Method::HEAD) && READS.contains(&path);
    reads.then_some(AuditEvent::Read)
}

fn entry(event: AuditEvent, request: &HttpRequest) -> AuditEntry {
    let peer = request.peer_addr();
    let asked = request.headers().get(FORWARDED_FOR).filter(|_| was_forwarded(request));
    let asked = asked.and_then(|asked: &HeaderValue| asked.to_str().ok());
    let path = path_of(request);
    AuditEntry {
        event,
        principal: None,
        peer: asked.map(bounded).or_else(|| peer.map(|peer| peer.to_string())),
        method: bounded(request.method().as_str()),
        path: bounded(&masked(path)),
        verb: verb(request.method(), path),
        key: path.strip_prefix("/v1/leases/").map(bounded),
        prefix: None,
        owner: None,
        pool: None,
        action: None,
        reason: None,
        code: None,
        status: None,
        forwarded_by: peer.filter(|_| was_forwarded(request)),
    }
}

/// A path without session ids, which are secrets, and without anything that looks like a secret.
fn masked(path: &str) -> String {
    let mut after_sessions = false;
    let segment = |segment: &str| {
        let digits =
            segment.len() >= SECRET_DIGITS && segment.bytes().all(|b| b.is_ascii_hexdigit());
        let hides = digits || (after_sessions && !segment.is_empty());
        after_sessions = segment == "sessions";
        if hides { "{id}".to_owned() } else { segment.to_owned() }
    };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// What a call does.
fn verb(method: &Method, path: &str) -> &'static str {
    const LAST: [&str; 27] = [
        "revoke",
        "pin",
        "unpin",
        "drain",
        "fence-skip",
        "fence-retry",
        "forget",
        "heartbeat",
        "heartbeats",
        "acquire",
        "acquire-any",
        "release",
        "releases",
        "transfer",
        "check",
        "events",
        "info",
        "nodes",
        "status",
        "series",
        "top",
        "history",
        "livez",
        "readyz",
        "metrics",
        "pools",
        "stream",
    ];
    let last = path.rsplit('/').next().unwrap_or_default();
    let is_read = method == Method::GET || method == Method::HEAD;
    match LAST.iter().find(|verb| **verb == last && !path.starts_with("/v1/leases/")) {
        Some(verb) => verb,
        None if READS.contains(&path) && is_read => "list",
        None if path == "/v1/admin/pool" => "order",
        None if path == "/v1/admin/access" => "order",
        None if path == "/v1/sessions" => "open",
        None if path.starts_with("/v1/sessions/") && method == Method::DELETE => "close",
        None if is_read => "get",
        None => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_shows_an_id() {
        let id = "0123456789abcdef".repeat(4);
        for (path, shown) in [
            (format!("/v1/sessions/{id}/heartbeat"), "/v1/sessions/{id}/heartbeat"),
            (format!("/v1/sessions/{}", &id[..7]), "/v1/sessions/{id}"),
            (format!("/v1//sessions//{id}"), "/v1//sessions//{id}"),
            (format!("/elsewhere/{}", &id[..32]), "/elsewhere/{id}"),
            ("/v1/leases/jobs/1".to_owned(), "/v1/leases/jobs/1"),
        ] {
            assert_eq!(masked(&path), shown);
        }
    }

    #[test]
    fn orders_and_reads_of_everything_have_a_line() {
        let of = |method: &str, path: &str| event(&method.parse().expect("a method"), path);
        for verb in ["revoke", "pin", "unpin", "drain", "fence-skip", "fence-retry", "forget"] {
            let path = format!("/v1/admin/{verb}");
            assert_eq!(of("POST", &path), Some(AuditEvent::Change));
            assert_eq!(super::verb(&Method::POST, &path), verb);
        }
        for path in READS {
            assert_eq!(of("GET", path), Some(AuditEvent::Read), "{path}");
            assert_eq!(of("HEAD", path), Some(AuditEvent::Read), "{path}");
        }
        for (method, path) in [
            ("GET", "/v1/leases/k"),
            ("POST", "/v1/acquire"),
            ("POST", "/v1/sessions"),
            ("GET", "/metrics"),
        ] {
            assert_eq!(of(method, path), None, "{method} {path}");
        }
        assert_eq!(super::verb(&Method::GET, "/v1/leases"), "list");
        assert_eq!(super::verb(&Method::GET, "/v1/leases/a/metrics"), "get");
        assert_eq!(super::verb(&Method::POST, "/v1/sessions"), "open");
    }
}
