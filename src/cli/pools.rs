//! `tenure pools`: lists the pools, their members, and what each member holds.

use clap::Args;

use super::{
    Context, Exit, Failure,
    output::{dash, shown},
};
use crate::client::{Pool, PoolMember};

const POOLS: [&str; 5] = ["POOL", "BALANCE", "KEYS", "FREE", "MEMBERS"];
const MEMBERS: [&str; 9] =
    ["SESSION", "OWNER", "WEIGHT", "CAPACITY", "HELD", "SHARE", "HANDOVERS", "DRAINING", "NODE"];

/// List the pools, or the members of one pool.
#[derive(Clone, Debug, Args)]
pub struct PoolsArgs {
    /// Pool whose members are listed
    pool: Option<String>,
}

impl PoolsArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        if let Some(pool) = &self.pool {
            let pool = context.client.pool(pool).await?;
            context.output.list("members", &pool, &pool.members, &MEMBERS, member)?;
        } else {
            let pools = context.client.pools().await?;
            context.output.list("pools", &pools, &pools.pools, &POOLS, row)?;
        }
        Ok(Exit::Done)
    }
}

fn yes(is: bool) -> String {
    if is { "yes".to_owned() } else { dash() }
}

fn row(pool: &Pool) -> Vec<String> {
    let count = |count: Option<u64>| count.map_or_else(dash, |count| count.to_string());
    vec![
        shown(&pool.pool),
        yes(pool.balance),
        count(pool.keys),
        count(pool.free),
        pool.members.len().to_string(),
    ]
}

fn member(member: &PoolMember) -> Vec<String> {
    vec![
        shown(&member.session),
        shown(&member.owner),
        member.weight.to_string(),
        member.capacity.map_or_else(dash, |most| most.to_string()),
        member.held.to_string(),
        member.share.to_string(),
        member.handovers.to_string(),
        yes(member.draining),
        member.node.as_deref().map_or_else(dash, shown),
    ]
}
