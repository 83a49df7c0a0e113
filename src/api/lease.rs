//! The public view of a lease, and lists of leases.

use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

/// The public view of a lease.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Lease {
    /// The key, which names what is leased.
    pub key: String,
    /// `free`; `held`; `offered`: reserved for one owner; `cooling`: closed by a lock-delay; `fencing`: closed until a
    /// fence is confirmed.
    pub state: &'static str,
    /// The owner that holds the lease; null if nobody does.
    pub owner: Option<String>,
    /// The fencing token of the current tenure, or of the last one; 0 before the first.
    pub token: u64,
    /// How long a grant or a heartbeat keeps the lease, in milliseconds; null if nobody holds the lease.
    pub ttl_ms: Option<u64>,
    /// Milliseconds until the state ends if nothing happens. Null if it does not end by itself, or if only the home
    /// node knows.
    pub expires_in_ms: Option<u64>,
    /// When the current tenure began, in RFC 3339 form. For people only.
    pub acquired_at: Option<String>,
    /// The digest of the session that keeps the lease; null if none does.
    pub session: Option<String>,
    /// The key's value, which an owner leaves for the next one.
    pub value: Option<String>,
    /// The pool of the key, which is also the label `pool` of its metrics.
    #[schema(value_type = String)]
    pub pool: Arc<str>,
    /// The URL of the lease's home node. Calls of the holder are best sent there. Null if the answering node does not
    /// know that node yet.
    pub node: Option<String>,
    /// The number of callers that wait for the key.
    pub waiters: usize,
    /// Whether the key is pinned: its tenures then do not expire.
    pub pinned: bool,
    /// The owner for whom the key is reserved, in state `offered`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered_to: Option<String>,
    /// The plugins that have not yet confirmed the fence of an earlier owner.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fences: Vec<String>,
    /// The owner that these fences shut out. Null if the answering node does not know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub former_owner: Option<String>,
    /// Whether one of these fences failed in all its attempts. If the policy requires that fence before the next grant,
    /// the key waits for an administrator.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fence_failed: bool,
}

/// Answer of `POST /v1/check`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Checked {
    /// Whether the token is the current holder's.
    pub current: bool,
    /// The public view of the lease.
    pub lease: Lease,
}

/// Answer of an operation that changes a lease.
#[derive(Debug, Serialize, ToSchema)]
pub struct LeaseAnswer {
    /// The lease after the operation.
    pub lease: Lease,
}

/// A lease, with the condition on which a write of the caller's own into the same store can depend.
#[derive(Debug, Serialize, ToSchema)]
pub struct GatedLease {
    /// The public view of the lease.
    #[serde(flatten)]
    pub lease: Lease,
    /// The condition, if the query has `gate=1`. Its `kind` is `dynamodb`, `nats` or `check`. Null if nobody holds the
    /// key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub gate: Option<serde_json::Value>,
    /// The permits of the key, if its policy gives it several. The key is then `held` while all of them are taken, and
    /// `free` otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permits: Option<Permits>,
}

/// The permits of a key.
#[derive(Debug, Serialize, ToSchema)]
pub struct Permits {
    /// How many the key has.
    pub count: usize,
    /// How many are free.
    pub free: usize,
    /// Those that are not free, in the order of their numbers.
    pub taken: Vec<Lease>,
}

/// Answer of `GET /v1/leases`.
#[derive(Debug, Serialize, ToSchema)]
pub struct LeaseList {
    /// The leases, in the byte order of their keys.
    pub leases: Vec<Lease>,
    /// The `after` of the next page; null on the last page.
    pub next: Option<String>,
    /// The `before` of the page before; null on the first page. There may be no lease on it.
    pub previous: Option<String>,
}
