//! Ownership changes.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Query of `GET /v1/events`.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// Only keys that start so.
    pub prefix: Option<String>,
    /// Only changes from or to this owner.
    pub owner: Option<String>,
    /// Only changes of keys that are of this pool now.
    pub pool: Option<String>,
    /// Only these short types, separated by commas.
    pub types: Option<String>,
    /// The cursor after which to begin; `0` is the beginning of what is kept. Without one, now.
    pub after: Option<String>,
    /// `json` for a long poll.
    #[param(pattern = "^(sse|json)$")]
    pub format: Option<String>,
    /// How long a long poll waits for the first event, at most 60 000.
    #[param(maximum = 60000)]
    pub wait_ms: Option<u64>,
}

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
