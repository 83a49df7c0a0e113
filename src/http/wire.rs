//! What travels: the shapes of the API, and nothing else.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::server::App;
use crate::{
    clock::rfc3339,
    lease::{Grant as Granted, Key, View},
    manager::Availability,
};

/// The public view of a lease.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Lease {
    /// The key.
    pub key: String,
    /// `free`, `held` or `offered`.
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
    /// The session that keeps it.
    pub session: Option<String>,
    /// What the owner wants its successor to read.
    pub value: Option<String>,
    /// The pool of the key, which is also the label of its metrics.
    #[schema(value_type = String)]
    pub pool: Arc<str>,
    /// The coordinator that answers for the key: calls of its holder are best sent there.
    pub node: String,
    /// How many callers wait for it.
    pub waiters: usize,
    /// Whether it is kept from expiring.
    pub pinned: bool,
    /// For whom it is kept, when offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered_to: Option<String>,
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
            session: None,
            value: view.value.as_deref().map(str::to_owned),
            pool: app.manager.world().pool_of(key.as_str()),
            node: app.url_of(view.node),
            waiters: view.waiters,
            pinned: !view.pins.is_empty(),
            offered_to: view.offered_to.as_ref().map(|owner| owner.as_str().to_owned()),
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
#[into_params(parameter_in = Query)]
pub struct LeaseQuery {
    /// `1`: with the condition on which a write of one's own into the same store can be gated.
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

/// How many of the keys of an acquire-any are in which state.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Counts {
    /// Keys that were looked at.
    pub keys: usize,
    /// Held by others.
    pub held: usize,
    /// Held by this owner already.
    pub held_by_you: usize,
    /// Kept for somebody else.
    pub offered: usize,
    /// Milliseconds until the first of them ends, unless it is renewed.
    #[serde(skip)]
    pub next_ms: Option<u64>,
}

impl Counts {
    pub fn of(counts: &Availability) -> Self {
        let Availability { keys, held, held_by_you, offered, next_ms } = *counts;
        Self { keys, held, held_by_you, offered, next_ms }
    }
}

/// Body of `POST /v1/acquire`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquireBody {
    /// 1 to 512 bytes.
    pub key: String,
    /// 1 to 256 bytes.
    pub owner: String,
    /// 100 to 86 400 000, unless the settings or the key's policy say otherwise.
    pub ttl_ms: u64,
    /// How long to wait in the queue; 0, the default, is not at all.
    #[serde(default)]
    pub wait_ms: u64,
    /// A new value for the key, at most 16 KiB.
    pub value: Option<String>,
    /// Take it from oneself: the old tenure ends.
    #[serde(default)]
    pub reclaim: bool,
    /// At most 64 bytes; a repeated call never grants twice.
    pub request_id: Option<String>,
}

/// The order in which the keys of an acquire-any are tried.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnyOrder {
    /// Each order equally likely.
    #[default]
    Random,
    /// As listed.
    Listed,
    /// The owner's former keys first.
    Sticky,
}

/// Body of `POST /v1/acquire-any`: exactly one of `keys`, `prefix` and `pool`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquireAnyBody {
    /// 1 to 10 000 keys, each once.
    pub keys: Option<Vec<String>>,
    /// The keys that have a record and start so.
    pub prefix: Option<String>,
    /// The keys that have a record and are of this pool.
    pub pool: Option<String>,
    /// 1 to 256 bytes.
    pub owner: String,
    /// 100 to 86 400 000, unless the settings or the key's policy say otherwise.
    pub ttl_ms: u64,
    /// How many to take at most; 1 by default.
    #[serde(default = "one")]
    pub count: usize,
    /// In which order they are tried.
    #[serde(default)]
    pub order: AnyOrder,
    /// How long to wait for one when none is free; 0, the default, is not at all.
    #[serde(default)]
    pub wait_ms: u64,
    /// At most 64 bytes; a repeated call never grants twice.
    pub request_id: Option<String>,
}

fn one() -> usize {
    1
}

