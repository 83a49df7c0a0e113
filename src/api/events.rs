//! Ownership changes.

use serde::Serialize;
use utoipa::ToSchema;

/// Answer of a long poll.
#[derive(Debug, Serialize, ToSchema)]
pub struct EventsPage {
    /// CloudEvents, oldest first.
    #[schema(value_type = Vec<Object>)]
    pub events: Vec<serde_json::Value>,
    /// `after` of the next poll.
    pub next: String,
    /// What followed `after` is no longer kept: look at the leases, then go on from `next`.
    pub reset: bool,
}
