//! Builds the OpenAPI document from the code.

mod bounds;
mod examples;
mod links;
mod problems;
#[cfg(test)]
mod tests;

use utoipa::OpenApi;

use self::{bounds::Bounds, examples::Examples, links::Links, problems::Problems};
use super::handlers::{
    access, acquire, acquire_all, acquire_any, admin, assignment, events, fences, heartbeats,
    leases, pools, releases, service, sessions, status, stream,
};

#[derive(OpenApi)]
#[openapi(
    modifiers(&Bounds, &Problems, &Links, &Examples),
    info(
        title = "tenure",
        description = "Leases with fencing tokens. Durations are integer milliseconds in `*_ms` fields; \
                       instants are RFC 3339 and for people only. The examples tell one story: an id or a token that \
                       an answer shows stands in later requests. Characters that are not seen are controls, \
                       those without width, line separators and changes of text direction.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    tags(
        (name = "leases", description = "Take, keep and give back leases"),
        (name = "sessions", description = "One heartbeat for many leases"),
        (name = "events", description = "Follow ownership changes"),
        (name = "stream", description = "One WebSocket for all calls of a worker"),
        (name = "admin", description = "Orders of administrators"),
        (name = "service", description = "Probes and information"),
    ),
    paths(
        acquire::acquire, acquire_all::acquire_all, acquire_any::acquire_any, heartbeats::heartbeat, heartbeats::heartbeats,
        releases::release, releases::releases, releases::transfer, leases::check, leases::get,
        leases::list, leases::history, events::events, stream::stream, admin::revoke, admin::pin, admin::unpin, admin::drain, pools::order, access::order, access::list,
        fences::fence_skip, fences::fence_retry, admin::forget, sessions::open, sessions::list, sessions::get, sessions::close,
        sessions::heartbeat, pools::list, pools::get, pools::plan, assignment::get, assignment::changes, sessions::drain,
        status::status, status::series, status::top,
        service::livez, service::readyz, service::metrics, service::info, service::nodes,
    ),
)]
struct Document;

/// The document that `/openapi.json` serves and that the repository contains.
#[must_use]
pub fn document() -> utoipa::openapi::OpenApi {
    Document::openapi()
}
