//! Finds the members and keys of pools, and asks for leases where a pool is out of balance.
//!
//! Every node computes the same plan from the same view. Each node asks for leases only of sessions whose home node it
//! is.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{StreamExt, future::join_all, stream};

use crate::{
    actor::{
        pools::{Fact, Name, Pool},
        runtime::tasks::supervise,
        world::World,
    },
    clock::HashSet,
    lease::{Answer, Key, Nonce, State, balance::Damping},
    store::{Found, Range, StoreError},
};

/// The shortest time between two plans.
const ROUND: Duration = Duration::from_secs(1);
/// A lease is not asked for before it was held for this time.
const MIN_HOLD: Duration = Duration::from_secs(10);
/// How many leases of a member are asked for at once; or half of what it holds, if that is more.
const MOVES_AT_ONCE: usize = 16;
/// How many keys are read at a time.
const PAGE: usize = 500;
/// The reason of a request that no administrator made, and its author.
const BALANCE: &str = "balance";
const ACTOR: &str = "balancer";
/// How many requests are written at a time.
const ASKS_AT_ONCE: usize = 64;
/// How long to wait after a failed read of the store before the next one.
const RETRY: Duration = Duration::from_millis(500);

/// Starts the tasks that run for as long as the process.
pub(crate) fn start(world: &Arc<World>) {
    supervise(world, "pools", |world| async move { follow_for_ever(&world).await });
    supervise(world, "balance", |world| async move { balance_for_ever(&world).await });
}

/// [`MIN_HOLD`], unless a test sets a shorter time.
fn min_hold() -> Duration {
    #[cfg(any(test, feature = "testing"))]
    if let Some(ms) = std::env::var("TENURE_TEST_MIN_HOLD_MS").ok().and_then(|ms| ms.parse().ok()) {
        return Duration::from_millis(ms);
    }
    MIN_HOLD
}

/// Keeps the view of pools complete.
async fn follow_for_ever(world: &Arc<World>) {
    loop {
        if let Err(error) = follow(world).await {
            tracing::warn!(%error, "cannot read the members and keys of pools; retrying");
            tokio::time::sleep(RETRY).await;
            continue;
        }
        world.pools.work.notified().await;
    }
}

async fn follow(world: &Arc<World>) -> Result<(), StoreError> {
    if !world.pools.state().searched {
        search(world).await?;
    }
    read_arrivals(world).await?;
    let doubtful: Vec<Name> = {
        let state = world.pools.state();
        let pools = state.pools.iter();
        pools.filter(|(_, pool)| !pool.surveyed.get()).map(|(name, _)| name.clone()).collect()
    };
    for name in doubtful {
        survey(world, &name).await?;
    }
    world.pools.planned.notify_one();
    Ok(())
}

/// Searches for every session that is alive.
async fn search(world: &World) -> Result<(), StoreError> {
    {
        let mut state = world.pools.state();
        (state.searched, state.ended) = (true, Some(HashSet::default()));
    }
    let found = pages(world, Key::session_prefix(), |key, found| note(world, key, found)).await;
    let mut state = world.pools.state();
    let mut living = HashSet::default();
    match found {
        Ok(found) => living.extend(found),
        Err(error) => {
            (state.searched, state.ended) = (false, None);
            return Err(error);
        }
    }
    state.ended = None;
    // Sessions that were added meanwhile have this home node, or are still to be read.
    living.extend(state.joined.keys().filter(|digest| world.sessions.get(**digest).is_some()));
    for pool in state.pools.values_mut() {
        pool.keep_only(&living);
    }
    state.joined.retain(|digest, _| living.contains(digest));
    Ok(())
}

/// Notes a session's record. Returns the session, if it is alive.
fn note(world: &World, key: &Key, found: &Found) -> Option<Nonce> {
    let digest = key.session()?;
    let record = found.record.as_ref().ok().filter(|record| record.state == State::Held)?;
    let mut state = world.pools.state();
    if state.ended.as_ref().is_some_and(|ended| ended.contains(&digest)) {
        return None;
    }
    state.read(digest, record);
    if state.joined.contains_key(&digest) {
        world.pools.in_use.store(true, Ordering::Release);
    }
    Some(digest)
}

/// Reads the records of sessions that other nodes made.
async fn read_arrivals(world: &World) -> Result<(), StoreError> {
    let arrivals = {
        let mut state = world.pools.state();
        if state.arrivals.is_empty() {
            return Ok(());
        }
        state.ended = Some(HashSet::default());
        std::mem::take(&mut state.arrivals)
    };
    let reads = arrivals.into_iter().map(async |digest| {
        let key = Key::of_session(digest);
        match world.store.read(&key).await {
            Ok(found) => {
                found.and_then(|found| note(world, &key, &found));
                Ok(())
            }
            Err(error) => {
                world.pools.state().arrivals.insert(digest);
                Err(error)
            }
        }
    });
    let read = join_all(reads).await;
    world.pools.state().ended = None;
    read.into_iter().collect()
}

