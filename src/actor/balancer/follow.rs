//! Keeps what is known of pools complete: reads the members and keys that the feed did not report.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;

use crate::{
    actor::coordinator::Coordinator,
    lease::{Key, KeyState, Nonce, PoolControls, Token},
    store::{Found, Range, StoreError},
};

/// How many keys are read at a time.
const PAGE: usize = 500;
/// How often it is looked whether members of other nodes are ready by now. The feed does not say so.
const READY: Duration = Duration::from_secs(1);
/// How often it is looked whether orders are over, at least, if some will be.
const LOOK_MS: u64 = 10_000;
/// How long to wait after a failed read of the store before the next one.
const RETRY: Duration = Duration::from_millis(500);

/// Runs for as long as the process.
pub async fn follow(coordinator: &Arc<Coordinator>) {
    loop {
        if let Err(error) = complete(coordinator).await {
            tracing::warn!(%error, "cannot read the members and keys of pools; retrying");
            tokio::time::sleep(RETRY).await;
            continue;
        }
        let is_here = |digest| coordinator.sessions.get(digest).is_some();
        let unready = coordinator.pools.unready(is_here);
        let wall_ms = coordinator.clock.wall_ms();
        let ends = coordinator.pools.end_orders(coordinator.clock.now(), wall_ms);
        // The wall clock may be set: it is looked at again before long.
        let in_ms = ends.map(|ends| ends.saturating_sub(wall_ms).clamp(1, LOOK_MS));
        tokio::select! {
            () = coordinator.pools.work.notified() => {}
            () = tokio::time::sleep(Duration::from_millis(in_ms.unwrap_or_default())), if in_ms.is_some() => {}
            () = tokio::time::sleep(READY), if !unready.is_empty() => {
                unready.into_iter().for_each(|digest| coordinator.pools.joins_again(digest));
            }
        }
    }
}

async fn complete(coordinator: &Coordinator) -> Result<(), StoreError> {
    read_controls(coordinator).await?;
    if !coordinator.pools.is_searched() {
        search(coordinator).await?;
    }
    read_joins(coordinator).await?;
    tell_replaced(coordinator);
    for name in coordinator.pools.unindexed() {
        indexing(coordinator, &name).await?;
    }
    coordinator.pools.planned.notify_one();
    Ok(())
}

/// Reads what operators ordered for pools, where that changed.
async fn read_controls(coordinator: &Coordinator) -> Result<(), StoreError> {
    let all: Vec<_> = coordinator.policy_table().pools().into_iter().collect();
    let mut read = Ok(());
    for pool in coordinator.pools.take_controls_due(&all) {
        let misses = coordinator.pools.misses();
        let found = coordinator.store.read(&Key::of_pool(&pool)).await;
        match found {
            Ok(found) => obey(coordinator, (&pool, misses), found.as_ref()),
            Err(error) => {
                coordinator.pools.controls_again(&pool);
                read = Err(error);
            }
        }
    }
    read
}

/// Follows what the record of a pool says. A record that cannot be read changes nothing.
fn obey(coordinator: &Coordinator, (pool, misses): (&str, u64), found: Option<&Found>) {
    let mut stored = (Token::default(), false);
    let value = match found.map(|found| (found.revision, &found.record)) {
        None => Ok(None),
        Some((revision, Ok(record))) => {
            stored = (record.token(revision), record.tenure.is_none());
            Ok(record.value.as_deref())
        }
        Some((_, Err(error))) => Err(error.to_string()),
    };
    let controls =
        value.and_then(|value| PoolControls::of_value(value).map_err(|error| error.to_string()));
    match controls {
        Ok(controls) => {
            let now = (coordinator.clock.now(), coordinator.clock.wall_ms());
            coordinator.pools.obey((pool, misses), stored, controls, now);
        }
        Err(error) => {
            tracing::error!(pool, error, "cannot read the orders for a pool; the last ones hold");
        }
    }
}

