//! Pools and their members.

use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

use super::super::server::App;
use crate::manager::{MemberView, PoolShown};

/// A session that joined a pool.
#[derive(Debug, Serialize, ToSchema)]
pub struct PoolMember {
    /// The digest of its session.
    pub session: String,
    /// Whose it is.
    pub owner: String,
    /// Its share of the pool's work beside other members.
    pub weight: u32,
    /// Most leases that it is to have at a time; null: no bound but its share.
    pub capacity: Option<u32>,
    /// How many leases of the pool it has.
    pub held: usize,
    /// How many it is to have.
    pub share: usize,
    /// It leaves, and hands everything over.
    pub draining: bool,
    /// Leases that it was asked to hand over, and has yet.
    pub handovers: usize,
    /// It left what it was to have untaken: until it asks for leases it is to have what it has, and others the rest.
    pub set_aside: bool,
    /// The URL of the node at which its session is at home.
    pub node: Option<String>,
}

/// A pool, and who works for it.
#[derive(Debug, Serialize, ToSchema)]
pub struct PoolWire {
    /// Its name.
    #[schema(value_type = String)]
    pub pool: Arc<str>,
    /// Whether its leases are moved between its members.
    pub balance: bool,
    /// Keys that members have or nobody has; what others have does not count. Null while nobody counts them:
    /// no session joined the pool, or the node has just begun to look.
    pub keys: Option<usize>,
    /// Keys that nobody has, those included that are shut or kept for a successor.
    pub free: Option<usize>,
    /// By the digests of their sessions.
    pub members: Vec<PoolMember>,
}

/// Answer of `GET /v1/pools`.
#[derive(Debug, Serialize, ToSchema)]
pub struct PoolsWire {
    /// Every pool that a policy names, and `default`; by name.
    pub pools: Vec<PoolWire>,
}

impl PoolMember {
    fn of(app: &App, member: &MemberView) -> Self {
        let MemberView { digest, joined, share, handovers, aside } = member;
        Self {
            session: digest.to_string(),
            owner: joined.owner.as_str().to_owned(),
            weight: joined.weight,
            capacity: joined.capacity,
            held: share.held,
            share: share.share,
            draining: joined.draining,
            handovers: *handovers,
            set_aside: *aside,
            node: app.url_of(Some(joined.node)),
        }
    }
}

impl PoolWire {
    pub fn of(app: &App, shown: PoolShown) -> Self {
        let PoolShown { pool, balance, view } = shown;
        let members = view.iter().flat_map(|view| &view.members);
        Self {
            pool,
            balance,
            keys: view.as_ref().map(|view| view.keys),
            free: view.as_ref().map(|view| view.free),
            members: members.map(|member| PoolMember::of(app, member)).collect(),
        }
    }
}
