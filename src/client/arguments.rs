//! The arguments of calls: what to acquire, and which leases to list.

use serde::{Serialize, Serializer};

/// Who wants a lease, and what keeps it: a ttl or a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Owner {
    /// The name of the worker that wants the lease.
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
    /// The key to acquire: 1 to 512 bytes.
    pub key: String,
    /// The owner, and what keeps the lease.
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
    /// For how long from the grant nobody else is granted the key, even if the lease is released.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_hold_ms: Option<u64>,
    /// A call that is repeated with the same id gets the same grant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// The body of an acquire of some of several keys, given by `keys`, `prefix` or `pool`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AcquireAny {
    /// The keys from which to choose. Empty if `prefix` or `pool` is given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// All known keys with this prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// All known keys of this pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The owner, and what keeps the leases.
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
    /// A call that is repeated with the same id gets the same grants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// A key of an acquire-all, and how much of it is wanted: the lease, or one of its permits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WantedKey {
    /// The key.
    pub key: String,
    /// How many of its permits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permits: Option<u32>,
    /// `shared` for one permit, `exclusive` for all of them. Not together with `permits`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<&'static str>,
}

impl WantedKey {
    /// The lease with this key, or one of the key's permits.
    #[must_use]
    pub fn new(key: impl Into<String>) -> Self {
        Self { key: key.into(), ..Self::default() }
    }

    /// This many of its permits.
    #[must_use]
    pub fn permits(self, permits: u32) -> Self {
        Self { permits: Some(permits), mode: None, ..self }
    }

    /// All of its permits: nobody else has one meanwhile.
    #[must_use]
    pub fn exclusive(self) -> Self {
        Self { permits: None, mode: Some("exclusive"), ..self }
    }
}

impl From<&str> for WantedKey {
    fn from(key: &str) -> Self {
        Self::new(key)
    }
}

impl From<String> for WantedKey {
    fn from(key: String) -> Self {
        Self::new(key)
    }
}

/// The body of an acquire of every key of a list, or none.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AcquireAll {
    /// The keys, each named once.
    pub keys: Vec<WantedKey>,
    /// The owner, and what keeps the leases.
    #[serde(flatten)]
    pub owner: Owner,
    /// How long to wait for all of them together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// A call that is repeated with the same id gets the same grants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// The most leases to grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// At most this many leases, one or more.
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

/// What is counted of the changes of keys, and in which time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopFilter {
    /// How far to look back: `1m`, `10m` or `60m`.
    pub window: Option<String>,
    /// What is counted: `keys`, `owners` or `pools`.
    pub by: Option<String>,
    /// Only changes of this cause.
    pub cause: Option<String>,
    /// Only keys with this prefix; only with `keys`.
    pub prefix: Option<String>,
    /// The most rows to return.
    pub limit: Option<u32>,
}

impl TopFilter {
    pub(super) fn pairs(&self) -> [(&'static str, Option<String>); 5] {
        [
            ("window", self.window.clone()),
            ("by", self.by.clone()),
            ("cause", self.cause.clone()),
            ("prefix", self.prefix.clone()),
            ("limit", self.limit.map(|limit| limit.to_string())),
        ]
    }
}

/// Which leases a listing contains, and which page of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseFilter {
    /// Only keys with this prefix.
    pub prefix: Option<String>,
    /// Only leases of this owner.
    pub owner: Option<String>,
    /// Only keys of this pool.
    pub pool: Option<String>,
    /// Only leases in one of these states, separated by commas.
    pub state: Option<String>,
    /// Only leases that the session with this digest keeps.
    pub session: Option<String>,
    /// The most leases to return.
    pub limit: Option<u32>,
    /// The cursor from the page before.
    pub after: Option<String>,
    /// The cursor from the page after; not together with `after`.
    pub before: Option<String>,
}

impl LeaseFilter {
    pub(super) fn pairs(&self) -> [(&'static str, Option<String>); 8] {
        [
            ("prefix", self.prefix.clone()),
            ("owner", self.owner.clone()),
            ("pool", self.pool.clone()),
            ("state", self.state.clone()),
            ("session", self.session.clone()),
            ("limit", self.limit.map(|limit| limit.to_string())),
            ("after", self.after.clone()),
            ("before", self.before.clone()),
        ]
    }
}
