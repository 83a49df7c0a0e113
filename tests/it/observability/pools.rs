//! What the metrics tell of a pool's keys, and of the store's epoch.

use serde_json::{Value, json};

use crate::observability::{node::Node, scrape::Scrape};

fn vacant(scrape: &Scrape) -> f64 {
    scrape.sum("tenure_pool_vacant", &[("pool", "default")])
}

/// Whether so many keys of the pool `default` have no owner, by a scrape.
fn are_vacant(count: f64) -> impl Fn(&Scrape) -> bool {
    move |scrape| (vacant(scrape) - count).abs() < f64::EPSILON
}

async fn grants(node: &Node, body: Value) -> Vec<Value> {
    let answer = node.call("/v1/acquire-any", body).await;
    answer["grants"].as_array().expect("grants").clone()
}

#[tokio::test]
async fn keys_of_a_pool_that_nobody_holds_are_counted_also_when_its_members_are_gone() {
    let node = Node::start(&[]).await;
    let keys = ["k1", "k2", "k3", "k4"];
    let member = json!({"owner": "w", "ttl_ms": 60_000, "pool": "default"});
    let session = node.open_session(&member).await;
    let any = json!({"keys": keys, "owner": "w", "session": session, "count": 4});
    let held = grants(&node, any).await;
    assert_eq!(held.len(), 4);
    let joined = |scrape: &Scrape| scrape.sum("tenure_pool_members", &[]) > 0.5;
    let scrape = node.scrape_until("a member", joined).await;
    assert!(are_vacant(0.0)(&scrape), "{} keys", vacant(&scrape));

    let released = json!({"key": held[0]["key"], "lease_id": held[0]["lease_id"]});
    node.call("/v1/release", released).await;
    node.scrape_until("one key is vacant", are_vacant(1.0)).await;

    assert_eq!(node.delete(&format!("/v1/sessions/{session}")).await, 200);
    let scrape = node.scrape_until("all keys are vacant", are_vacant(4.0)).await;
    assert!(scrape.sum("tenure_pool_members", &[]).abs() < f64::EPSILON, "no member is left");

    // Whoever takes one, it has an owner.
    node.call("/v1/acquire", json!({"key": "k1", "owner": "x", "ttl_ms": 60_000})).await;
    node.scrape_until("three keys are vacant", are_vacant(3.0)).await;
}

#[tokio::test]
async fn free_keys_of_a_pool_that_no_session_joined_are_not_vacant() {
    let node = Node::start(&[]).await;
    let grant = node.call("/v1/acquire", json!({"key": "k", "owner": "o", "ttl_ms": 60_000})).await;
    node.call("/v1/release", json!({"key": "k", "lease_id": grant["lease_id"]})).await;
    let ended = |scrape: &Scrape| scrape.sum("tenure_lease_ended_total", &[]) > 0.5;
    let scrape = node.scrape_until("the end of the tenure", ended).await;
    assert!(are_vacant(0.0)(&scrape), "{} keys", vacant(&scrape));
}

#[tokio::test]
async fn the_epoch_is_that_of_the_tokens() {
    let node = Node::start(&[]).await;
    let (status, info) = node.get("/v1/info").await;
    assert_eq!(status, 200);
    let info: Value = serde_json::from_str(&info).expect("JSON");
    let shown = node.scrape().await.sum("tenure_store_epoch", &[("store", "embedded")]);
    assert!((shown - info["epoch"].as_f64().expect("an epoch")).abs() < f64::EPSILON, "{shown}");
}
