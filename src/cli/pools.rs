//! `tenure pools`: lists the pools, their members, and what each member holds.

use clap::Args;

use super::{
    Context, Exit, Failure,
    output::{dash, shown, talk, yes},
    pool::held_back,
};
use crate::client::{PlannedMove, Pool, PoolMember, PoolPlan, WarmingKey};

const POOLS: [&str; 7] = ["POOL", "BALANCE", "KEYS", "FREE", "KEPT", "MEMBERS", "ORDERS"];
const MEMBERS: [&str; 12] = [
    "SESSION",
    "OWNER",
    "WEIGHT",
    "CAPACITY",
    "HELD",
    "SHARE",
    "LOAD",
    "HANDOVERS",
    "STATE",
    "VERSION",
    "LABELS",
    "NODE",
];

const MOVES: [&str; 4] = ["KEY", "OWNER", "REASON", "DETAIL"];

/// List the pools, or the members of one pool.
#[derive(Clone, Debug, Args)]
pub struct PoolsArgs {
    /// Pool whose members are listed
    pool: Option<String>,
    /// List the leases that members would be asked for now, and why; nothing is done
    #[arg(long, requires = "pool")]
    plan: bool,
}

impl PoolsArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        if let (Some(pool), true) = (&self.pool, self.plan) {
            let plan = context.client.plan_of_pool(pool).await?;
            context.output.list("moves", &plan, &plan.moves, &MOVES, planned)?;
            held_back(&plan.pool).iter().for_each(|line| talk(line));
            if let Some(rest) = rest(&plan) {
                talk(&rest);
            }
        } else if let Some(pool) = &self.pool {
            let pool = context.client.pool(pool).await?;
            context.output.list("members", &pool, &pool.members, &MEMBERS, member)?;
            held_back(&pool).iter().for_each(|line| talk(line));
            pool.warming.iter().for_each(|warming| talk(&prepares(warming)));
            if let Some(peak) = pool.load_peak {
                talk(&format!("the most loaded member carries {:.0} % of the mean", 100.0 * peak));
            }
        } else {
            let pools = context.client.pools().await?;
            context.output.list("pools", &pools, &pools.pools, &POOLS, row)?;
        }
        Ok(Exit::Done)
    }
}

/// Who prepares for a key, in a sentence.
fn prepares(warming: &WarmingKey) -> String {
    let named = |owner: &Option<String>| shown(owner.as_deref().unwrap_or("a member that is gone"));
    let WarmingKey { key, from, to, since, prepared, requested, .. } = warming;
    let how = match (prepared, requested) {
        (_, true) => "it was asked to hand it over",
        (true, false) => "all is prepared",
        (false, false) => "not prepared yet",
    };
    let (key, from, to) = (shown(key), named(from), named(to));
    format!("{to} prepares for {key}, which {from} holds, since {since}: {how}")
}

fn planned(planned: &PlannedMove) -> Vec<String> {
    vec![shown(&planned.key), shown(&planned.owner), shown(&planned.reason), shown(&planned.detail)]
}

/// What the list of moves does not say.
fn rest(plan: &PoolPlan) -> Option<String> {
    let imbalance = plan.imbalance?;
    let PoolPlan { more_moves, put_off, pool, .. } = plan;
    let mut said =
        vec![format!("leases that must move until every member has its share: {imbalance}")];
    if *more_moves > 0 {
        said.push(format!("asked for now, but not in the list: {more_moves}"));
    }
    if *put_off > 0 {
        said.push(format!("asked for later, or never: {put_off}"));
    }
    if !pool.balance {
        said.push("nothing moves, because no policy of the pool sets balance".to_owned());
    }
    Some(said.join("; "))
}

fn row(pool: &Pool) -> Vec<String> {
    let count = |count: Option<u64>| count.map_or_else(dash, |count| count.to_string());
    vec![
        shown(&pool.pool),
        if pool.by_load { "load".to_owned() } else { yes(pool.balance) },
        count(pool.keys),
        count(pool.free),
        count(pool.kept),
        pool.members.len().to_string(),
        orders(pool),
    ]
}

/// The orders that stand, in a few words.
fn orders(pool: &Pool) -> String {
    let counted = |count: usize, what: &str| (count > 0).then(|| format!("{count} {what}"));
    let all = [
        pool.frozen.as_ref().map(|_| "frozen".to_owned()),
        pool.guard.as_ref().map(|_| "guard".to_owned()),
        pool.rebalancing.then(|| "rebalancing".to_owned()),
        counted(pool.cordoned.len(), "cordoned"),
        counted(pool.paused.len(), "paused"),
        counted(pool.warming.len(), "warming"),
    ];
    let all: Vec<String> = all.into_iter().flatten().collect();
    if all.is_empty() { dash() } else { all.join(", ") }
}

fn member(member: &PoolMember) -> Vec<String> {
    vec![
        shown(&member.session),
        shown(&member.owner),
        member.weight.to_string(),
        member.capacity.map_or_else(dash, |most| most.to_string()),
        member.held.to_string(),
        member.share.to_string(),
        load(member),
        member.handovers.to_string(),
        state(member),
        member.version.as_deref().map_or_else(dash, shown),
        labels(member),
        member.node.as_deref().map_or_else(dash, shown),
    ]
}

/// The labels of a member, such as `gpu=true,zone=a`.
fn labels(member: &PoolMember) -> String {
    let labels = member.labels.iter().map(|(name, value)| format!("{name}={value}"));
    let labels: Vec<String> = labels.collect();
    if labels.is_empty() { dash() } else { shown(&labels.join(",")) }
}

/// What a member carries, and how much it accepts.
fn load(member: &PoolMember) -> String {
    let most = member.load_limit.map_or_else(String::new, |most| format!(" of {most:.1}"));
    member.load.map_or_else(dash, |load| format!("{load:.1}{most}"))
}

/// What keeps a member from its share.
fn state(member: &PoolMember) -> String {
    let states = [
        (member.draining, "draining"),
        (member.cordoned, "cordoned"),
        (member.unready, "not ready"),
        (member.replaced, "replaced"),
        (member.set_aside, "set aside"),
    ];
    let states: Vec<&str> =
        states.into_iter().filter_map(|(is, state)| is.then_some(state)).collect();
    if states.is_empty() { dash() } else { states.join(", ") }
}
