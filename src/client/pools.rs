//! Pools, as a client sees them.

use serde::{Deserialize, Serialize};

use super::{Client, ClientError, call::Call};

/// A session that joined a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolMember {
    /// The digest of its session.
    pub session: String,
    /// Whose it is.
    pub owner: String,
    /// Its share of the work beside other members.
    pub weight: u64,
    /// Most leases that it is to have at a time.
    #[serde(default)]
    pub capacity: Option<u64>,
    /// How many leases of the pool it has.
    pub held: u64,
    /// How many it is to have.
    pub share: u64,
    /// It leaves, and hands everything over.
    #[serde(default)]
    pub draining: bool,
    /// Leases that it was asked to hand over, and has yet.
    #[serde(default)]
    pub handovers: u64,
    /// It left what it was to have untaken: it counts for what it has until it asks for leases.
    #[serde(default)]
    pub set_aside: bool,
    /// The node at which its session is at home.
    #[serde(default)]
    pub node: Option<String>,
}

/// A pool, and who works for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Its name.
    pub pool: String,
    /// Whether its leases are moved between its members.
    #[serde(default)]
    pub balance: bool,
    /// Keys that members have or nobody has, where somebody counts them.
    #[serde(default)]
    pub keys: Option<u64>,
    /// Keys that nobody has.
    #[serde(default)]
    pub free: Option<u64>,
    /// By the digests of their sessions.
    pub members: Vec<PoolMember>,
}

/// Every pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pools {
    /// By name.
    pub pools: Vec<Pool>,
}

impl Client {
    /// Every pool that the server's policies name, with its members.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn pools(&self) -> Result<Pools, ClientError> {
        self.call(&Call::get("pools")).await
    }

    /// One pool, with its members.
    ///
    /// # Errors
    /// `unknown-pool`, or that the server cannot be reached.
    pub async fn pool(&self, pool: &str) -> Result<Pool, ClientError> {
        self.call(&Call::get("pools").segment(pool)).await
    }
}
