//! `POST /v1/transfer`.

use serde_json::{Value, json};

use crate::support::harness::{Grant, Server, assert_no_hole, eventually, kinds, ms, soon};

fn acquire(owner: &str, wait_ms: u64) -> Value {
    json!({ "key": "k", "owner": owner, "ttl_ms": 60_000, "wait_ms": wait_ms })
}

#[tokio::test]
async fn an_absent_successor_finds_it_kept_for_it_alone() {
    let server = Server::start();
    let grant = server.acquire("k", "w1", 60_000).await;
    let body = grant.proof_and(json!({ "to": "w2", "offer_ms": 30_000, "value": "offset 3" }));
    let answer = server.post("/v1/transfer", &body).await.ok();
    assert_eq!(answer["lease"]["state"], "offered");
    assert!(answer["lease"]["owner"].is_null());
    let held = server.post("/v1/acquire", &acquire("w3", 0)).await.problem(409, "held");
    assert_eq!(held["lease"]["state"], "offered");
    server.post("/v1/acquire", &acquire("w1", 0)).await.problem(409, "held");
    let next = Grant::of(&server.post("/v1/acquire", &acquire("w2", 0)).await.ok());
    assert!(next.token > grant.token);
    assert_eq!(next.lease["value"], "offset 3");
    let events = server.events_of("k").await;
    assert_no_hole(&events);
    assert_eq!(kinds(&events), ["granted", "transferred", "granted"]);
    assert_eq!(events[2]["data"]["previous"]["owner"], "w1");
}

#[tokio::test]
async fn a_waiting_successor_is_granted_before_those_ahead_of_it() {
    let server = Server::start();
    let grant = server.acquire("k", "w1", 60_000).await;
    let mut first = server.park("/v1/acquire", &acquire("first", 15_000)).await;
    server.until_waiters("k", 1).await;
    let mut named = server.park("/v1/acquire", &acquire("named", 15_000)).await;
    server.until_waiters("k", 2).await;
    let answer = server.post("/v1/transfer", &grant.proof_and(json!({ "to": "named" }))).await.ok();
    assert_eq!(answer["lease"]["owner"], "named");
    let next = Grant::of(&soon("the grant", named.receive()).await.ok());
    assert!(next.token > grant.token);
    assert_eq!(server.lease("k").await["waiters"], 1);
    server.release(&next).await;
    assert_eq!(soon("the next", first.receive()).await.ok()["owner"], "first");
}

#[tokio::test]
async fn an_offer_lapses_and_the_queue_goes_on() {
    let server = Server::start();
    let grant = server.acquire("k", "w1", 60_000).await;
    let mut other = server.park("/v1/acquire", &acquire("other", 15_000)).await;
    server.until_waiters("k", 1).await;
    let asked = std::time::Instant::now();
    let body = grant.proof_and(json!({ "to": "nobody", "offer_ms": 300 }));
    let answer = server.post("/v1/transfer", &body).await.ok();
    assert_eq!(answer["lease"]["state"], "offered");
    let next = soon("the grant", other.receive()).await.ok();
    assert!(asked.elapsed() >= ms(300));
    assert_eq!(next["owner"], "other");
    assert_no_hole(&server.events_of("k").await);
}

#[tokio::test]
async fn an_offer_that_nobody_takes_leaves_the_key_free() {
    let server = Server::start();
    let grant = server.acquire("k", "w1", 60_000).await;
    let body = grant.proof_and(json!({ "to": "nobody", "offer_ms": 100 }));
    server.post("/v1/transfer", &body).await.ok();
    eventually("it lapsed", async || server.lease("k").await["state"] == "free").await;
    server.acquire("k", "w3", 60_000).await;
}

#[tokio::test]
async fn only_the_holder_may_and_it_may_name_itself() {
    let server = Server::start();
    let grant = server.acquire("k", "w1", 60_000).await;
    let other = server.acquire("other", "w2", 60_000).await;
    let forged = Grant { key: "k".into(), ..other };
    let lost = server.post("/v1/transfer", &forged.proof_and(json!({ "to": "w2" }))).await;
    assert_eq!(lost.problem(409, "lease-lost")["reason"], "unknown-lease");
    let ask = async |more: Value| server.post("/v1/transfer", &grant.proof_and(more)).await;
    ask(json!({ "to": "" })).await.bad_field("to");
    ask(json!({ "to": "w2", "offer_ms": 1 })).await.bad_field("offer_ms");
    ask(json!({ "to": "w2", "value": "v".repeat(16 * 1024 + 1) })).await.bad_field("value");
    ask(json!({ "to": 7 })).await.malformed();
    assert_eq!(server.lease("k").await["owner"], "w1");
    ask(json!({ "to": "w1" })).await.ok();
    let next = Grant::of(&server.post("/v1/acquire", &acquire("w1", 0)).await.ok());
    assert!(next.token > grant.token);
}