/// Searches for every session that is alive.
async fn search(coordinator: &Coordinator) -> Result<(), StoreError> {
    let pools = &coordinator.pools;
    pools.begin_search();
    let read = |key: &Key, found: &Found| note(coordinator, key, found);
    match pages(coordinator, Key::session_prefix(), read).await {
        Ok(found) => {
            pools.end_search(found, |digest| coordinator.sessions.get(digest).is_some());
            Ok(())
        }
        Err(error) => {
            pools.fail_search();
            Err(error)
        }
    }
}

/// Notes a session's record. Returns the session, if it is alive.
fn note(coordinator: &Coordinator, key: &Key, found: &Found) -> Option<Nonce> {
    let digest = key.session()?;
    let record = found.record.as_ref().ok().filter(|record| record.state == KeyState::Held)?;
    let pool = record.spec.as_ref().and_then(|spec| spec.pool.as_deref());
    let returns = pool.is_some_and(|pool| coordinator.policy_table().returns(pool));
    let token = returns.then(|| record.token(found.revision));
    coordinator.pools.read(digest, record, token).then_some(digest)
}

/// Reads the records of sessions that other nodes made.
async fn read_joins(coordinator: &Coordinator) -> Result<(), StoreError> {
    let Some(joins) = coordinator.pools.begin_joins() else { return Ok(()) };
    let reads = joins.into_iter().map(|digest| read_join(coordinator, digest));
    let read = join_all(reads).await;
    coordinator.pools.end_joins();
    read.into_iter().collect()
}

/// Tells the sessions at home here that a newer one of their owner replaced.
fn tell_replaced(coordinator: &Coordinator) {
    for digest in coordinator.pools.take_replaced() {
        if let Some(session) = coordinator.sessions.get(digest) {
            session.announce_replaced();
        }
    }
}

async fn read_join(coordinator: &Coordinator, digest: Nonce) -> Result<(), StoreError> {
    let key = Key::of_session(digest);
    let found = coordinator.store.read(&key).await;
    let found = found.inspect_err(|_| coordinator.pools.joins_again(digest))?;
    found.and_then(|found| note(coordinator, &key, &found));
    Ok(())
}

/// Reads every key of a pool.
async fn indexing(coordinator: &Coordinator, name: &str) -> Result<(), StoreError> {
    let pools = &coordinator.pools;
    // A resync that begins during this search must not be marked as done at its end.
    let begun = (coordinator.policy_table().version(), pools.misses());
    let table = coordinator.policy_table();
    pools.begin_indexing(
        name,
        table.load_tolerance(name),
        table.places(name, coordinator.protocol),
    );
    let ranges = coordinator.policy_table().ranges(name, "");
    for range in ranges {
        pages(coordinator, &range, |key, found| {
            learn(coordinator, (name, begun.1), key, found);
            None::<()>
        })
        .await?;
    }
    if begun == (coordinator.policy_table().version(), pools.misses()) {
        pools.end_indexing(name);
    }
    Ok(())
}

/// Notes a key's record, if the key belongs to the pool.
fn learn(coordinator: &Coordinator, (name, misses): (&str, u64), key: &Key, found: &Found) {
    if let Ok(record) = &found.record
        && !key.is_internal()
        && coordinator.policy_table().is_of(key.as_str(), name)
    {
        let now = coordinator.clock.now();
        coordinator.pools.learn((name, misses), key, record, found.revision, now);
    }
}

async fn pages<T>(
    coordinator: &Coordinator,
    prefix: &str,
    each: impl Fn(&Key, &Found) -> Option<T>,
) -> Result<Vec<T>, StoreError> {
    let (mut kept, mut after) = (Vec::new(), None);
    loop {
        let range = Range { prefix: prefix.to_owned(), after: after.take(), limit: PAGE };
        let page = coordinator.store.scan(range).await?;
        let Some((last, _)) = page.last() else { return Ok(kept) };
        after = Some(last.as_str().to_owned());
        kept.extend(page.iter().filter_map(|(key, found)| each(key, found)));
        tokio::task::yield_now().await;
    }
}
