//! Keys that nobody needs any more: they are forgotten, their tokens are not.

use serde_json::{Value, json};

use crate::nodes::{
    on_both_stores,
    pair::{ENVIRONMENT, Grant, Pair, acquire},
};

use crate::support::{
    clock::{ms, within},
    node::Node,
};

on_both_stores!(free_keys_are_forgotten_and_their_tokens_go_on);

async fn free_keys_are_forgotten_and_their_tokens_go_on(pair: Pair) {
    forgets(&pair.a, &pair.b).await;
}

#[tokio::test]
async fn on_the_embedded_store() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = format!("store.embedded.data_dir={}", dir.path().join("data").display());
    let mut node = Node::new("e", &[data, "limits.keys=60".to_owned()], &ENVIRONMENT);
    node.start().await;
    forgets(&node, &node).await;
    // What used up the store does so no more.
    let many = |from: usize| (from..from + 50).map(|n| format!("tmp/{n}")).collect::<Vec<_>>();
    let take = async |from: usize| {
        let body = json!({ "keys": many(from), "owner": "w", "ttl_ms": 100, "count": 50 });
        node.post("/v1/acquire-any", &body).await.0
    };
    assert_eq!(take(0).await, 200);
    let full = json!({ "key": "one/more", "owner": "w", "ttl_ms": 1000 });
    let mut refused = Value::Null;
    for n in 0..10 {
        let body = json!({ "key": format!("more/{n}"), "owner": "w", "ttl_ms": 1000 });
        refused = node.post("/v1/acquire", &body).await.1;
    }
    assert_eq!(refused["code"], "too-many-keys", "{refused}");
    assert!(within(ms(5_000), async || forget(&node, "tmp/").await["forgotten"] == 50).await);
    let room = within(ms(15_000), async || node.post("/v1/acquire", &full).await.0 == 200);
    assert!(room.await, "the records go after a while");
    assert!(within(ms(5_000), async || take(100).await == 200).await);
    let gone = within(ms(15_000), async || !is_known(&node, "tmp/0").await);
    assert!(gone.await, "the last records go as well");
    node.kill();
    node.start().await;
    assert!(!is_known(&node, "tmp/0").await, "it is forgotten for good");
}

async fn forget(node: &Node, prefix: &str) -> Value {
    let body = json!({ "prefix": prefix, "reason": "the jobs are done" });
    let (status, forgot) = node.post("/v1/admin/forget", &body).await;
    assert_eq!(status, 200, "{forgot}");
    forgot
}

async fn release(node: &Node, grant: &Grant) {
    assert_eq!(node.post("/v1/release", &grant.proof()).await.0, 200);
}

/// Whether the node has a record of the key.
async fn is_known(node: &Node, key: &str) -> bool {
    let page = node.get(&format!("/v1/leases?prefix={key}&state=free")).await;
    page["leases"].as_array().is_some_and(|leases| !leases.is_empty())
}

async fn forgets(a: &Node, b: &Node) {
    let mut before = Vec::new();
    for n in 0..5 {
        let grant = acquire(a, &format!("jobs/{n}"), "w", 60_000).await;
        before.push(grant.token);
        if n != 4 {
            release(a, &grant).await;
        }
    }
    let pin = json!({ "key": "jobs/3", "by": "someone" });
    assert_eq!(a.post("/v1/admin/pin", &pin).await.0, 200);
    let other = acquire(a, "other/1", "w", 60_000).await;
    release(a, &other).await;
    // The other node knows them too, and has their actors in memory.
    for n in 0..3 {
        let known = within(ms(5_000), async || is_known(b, &format!("jobs/{n}")).await);
        assert!(known.await);
    }
    let forgot = forget(a, "jobs/").await;
    assert_eq!(
        (&forgot["forgotten"], &forgot["left"], &forgot["next"]),
        (&json!(3), &json!(2), &Value::Null)
    );
    let again = forget(a, "jobs/").await;
    assert_eq!(again["forgotten"], 3, "asked twice it is done once: {again}");
    // Somebody needs one of them after all.
    let kept = acquire(b, "jobs/2", "v", 60_000).await;
    assert!(kept.token > before[2]);
    for n in 0..2 {
        for node in [a, b] {
            let gone = within(ms(15_000), async || !is_known(node, &format!("jobs/{n}")).await);
            assert!(gone.await, "jobs/{n}");
        }
    }
    let check = json!({ "key": "jobs/2", "token": kept.token });
    assert_eq!(b.post("/v1/check", &check).await.1["current"], true);
    assert!(is_known(a, "other/").await, "what the prefix does not name stays");
    // Both nodes grant them as keys that were never written, under tokens above all before.
    for (n, node) in [(0, a), (1, b)] {
        let next = acquire(node, &format!("jobs/{n}"), "w2", 60_000).await;
        assert!(next.token > before[n], "{} after {}", next.token, before[n]);
        release(node, &next).await;
    }
    let page = a.get("/v1/events?format=json&after=0&types=forgotten").await;
    let events = page["events"].as_array().expect("events");
    let keys: Vec<_> = events.iter().map(|event| event["subject"].clone()).collect();
    assert_eq!(keys.len(), 3, "{page}");
    assert_eq!(events[0]["data"]["reason"], "the jobs are done");
}
