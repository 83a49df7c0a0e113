//! `tenure pool`: the orders of operators for a pool.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{
    Context, Exit, Failure, args,
    output::{dash, shown, yes},
};
use crate::api::limits::ORDER_MS;
use crate::client::{OrderedBy, Pool, PoolAction, PoolOrderBody};

/// Freeze or rebalance a pool, cordon a member, or pause or move a key.
///
/// An order is stored with its author and its reason, and holds for all coordinators. It lasts until the order that ends
/// it, or until its own end (`--for`). `tenure pools` shows what holds.
#[derive(Clone, Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct PoolArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Let no key change its member
    Freeze(Lasting<OfPool>),
    /// End a freeze
    Thaw(OfPool),
    /// Give the members of an owner no further keys; they keep what they hold
    Cordon(Lasting<OfOwner>),
    /// End a cordon
    Uncordon(OfOwner),
    /// Ask the member that holds a key to hand it over, and give it to no member
    Pause(Lasting<OfKey>),
    /// Ask the member that holds a key to hand it over to the member of an owner
    Move(Lasting<ToOwner>),
    /// Let members have a key by their shares again: end a pause or a move
    Resume(OfKey),
    /// Balance a pool exactly and at once, without the dead band and the minimum age
    Rebalance(OfPool),
    /// End the guard against a mass failure, so that the other members take everything
    EndGuard(OfPool),
}

#[derive(Clone, Debug, Args)]
struct OfPool {
    /// Name of the pool
    pool: String,
    /// Reason, stored with the order
    #[arg(long)]
    reason: String,
}

/// An order that may end by itself.
#[derive(Clone, Debug, Args)]
struct Lasting<T: Args> {
    #[command(flatten)]
    order: T,
    /// Time after which the order ends by itself, such as 30m [default: never]
    #[arg(long = "for", value_name = "TIME", value_parser = lasting)]
    lasts: Option<Duration>,
}

#[derive(Clone, Debug, Args)]
struct OfOwner {
    #[command(flatten)]
    of: OfPool,
    /// Owner whose members are meant
    owner: String,
}

#[derive(Clone, Debug, Args)]
struct OfKey {
    #[command(flatten)]
    of: OfPool,
    /// Key of the pool
    key: String,
}

#[derive(Clone, Debug, Args)]
struct ToOwner {
    #[command(flatten)]
    of: OfKey,
    /// Owner whose member gets the key
    owner: String,
}

/// Parses how long an order lasts: what a coordinator accepts.
fn lasting(text: &str) -> Result<Duration, String> {
    let span = args::duration(text)?;
    let is_accepted = u64::try_from(span.as_millis()).is_ok_and(|ms| ORDER_MS.contains(&ms));
    if is_accepted { Ok(span) } else { Err("must be from 1s to 30d".to_owned()) }
}

impl Action {
    fn body(self) -> PoolOrderBody {
        let order = |OfPool { pool, reason }, action| PoolOrderBody {
            pool,
            action,
            owner: None,
            key: None,
            for_ms: None,
            reason,
        };
        let of_owner = |OfOwner { of, owner }, action| PoolOrderBody {
            owner: Some(owner),
            ..order(of, action)
        };
        let of_key =
            |OfKey { of, key }, action| PoolOrderBody { key: Some(key), ..order(of, action) };
        let lasting = |lasts: Option<Duration>, body| PoolOrderBody {
            for_ms: lasts.map(|lasts| u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX)),
            ..body
        };
        match self {
            Self::Freeze(of) => lasting(of.lasts, order(of.order, PoolAction::Freeze)),
            Self::Thaw(of) => order(of, PoolAction::Thaw),
            Self::Cordon(of) => lasting(of.lasts, of_owner(of.order, PoolAction::Cordon)),
            Self::Uncordon(of) => of_owner(of, PoolAction::Uncordon),
            Self::Pause(of) => lasting(of.lasts, of_key(of.order, PoolAction::Pause)),
            Self::Move(of) => {
                let ToOwner { of: key, owner } = of.order;
                let body = of_key(key, PoolAction::Move);
                lasting(of.lasts, PoolOrderBody { owner: Some(owner), ..body })
            }
            Self::Resume(of) => of_key(of, PoolAction::Resume),
            Self::Rebalance(of) => order(of, PoolAction::Rebalance),
            Self::EndGuard(of) => order(of, PoolAction::EndGuard),
        }
    }
}

