//! `POST /v1/acquire-any`.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::support::harness::{Grant, Server, assert_no_hole, ms, soon};

fn grants(answer: &Value) -> Vec<Grant> {
    answer["grants"].as_array().expect("grants").iter().map(Grant::of).collect()
}

#[tokio::test]
async fn one_of_the_listed_keys_in_the_listed_order() {
    let server = Server::start();
    server.acquire("a", "other", 60_000).await;
    let body =
        json!({ "keys": ["a", "b", "c"], "owner": "w", "ttl_ms": 60_000, "order": "listed" });
    let got = grants(&server.post("/v1/acquire-any", &body).await.ok());
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].key, "b");
    // A second call of the same owner passes over what it has.
    let got = grants(&server.post("/v1/acquire-any", &body).await.ok());
    assert_eq!(got[0].key, "c");
    let none = server.post("/v1/acquire-any", &body).await.problem(409, "none-available");
    assert_eq!(none["counts"]["keys"], 3);
    assert_eq!(none["counts"]["held"], 1);
    assert_eq!(none["counts"]["held_by_you"], 2);
    assert_eq!(none["retryable"], true);
}

#[tokio::test]
async fn never_more_than_count_and_each_key_once() {
    let server = Server::start();
    let keys: Vec<_> = (0..10).map(|n| format!("k{n}")).collect();
    let body = json!({ "keys": keys, "owner": "w", "ttl_ms": 60_000, "count": 4 });
    let got = grants(&server.post("/v1/acquire-any", &body).await.ok());
    assert_eq!(got.len(), 4);
    let body = json!({ "keys": keys, "owner": "w2", "ttl_ms": 60_000, "count": 10_000 });
    let rest = grants(&server.post("/v1/acquire-any", &body).await.ok());
    assert_eq!(rest.len(), 6, "as many as there are");
    let all: HashSet<_> = got.iter().chain(&rest).map(|grant| grant.key.clone()).collect();
    assert_eq!(all.len(), 10);
}

#[tokio::test]
async fn a_prefix_stands_for_the_keys_that_are_known() {
    let server = Server::start();
    for key in ["shard/1", "shard/2", "other/1"] {
        let grant = server.acquire(key, "seed", 60_000).await;
        server.release(&grant).await;
    }
    let body = json!({ "prefix": "shard/", "owner": "w", "ttl_ms": 60_000, "count": 9 });
    let got = grants(&server.post("/v1/acquire-any", &body).await.ok());
    let keys: HashSet<_> = got.iter().map(|grant| grant.key.as_str()).collect();
    assert_eq!(keys, HashSet::from(["shard/1", "shard/2"]));
    let body = json!({ "prefix": "nothing/", "owner": "w", "ttl_ms": 1000 });
    let none = server.post("/v1/acquire-any", &body).await.problem(409, "none-available");
    assert_eq!(none["counts"]["keys"], 0);
}

#[tokio::test]
async fn sticky_goes_back_to_where_the_owner_was() {
    let server = Server::start();
    let keys: Vec<_> = (0..20).map(|n| format!("k{n}")).collect();
    let mine = server.acquire("k13", "w", 60_000).await;
    server.release(&mine).await;
    let body = json!({ "keys": keys, "owner": "w", "ttl_ms": 60_000, "order": "sticky" });
    let got = grants(&server.post("/v1/acquire-any", &body).await.ok());
    assert_eq!(got[0].key, "k13");
}

#[tokio::test]
async fn random_order_spreads() {
    let server = Server::start();
    let keys: Vec<_> = (0..8).map(|n| format!("k{n}")).collect();
    let mut firsts = HashSet::new();
    for round in 0..24 {
        let body = json!({ "keys": keys, "owner": format!("w{round}"), "ttl_ms": 60_000 });
        let got = grants(&server.post("/v1/acquire-any", &body).await.ok());
        firsts.insert(got[0].key.clone());
        server.release(&got[0]).await;
    }
    assert!(firsts.len() >= 4, "{firsts:?}");
}

#[tokio::test]
async fn the_last_of_ten_thousand_and_one_keys_is_found_and_waited_for() {
    let server = Server::start();
    let name = |n: usize| format!("p/{n:05}");
    let keys: Vec<_> = (0..10_000).map(name).collect();
    let all = json!({ "keys": keys, "owner": "other", "ttl_ms": 600_000, "count": 10_000 });
    let held = grants(&server.post("/v1/acquire-any", &all).await.ok());
    assert_eq!(held.len(), 10_000);
    let last = server.acquire(&name(10_000), "other", 600_000).await;
    let any = json!({ "prefix": "p/", "owner": "w", "ttl_ms": 60_000, "wait_ms": 30_000 });
    let mut parked = server.park("/v1/acquire-any", &any).await;
    server.until_waiters(&name(7), 1).await;
    server.release(&last).await;
    let got = grants(&soon("the grant", parked.receive()).await.ok());
    assert_eq!(got[0].key, last.key, "a key that was not among those waited for");
    server.release(&got[0]).await;
    let any = json!({ "prefix": "p/", "owner": "w", "ttl_ms": 60_000 });
    let got = grants(&server.post("/v1/acquire-any", &any).await.ok());
    assert_eq!(got[0].key, last.key);
    server.post("/v1/acquire-any", &any).await.problem(409, "none-available");
}

