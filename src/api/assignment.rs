//! Who has each key of a pool, for routers.

use serde::{Deserialize, Serialize};

/// Whether a key has an owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RouteState {
    /// It has.
    Held,
    /// It has, and the owner was asked to hand it over.
    HandingOver,
    /// Nobody has it now.
    #[default]
    Free,
    /// Its record was removed.
    Gone,
}

/// Who has a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = RouteWire))]
pub struct Route {
    /// The key.
    pub key: String,
    /// Whether it has an owner.
    pub state: RouteState,
    /// The owner; null for a key that nobody has.
    pub owner: Option<String>,
    /// The fencing token of the owner's tenure, or of the last one.
    pub token: u64,
    /// The number of the key's last change. Of two routes of a key, the one with the higher token, and then the higher
    /// number, is the newer one.
    pub seq: u64,
    /// The digest of the owner's session; null if no session keeps the lease.
    pub session: Option<String>,
    /// Where the owner serves its keys; null if it did not say, or if the coordinator has not read that yet. Then a
    /// `member` event follows.
    pub address: Option<String>,
}

/// A member of a pool, as routers see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct RoutedMember {
    /// The digest of its session.
    pub session: String,
    /// The owner of the session.
    pub owner: String,
    /// Where it serves its keys; null if it did not say.
    pub address: Option<String>,
    /// Whether the session is over.
    pub gone: bool,
}

/// Answer of `GET /v1/pools/{pool}/assignment`: who has each key of the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = AssignmentWire))]
pub struct Assignment {
    /// The name of the pool.
    pub pool: String,
    /// The `after` from which `GET /v1/pools/{pool}/assignment/changes` goes on. Use that of the first page.
    pub cursor: String,
    /// The keys in the order of their names.
    pub keys: Vec<Route>,
    /// The `after` of the next page. Null after the last key.
    pub next: Option<String>,
}