impl PoolArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let body = self.action.body();
        match context.client.order_pool(&body).await? {
            Some(pool) => context.output.record(&pool, &rows(&pool))?,
            None => {
                let told = "the order stands; you may not read the pool".to_owned();
                let rows = [("pool".to_owned(), shown(&body.pool)), ("order".to_owned(), told)];
                context.output.record(&serde_json::Map::new(), &rows)?;
            }
        }
        Ok(Exit::Done)
    }
}

/// The keys of orders that are paused, or go to one owner.
fn kept_apart(pool: &Pool, such: impl Fn(&Option<String>) -> bool) -> Vec<&str> {
    pool.paused.iter().filter(|one| such(&one.to)).map(|one| &*one.key).collect()
}

fn rows(pool: &Pool) -> Vec<(String, String)> {
    let row = |name: &str, value: String| (name.to_owned(), value);
    let names = |names: Vec<&str>| match names.as_slice() {
        [] => dash(),
        names => shown(&names.join(", ")),
    };
    vec![
        row("pool", shown(&pool.pool)),
        row("frozen", pool.frozen.as_ref().map_or_else(dash, |said| shown(&ordered(said)))),
        row("cordoned", names(pool.cordoned.iter().map(|one| &*one.owner).collect())),
        row("paused", names(kept_apart(pool, |to| to.is_none()))),
        row("moved", names(kept_apart(pool, |to| to.is_some()))),
        row("rebalancing", yes(pool.rebalancing)),
        row("guard", yes(pool.guard.is_some())),
    ]
}

/// Who ordered something, until when and why.
fn ordered(said: &OrderedBy) -> String {
    let until = said.until.iter().map(|until| format!("until {until}, ")).collect::<String>();
    format!("{until}by {}: {}", said.by, said.reason)
}

/// What keeps the keys of a pool from moving as they otherwise would, a line each.
pub(super) fn held_back(pool: &Pool) -> Vec<String> {
    let name = &pool.pool;
    let mut lines = Vec::new();
    if let Some(said) = &pool.frozen {
        lines.push(format!("{name} is frozen, {}", ordered(said)));
    }
    if let Some(guard) = &pool.guard {
        lines.push(format!(
            "{name} lost many of its {} members: the others get no more than their former shares, until fewer than {} \
             are missing",
            guard.members, guard.least
        ));
    }
    if pool.rebalancing {
        lines.push(format!("{name} is being rebalanced"));
    }
    let cordoned = pool.cordoned.iter().map(|cordoned| {
        let said = &cordoned.ordered;
        format!("{} is cordoned, {}", cordoned.owner, ordered(said))
    });
    let paused = pool.paused.iter().map(|paused| {
        let said = &paused.ordered;
        match &paused.to {
            Some(to) => format!("{} goes to {to} only, {}", paused.key, ordered(said)),
            None => format!("{} is paused, {}", paused.key, ordered(said)),
        }
    });
    lines.extend(cordoned.chain(paused));
    lines.extend(unplaced(pool));
    lines.iter().map(|line| shown(line)).collect()
}

/// How many keys have no member to go to, why, and the first of them.
fn unplaced(pool: &Pool) -> Option<String> {
    let unplaced = pool.unplaced.as_ref().filter(|unplaced| unplaced.total > 0)?;
    let whys: Vec<String> =
        unplaced.whys.iter().map(|(why, count)| format!("{why} {count}")).collect();
    let first = unplaced.keys.first().map(|first| format!("; first {} ({})", first.key, first.why));
    let (total, first) = (unplaced.total, first.unwrap_or_default());
    Some(format!(
        "keys of {} without a member to go to: {total} ({}){first}",
        pool.pool,
        whys.join(", ")
    ))
}
