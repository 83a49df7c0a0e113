//! Finds the members and keys of pools, and has leases handed over where a pool is out of balance.
//!
//! Every node computes the same plan from the same view; each asks for the leases of the sessions that
//! are at home at it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{StreamExt, future::join_all, stream};

use super::{
    super::{World, tasks::supervise},
    Fact, Name, Pool,
};
use crate::{
    clock::HashSet,
    lease::{Answer, Key, Nonce, State, balance::Damping},
    store::{Found, Range, StoreError},
};

/// Plans are made at most so often.
const ROUND: Duration = Duration::from_secs(1);
/// A lease is not asked for before it was held for so long.
const MIN_HOLD: Duration = Duration::from_secs(10);
/// At most so many leases of a member are asked for at a time, or half of what it has.
const MOVES_AT_ONCE: usize = 16;
/// Keys read at a time.
const PAGE: usize = 500;
/// Why a lease is asked for, and who asks, where no administrator does.
const BALANCE: &str = "balance";
const ACTOR: &str = "balancer";
/// Requests that are written at a time.
const ASKS_AT_ONCE: usize = 64;
/// Between two looks at the store, when one failed.
const RETRY: Duration = Duration::from_millis(500);

/// Goes on for as long as the process does.
pub(crate) fn start(world: &Arc<World>) {
    supervise(world, "pools", |world| async move { follow_for_ever(&world).await });
    supervise(world, "balance", |world| async move { balance_for_ever(&world).await });
}

/// [`MIN_HOLD`], unless a test is in a hurry.
fn min_hold() -> Duration {
    #[cfg(any(test, feature = "testing"))]
    if let Some(ms) = std::env::var("TENURE_TEST_MIN_HOLD_MS").ok().and_then(|ms| ms.parse().ok()) {
        return Duration::from_millis(ms);
    }
    MIN_HOLD
}

/// Keeps the view of pools whole.
async fn follow_for_ever(world: &Arc<World>) {
    loop {
        if let Err(error) = follow(world).await {
            tracing::warn!(%error, "the members of pools cannot be looked for");
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

/// Looks for every session that lives.
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
    // Those that arrived meanwhile are at home here, or are to be read yet.
    living.extend(state.joined.keys().filter(|digest| world.sessions.get(**digest).is_some()));
    for pool in state.pools.values_mut() {
        pool.keep_only(&living);
    }
    state.joined.retain(|digest, _| living.contains(digest));
    Ok(())
}

/// A session's record; the session, if it lives.
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

/// Looks at every key of a pool.
async fn survey(world: &World, name: &str) -> Result<(), StoreError> {
    let with = |act: &dyn Fn(&mut Pool)| {
        if let Some(pool) = world.pools.state().pools.get_mut(name) {
            act(pool);
        }
    };
    // Not to be forgotten when it is doubted again meanwhile.
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
        // Where some leases were too young, or too many, they are looked at again.
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

/// Asks for the leases of a pool that are to move. Whether some are to be asked for later.
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
                "a member takes none of the leases that it is to have: others get them until it asks for some"
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
                tracing::debug!(%key, ?other, "a lease is not asked for now");
                pool.spare(&key, world.clock.now());
            }
        }
    });
    stream::iter(asked).buffer_unordered(ASKS_AT_ONCE).collect::<()>().await;
    wanted
}
