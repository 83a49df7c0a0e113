//! Turns errors into `application/problem+json` (RFC 9457). Only this module chooses their status codes.

mod refusals;

use actix_web::{
    HttpRequest, HttpResponse, ResponseError,
    http::{StatusCode, header},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{server::App, wire};
use crate::{
    lease::{Key, StoreError, View},
    manager::{AdminError, CallError, HolderError, Home, Invalid, SessionError},
};

/// How long a caller waits before it tries again, in milliseconds. Another node adopts a dead node's leases after some
/// seconds; earlier attempts cost little.
const HOME_RETRY_MS: u64 = 500;

/// The problem code for a forged header: one that only a node may send.
pub const FORGED: &str = "forged-header";

/// A problem document.
#[derive(Debug, Serialize, ToSchema)]
pub struct Problem {
    /// A name for the kind of problem.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind, for people.
    pub title: &'static str,
    /// The HTTP status code.
    pub status: u16,
    /// What happened, and what would help.
    pub detail: String,
    /// The kind, for programs; stable.
    pub code: &'static str,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// When it is worth trying again, in milliseconds, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The field that is at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// How the lease was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// The lease as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Box<wire::Lease>>,
    /// How many of the keys are in which state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<wire::Counts>,
    /// How many leases of its pool the session is to have, for a count of `fair`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<usize>,
    /// How many it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_by_session: Option<usize>,
    /// Where the lease is at home, when that is another node: ask there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The same, for this node.
    #[serde(skip)]
    home: Option<Box<Home>>,
    /// The request's own ids, where no handler puts them on the answer.
    #[serde(skip)]
    ids: Option<Box<header::HeaderMap>>,
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, title: &'static str, detail: String) -> Self {
        Self {
            kind: format!("urn:tenure:problem:{code}"),
            title,
            status: status.as_u16(),
            detail,
            code,
            retryable: false,
            retry_after_ms: None,
            field: None,
            reason: None,
            lease: None,
            counts: None,
            share: None,
            held_by_session: None,
            node: None,
            home: None,
            ids: None,
        }
    }

    /// A field whose value the API does not allow.
    pub fn field(field: &str, detail: impl std::fmt::Display) -> Self {
        let detail = format!("{field} {detail}");
        let title = "A field is not valid";
        Self {
            field: Some(field.into()),
            ..Self::new(StatusCode::BAD_REQUEST, "invalid-field", title, detail)
        }
    }

    /// A body or query that cannot be read.
    pub fn malformed(detail: String, field: Option<String>) -> Self {
        let title = "The request cannot be read";
        Self { field, ..Self::new(StatusCode::BAD_REQUEST, "malformed-request", title, detail) }
    }

    pub fn too_large(limit: usize) -> Self {
        let detail = format!("the body of this call is too large: the limit is {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", "The body is too large", detail)
    }

    pub fn too_slow(patience: std::time::Duration) -> Self {
        let detail = format!("the body did not arrive within {} s", patience.as_secs());
        let status = StatusCode::REQUEST_TIMEOUT;
        Self::new(status, "request-timeout", "The body did not arrive in time", detail).retry(0)
    }

    pub fn unknown_key(key: &Key) -> Self {
        let detail = format!("there is no record of a lease for {key:?}");
        Self::new(StatusCode::NOT_FOUND, "unknown-key", "The key is unknown", detail)
    }

    pub fn no_route(path: &str) -> Self {
        let detail = format!("{path} is not a path of this API; see /docs");
        Self::new(StatusCode::NOT_FOUND, "no-such-path", "No such path", detail)
    }

    pub fn wrong_method(method: &str, path: &str) -> Self {
        let detail = format!("{path} does not accept {method}; see /docs");
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Self::new(status, "method-not-allowed", "The path does not accept this method", detail)
    }

    pub fn unknown_host(host: &str) -> Self {
        let detail = format!(
            "this coordinator does not answer to the name {host:?}: use an IP address, localhost, \
             the name in node.advertise_url, or a name in server.hosts"
        );
        let status = StatusCode::MISDIRECTED_REQUEST;
        Self::new(status, "unknown-host", "The host is unknown", detail)
    }

    pub fn foreign_origin(origin: &str) -> Self {
        let detail = format!("a web page from {origin} may not call this coordinator");
        let title = "The page is from another origin";
        Self::new(StatusCode::FORBIDDEN, "foreign-origin", title, detail)
    }

    pub fn forged_header() -> Self {
        let detail = "headers that begin with x-tenure- are reserved for calls between coordinators of one store: \
                      this call does not come from one, was altered on its way, or is a repeat";
        let title = "A reserved header is not authentic";
        Self::new(StatusCode::BAD_REQUEST, FORGED, title, detail.into())
    }

    pub fn not_json() -> Self {
        let detail = "a browser must send content-type: application/json";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Self::new(status, "not-json", "The body is not declared as JSON", detail.into())
    }

    pub fn too_many_subscribers(limit: usize) -> Self {
        let detail = format!("there are {limit} subscribers, as many as limits.subscribers allows");
        let status = StatusCode::TOO_MANY_REQUESTS;
        Self::new(status, "too-many-subscribers", "Too many subscribers", detail).retry(1000)
    }

    pub fn too_many_bodies(limit: usize) -> Self {
        let detail =
            format!("the bodies of calls in progress take all {limit} bytes of limits.body_bytes");
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::new(status, "too-many-bodies", "There is no room for the body", detail).retry(1000)
    }

    pub fn too_many_connections() -> Self {
        let detail = "all the connections that server.max_connections allows are serving a call; the reserve is for \
                      probes, heartbeats and releases";
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let title = "There are too many connections";
        Self::new(status, "too-many-connections", title, detail.into()).retry(1000)
    }

    pub fn no_place_to_wait(limit: usize) -> Self {
        let detail = format!(
            "{limit} calls of this worker thread wait or stream, the limit of three quarters of its share of \
             server.max_connections; this call would have to wait"
        );
        let status = StatusCode::TOO_MANY_REQUESTS;
        Self::new(status, "busy", "Too many calls wait", detail).retry(1000)
    }

    fn retry(self, after_ms: u64) -> Self {
        Self { retryable: true, retry_after_ms: Some(after_ms), ..self }
    }

    pub fn store(error: &StoreError) -> Self {
        match error {
            StoreError::Full(_) => {
                let status = StatusCode::INSUFFICIENT_STORAGE;
                Self::new(status, "store-full", "The store is full", error.to_string()).retry(1000)
            }
            StoreError::TooManyKeys(_) | StoreError::PolicyFull { .. } => {
                let status = StatusCode::INSUFFICIENT_STORAGE;
                Self::new(status, "too-many-keys", "There are too many keys", error.to_string())
            }
            StoreError::TooManySessions(_) => {
                let status = StatusCode::INSUFFICIENT_STORAGE;
                let title = "There are too many sessions";
                Self::new(status, "too-many-keys", title, error.to_string())
            }
            StoreError::Unavailable(_) => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let title = "The store is unavailable";
                Self::new(status, "store-unavailable", title, error.to_string()).retry(1000)
            }
        }
    }

    /// What any operation can meet.
    pub fn call(error: &CallError) -> Self {
        let detail = error.to_string();
        match error {
            CallError::Invalid(invalid) => Self::invalid(invalid),
            CallError::Busy => {
                let status = StatusCode::TOO_MANY_REQUESTS;
                Self::new(status, "busy", "The key is busy", detail).retry(100)
            }
            CallError::Crowded => {
                let status = StatusCode::TOO_MANY_REQUESTS;
                Self::new(status, "busy", "The coordinator is busy", detail).retry(1000)
            }
            CallError::Quarantined(_) => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Self::new(status, "record-quarantined", "The key's record is quarantined", detail)
            }
            CallError::Store(error) => Self::store(error),
            CallError::Resting(span) => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let after = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
                Self::new(status, "key-resting", "The key is resting", detail).retry(after)
            }
            CallError::Draining => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Self::new(status, "draining", "The coordinator accepts no work", detail).retry(1000)
            }
            CallError::Elsewhere(home) => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let title = "The lease's home node cannot be reached";
                let problem =
                    Self::new(status, "home-unreachable", title, detail).retry(HOME_RETRY_MS);
                let node = home.url.as_deref().map(str::to_owned);
                Self { node, home: Some(Box::new(home.clone())), ..problem }
            }
            CallError::Lapsed => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let title = "The node may not promise for now";
                Self::new(status, "node-lapsed", title, detail).retry(HOME_RETRY_MS)
            }
            CallError::Frozen => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Self::new(status, "store-frozen", "The store is frozen", detail)
            }
            CallError::InFlight => {
                let status = StatusCode::CONFLICT;
                Self::new(status, "request-in-flight", "The request is in progress", detail)
                    .retry(100)
            }
            // The call may have had an effect: a caller that repeats it unchanged finds out.
            CallError::Unexpected => {
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                Self::new(status, "internal", "The coordinator has a fault", detail).retry(1000)
            }
        }
    }

    /// The node that serves a request id cannot be reached.
    pub fn server_unreachable(server: &Home) -> Self {
        let url = server.url.as_deref().unwrap_or_default();
        let detail = format!("{url} serves the calls with this request_id, and it does not answer");
        Self { detail, ..Self::call(&CallError::Elsewhere(server.clone())) }
    }

    /// The lease's home node, where that is another node.
    pub fn home(&self) -> Option<&Home> {
        self.home.as_deref()
    }

    pub fn invalid(invalid: &Invalid) -> Self {
        Self::field(invalid.field, &invalid.detail)
    }

    pub fn session(error: &SessionError) -> Self {
        match error {
            SessionError::Lost(lost) => {
                let reason = lost.as_str();
                let title = "The session is over";
                let detail = format!("the session no longer exists: {reason}");
                let problem = Self::new(StatusCode::CONFLICT, "session-lost", title, detail);
                Self { reason: Some(reason), ..problem }
            }
            SessionError::Call(error) => Self::call(error),
        }
    }

    pub fn unknown_pool(pool: &str, known: &[std::sync::Arc<str>]) -> Self {
        let detail = format!("no policy defines {pool:?}; the pools are {}", known.join(", "));
        Self::new(StatusCode::NOT_FOUND, "unknown-pool", "The pool is unknown", detail)
    }

    pub fn unknown_session() -> Self {
        let title = "There is no such session";
        let detail = "the session has ended or never existed";
        Self::new(StatusCode::NOT_FOUND, "unknown-session", title, detail.into())
    }

    pub fn holder(error: &HolderError, app: &App, key: &str) -> Self {
        match error {
            HolderError::KeptBySession(session) => {
                let title = "A session keeps the lease";
                let detail = format!(
                    "session {session} keeps this lease: send the session's heartbeat instead"
                );
                Self::new(StatusCode::CONFLICT, "kept-by-session", title, detail)
            }
            HolderError::Lost(lost) => {
                let reason = lost.as_str();
                let title = "You no longer hold the lease";
                let detail = format!("the tenure of this lease_id has ended: {reason}");
                let problem = Self::new(StatusCode::CONFLICT, "lease-lost", title, detail);
                Self { reason: Some(reason), ..problem }
            }
            HolderError::NotHolder(view) => {
                let title = "Another owner holds the lease";
                let detail = format!("this lease_id does not hold {key:?}");
                let lease =
                    Key::new(key).ok().map(|key| Box::new(wire::Lease::of(app, &key, view)));
                let problem = Self::new(StatusCode::CONFLICT, "not-holder", title, detail);
                Self { lease, ..problem }
            }
            HolderError::Call(error) => Self::call(error),
        }
    }

    pub fn admin(error: &AdminError, app: &App, key: Option<&Key>) -> Self {
        let lease = |view: &View| key.map(|key| Box::new(wire::Lease::of(app, key, view)));
        match error {
            AdminError::NotFencing(view) => {
                let title = "No fence is pending";
                let detail = "no fence of the key is waiting for confirmation";
                let problem = Self::new(StatusCode::CONFLICT, "not-fencing", title, detail.into());
                Self { lease: lease(view), ..problem }
            }
            AdminError::NotHeld(view) => {
                let title = "The lease is not held";
                let problem = Self::new(StatusCode::CONFLICT, "not-held", title, title.into());
                Self { lease: lease(view), ..problem }
            }
            AdminError::Pinned(view) => {
                let detail = format!(
                    "the lease is pinned by {}: unpin it, or send immediately: true",
                    view.pins.join(", ")
                );
                let problem =
                    Self::new(StatusCode::CONFLICT, "pinned", "The lease is pinned", detail);
                Self { lease: lease(view), ..problem }
            }
            AdminError::TooManyPins => Self::field("by", error),
            AdminError::Call(error) => Self::call(error),
        }
    }

    /// Keeps the request's own ids, for a problem that is answered before the request reaches a handler.
    pub fn answering(self, request: &HttpRequest) -> Self {
        let mut ids = header::HeaderMap::new();
        super::body::echo_request_id(request, &mut ids);
        Self { ids: (!ids.is_empty()).then(|| Box::new(ids)), ..self }
    }

    /// Builds the answer, with the request's own ids on it.
    pub fn respond(self, request: &HttpRequest) -> HttpResponse {
        let mut response = self.error_response();
        super::body::echo_request_id(request, response.headers_mut());
        response
    }
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
        if let Some(after) = self.retry_after_ms.filter(|_| self.retryable) {
            response.insert_header((header::RETRY_AFTER, after.div_ceil(1000)));
        }
        for (name, value) in self.ids.iter().flat_map(|ids| ids.iter()) {
            response.insert_header((name.clone(), value.clone()));
        }
        response.body(serde_json::to_vec(self).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_the_coordinator_is_told_as_such_and_may_be_repeated() {
        let problem = Problem::call(&CallError::Unexpected);
        assert_eq!((problem.status, problem.code, problem.retryable), (500, "internal", true));
    }
}
