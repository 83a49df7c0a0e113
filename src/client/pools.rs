//! Pools, from the client's point of view.

use serde::{Deserialize, Serialize};

use super::{Client, ClientError, call::Call};

/// A session that joined a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolMember {
    /// The digest of the member's session.
    pub session: String,
    /// The owner of the session.
    pub owner: String,
    /// Its share of the work relative to other members.
    pub weight: u64,
    /// The most leases that it may have at a time.
    #[serde(default)]
    pub capacity: Option<u64>,
    /// How many leases of the pool it holds.
    pub held: u64,
    /// How many leases its share is.
    pub share: u64,
    /// Whether it is leaving, and hands all its leases over.
    #[serde(default)]
    pub draining: bool,
    /// How many leases it was asked to hand over and still holds.
    #[serde(default)]
    pub handovers: u64,
    /// Whether it left part of its share untaken. Until it asks for leases, it counts only for what it holds.
    #[serde(default)]
    pub set_aside: bool,
    /// The home node of its session.
    #[serde(default)]
    pub node: Option<String>,
}

/// A pool and its members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// The pool's name.
    pub pool: String,
    /// Whether leases are moved between the members to balance them.
    #[serde(default)]
    pub balance: bool,
    /// The keys that members hold or that are free, if they are counted.
    #[serde(default)]
    pub keys: Option<u64>,
    /// The keys that are free.
    #[serde(default)]
    pub free: Option<u64>,
    /// The members, in the order of their sessions' digests.
    pub members: Vec<PoolMember>,
}

/// Every pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pools {
    /// The pools, in the order of their names.
    pub pools: Vec<Pool>,
}

impl Client {
    /// Lists all pools that the server's policies name, with their members.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn pools(&self) -> Result<Pools, ClientError> {
        self.call(&Call::get("pools")).await
    }

    /// Reads one pool, with its members.
    ///
    /// # Errors
    /// `unknown-pool`, or that the server cannot be reached.
    pub async fn pool(&self, pool: &str) -> Result<Pool, ClientError> {
        self.call(&Call::get("pools").segment(pool)).await
    }
}
