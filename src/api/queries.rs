//! The queries of calls that read.

use serde::Deserialize;
use utoipa::IntoParams;

/// Query of `GET /v1/leases/{key}`.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LeaseQuery {
    /// 1 asks for the condition on which a write of the caller's own into the same store can depend; 0, the default,
    /// does not.
    #[param(maximum = 1)]
    pub gate: Option<u8>,
}

/// Query of `GET /v1/leases`.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// Lists only this key. 1 to 512 bytes, without control characters.
    #[param(min_length = 1, max_length = 512, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub key: Option<String>,
    /// Lists only keys that begin with this prefix.
    pub prefix: Option<String>,
    /// Lists only leases that this owner holds. 1 to 256 bytes, without control characters.
    #[param(min_length = 1, max_length = 256, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub owner: Option<String>,
    /// Lists only leases that the session with this digest keeps: 32 hexadecimal digits.
    #[param(pattern = "^[0-9a-f]{32}$")]
    pub session: Option<String>,
    /// Lists only keys of this pool.
    pub pool: Option<String>,
    /// Lists only keys in one of these states, separated by commas: `free`, `held`, `fencing`, `cooling` and `offered`.
    #[param(
        pattern = "^(free|held|fencing|cooling|offered)(,(free|held|fencing|cooling|offered))*$"
    )]
    pub state: Option<String>,
    /// The highest number of leases on the page: 1 to 1000, by default 100.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
    /// The `next` of the previous page. Lists only keys that sort after it.
    pub after: Option<String>,
    /// The `previous` of the next page. Lists the last keys that sort before it. Not together with `after`.
    pub before: Option<String>,
}

/// Query of `GET /v1/sessions`.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SessionsQuery {
    /// Lists only sessions of this owner. 1 to 256 bytes, without control characters.
    #[param(min_length = 1, max_length = 256, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub owner: Option<String>,
    /// The highest number of sessions on the page: 1 to 1000, by default 100.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
    /// The `next` of the previous page. Lists only sessions whose digest sorts after it.
    #[param(pattern = "^[0-9a-f]{32}$")]
    pub after: Option<String>,
}

/// Query of `GET /v1/events`.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// Sends only events of keys that begin with this prefix.
    pub prefix: Option<String>,
    /// Sends only events in which this owner is the previous or the new one.
    pub owner: Option<String>,
    /// Sends only events of keys that now belong to this pool.
    pub pool: Option<String>,
    /// Sends only events of these short types, separated by commas, such as `granted,expired`.
    pub types: Option<String>,
    /// The cursor after which the events begin. `0` stands for the oldest event that is kept. Without a cursor, the
    /// events begin now.
    pub after: Option<String>,
    /// `sse`, the default, for server-sent events; `json` for a long poll.
    #[param(pattern = "^(sse|json)$")]
    pub format: Option<String>,
    /// How long a long poll waits for the first event, in milliseconds: 0 to 60 000, by default 0.
    #[param(maximum = 60000)]
    pub wait_ms: Option<u64>,
    /// The least time between two deliveries of a stream, in milliseconds: 0 to 500, by default 0. Events that happen in
    /// between come together, so many events cost less.
    #[param(maximum = 500)]
    pub pace_ms: Option<u64>,
}

/// Query of `GET /v1/pools/{pool}/assignment`.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AssignmentQuery {
    /// The `next` of the previous page.
    pub after: Option<String>,
    /// The most keys of a page: 1 to 10 000, by default 10 000.
    #[param(minimum = 1, maximum = 10000)]
    pub limit: Option<usize>,
}

/// Query of `GET /v1/pools/{pool}/assignment/changes`.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RoutesQuery {
    /// The `cursor` of the assignment, or the id of the last event. Without it, the changes begin now.
    pub after: Option<String>,
}

/// Query of `GET /v1/status/series`.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SeriesQuery {
    /// The length of a slice: `1m`, the default, for the last hour; `5s` for the last five minutes.
    #[param(pattern = "^(1m|5s)$")]
    pub step: Option<String>,
}

/// Query of `GET /v1/top`.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TopQuery {
    /// How far to look back: `1m`, `10m` or `60m`, by default `10m`.
    #[param(pattern = "^(1m|10m|60m)$")]
    pub window: Option<String>,
    /// What to count: `keys`, the default, `owners` or `pools`.
    #[param(pattern = "^(keys|owners|pools)$")]
    pub by: Option<String>,
    /// Counts only changes of this cause: a short type of events, such as `expired`.
    pub cause: Option<String>,
    /// Counts only keys that begin with this prefix. Only with `by=keys`.
    pub prefix: Option<String>,
    /// The highest number of rows: 1 to 100, by default 20.
    #[param(minimum = 1, maximum = 100)]
    pub limit: Option<usize>,
}

/// Query of `GET /v1/history`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HistoryQuery {
    /// The key. 1 to 512 bytes, without control characters.
    #[param(min_length = 1, max_length = 512, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub key: String,
    /// The highest number of events: 1 to 1000, by default 40.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
}
