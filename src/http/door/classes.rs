//! Which calls are shed when there is too much load.
//!
//! Guarantees: no call that keeps or ends a lease or a session is ever shed, and no probe, check, look at one thing or
//! order of an administrator. `openapi/tests.rs` holds this table against all operations.

use actix_web::http::Method;

use crate::telemetry::ShedClass;

/// The class of a call that is shed; `None` for a call that is always served.
pub fn class(method: &Method, path: &str) -> Option<ShedClass> {
    let is_get = method == Method::GET || method == Method::HEAD;
    match path {
        "/v1/acquire" | "/v1/acquire-all" | "/v1/acquire-any" => Some(ShedClass::Acquire),
        "/v1/sessions" if method == Method::POST => Some(ShedClass::Session),
        "/v1/leases" | "/v1/sessions" | "/v1/pools" if is_get => Some(ShedClass::List),
        "/v1/events" if is_get => Some(ShedClass::Stream),
        _ if path.starts_with("/v1/pools/") && path.ends_with("/assignment") => {
            Some(ShedClass::List)
        }
        _ if is_routes(path) => Some(ShedClass::Stream),
        _ => None,
    }
}

/// Whether it is the path of a stream of routes.
pub fn is_routes(path: &str) -> bool {
    path.starts_with("/v1/pools/") && path.ends_with("/assignment/changes")
}
