//! The queries of calls that read.

use serde::Deserialize;
use utoipa::IntoParams;

/// Query of `GET /v1/leases/{key}`.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LeaseQuery {
    /// `1`: with the condition on which a write of one's own into the same store can be gated.
    #[param(maximum = 1)]
    pub gate: Option<u8>,
}

/// Query of `GET /v1/leases`.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// Only this key.
    #[param(min_length = 1, max_length = 512, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub key: Option<String>,
    /// Only keys that start so.
    pub prefix: Option<String>,
    /// Only leases of this owner.
    #[param(min_length = 1, max_length = 256, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub owner: Option<String>,
    /// Only leases that the session of this digest keeps.
    #[param(pattern = "^[0-9a-f]{32}$")]
    pub session: Option<String>,
    /// Only leases of this pool.
    pub pool: Option<String>,
    /// Only leases in this state: `free`, `held`, `fencing`, `cooling` or `offered`.
    #[param(pattern = "^(free|held|fencing|cooling|offered)$")]
    pub state: Option<String>,
    /// At most so many: 1 to 1000, by default 100.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
    /// Only keys that sort after this: the `next` of the page before.
    pub after: Option<String>,
}

/// Which sessions are listed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SessionsQuery {
    /// Only those of this owner.
    #[param(min_length = 1, max_length = 256, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub owner: Option<String>,
    /// At most so many; 100 unless said otherwise, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
    /// The `next` of the page before.
    #[param(pattern = "^[0-9a-f]{32}$")]
    pub after: Option<String>,
}

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
