//! Two nodes on one store: one of them notifies, and the other goes on when it is dead.

use serde_json::{Value, json};

use crate::{
    notifications::kit::{begins, has_all, judge, kind, recorder, told},
    support::{
        clock::{eventually, ms, within},
        nats_server,
        node::Node,
    },
};

/// Longer than it takes to find a node dead, and its notifier's lease expired.
const PATIENCE_MS: u64 = 40_000;

async fn history(node: &Node, after: &str) -> Vec<Value> {
    let (mut events, mut after) = (Vec::new(), after.to_owned());
    loop {
        let page = node.get(&format!("/v1/events?format=json&after={after}")).await;
        let more = page["events"].as_array().expect("events").clone();
        if more.is_empty() {
            events.retain(|event| ["granted", "released"].contains(&kind(event)));
            return events;
        }
        events.extend(more);
        after = page["next"].as_str().expect("next").to_owned();
    }
}

async fn work(node: &Node, rounds: usize) {
    for _ in 0..rounds {
        for key in 0..5 {
            let body = json!({ "key": format!("k/{key}"), "owner": "w", "ttl_ms": 60_000, "wait_ms": 30_000 });
            let grant = node.post_patiently("/v1/acquire", &body, ms(PATIENCE_MS)).await;
            assert_eq!(grant.0, 200, "{grant:?}");
            let proof = json!({ "key": grant.1["key"], "lease_id": grant.1["lease_id"] });
            let (status, answer) = node.post("/v1/release", &proof).await;
            assert_eq!(status, 200, "{answer}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_other_node_goes_on_when_the_notifying_one_is_killed() {
    let server = nats_server::Server::start();
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("tenure.toml");
    let on = "on = [\"granted\", \"released\"]\nconcurrency = 4";
    std::fs::write(&config, recorder(dir.path(), "hook", on)).expect("a settings file");
    let sets = [
        "store.kind=nats".to_owned(),
        format!("store.nats.url={}", server.url()),
        "store.nats.replicas=1".to_owned(),
        "node.ttl=2s".to_owned(),
        format!("node.witness={}", dir.path().join("witness.json").display()),
    ];
    let start = async |name: &str| {
        let mut node = Node::new(name, &sets, &[]).configured(&config);
        node.start().await;
        node
    };
    let mut first = start("a").await;
    eventually("it notifies", async || begins(&first.said(), "hook") > 0).await;
    let other = start("b").await;
    let beginning = other.get("/v1/events?format=json&after=0").await;
    let beginning = beginning["next"].as_str().expect("a cursor").to_owned();
    work(&first, 2).await;
    work(&other, 2).await;
    eventually("some is told", async || told(dir.path(), "hook").len() > 5).await;
    assert_eq!(begins(&other.said(), "hook"), 0, "one node notifies");
    first.kill();
    work(&other, 2).await;
    let goes_on = within(ms(PATIENCE_MS), async || begins(&other.said(), "hook") > 0).await;
    assert!(goes_on, "the other node notifies; it said:\n{}", other.said());
    work(&other, 2).await;
    let expected = history(&other, &beginning).await;
    assert!(expected.len() >= 80, "{}", expected.len());
    eventually("all is told", async || has_all(&told(dir.path(), "hook"), &expected)).await;
    judge(&told(dir.path(), "hook"), &expected);
}
