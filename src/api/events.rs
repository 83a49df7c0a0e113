//! Ownership changes.

use serde::Serialize;
use utoipa::ToSchema;

/// Answer of `GET /v1/events` with `format=json`, a long poll.
#[derive(Debug, Serialize, ToSchema)]
pub struct EventsPage {
    /// Ownership events in CloudEvents form, oldest first.
    #[schema(value_type = Vec<Object>)]
    pub events: Vec<serde_json::Value>,
    /// The cursor for the `after` of the next poll.
    pub next: String,
    /// Whether events after `after` are missing, because they are no longer kept. List the leases, then continue from
    /// `next`.
    pub reset: bool,
    /// Whether there is more to read now, although this page may have no events: call again with `next` as `after`. A page
    /// looks at 5000 changes at most.
    pub more: bool,
}
