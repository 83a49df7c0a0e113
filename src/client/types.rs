//! The bodies of the HTTP API, from the client's point of view. Unknown fields are kept.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

/// Who wants a lease, and what keeps it: a ttl or a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Owner {
    /// The owner.
    pub owner: String,
    /// How long a grant or heartbeat keeps the lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// The session that keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// The body of an acquire.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Acquire {
    /// The key.
    pub key: String,
    /// Who wants it.
    #[serde(flatten)]
    pub owner: Owner,
    /// How long to wait in the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// What the key's next owner reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Whether to end an earlier tenure of the same owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaim: Option<bool>,
    /// Makes the call repeatable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// The body of an acquire of some of several keys, given by `keys`, `prefix` or `pool`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AcquireAny {
    /// The keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// All known keys with this prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// All known keys of this pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Who wants them.
    #[serde(flatten)]
    pub owner: Owner,
    /// The most leases to grant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<Count>,
    /// `random`, `listed` or `sticky`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// How long to wait in the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// Makes the call repeatable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// The most leases to grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// This many.
    UpTo(u32),
    /// As many as the session's share of its pool has left.
    Fair,
}

impl From<u32> for Count {
    fn from(count: u32) -> Self {
        Self::UpTo(count)
    }
}

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::UpTo(count) => serializer.serialize_u32(*count),
            Self::Fair => serializer.serialize_str("fair"),
        }
    }
}

/// The public view of a lease.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeaseView {
    /// The key.
    pub key: String,
    /// `free`, `held`, `fencing`, `cooling` or `offered`.
    pub state: String,
    /// Who holds it.
    pub owner: Option<String>,
    /// The fencing token.
    pub token: Option<u64>,
    /// How long a heartbeat keeps it.
    pub ttl_ms: Option<u64>,
    /// The time until it ends without a heartbeat.
    pub expires_in_ms: Option<u64>,
    /// When it was granted, in RFC 3339 form.
    pub acquired_at: Option<String>,
    /// The value for the next owner.
    pub value: Option<String>,
    /// How many callers wait for it.
    pub waiters: Option<u64>,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A grant, with what only the holder gets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    /// The public view.
    #[serde(flatten)]
    pub lease: LeaseView,
    /// The secret that authorizes heartbeats, releases and transfers.
    pub lease_id: String,
    /// How long the lease is the caller's, counted on its own clock from BEFORE it sent the request.
    pub valid_for_ms: u64,
}

/// The answer to an acquire of some of several keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grants {
    /// At least one.
    pub grants: Vec<Grant>,
}

/// The answer to a heartbeat.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Alive {
    /// The fencing token.
    pub token: u64,
    /// How long the lease is the caller's, counted on its own clock from BEFORE it sent the request.
    pub valid_for_ms: u64,
    /// Notices for the holder.
    #[serde(default)]
    pub notices: Vec<Notice>,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The answer to a release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Released {
    /// Whether this call ended the tenure; if not, it was already over.
    pub released: bool,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The answer to a check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Whether the token is the current holder's.
    pub current: bool,
    /// The lease.
    pub lease: Option<LeaseView>,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Which leases to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseFilter {
    /// Only keys with this prefix.
    pub prefix: Option<String>,
    /// Only leases of this owner.
    pub owner: Option<String>,
    /// Only leases in this state.
    pub state: Option<String>,
    /// Only leases that the session with this digest keeps.
    pub session: Option<String>,
    /// The most leases to return.
    pub limit: Option<u32>,
    /// The cursor from the page before.
    pub after: Option<String>,
}

impl LeaseFilter {
    pub(super) fn pairs(&self) -> [(&'static str, Option<String>); 6] {
        [
            ("prefix", self.prefix.clone()),
            ("owner", self.owner.clone()),
            ("state", self.state.clone()),
            ("session", self.session.clone()),
            ("limit", self.limit.map(|limit| limit.to_string())),
            ("after", self.after.clone()),
        ]
    }
}

/// The public view of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionView {
    /// Its public name; its id is a secret.
    pub digest: String,
    /// Its owner.
    pub owner: String,
    /// How long a heartbeat keeps it.
    pub ttl_ms: u64,
    /// The time until it ends without a heartbeat.
    #[serde(default)]
    pub expires_in_ms: Option<u64>,
    /// The leases that it keeps; none if only another node knows.
    #[serde(default)]
    pub leases: Option<Holdings>,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A new session.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Opened {
    /// The secret that authorizes its heartbeat and its end.
    pub id: String,
    /// How long it lives, counted on the caller's clock from BEFORE it sent the request.
    pub valid_for_ms: u64,
    /// The public view.
    #[serde(flatten)]
    pub session: SessionView,
}

/// The answer to the heartbeat of a session.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct SessionAlive {
    /// How long it lives, counted on the caller's clock from BEFORE it sent the request.
    pub valid_for_ms: u64,
    /// The leases that it keeps.
    #[serde(default)]
    pub leases: Holdings,
    /// Notices for its holder.
    #[serde(default)]
    pub notices: Vec<Notice>,
}

/// A notice for a holder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Notice {
    /// `revoked`, `handover-requested` or `draining`; more may be added.
    #[serde(rename = "type")]
    pub kind: String,
    /// The key of the lease; without one, all leases.
    #[serde(default)]
    pub key: Option<String>,
    /// The token of the tenure.
    #[serde(default)]
    pub token: Option<u64>,
    /// The time until the announced event.
    #[serde(default)]
    pub deadline_ms: Option<u64>,
}

/// A summary of a session's leases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holdings {
    /// The number of leases.
    pub count: u64,
    /// XOR, over all of them, of the first 64 bits of SHA-256 of key, a zero byte and the token.
    pub digest: String,
}

/// One page of sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sessions {
    /// In the order of their digests.
    pub sessions: Vec<SessionView>,
    /// The cursor of the next page, when there is one.
    #[serde(default)]
    pub next: Option<String>,
}

/// The result of forgetting keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgot {
    /// How many keys were forgotten.
    pub forgotten: u64,
    /// How many of the examined keys remain.
    pub left: u64,
    /// There may be more after this key.
    #[serde(default)]
    pub next: Option<String>,
}

/// A coordinator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Its URL.
    pub url: String,
    /// `alive`, `draining`, `drained` or `dead`.
    pub state: String,
    /// The program's version.
    #[serde(default)]
    pub version: String,
    /// Names this run of it.
    #[serde(default)]
    pub incarnation: String,
    /// How many leases have it as their home node.
    #[serde(default)]
    pub leases: u64,
    /// Milliseconds until its record runs out, unless it is renewed.
    #[serde(default)]
    pub runs_out_in_ms: Option<u64>,
    /// Whether it is the one that answered.
    #[serde(default)]
    pub this: bool,
    /// Whether another living coordinator advertises the same address.
    #[serde(default)]
    pub address_shared: bool,
    /// Whether its policies or plugins differ from those of the one that answered.
    #[serde(default)]
    pub rules_differ: bool,
}

/// The coordinators on one store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Nodes {
    /// The coordinators; the one that answered comes first.
    pub nodes: Vec<Node>,
}

/// One page of leases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Leases {
    /// In the order of their keys.
    pub leases: Vec<LeaseView>,
    /// The cursor of the next page, when there is one.
    #[serde(default)]
    pub next: Option<String>,
}