#[tokio::test]
async fn a_waiter_on_many_keys_gets_exactly_one() {
    let server = Server::start();
    let keys: Vec<_> = (0..30).map(|n| format!("k{n}")).collect();
    let mut held = Vec::new();
    for key in &keys {
        held.push(server.acquire(key, "holder", 60_000).await);
    }
    let mut parked = Vec::new();
    for waiter in 0..10 {
        let owner = format!("w{waiter}");
        let body = json!({ "keys": keys, "owner": owner, "ttl_ms": 60_000, "wait_ms": 15_000 });
        parked.push(server.park("/v1/acquire-any", &body).await);
    }
    for key in &keys {
        server.until_waiters(key, 10).await;
    }
    // All keys come free at once: each waiter is wanted by thirty keys.
    let proofs: Vec<_> = held.iter().map(Grant::proof).collect();
    server.post("/v1/releases", &json!({ "leases": proofs })).await.ok();
    let mut owners = HashSet::new();
    let mut taken = HashSet::new();
    for connection in &mut parked {
        let got = grants(&soon("the grant", connection.receive()).await.ok());
        assert_eq!(got.len(), 1);
        assert!(taken.insert(got[0].key.clone()));
        assert!(owners.insert(got[0].lease["owner"].to_string()));
    }
    let list = server.get("/v1/leases?state=held&limit=1000").await.ok();
    assert_eq!(list["leases"].as_array().expect("leases").len(), 10, "nobody holds a second key");
    for key in &keys {
        assert_no_hole(&server.events_of(key).await);
    }
    for key in &keys {
        server.until_waiters(key, 0).await;
    }
}

#[tokio::test]
async fn a_waiter_that_hung_up_is_not_granted_any() {
    let server = Server::start();
    let keys = ["a", "b", "c"];
    let mut held = Vec::new();
    for key in keys {
        held.push(server.acquire(key, "holder", 60_000).await);
    }
    let body = json!({ "keys": keys, "owner": "gone", "ttl_ms": 60_000, "wait_ms": 15_000 });
    let connection = server.park("/v1/acquire-any", &body).await;
    server.until_waiters("c", 1).await;
    drop(connection);
    server.until_waiters("c", 0).await;
    for grant in &held {
        server.release(grant).await;
    }
    for key in keys {
        assert_eq!(server.lease(key).await["state"], "free");
        assert_eq!(server.events_of(key).await.len(), 2);
    }
}

#[tokio::test]
async fn a_wait_that_runs_out_is_none_available() {
    let server = Server::start();
    server.acquire("a", "holder", 60_000).await;
    let asked = std::time::Instant::now();
    let body = json!({ "keys": ["a"], "owner": "w", "ttl_ms": 1000, "wait_ms": 150 });
    server.post("/v1/acquire-any", &body).await.problem(409, "none-available");
    assert!(asked.elapsed() >= ms(150));
}

#[tokio::test]
async fn what_is_wrong_is_named() {
    let server = Server::start();
    let ask = async |body: Value| server.post("/v1/acquire-any", &body).await;
    let base = json!({ "owner": "w", "ttl_ms": 1000 });
    ask(base.clone()).await.bad_field("keys");
    let with = |more: Value| {
        let mut body = base.clone();
        body.as_object_mut().expect("object").extend(more.as_object().expect("object").clone());
        body
    };
    ask(with(json!({ "keys": [] }))).await.bad_field("keys");
    ask(with(json!({ "keys": ["a", "a"] }))).await.bad_field("keys");
    ask(with(json!({ "keys": ["a", ""] }))).await.bad_field("keys[1]");
    ask(with(json!({ "keys": ["a"], "prefix": "b" }))).await.bad_field("prefix");
    ask(with(json!({ "prefix": "p".repeat(513) }))).await.bad_field("prefix");
    ask(with(json!({ "keys": ["a"], "count": 0 }))).await.bad_field("count");
    ask(with(json!({ "keys": ["a"], "count": 10_001 }))).await.bad_field("count");
    ask(with(json!({ "keys": ["a"], "count": "fair" }))).await.bad_field("session");
    ask(with(json!({ "keys": ["a"], "count": "all" }))).await.malformed();
    ask(with(json!({ "keys": ["a"], "order": "best" }))).await.malformed();
    ask(with(json!({ "keys": ["a"], "ttl_ms": 5 }))).await.bad_field("ttl_ms");
    let many: Vec<_> = (0..10_001).map(|n| n.to_string()).collect();
    ask(with(json!({ "keys": many }))).await.bad_field("keys");
    server.get("/v1/leases/a").await.problem(404, "unknown-key");
}
