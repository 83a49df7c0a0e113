//! `keys` of a `[[policy]]` on several nodes: what one node added or forgot counts at the others.

use std::fs;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::nodes::{
    on_both_stores,
    pair::{ENVIRONMENT, Pair},
};

use crate::support::{
    clock::{ms, within},
    node::Node,
};

on_both_stores!(
    of_many_new_keys_at_one_node_just_as_many_are_granted_as_may_be,
    what_other_nodes_add_and_forget_counts,
    what_another_node_removed_counts_no_more,
);

const POLICY: &str = "[[policy]]\nprefix = \"few/\"\nkeys = 4\n";
/// The records stay for 4 s, and after 10 s more another node knows that they went.
const FORGOTTEN_MS: u64 = 30_000;

async fn ask(node: &Node, key: &str) -> (u16, Value) {
    let body = json!({ "key": key, "owner": "w", "ttl_ms": 300, "reclaim": true });
    node.post("/v1/acquire", &body).await
}

async fn take(node: &Node, key: &str) {
    let (status, grant) = ask(node, key).await;
    assert_eq!(status, 200, "{grant}");
}

/// Whether a new key is refused; it is one that is there already where it is not.
async fn is_full(node: &Node, key: &str) -> bool {
    let (status, reply) = ask(node, key).await;
    assert!(status == 200 || reply["code"] == "too-many-keys", "{status} {reply}");
    status != 200
}

/// What other nodes wrote a moment ago may not be known yet: until then the bound is approximate.
async fn knows(node: &Node, count: usize) {
    let known = within(ms(5_000), async || {
        let page = node.get("/v1/leases?prefix=few/").await;
        page["leases"].as_array().is_some_and(|leases| leases.len() == count)
    });
    assert!(known.await, "{}", node.get("/v1/leases?prefix=few/").await);
}

async fn forget(node: &Node, count: u64) {
    let body = json!({ "prefix": "few/", "reason": "the jobs are done" });
    let done = within(ms(10_000), async || {
        let (status, forgot) = node.post("/v1/admin/forget", &body).await;
        assert_eq!(status, 200, "{forgot}");
        forgot["forgotten"] == count
    });
    assert!(done.await, "all are free, and forgotten");
}

async fn of_many_new_keys_at_one_node_just_as_many_are_granted_as_may_be(pair: Pair) {
    pair.reload(POLICY).await;
    let keys: Vec<_> = (0..40).map(|n| format!("few/{n}")).collect();
    let answers = join_all(keys.iter().map(|key| ask(&pair.a, key))).await;
    let with = |wanted: u16| answers.iter().filter(|(status, _)| *status == wanted).count();
    assert_eq!((with(200), with(507)), (4, 36), "{answers:?}");
}

async fn what_another_node_removed_counts_no_more(pair: Pair) {
    pair.reload(POLICY).await;
    for n in 0..4 {
        take(&pair.a, &format!("few/{n}")).await;
    }
    knows(&pair.b, 4).await;
    assert!(is_full(&pair.b, "few/more").await);
    forget(&pair.a, 4).await;
    // Nobody lists the keys meanwhile.
    for n in 4..8 {
        let key = format!("few/{n}");
        let room = within(ms(FORGOTTEN_MS), async || !is_full(&pair.b, &key).await);
        assert!(room.await, "{key}: what was forgotten counts no more");
    }
    assert!(is_full(&pair.b, "few/more").await);
}

async fn what_other_nodes_add_and_forget_counts(mut pair: Pair) {
    pair.reload(POLICY).await;
    for (node, n) in [(&pair.a, 0), (&pair.b, 1), (&pair.a, 2)] {
        take(node, &format!("few/{n}")).await;
    }
    take(&pair.b, "few/last").await;
    for node in [&pair.a, &pair.b] {
        knows(node, 4).await;
        assert!(is_full(node, "few/more").await);
    }
    pair.b.kill();
    pair.b.start().await;
    assert!(is_full(&pair.b, "few/more").await, "what exists counts after a restart");
    assert!(!is_full(&pair.b, "few/0").await, "a key that exists is granted");

    forget(&pair.a, 4).await;
    assert!(is_full(&pair.a, "few/more").await, "their records are there for now");
    for (node, key) in [(&pair.a, "few/5"), (&pair.b, "few/6")] {
        let room = within(ms(FORGOTTEN_MS), async || !is_full(node, key).await);
        assert!(room.await, "{key}: what was forgotten counts no more");
    }
    for key in ["few/7", "few/8"] {
        let room = within(ms(FORGOTTEN_MS), async || !is_full(&pair.b, key).await);
        assert!(room.await, "{key}: what was forgotten counts no more");
    }
    for node in [&pair.a, &pair.b] {
        knows(node, 4).await;
        assert!(is_full(node, "few/more").await);
    }
}

#[tokio::test]
async fn on_the_embedded_store() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tenure.toml");
    fs::write(&file, POLICY).expect("settings");
    let data = format!("store.embedded.data_dir={}", dir.path().join("data").display());
    let mut node = Node::new("e", &[data], &ENVIRONMENT).configured(&file);
    node.start().await;
    for n in 0..4 {
        take(&node, &format!("few/{n}")).await;
    }
    assert!(is_full(&node, "few/more").await);
    forget(&node, 4).await;
    assert!(is_full(&node, "few/more").await, "their records are there for now");
    for n in 5..9 {
        let key = format!("few/{n}");
        assert!(within(ms(FORGOTTEN_MS), async || !is_full(&node, &key).await).await);
    }
    assert!(is_full(&node, "few/more").await);
}
