//! Asks for leases where a pool is out of balance.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};

use crate::{
    actor::{
        coordinator::Coordinator,
        pools::{Before, DryRun, Order, Pool},
        runtime::aside::aside,
        sessions::ask_handover,
    },
    lease::{Answer, Key, Moment, Nonce, Said, balance::Damping},
};

/// The shortest time between two plans.
const ROUND: Duration = Duration::from_secs(1);
/// How many leases of a member are asked for at once; or half of what it holds, if that is more.
const MOVES_AT_ONCE: usize = 16;
/// The reason of a request that no administrator made, and its author.
const BALANCE: &str = "balance";
const ACTOR: &str = "balancer";
/// How many requests are written at a time.
const ASKS_AT_ONCE: usize = 64;

fn damping(coordinator: &Coordinator) -> Damping {
    let min_age = coordinator.limits.min_age;
    Damping { min_age, at_once: MOVES_AT_ONCE, is_exact: false }
}

/// What all nodes together would do now for the balance of a pool, without doing it; also for a pool that is not
/// balanced. `None` if no session joined the pool, or while not all of it is known.
pub(super) fn dry_run(coordinator: &Coordinator, name: &str) -> Option<DryRun> {
    let table = coordinator.policy_table();
    let balances = table.balances(name);
    let movable = |key: &Key| !balances || table.of(key.as_str()).0.balance.moves();
    let mut pool = coordinator.pools.copy_known(name)?;
    Some(pool.dry_run(movable, coordinator.clock.now(), damping(coordinator)))
}

/// Runs for as long as the process.
pub async fn balance(coordinator: &Arc<Coordinator>) {
    let damping = damping(coordinator);
    let mut unmet = false;
    loop {
        // Where some leases were too young, or too many at once, the pool is planned again.
        if !unmet {
            coordinator.pools.planned.notified().await;
        }
        unmet = false;
        for name in coordinator.pools.names() {
            unmet |= balance_pool(coordinator, &name, damping).await;
        }
        tokio::time::sleep(ROUND).await;
    }
}

/// Asks for the leases of a pool that must move. Returns whether some must be asked for later.
async fn balance_pool(coordinator: &Arc<Coordinator>, name: &str, damping: Damping) -> bool {
    let now = coordinator.clock.now();
    let (orders, wanted) = plan(coordinator, name, now, damping).await;
    let asks = orders.into_iter().map(|order| ask(coordinator, name, order, now));
    stream::iter(asks).buffer_unordered(ASKS_AT_ONCE).collect::<()>().await;
    wanted
}

/// The leases of a pool that this node must ask for now, with their sessions. The flag: some must be asked for later.
/// The plan is made on a copy, and away from the threads of calls.
async fn plan(
    coordinator: &Arc<Coordinator>,
    name: &str,
    now: Moment,
    damping: Damping,
) -> (Vec<Order>, bool) {
    let copied = coordinator.pools.change_known(name, |pool| (pool.before(), pool.copy()));
    let planned = match copied {
        None => (Vec::new(), false),
        Some(copied) => {
            let (shared, name) = (coordinator.clone(), Box::<str>::from(name));
            let work = move || plan_copy(&shared, &name, copied, (now, damping));
            aside(&coordinator.registry, work).await
        }
    };
    if coordinator.policy_table().warmups(name).is_some() {
        coordinator.pools.look_at_warming();
    }
    planned
}

fn plan_copy(
    coordinator: &Coordinator,
    name: &str,
    (before, mut pool): (Before, Pool),
    (now, damping): (Moment, Damping),
) -> (Vec<Order>, bool) {
    let table = coordinator.policy_table();
    let here = |digest: Nonce| coordinator.sessions.get(digest).is_some();
    let movable = |key: &Key| table.of(key.as_str()).0.balance.moves();
    let upgrades = pool.note_versions(now, Duration::from_millis(table.mixed_versions_ms(name)));
    let (aside, watched) = pool.judge(now);
    aside.into_iter().for_each(|session| say_aside(name, session));
    if pool.is_guard_over() {
        coordinator.pools.ends_guard();
    }
    pool.assign_again();
    let damping = pool.damping(damping);
    let proposal = pool.propose(here, movable, now, damping);
    pool.note_balance(&proposal, now);
    let unplaced = pool.note_unplaced(now);
    if let Some(metrics) = table.named(name) {
        metrics.balance(pool.members.len(), proposal.moves, pool.free());
        metrics.guarded(pool.guard().is_some());
        metrics.load_peak(proposal.peak);
        metrics.unplaced(|why| unplaced.counts.get(&why).copied().unwrap_or(0));
    }
    let watched = watched || upgrades || pool.is_rebalancing(proposal.moves, now);
    let mut orders = pool.paused_orders(here);
    let watched = watched || table.balances(name) && proposal.asks > 0;
    if table.balances(name) {
        orders.extend(proposal.orders);
    }
    if table.warmups(name).is_some() {
        orders = pool.warm_moves(orders, |member| is_late(coordinator, name, member));
    }
    let adopt = |known: &mut Pool| known.adopt_plan(&before, pool, orders);
    let (orders, holds) = coordinator.pools.change(name, adopt).unwrap_or_default();
    (orders, watched || !holds)
}

/// Whether no time is left for preparations before a member must have handed over everything.
pub(super) fn is_late(coordinator: &Coordinator, pool: &str, member: Nonce) -> bool {
    let Some(session) = coordinator.sessions.get(member) else { return false };
    if session.drained_by().is_none() {
        return false;
    }
    let (now, handovers) = (coordinator.clock.now(), &coordinator.sessions.handovers);
    let left_ms = handovers.left_ms(&Key::of_session(member), now).unwrap_or(0);
    left_ms <= coordinator.node_context().policies.handover_ms(Some(pool))
}

fn say_aside(pool: &str, session: Nonce) {
    tracing::warn!(
        pool,
        %session,
        "this member does not take its share of the pool: others get these keys until it asks for leases"
    );
}

/// Asks a member for a lease.
pub(super) async fn ask(coordinator: &Arc<Coordinator>, name: &str, order: Order, now: Moment) {
    let Order { member, key, shift, .. } = order;
    let session = coordinator.sessions.get(member);
    let drained = session.and_then(|session| session.drained_by());
    let (reason, actor) = match (drained, coordinator.pools.paused(name, &key), shift) {
        (Some(by), ..) => (format!("drain, by {by}"), by),
        (None, Some(Said { reason, by, to: None, .. }), _) => (format!("paused: {reason}"), by),
        (None, Some(Said { reason, by, to: Some(to), .. }), _) => {
            (format!("moved to {to}: {reason}"), by)
        }
        (None, None, Some(shift)) => (format!("{}: {shift}", shift.reason()), ACTOR.into()),
        (None, None, None) => (BALANCE.to_owned(), ACTOR.into()),
    };
    let answer =
        ask_handover(&coordinator.session_service, &key, &reason, &actor, now.into()).await;
    coordinator.pools.change(name, |pool| match answer {
        Ok(Answer::Done(view)) => pool.asked(&key, view.token),
        other => {
            tracing::debug!(%key, answer = ?other, "cannot ask a member to hand over a lease; retrying later");
            pool.spare(&key, coordinator.clock.now());
        }
    });
}
