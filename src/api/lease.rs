//! The public view of a lease, and lists of leases.

use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

/// The public view of a lease.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Lease {
    /// The key.
    pub key: String,
    /// `free`, `held`, `fencing`, `cooling` or `offered`.
    pub state: &'static str,
    /// Who holds it.
    pub owner: Option<String>,
    /// The fencing token of the present tenure, or of the last; 0 before the first.
    pub token: u64,
    /// Milliseconds that a grant or heartbeat keeps it.
    pub ttl_ms: Option<u64>,
    /// Milliseconds until it ends if nothing happens; null when it does not end by itself.
    pub expires_in_ms: Option<u64>,
    /// When the present tenure began, RFC 3339; for people.
    pub acquired_at: Option<String>,
    /// The digest of the session that keeps it.
    pub session: Option<String>,
    /// What the owner wants its successor to read.
    pub value: Option<String>,
    /// The pool of the key, which is also the label of its metrics.
    #[schema(value_type = String)]
    pub pool: Arc<str>,
    /// The coordinator that answers for the key: calls of its holder are best sent there. Null for one
    /// that the coordinator which was asked does not know yet.
    pub node: Option<String>,
    /// How many callers wait for it.
    pub waiters: usize,
    /// Whether it is kept from expiring.
    pub pinned: bool,
    /// For whom it is kept, when offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered_to: Option<String>,
    /// The plugins that have yet to confirm that an earlier owner is fenced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fences: Vec<String>,
    /// One of them failed for good: the key waits for an administrator, if its policy says so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fence_failed: bool,
}

/// Answer of `POST /v1/check`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Checked {
    /// Whether the token is the present holder's.
    pub current: bool,
    /// The lease.
    pub lease: Lease,
}

/// Answer of an operation that leaves a lease.
#[derive(Debug, Serialize, ToSchema)]
pub struct LeaseAnswer {
    /// The lease after it.
    pub lease: Lease,
}

/// A lease, and what a write of one's own into the same store can be gated on.
#[derive(Debug, Serialize, ToSchema)]
pub struct GatedLease {
    /// The lease.
    #[serde(flatten)]
    pub lease: Lease,
    /// With `gate=1`: the condition, by its `kind`: `dynamodb`, `nats` or `check`; null for a key that
    /// nobody holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub gate: Option<serde_json::Value>,
}

/// Answer of `GET /v1/leases`.
#[derive(Debug, Serialize, ToSchema)]
pub struct LeaseList {
    /// In byte order of their keys.
    pub leases: Vec<Lease>,
    /// `after` of the next page; null on the last.
    pub next: Option<String>,
}
