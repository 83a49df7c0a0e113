//! Pools and their members. A client reads the fields that an older coordinator lacks as their defaults.

use serde::{Deserialize, Serialize};

/// A session that joined a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct PoolMember {
    /// The digest of its session.
    pub session: String,
    /// Whose it is.
    pub owner: String,
    /// Its share of the pool's work beside other members.
    #[cfg_attr(feature = "server", schema(value_type = u32))]
    pub weight: u64,
    /// Most leases that it is to have at a time; null: no bound but its share.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(value_type = Option<u32>))]
    pub capacity: Option<u64>,
    /// How many leases of the pool it has.
    #[cfg_attr(feature = "server", schema(value_type = usize))]
    pub held: u64,
    /// How many it is to have.
    #[cfg_attr(feature = "server", schema(value_type = usize))]
    pub share: u64,
    /// It leaves, and hands everything over.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub draining: bool,
    /// Leases that it was asked to hand over, and has yet.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(value_type = usize, required))]
    pub handovers: u64,
    /// It left what it was to have untaken: until it asks for leases it is to have what it has, and others the rest.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub set_aside: bool,
    /// The URL of the node at which its session is at home.
    #[serde(default)]
    pub node: Option<String>,
}

/// A pool, and who works for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = PoolWire))]
pub struct Pool {
    /// Its name.
    pub pool: String,
    /// Whether its leases are moved between its members.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub balance: bool,
    /// Keys that members have or nobody has; what others have does not count. Null while nobody counts them:
    /// no session joined the pool, or the node has just begun to look.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(value_type = Option<usize>))]
    pub keys: Option<u64>,
    /// Keys that nobody has, those included that are shut or kept for a successor.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(value_type = Option<usize>))]
    pub free: Option<u64>,
    /// By the digests of their sessions.
    pub members: Vec<PoolMember>,
}

/// Answer of `GET /v1/pools`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = PoolsWire))]
pub struct Pools {
    /// Every pool that a policy names, and `default`; by name.
    pub pools: Vec<Pool>,
}
