//! The answer to a request that fails: `application/problem+json` (RFC 9457).
//!
//! The problems of a request itself are here. `views/refusals.rs` has those of the operations.

use actix_web::{
    HttpRequest, HttpResponse, ResponseError,
    http::{StatusCode, header},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::ids::echo_request_id;
use crate::{
    api::{self, Code},
    lease::Key,
    manager::Home,
};

/// The code of a problem document, among the extensions of the answer that has it.
#[derive(Clone, Copy, Debug)]
pub struct ProblemCode(pub &'static str);

/// A problem document (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
pub struct Problem {
    /// The kind of problem as a URN: `urn:tenure:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of problem in a few words, for people.
    pub title: &'static str,
    /// The HTTP status code.
    pub status: u16,
    /// What happened and what helps, for people.
    pub detail: String,
    /// The stable name of the kind of problem, for programs.
    pub code: &'static str,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// How long to wait before the next attempt, in milliseconds, if the coordinator knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The field or parameter that is not valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// How the lease or the session was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// The lease that is in the way, as it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Box<api::Lease>>,
    /// The number of keys of the acquire-any in each state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<api::Counts>,
    /// How many leases of its pool the session should hold, if the call asked for `fair`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<usize>,
    /// How many leases of its pool the session holds, if the call asked for `fair`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_by_session: Option<usize>,
    /// The URL of the home node that must be asked, if that is another node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The home node that must be asked, if that is another node.
    #[serde(skip)]
    pub(in crate::http) home: Option<Box<Home>>,
    /// Whether the connection ends with the answer.
    #[serde(skip)]
    pub(in crate::http) closes: bool,
    /// The request's own ids, if no handler adds them to the answer.
    #[serde(skip)]
    pub(in crate::http) ids: Option<Box<header::HeaderMap>>,
}

impl Problem {
    /// A problem of this kind. Its table says whether the same request may succeed later.
    pub fn of(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:tenure:problem:{}", code.as_str()),
            title: code.title(),
            status: code.status(),
            detail: detail.into(),
            code: code.as_str(),
            retryable: code.is_retryable(),
            retry_after_ms: None,
            field: None,
            reason: None,
            lease: None,
            counts: None,
            share: None,
            held_by_session: None,
            node: None,
            home: None,
            closes: false,
            ids: None,
        }
    }

    /// A field whose value the API does not allow.
    pub fn field(field: &str, detail: impl std::fmt::Display) -> Self {
        let problem = Self::of(Code::InvalidField, format!("{field} {detail}"));
        Self { field: Some(field.into()), ..problem }
    }

    /// A body or query that cannot be read.
    pub fn malformed(detail: String, field: Option<String>) -> Self {
        Self { field, ..Self::of(Code::MalformedRequest, detail) }
    }

    pub fn too_large(limit: usize) -> Self {
        let detail = format!("the body of this call is too large: the limit is {limit} bytes");
        Self::of(Code::BodyTooLarge, detail)
    }

    pub fn too_slow(patience: std::time::Duration) -> Self {
        let detail = format!("the body did not arrive within {} s", patience.as_secs());
        Self::of(Code::RequestTimeout, detail).retry(0)
    }

    pub fn unknown_key(key: &Key) -> Self {
        Self::of(Code::UnknownKey, format!("there is no record of a lease for {key:?}"))
    }

    pub fn no_route(path: &str) -> Self {
        Self::of(Code::NoSuchPath, format!("{path} is not a path of this API; see /docs"))
    }

    pub fn wrong_method(method: &str, path: &str) -> Self {
        let detail = format!("{path} does not accept {method}; see /docs");
        Self::of(Code::MethodNotAllowed, detail)
    }

    pub fn unknown_host(host: &str) -> Self {
        let detail = format!(
            "this coordinator does not answer to the name {host:?}: use an IP address, localhost, \
             the name in node.advertise_url, or a name in server.hosts"
        );
        Self::of(Code::UnknownHost, detail)
    }

    pub fn foreign_origin(origin: &str) -> Self {
        let detail = format!("a web page from {origin} may not call this coordinator");
        Self::of(Code::ForeignOrigin, detail)
    }

    pub fn forged_header() -> Self {
        let detail = "headers that begin with x-tenure- are reserved for calls between coordinators of one store: \
                      this call does not come from one, was altered on its way, or is a repeat";
        Self::of(Code::ForgedHeader, detail)
    }

    /// The answer to a caller that shows nothing, and the same to one that shows what is not valid.
    pub fn unauthenticated() -> Self {
        let detail = "this coordinator asks who calls: send a token that its access file knows, that has not \
                      expired and is not revoked (authorization: Bearer tnr_…), or use a client certificate that it knows";
        Self::of(Code::Unauthenticated, detail)
    }

    /// The access file changed while the call waited.
    pub fn removed(name: &str) -> Self {
        let detail = format!(
            "the access file has another entry for {name:?} now, or none, or {name:?} or its credential is revoked"
        );
        Self::of(Code::Unauthenticated, detail)
    }

    /// The principal's last day ended while the call waited, or the JWT or certificate that it showed no longer holds.
    pub fn ended(name: &str) -> Self {
        let detail = format!(
            "the last day of {name:?} in the access file is over, or the JWT or the certificate that the caller showed \
             no longer holds: call again with another one"
        );
        Self::of(Code::Unauthenticated, detail)
    }

    /// The audit log cannot keep the line of an order, and `audit.required` is set.
    pub fn unaudited() -> Self {
        let detail = "nothing was done: the audit log of this node cannot keep the line of this order, and \
                      audit.required is set. Free the disk of audit.file, or look into the log of the node"
            .to_owned();
        Self::of(Code::AuditUnavailable, detail).retry(1000)
    }

    /// The access file of the home node lacks a principal that another node knows.
    pub fn unknown_here(name: &str) -> Self {
        let detail = format!(
            "the lease's home node does not know the principal {name:?}: give all nodes the same access file"
        );
        Self::of(Code::Forbidden, detail)
    }

    /// A right that a known caller lacks, such as "hold" and "for the key k".
    pub fn no_right(name: &str, verb: &str, what: &str) -> Self {
        let detail = format!("the principal {name:?} has no right \"{verb}\" {what}");
        Self::of(Code::Forbidden, detail)
    }

    /// A principal uses as much as its limit in the access file says.
    pub fn over_limit(name: &str, limit: &str, most: u32) -> Self {
        let detail =
            format!("the principal {name:?} is at its limit `{limit}`: at most {most} at a time");
        Self::of(Code::LimitReached, detail).retry(1000)
    }

    /// A principal has as many connections as it may. This one ends with the answer.
    pub fn over_connections(name: &str, most: u32) -> Self {
        Self { closes: true, ..Self::over_limit(name, "connections", most) }
    }

    /// A principal calls more often than its limit in the access file says.
    pub fn over_rate(name: &str, rate: u32, pause: std::time::Duration) -> Self {
        let detail =
            format!("the principal {name:?} uses its rate: at most {rate} calls per second");
        Self::of(Code::RateLimited, detail).retry(millis(pause))
    }

    /// Callers without a principal, who have this address in common, call more often than the setting says.
    pub fn over_rate_per_address(rate: u32, pause: std::time::Duration) -> Self {
        let detail = format!(
            "the callers at this address use limits.rate_per_address: at most {rate} calls per second"
        );
        Self::of(Code::RateLimited, detail).retry(millis(pause))
    }

    pub fn not_its_owner(name: &str, owner: &str) -> Self {
        let detail = format!("the principal {name:?} does not act for the owner {owner:?}");
        Self::of(Code::Forbidden, detail)
    }

    pub fn not_json() -> Self {
        Self::of(Code::NotJson, "a browser must send content-type: application/json")
    }

    pub fn too_many_subscribers(limit: usize) -> Self {
        let detail = format!("there are {limit} subscribers, as many as limits.subscribers allows");
        Self::of(Code::TooManySubscribers, detail).retry(1000)
    }

    pub fn too_many_streams(limit: usize) -> Self {
        let detail = format!("{limit} streams are open, as many as limits.streams allows");
        Self { title: "Too many streams", ..Self::of(Code::Busy, detail).retry(1000) }
    }

    pub fn too_many_calls(limit: usize) -> Self {
        let detail = format!(
            "{limit} calls of this stream are in flight, as many as limits.stream_calls allows; heartbeats and releases \
             have as many again"
        );
        Self { title: "Too many calls in flight", ..Self::of(Code::Busy, detail).retry(100) }
    }

    pub fn too_many_bodies(limit: usize) -> Self {
        let detail =
            format!("the bodies of calls in progress take all {limit} bytes of limits.body_bytes");
        Self::of(Code::TooManyBodies, detail).retry(1000)
    }

    /// A caller whose bodies take its whole share of the bytes for bodies.
    pub fn too_many_bodies_of(caller: &str, share: usize) -> Self {
        let detail = format!(
            "the bodies of calls in progress of {caller} take all {share} bytes that one caller may have of \
             limits.body_bytes"
        );
        Self::of(Code::TooManyBodies, detail).retry(1000)
    }

    pub fn too_many_connections() -> Self {
        let detail = "all the connections that server.max_connections allows are serving a call; the reserve is for \
                      probes, heartbeats and releases";
        Self::of(Code::TooManyConnections, detail).retry(1000)
    }

    /// The refusal of a call that is shed, with the pause after which the caller should try again.
    pub fn overloaded(is_late: bool, pause: std::time::Duration) -> Self {
        let why = if is_late {
            "its HTTP worker thread runs late by more than limits.shed_lag"
        } else {
            "more writes wait for the store than limits.shed_writes allows"
        };
        let detail = format!(
            "the coordinator has too much to do ({why}): it serves heartbeats and releases, and refuses new acquires, \
             sessions, lists and event streams for now"
        );
        Self::of(Code::Overloaded, detail).retry(millis(pause))
    }

    pub fn no_place_to_wait(limit: usize) -> Self {
        let detail = format!(
            "this call would have to wait, and {limit} calls of this worker thread already wait or stream: the limit \
             is three quarters of the thread's share of server.max_connections"
        );
        let problem = Self::of(Code::Busy, detail).retry(1000);
        Self { title: "Too many calls wait", ..problem }
    }

    pub(in crate::http) fn retry(self, after_ms: u64) -> Self {
        Self { retryable: true, retry_after_ms: Some(after_ms), ..self }
    }

    /// Without what only callers with the right to read the key may know.
    pub fn concealed(self) -> Self {
        let Some(code) = Code::named(self.code).filter(|_| self.lease.is_some()) else {
            return self;
        };
        let of_another = matches!(code, Code::Held | Code::Cooling | Code::Fencing);
        let code = if of_another { Code::Held } else { code };
        Self { field: self.field, ..Self::of(code, code.title()) }
    }

    /// The refusal of a call that was not let wait, as no more calls may wait: `full` if it would have waited.
    pub fn unless_waiting(self, full: Self) -> Self {
        let code = Code::named(self.code);
        let waits = [Code::Held, Code::Cooling, Code::Fencing, Code::NoneAvailable]
            .map(Some)
            .contains(&code);
        if waits || self.home.is_some() { full } else { self }
    }

    /// Without what is known of keys that were tried: how many there are, their states, and when one ends.
    pub fn uncounted(self) -> Self {
        if self.code != Code::NoneAvailable.as_str() {
            return self;
        }
        let detail = Code::NoneAvailable.title().to_owned();
        Self { detail, counts: None, retry_after_ms: None, ..self }
    }

    /// How long to wait before the next attempt, in whole seconds.
    pub fn retry_after(&self) -> Option<u64> {
        self.retry_after_ms.filter(|_| self.retryable).map(|after| after.div_ceil(1000))
    }

    /// The lease's home node, where that is another node.
    pub fn home(&self) -> Option<&Home> {
        self.home.as_deref()
    }

    /// Keeps the request's own ids, for a problem that is answered before the request reaches a handler.
    pub fn answering(self, request: &HttpRequest) -> Self {
        let mut ids = header::HeaderMap::new();
        echo_request_id(request, &mut ids);
        Self { ids: (!ids.is_empty()).then(|| Box::new(ids)), ..self }
    }

    /// Builds the answer, with the request's own ids on it.
    pub fn respond(self, request: &HttpRequest) -> HttpResponse {
        let mut response = self.error_response();
        echo_request_id(request, response.headers_mut());
        response
    }
}

/// A pause in milliseconds, rounded up.
fn millis(pause: std::time::Duration) -> u64 {
    u64::try_from(pause.as_nanos().div_ceil(1_000_000)).unwrap_or(1000)
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.detail)
    }
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        response.insert_header((header::CONTENT_TYPE, "application/problem+json"));
        response.insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"));
        if self.status == StatusCode::UNAUTHORIZED.as_u16() {
            response.insert_header((header::WWW_AUTHENTICATE, "Bearer"));
        }
        if let Some(after) = self.retry_after() {
            response.insert_header((header::RETRY_AFTER, after));
        }
        for (name, value) in self.ids.iter().flat_map(|ids| ids.iter()) {
            response.insert_header((name.clone(), value.clone()));
        }
        let mut response = response.body(serde_json::to_vec(self).unwrap_or_default());
        response.extensions_mut().insert(ProblemCode(self.code));
        response
    }
}