/// Answer of `POST /v1/acquire-any`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Grants {
    /// 1 to `count` grants.
    pub grants: Vec<Grant>,
}

/// Body of `POST /v1/heartbeat`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatBody {
    /// The key.
    pub key: String,
    /// The secret of the grant.
    pub lease_id: String,
    /// A new value for the key.
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

/// One lease of a batch.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseRef {
    /// The key.
    pub key: String,
    /// The secret of the grant.
    pub lease_id: String,
}

/// Body of `POST /v1/heartbeats` and `POST /v1/releases`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchBody {
    /// At most 10 000 leases.
    pub leases: Vec<LeaseRef>,
}

/// The verdict on one lease of a batch: as its single call would have been answered.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Verdict<'a> {
    /// The key.
    pub key: &'a str,
    /// The status that the single call would have had.
    pub status: u16,
    /// The tenure's fencing token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// As in a grant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_for_ms: Option<u64>,
    /// The tenure had run out, and goes on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub revived: bool,
    /// Whether this call ended the tenure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released: Option<bool>,
    /// The problem's code, when there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// How the lease was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// What happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Where the lease is at home, when that is another node: ask there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// Answer of `POST /v1/heartbeats` and `POST /v1/releases`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Verdicts<'a> {
    /// One for each lease, in order.
    #[schema(value_type = Vec<Verdict<'static>>)]
    pub results: Vec<Item<'a>>,
}

/// A verdict of this node, or that of another one as it came, with its URL as `node`.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Item<'a> {
    /// This node's.
    Own(Verdict<'a>),
    /// Another's.
    Others(serde_json::Value),
}

/// A part of a batch, to be passed on.
#[derive(Debug, Serialize)]
pub struct BatchRefs<'a> {
    /// The leases.
    pub leases: Vec<&'a LeaseRef>,
}

/// Body of `POST /v1/release`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseBody {
    /// The key.
    pub key: String,
    /// The secret of the grant.
    pub lease_id: String,
    /// A last value for the successor.
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
    pub key: String,
    /// The secret of the grant.
    pub lease_id: String,
    /// The owner that may take it.
    pub to: String,
    /// How long it is kept for that owner; the tenure's ttl by default.
    pub offer_ms: Option<u64>,
    /// A last value for the successor.
    pub value: Option<String>,
}

/// Body of `POST /v1/check`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckBody {
    /// The key.
    pub key: String,
    /// The token to check.
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
    pub key: Option<String>,
    /// Only keys that start so.
    pub prefix: Option<String>,
    /// Only leases of this owner.
    pub owner: Option<String>,
    /// Only leases of this session.
    pub session: Option<String>,
    /// Only leases of this pool.
    pub pool: Option<String>,
    /// Only leases in this state: `free`, `held`, `fencing`, `cooling` or `offered`.
    pub state: Option<String>,
    /// At most so many: 1 to 1000, by default 100.
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

/// Body of `POST /v1/admin/revoke`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeBody {
    /// The key.
    pub key: String,
    /// Why; at most 256 bytes.
    pub reason: String,
    /// Do not wait for the holder's last promise. Its window may then overlap the next one's.
    #[serde(default)]
    pub immediately: bool,
}

/// Answer of `POST /v1/admin/revoke`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Revoked {
    /// The order is durable.
    pub revoked: bool,
    /// Milliseconds until the tenure has ended; 0: it has.
    pub ends_in_ms: u64,
}

/// Body of `POST /v1/admin/pin` and `POST /v1/admin/unpin`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PinBody {
    /// The key.
    pub key: String,
    /// In whose name; 1 to 64 bytes.
    pub by: String,
}

/// Body of `POST /v1/admin/drain`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainBody {
    /// Whose leases.
    pub owner: String,
}

/// Answer of `POST /v1/admin/drain`.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct Drained {
    /// Leases whose end is ordered.
    pub revoked: usize,
    /// Leases that stay, since they are pinned.
    pub pinned: usize,
}
