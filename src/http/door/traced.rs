//! The span of a call that is traced.
//!
//! Guarantees: the span has the path as the API declares it, never as it was sent: that may have a session id.

use std::sync::Arc;

use actix_web::{
    HttpMessage as _, HttpRequest,
    dev::ServiceResponse,
    http::{Method, header::HeaderName},
};

use super::classes::is_routes;
use crate::{
    http::{answer::ProblemCode, percent::path_of},
    telemetry::{
        audit::Subject,
        trace::{Span, Tracer},
    },
};

const PARENT: HeaderName = HeaderName::from_static("traceparent");
const STATE: HeaderName = HeaderName::from_static("tracestate");

/// The span of a call, if the call is traced.
pub fn begin(tracer: &Arc<Tracer>, request: &HttpRequest) -> Option<Box<Span>> {
    let headers = request.headers();
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    // Of two parents, neither counts.
    let parent = text(&PARENT).filter(|_| headers.get_all(&PARENT).nth(1).is_none());
    let state = parent.and_then(|_| text(&STATE));
    let may_begin = may_begin(request.method(), path_of(request));
    Span::of_call(tracer, parent, state, may_begin).map(Box::new)
}

/// Whether a call may be the first one of a trace. Heartbeats come too often to tell anything, streams last too long,
/// and probes and pages are of no lease.
fn may_begin(method: &Method, path: &str) -> bool {
    let beats = method == Method::POST
        && ["/heartbeat", "/heartbeats"].iter().any(|end| path.ends_with(end));
    path.starts_with("/v1/")
        && !beats
        && !is_routes(path)
        && !matches!(path, "/v1/stream" | "/v1/events")
}

/// The call has its answer.
pub fn answered<B>(mut span: Span, response: &ServiceResponse<B>) {
    let (request, status) = (response.request(), response.status());
    let (trace, method) = (span.trace().clone(), request.method().as_str());
    trace.note("http.request.method", method);
    trace.note("http.response.status_code", u64::from(status.as_u16()));
    if let Some(ProblemCode(code)) = response.response().extensions().get::<ProblemCode>() {
        trace.note("tenure.code", *code);
    }
    match request.extensions().get::<Subject>() {
        Some(Subject::Key(key)) => trace.note("tenure.key", key.as_str()),
        Some(Subject::Owner(owner)) => trace.note("tenure.owner", owner.as_str()),
        Some(Subject::Prefix(_) | Subject::Pool(_)) | None => {}
    }
    match request.match_pattern() {
        Some(route) => {
            trace.note("http.route", &*route);
            span.rename(format!("{method} {route}"));
        }
        None => span.rename(method.to_owned()),
    }
    if status.is_server_error() {
        span.fail();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_begins_no_trace() {
        let begins = |method: &str, path: &str| may_begin(&method.parse().expect("a method"), path);
        for path in ["/v1/acquire", "/v1/acquire-any", "/v1/releases", "/v1/admin/revoke"] {
            assert!(begins("POST", path), "{path}");
        }
        assert!(begins("GET", "/v1/leases/a/heartbeat"));
        for path in ["/v1/heartbeat", "/v1/heartbeats", "/v1/sessions/0123/heartbeat"] {
            assert!(!begins("POST", path), "{path}");
        }
        for path in ["/v1/stream", "/v1/events", "/metrics", "/livez", "/"] {
            assert!(!begins("GET", path), "{path}");
        }
    }
}
