//! Orders for a pool whose members are at home at two nodes, and its guard against mass failures.

use serde_json::{Value, json};

use crate::nodes::{on_both_stores, pair::Pair};

use crate::support::{
    clock::{ms, sleep_ms, within},
    http,
    node::Node,
    pool_worker::{Worker, pool},
};

on_both_stores!(an_order_holds_at_both_nodes, a_guard_stands_at_both_nodes,);

/// How long a pool may take to settle, on a machine that is busy with other tests.
const SETTLE_MS: u64 = 40_000;

fn keys(prefix: &str) -> Vec<String> {
    (0..20).map(|n| format!("{prefix}/{n:02}")).collect()
}

async fn order(node: &Node, name: &str, more: Value) -> Value {
    let mut body = json!({ "pool": name, "reason": "repair" });
    let fields = more.as_object().expect("an object").clone();
    body.as_object_mut().expect("an object").extend(fields);
    let url = format!("{}/v1/admin/pool", node.url);
    let answer = http::client().post(url).json(&body).send().await.expect("an answer");
    let (status, answer) = (answer.status(), answer.json::<Value>().await.expect("JSON"));
    assert_eq!(status, 200, "{answer}");
    answer
}

/// Waits until the pool is so at each of these nodes.
async fn is_so(nodes: &[&Node], name: &str, what: &str, so: impl Fn(&Value) -> bool) {
    for node in nodes {
        let mut last = Value::Null;
        let seen = within(ms(SETTLE_MS), async || {
            last = pool(&node.url, name).await.0;
            so(&last)
        });
        assert!(seen.await, "{what}: {last:#}");
    }
}

async fn an_order_holds_at_both_nodes(mut pair: Pair) {
    order(&pair.a, "shards", json!({ "action": "freeze" })).await;
    is_so(&[&pair.a, &pair.b], "shards", "it is frozen", |pool| {
        pool["frozen"]["by"] == "127.0.0.1"
    })
    .await;
    let mut worker = Worker::join(&pair.b.url, "shards", "w", 1, 4_000).await;
    worker.work(keys("shards"));
    sleep_ms(1_500).await;
    assert_eq!(worker.held(), 0);
    order(&pair.b, "shards", json!({ "action": "thaw" })).await;
    let takes = within(ms(SETTLE_MS), async || worker.held() == 20);
    assert!(takes.await, "it has all");
    is_so(&[&pair.a], "shards", "it is thawed", |pool| pool["frozen"].is_null()).await;
    // The orders outlive the node that stored them.
    order(&pair.a, "shards", json!({ "action": "pause", "key": "shards/07" })).await;
    let handed_over = within(ms(SETTLE_MS), async || worker.held() == 19);
    assert!(handed_over.await, "it hands the key over");
    pair.a.kill();
    let resume = json!({ "action": "resume", "key": "shards/07" });
    assert_eq!(order(&pair.b, "shards", resume).await["paused"], json!([]));
    let takes = within(ms(SETTLE_MS), async || worker.held() == 20);
    assert!(takes.await, "it has all again");
}

async fn a_guard_stands_at_both_nodes(pair: Pair) {
    let both = [&pair.a, &pair.b];
    let mut workers = Vec::new();
    for (owner, node) in [("a", &pair.a), ("b", &pair.b), ("c", &pair.a), ("d", &pair.b)] {
        workers.push(Worker::join(&node.url, "guarded", owner, 1, 3_000).await);
    }
    is_so(&both, "guarded", "all are known", |pool| {
        pool["members"].as_array().is_some_and(|members| members.len() == 4)
    })
    .await;
    workers.iter_mut().for_each(|worker| worker.work(keys("guarded")));
    let shared = within(ms(SETTLE_MS), async || workers.iter().all(|worker| worker.held() == 5));
    assert!(shared.await, "each has its share");
    let left = workers.split_off(2);
    drop(workers);
    is_so(&both, "guarded", "a guard stands", |pool| {
        pool["guard"]["members"] == 4 && pool["guard"]["least"] == 2 && pool["free"] == 10
    })
    .await;
    // Longer than the lock-delay of the keys.
    sleep_ms(7_000).await;
    assert!(left.iter().all(|worker| worker.held() == 5), "nobody has more than before");
    let mut new = Worker::join(&pair.b.url, "guarded", "e", 1, 3_000).await;
    new.work(keys("guarded"));
    is_so(&both, "guarded", "the guard ended", |pool| pool["guard"].is_null() && pool["free"] == 0)
        .await;
}
