//! What travels: the shapes of the API, and nothing else.

mod admin;
mod any;
mod batch;
mod pools;
mod sessions;
mod strict;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

pub use admin::{
    DrainBody, Drained, FenceSkipBody, ForgetBody, Forgot, PinBody, RevokeBody, Revoked,
};
pub use any::{AcquireAnyBody, AnyGrant, AnyOrder, Counts, Grants, GrantsOfOthers};
pub use batch::{BatchBody, BatchRefs, Item, LeaseRef, Verdict, Verdicts};
pub use pools::{PoolWire, PoolsWire};
pub use sessions::{
    BeatBody, BeatWire, BehaviorName, CheckSpec, ClosedWire, DrainingWire, Notice, OpenedWire,
    SessionBody, SessionDrainBody, SessionWire, SessionsQuery, SessionsWire,
};
pub use strict::Object;

use super::server::App;
use crate::{
    clock::rfc3339,
    lease::{Grant as Granted, Key, View},
};

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

impl Lease {
    pub fn of(app: &App, key: &Key, view: &View) -> Self {
        Self {
            key: key.as_str().to_owned(),
            state: if view.quarantined { "held" } else { view.state.as_str() },
            owner: view.owner.as_ref().map(|owner| owner.as_str().to_owned()),
            token: view.token.0,
            ttl_ms: view.ttl_ms,
            expires_in_ms: view.expires_in_ms,
            acquired_at: view.acquired_at_ms.map(rfc3339),
            session: view.session.map(|digest| digest.to_string()),
            value: view.value.as_deref().map(str::to_owned),
            pool: app.manager.pool_of(key.as_str()),
            node: app.url_of(view.node),
            waiters: view.waiters,
            pinned: !view.pins.is_empty(),
            offered_to: view.offered_to.as_ref().map(|owner| owner.as_str().to_owned()),
            fences: view.fences.iter().map(ToString::to_string).collect(),
            fence_failed: view.fence_failed,
        }
    }
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

/// Query of `GET /v1/leases/{key}`.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LeaseQuery {
    /// `1`: with the condition on which a write of one's own into the same store can be gated.
    #[param(maximum = 1)]
    pub gate: Option<u8>,
}

/// What the holder gets: the lease, its secret, and its window.
#[derive(Debug, Serialize, ToSchema)]
pub struct Grant {
    /// The lease.
    #[serde(flatten)]
    pub lease: Lease,
    /// The secret that authorises heartbeat, release and transfer of this tenure.
    pub lease_id: String,
    /// The lease is held until this many milliseconds after the moment BEFORE the request was sent, on
    /// the caller's own clock.
    pub valid_for_ms: u64,
}

impl Grant {
    pub fn of(app: &App, key: &Key, grant: &Granted) -> Self {
        Self {
            lease: Lease::of(app, key, &grant.view),
            lease_id: grant.lease_id.reveal(),
            valid_for_ms: grant.valid_for_ms,
        }
    }
}

/// Body of `POST /v1/acquire`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquireBody {
    /// 1 to 512 bytes.
    #[schema(min_length = 1, max_length = 512, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub key: String,
    /// 1 to 256 bytes.
    #[schema(min_length = 1, max_length = 256, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub owner: String,
    /// 100 to 86 400 000, unless the settings or the key's policy say otherwise. Absent where a session keeps the lease.
    pub ttl_ms: Option<u64>,
    /// The id of the session that is to keep the lease, in place of `ttl_ms`.
    #[schema(pattern = "^[0-9a-f]{32}[0-9a-fA-F]{32}$")]
    pub session: Option<String>,
    /// How long to wait in the queue; 0, the default, is not at all.
    #[serde(default)]
    pub wait_ms: u64,
    /// A new value for the key, at most 16 KiB.
    #[schema(max_length = 16384)]
    pub value: Option<String>,
    /// Take it from oneself: the old tenure ends.
    #[serde(default)]
    pub reclaim: bool,
    /// At most 64 bytes. A repeated call finds its own grant, or hears that it ended. A key remembers the last four
    /// request ids that it was granted under; with an older one it is granted anew.
    #[schema(min_length = 1, max_length = 64)]
    pub request_id: Option<String>,
}

/// Body of `POST /v1/heartbeat`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatBody {
    /// The key.
    #[schema(min_length = 1, max_length = 512)]
    pub key: String,
    /// The secret of the grant.
    #[schema(pattern = "^[0-9a-fA-F]{32}$")]
    pub lease_id: String,
    /// A new value for the key.
    #[schema(max_length = 16384)]
    pub value: Option<String>,
    /// A new ttl.
    pub ttl_ms: Option<u64>,
}

/// Answer of `POST /v1/heartbeat`.
#[derive(Debug, Serialize, ToSchema)]
pub struct HeartbeatAnswer<'a> {
    /// The key.
    pub key: &'a str,
    /// The tenure's fencing token.
    pub token: u64,
    /// As in a grant, counted from before this heartbeat was sent.
    pub valid_for_ms: u64,
    /// The tenure had run out, and goes on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub revived: bool,
    /// What the coordinator asks of the holder.
    pub notices: [String; 0],
}

/// Body of `POST /v1/release`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseBody {
    /// The key.
    #[schema(min_length = 1, max_length = 512)]
    pub key: String,
    /// The secret of the grant.
    #[schema(pattern = "^[0-9a-fA-F]{32}$")]
    pub lease_id: String,
    /// A last value for the successor.
    #[schema(max_length = 16384)]
    pub value: Option<String>,
}

/// Answer of `POST /v1/release`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Released {
    /// Whether this call ended the tenure; false when it was over already.
    pub released: bool,
}

/// Body of `POST /v1/transfer`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TransferBody {
    /// The key.
    #[schema(min_length = 1, max_length = 512, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub key: String,
    /// The secret of the grant.
    #[schema(pattern = "^[0-9a-fA-F]{32}$")]
    pub lease_id: String,
    /// The owner that may take it; without it the first caller in the queue is granted the key by the same
    /// write, and where nobody waits the key is free.
    #[schema(min_length = 1, max_length = 256, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub to: Option<String>,
    /// How long it is kept for the owner in `to`; the tenure's ttl by default.
    pub offer_ms: Option<u64>,
    /// A last value for the successor.
    #[schema(max_length = 16384)]
    pub value: Option<String>,
}

/// Body of `POST /v1/check`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckBody {
    /// The key.
    #[schema(min_length = 1, max_length = 512, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub key: String,
    /// The token to check.
    #[schema(maximum = 9007199254740991u64)]
    pub token: u64,
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

/// Answer of `GET /v1/leases`.
#[derive(Debug, Serialize, ToSchema)]
pub struct LeaseList {
    /// In byte order of their keys.
    pub leases: Vec<Lease>,
    /// `after` of the next page; null on the last.
    pub next: Option<String>,
}
