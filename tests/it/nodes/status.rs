//! What each node says of the store: changes that other nodes wrote, nodes that died, the history of a lease.

use serde_json::{Value, json};

use crate::{
    nodes::{
        on_both_stores,
        pair::{DEATH_MS, Pair, acquire},
    },
    support::clock::{ms, within},
};

on_both_stores!(
    a_node_counts_what_others_wrote_and_tells_of_one_that_died,
    a_lease_has_its_history_at_each_node,
    leases_are_listed_backwards_at_each_node,
);

async fn a_node_counts_what_others_wrote_and_tells_of_one_that_died(mut pair: Pair) {
    for n in 0..3 {
        acquire(&pair.a, &format!("k/{n}"), "w", 20_000).await;
    }
    // The first look at the status has the keys counted: they must be known by then.
    let mut told = Value::Null;
    let heard = within(ms(DEATH_MS), async || {
        told = pair.b.get("/v1/top?by=owners").await;
        told["rows"][0]["name"] == "w" && told["rows"][0]["at_least"] == 3
    });
    assert!(heard.await, "{told}");
    told = pair.b.get("/v1/status").await;
    assert_eq!(told["store"]["keys"]["held"], 3, "{told}");
    assert_eq!(told["last_minute"], json!({ "granted": 3 }), "{told}");
    assert_eq!((&told["severity"], &told["this_node"]["leases"]), (&json!("none"), &json!(0)));

    let url = pair.a.url.clone();
    pair.a.kill();
    let died = within(ms(DEATH_MS), async || {
        told = pair.b.get("/v1/status").await;
        told["attention"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["kind"] == "node-dead"))
    });
    assert!(died.await, "{told}");
    let entries = told["attention"].as_array().expect("a list");
    let entry = entries.iter().find(|one| one["kind"] == "node-dead").expect("it is there");
    assert_eq!((&entry["node"], &entry["scope"]), (&json!(url), &json!("store")));
    assert_eq!(told["store"]["nodes"]["dead"], 1);
    pair.a.start().await;
    let back = within(ms(DEATH_MS), async || {
        told = pair.b.get("/v1/status").await;
        told["attention"]
            .as_array()
            .is_some_and(|all| all.iter().all(|one| one["kind"] != "node-dead"))
    });
    assert!(back.await, "it was started again: {told}");
}

async fn a_lease_has_its_history_at_each_node(pair: Pair) {
    for owner in ["a", "b", "c"] {
        let grant = acquire(&pair.a, "k", owner, 20_000).await;
        let (status, answer) = pair.a.post("/v1/release", &grant.proof()).await;
        assert_eq!(status, 200, "{answer}");
    }
    for node in [&pair.a, &pair.b] {
        let mut told = Value::Null;
        let heard = within(ms(DEATH_MS), async || {
            told = node.get("/v1/history?key=k").await;
            let tenures = told["tenures"].as_array().cloned().unwrap_or_default();
            let owners: Vec<_> = tenures.iter().map(|tenure| tenure["owner"].clone()).collect();
            owners == ["c", "b", "a"] && tenures.iter().all(|tenure| tenure["end"] == "released")
        });
        assert!(heard.await, "{told}");
        assert_eq!(told["complete"], true, "{told}");
    }
}

async fn leases_are_listed_backwards_at_each_node(pair: Pair) {
    for key in ["a", "k/1", "k/2", "k/3", "z"] {
        acquire(&pair.a, key, "w", 20_000).await;
    }
    for node in [&pair.a, &pair.b] {
        let mut told = Value::Null;
        let listed = within(ms(DEATH_MS), async || {
            told = node.get("/v1/leases?prefix=k%2F&before=k%2F3&limit=9").await;
            let leases = told["leases"].as_array().cloned().unwrap_or_default();
            let keys: Vec<_> = leases.iter().map(|lease| lease["key"].clone()).collect();
            keys == ["k/1", "k/2"]
        });
        assert!(listed.await, "{told}");
    }
}
