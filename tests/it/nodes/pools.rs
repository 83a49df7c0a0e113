//! A pool whose members are at home at two nodes: both see the same, each moves what is at home at it.

use std::collections::BTreeMap;

use crate::nodes::{events::all_events, on_both_stores, pair::Pair};

use crate::support::{
    clock::{ms, sleep_ms, within},
    node::Node,
    pool_worker::{Worker, pool},
};

on_both_stores!(
    a_pool_of_two_nodes_settles_and_moves_what_it_must,
    a_pool_outlives_one_of_its_nodes,
    a_member_comes_back_at_another_node,
);

const KEYS: usize = 40;
/// How long a pool may take to settle, on a machine that is busy with other tests.
const SETTLE_MS: u64 = 40_000;

fn keys() -> Vec<String> {
    (0..KEYS).map(|n| format!("shards/{n:02}")).collect()
}

/// Waits until both nodes see that so many members have their shares, and no key is free.
async fn settled(nodes: &[&Node], members: usize) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut last = serde_json::Value::Null;
    let settled = within(ms(SETTLE_MS), async || {
        for node in nodes {
            let (seen, shares) = pool(&node.url, "shards").await;
            let fits = shares.len() == members
                && seen["keys"] == KEYS
                && seen["free"] == 0
                && shares.values().all(|(held, share)| held == share);
            last = seen;
            if !fits {
                return false;
            }
            found = shares.into_iter().map(|(owner, (held, _))| (owner, held)).collect();
        }
        true
    })
    .await;
    assert!(settled, "the pool is not settled: {last:#}");
    found
}

async fn counted(node: &Node, kind: &str) -> usize {
    let name = format!("io.tenure.lease.{kind}");
    let of_pool = |event: &&serde_json::Value| event["data"]["pool"] == "shards";
    let events = all_events(node, 0).await;
    events.iter().filter(of_pool).filter(|event| event["type"] == *name).count()
}

async fn four(pair: &Pair, ttl_ms: u64) -> Vec<Worker> {
    let mut workers = Vec::new();
    for (owner, node) in [("a", &pair.a), ("b", &pair.b), ("c", &pair.a), ("d", &pair.b)] {
        workers.push(Worker::join(&node.url, "shards", owner, 1, ttl_ms).await);
    }
    // Both nodes know all four before any of them asks.
    for node in [&pair.a, &pair.b] {
        let known = within(ms(SETTLE_MS), async || pool(&node.url, "shards").await.1.len() == 4);
        assert!(known.await, "every member is known everywhere");
    }
    workers.iter_mut().for_each(|worker| worker.work(keys()));
    workers
}

async fn a_pool_of_two_nodes_settles_and_moves_what_it_must(pair: Pair) {
    let both = [&pair.a, &pair.b];
    let mut workers = four(&pair, 4000).await;
    let found = settled(&both, 4).await;
    assert!(found.values().all(|held| *held == 10), "{found:?}");
    let before = counted(&pair.b, "handover-requested").await;

    let mut heavy = Worker::join(&pair.b.url, "shards", "e", 2, 4000).await;
    heavy.work(keys());
    let mut found = settled(&both, 5).await;
    assert_eq!(found.remove("e"), Some(13));
    assert!(found.values().all(|held| [6, 7].contains(held)), "{found:?}");
    let asked = counted(&pair.b, "handover-requested").await;
    println!("13 must move: {} were asked for, {before} before", asked - before);
    assert!((13..=14).contains(&(asked - before)), "{} were asked for", asked - before);

    workers[0].drain().await;
    for node in both {
        let known = within(ms(SETTLE_MS), async || pool(&node.url, "shards").await.1["a"].1 == 0);
        assert!(known.await, "that it leaves is known everywhere");
    }
    let found = settled(&both, 5).await;
    assert_eq!((found["a"], found["e"]), (0, 16));
    let handed_over = within(ms(SETTLE_MS), async || workers[0].held() == 0);
    assert!(handed_over.await, "it has nothing");
    let killed = workers.remove(1);
    drop(killed);
    let found = settled(&both, 4).await;
    assert_eq!((found["c"], found["d"], found["e"]), (10, 10, 20));
    // Nothing moves in a pool that has settled.
    let asked = counted(&pair.a, "handover-requested").await;
    sleep_ms(3000).await;
    assert_eq!(counted(&pair.a, "handover-requested").await, asked);
    assert_eq!(counted(&pair.a, "revoked").await, 0);
}

async fn a_pool_outlives_one_of_its_nodes(mut pair: Pair) {
    let workers = four(&pair, 3000).await;
    settled(&[&pair.a, &pair.b], 4).await;
    pair.b.kill();
    // Nobody keeps the sessions of b and d any more: they end, and the others take what they had.
    let found = settled(&[&pair.a], 2).await;
    assert_eq!((found["a"], found["c"]), (20, 20));
    drop(workers);
}

/// Half of the members come back at the other node: after a close, and after a crash that nobody has noticed.
async fn a_member_comes_back_at_another_node(pair: Pair) {
    let keys: Vec<String> = (0..KEYS).map(|n| format!("kept/{n:02}")).collect();
    let mut workers = Vec::new();
    for (owner, node) in [("a", &pair.a), ("b", &pair.b), ("c", &pair.a), ("d", &pair.b)] {
        workers.push(Worker::join(&node.url, "kept", owner, 1, 4_000).await);
    }
    let each = async |members: usize| {
        let mut last = serde_json::Value::Null;
        let even = within(ms(SETTLE_MS), async || {
            for node in [&pair.a, &pair.b] {
                let (seen, shares) = pool(&node.url, "kept").await;
                let all = seen["members"].as_array().is_some_and(|all| all.len() == members);
                let fits = shares.values().all(|share| *share == (10, 10));
                last = seen;
                if !(all && fits) {
                    return false;
                }
            }
            true
        });
        assert!(even.await, "each has its ten keys: {last:#}");
    };
    let known = within(ms(SETTLE_MS), async || {
        pool(&pair.a.url, "kept").await.1.len() == 4 && pool(&pair.b.url, "kept").await.1.len() == 4
    });
    assert!(known.await, "every member is known everywhere");
    workers.iter_mut().for_each(|worker| worker.work(keys.clone()));
    each(4).await;
    let asked = |events: &[serde_json::Value]| {
        let of_pool = events.iter().filter(|event| event["data"]["pool"] == "kept");
        of_pool.filter(|event| event["type"] == "io.tenure.lease.handover-requested").count()
    };
    let before = asked(&all_events(&pair.a, 0).await);
    for (owner, node, is_killed) in
        [("a", &pair.b, false), ("b", &pair.a, true), ("c", &pair.a, true), ("d", &pair.b, false)]
    {
        let former = workers.remove(0);
        let had = former.keys();
        if is_killed {
            drop(former);
        } else {
            former.stop().await;
        }
        let mut back = Worker::join(&node.url, "kept", owner, 1, 4_000).await;
        back.work(keys.clone());
        let again = within(ms(SETTLE_MS), async || back.keys() == had).await;
        assert!(again, "{owner} had {had:?} and has {:?}", back.keys());
        workers.push(back);
    }
    // The sessions of those that were killed have run out.
    each(4).await;
    let events = all_events(&pair.a, 0).await;
    assert_eq!(asked(&events), before, "nothing was asked of the others");
    let newest = Worker::join(&pair.a.url, "kept", "a", 1, 4_000).await;
    let told = within(ms(SETTLE_MS), async || workers[0].is_replaced()).await;
    assert!(told && !newest.is_replaced(), "the home node of the older session hears of the newer");
}