/// Reads every key of a pool.
async fn survey(world: &World, name: &str) -> Result<(), StoreError> {
    let with = |act: &dyn Fn(&mut Pool)| {
        if let Some(pool) = world.pools.state().pools.get_mut(name) {
            act(pool);
        }
    };
    // A resync that begins during this search must not be marked as done at its end.
    let version = world.rules().version();
    let doubts = world.pools.doubts.load(Ordering::Acquire);
    with(&|pool| pool.begin_survey());
    let ranges = world.rules().ranges(name, "");
    for range in ranges {
        pages(world, &range, |key, found| {
            let rules = world.rules();
            if let Ok(record) = &found.record
                && !key.is_session()
                && rules.is_of(key.as_str(), name)
            {
                let fact = Fact::of_record(record, found.revision);
                let now = world.clock.now();
                with(&|pool| pool.learn(key, fact, now));
            }
            None::<()>
        })
        .await?;
    }
    if version == world.rules().version() && doubts == world.pools.doubts.load(Ordering::Acquire) {
        with(&|pool| pool.end_survey());
    }
    Ok(())
}

async fn pages<T>(
    world: &World,
    prefix: &str,
    each: impl Fn(&Key, &Found) -> Option<T>,
) -> Result<Vec<T>, StoreError> {
    let (mut kept, mut after) = (Vec::new(), None);
    loop {
        let range = Range { prefix: prefix.to_owned(), after: after.take(), limit: PAGE };
        let page = world.store.scan(range).await?;
        let Some((last, _)) = page.last() else { return Ok(kept) };
        after = Some(last.as_str().to_owned());
        kept.extend(page.iter().filter_map(|(key, found)| each(key, found)));
        tokio::task::yield_now().await;
    }
}

async fn balance_for_ever(world: &Arc<World>) {
    let damping = Damping { min_hold: min_hold(), at_once: MOVES_AT_ONCE };
    let mut unmet = false;
    loop {
        // Where some leases were too young, or too many at once, the pool is planned again.
        if !unmet {
            world.pools.planned.notified().await;
        }
        let names: Vec<Name> = world.pools.state().pools.keys().cloned().collect();
        unmet = false;
        for name in names {
            unmet |= balance(world, &name, damping).await;
        }
        tokio::time::sleep(ROUND).await;
    }
}

/// Asks for the leases of a pool that must move. Returns whether some must be asked for later.
async fn balance(world: &Arc<World>, name: &str, damping: Damping) -> bool {
    let now = world.clock.now();
    let rules = world.rules();
    let here = |digest: Nonce| world.sessions.get(digest).is_some();
    let movable = |key: &Key| rules.of(key.as_str()).0.balance;
    let (orders, wanted) = {
        let mut state = world.pools.state();
        let searched = state.searched;
        let Some(pool) = state.pools.get_mut(name) else { return false };
        if !searched || !pool.surveyed.get() {
            return false;
        }
        let (aside, watched) = pool.judge(now);
        for session in aside {
            tracing::warn!(
                pool = name,
                %session,
                "a member leaves its leases untaken: others get them until it asks for some"
            );
        }
        let plan = pool.plan(here, now, damping);
        if let Some(metrics) = rules.named(name) {
            metrics.balance(pool.members.len(), plan.moves);
        }
        if !world.rules().balances(name) {
            return watched;
        }
        let wanted = watched || plan.asks.iter().any(|ask| *ask > 0);
        (pool.orders(&plan, here, movable, now, damping), wanted)
    };
    drop(rules);
    let asked = orders.into_iter().map(async |(digest, key)| {
        let session = world.sessions.get(digest);
        let (reason, actor) = match session.and_then(|session| session.drained_by()) {
            Some(by) => (format!("drain, by {by}"), by),
            None => (BALANCE.to_owned(), ACTOR.into()),
        };
        let answer = world.ask_handover(&key, &reason, &actor, now.into()).await;
        let mut state = world.pools.state();
        let Some(pool) = state.pools.get_mut(name) else { return };
        match answer {
            Ok(Answer::Done(_)) => pool.asked(&key),
            other => {
                tracing::debug!(%key, ?other, "cannot ask for a lease now; it is asked for later");
                pool.spare(&key, world.clock.now());
            }
        }
    });
    stream::iter(asked).buffer_unordered(ASKS_AT_ONCE).collect::<()>().await;
    wanted
}
