//! `request_id`: a repeated call never grants twice.

use serde_json::{Value, json};

use crate::support::harness::{Grant, Server, eventually, kinds, ms, soon};

fn acquire(request_id: &str) -> Value {
    json!({ "key": "k", "owner": "w", "ttl_ms": 60_000, "request_id": request_id })
}

#[tokio::test]
async fn a_repeated_call_gets_the_same_grant() {
    let server = Server::start();
    let first = Grant::of(&server.post("/v1/acquire", &acquire("r1")).await.ok());
    tokio::time::sleep(ms(30)).await;
    let again = Grant::of(&server.post("/v1/acquire", &acquire("r1")).await.ok());
    assert_eq!((again.token, &again.lease_id), (first.token, &first.lease_id));
    assert!(again.valid_for_ms < first.valid_for_ms, "what is left of it");
    assert_eq!(kinds(&server.events_of("k").await), ["granted"]);
}

#[tokio::test]
async fn the_same_id_with_another_body_is_a_422() {
    let server = Server::start();
    server.post("/v1/acquire", &acquire("r1")).await.ok();
    let others = [
        json!({ "key": "k", "owner": "w2", "ttl_ms": 60_000, "request_id": "r1" }),
        json!({ "key": "k", "owner": "w", "ttl_ms": 60_001, "request_id": "r1" }),
        json!({ "key": "k", "owner": "w", "ttl_ms": 60_000, "request_id": "r1", "value": "" }),
        json!({ "key": "k", "owner": "w", "ttl_ms": 60_000, "request_id": "r1", "reclaim": true }),
    ];
    for other in others {
        let problem = server.post("/v1/acquire", &other).await.problem(422, "request-id-reused");
        assert_eq!(problem["field"], "request_id");
        assert_eq!(problem["retryable"], false);
    }
    // Another id by the same owner is another call.
    server.post("/v1/acquire", &acquire("r2")).await.problem(409, "held-by-you");
}

#[tokio::test]
async fn a_grant_that_is_over_does_not_come_back() {
    let server = Server::start();
    let first = Grant::of(&server.post("/v1/acquire", &acquire("r1")).await.ok());
    server.release(&first).await;
    let spent = server.post("/v1/acquire", &acquire("r1")).await.problem(409, "request-id-spent");
    assert_eq!(spent["retryable"], false);
    let second = Grant::of(&server.post("/v1/acquire", &acquire("r2")).await.ok());
    assert!(second.token > first.token);
    assert_eq!(kinds(&server.events_of("k").await), ["granted", "released", "granted"]);
}

#[tokio::test]
async fn a_lost_reply_is_repeated() {
    let server = Server::start();
    for round in 0..20 {
        let body = json!({
            "key": format!("k{round}"), "owner": "w", "ttl_ms": 60_000, "request_id": "lost",
        });
        // Sent, and hung up before the answer could be read.
        drop(server.park("/v1/acquire", &body).await);
        let grant = Grant::of(&server.post("/v1/acquire", &body).await.ok());
        let again = Grant::of(&server.post("/v1/acquire", &body).await.ok());
        assert_eq!((again.token, &again.lease_id), (grant.token, &grant.lease_id));
        let events = server.events_of(&format!("k{round}")).await;
        let granted = kinds(&events).iter().filter(|kind| *kind == "granted").count();
        assert_eq!(granted, 1, "never twice: {events:?}");
    }
}

#[tokio::test]
async fn a_call_repeated_while_the_first_is_parked_gets_the_same() {
    let server = Server::start();
    let held = server.acquire("k", "other", 60_000).await;
    let mut body = acquire("r1");
    body["wait_ms"] = json!(15_000);
    let mut first = server.park("/v1/acquire", &body).await;
    server.until_waiters("k", 1).await;
    let mut second = server.park("/v1/acquire", &body).await;
    server.until_waiters("k", 2).await;
    server.release(&held).await;
    let one = Grant::of(&soon("the first", first.receive()).await.ok());
    let two = Grant::of(&soon("the second", second.receive()).await.ok());
    assert_eq!((one.token, &one.lease_id), (two.token, &two.lease_id));
    assert_eq!(kinds(&server.events_of("k").await), ["granted", "released", "granted"]);
}

#[tokio::test]
async fn a_call_repeated_after_a_crash_gets_the_same_grant() {
    let server = Server::start();
    let first = Grant::of(&server.post("/v1/acquire", &acquire("r1")).await.ok());
    let server = server.kill().restart();
    let again = Grant::of(&server.post("/v1/acquire", &acquire("r1")).await.ok());
    assert_eq!((again.token, &again.lease_id), (first.token, &first.lease_id));
    assert!(again.valid_for_ms <= 60_000);
    server.post("/v1/heartbeat", &first.proof()).await.ok();
    let mut other = acquire("r1");
    other["ttl_ms"] = json!(1000);
    server.post("/v1/acquire", &other).await.problem(422, "request-id-reused");
    server.release(&again).await;
    server.post("/v1/acquire", &acquire("r1")).await.problem(409, "request-id-spent");
    let server = server.kill().restart();
    server.post("/v1/acquire", &acquire("r1")).await.problem(409, "request-id-spent");
}

#[tokio::test]
async fn acquire_any_with_an_id_gives_the_same_grants() {
    let server = Server::start();
    let keys: Vec<_> = (0..12).map(|n| format!("k{n}")).collect();
    let body = json!({
        "keys": keys, "owner": "w", "ttl_ms": 60_000, "count": 5, "request_id": "any-1",
    });
    let pairs = |answer: &Value| {
        let grants = answer["grants"].as_array().expect("grants").iter().map(Grant::of);
        let mut pairs: Vec<_> = grants.map(|g| (g.key, g.token, g.lease_id)).collect();
        pairs.sort();
        pairs
    };
    let first = pairs(&server.post("/v1/acquire-any", &body).await.ok());
    assert_eq!(first.len(), 5);
    assert_eq!(pairs(&server.post("/v1/acquire-any", &body).await.ok()), first);
    let server = server.kill().restart();
    assert_eq!(pairs(&server.post("/v1/acquire-any", &body).await.ok()), first);
    assert_eq!(server.history().await.len(), 5, "nothing else was granted");
    let mut other = body.clone();
    other["count"] = json!(4);
    server.post("/v1/acquire-any", &other).await.problem(422, "request-id-reused");
}

#[tokio::test]
async fn acquire_any_with_an_id_survives_a_lost_reply() {
    let server = Server::start();
    let keys: Vec<_> = (0..12).map(|n| format!("k{n}")).collect();
    for round in 0..10 {
        let id = format!("any-{round}");
        let body = json!({ "keys": keys, "owner": id, "ttl_ms": 60_000, "request_id": id });
        drop(server.park("/v1/acquire-any", &body).await);
        let mut answer = None;
        eventually("the repeated call is answered", async || {
            let reply = server.post("/v1/acquire-any", &body).await;
            if reply.status == 409 {
                reply.problem(409, "request-in-flight");
                return false;
            }
            answer = Some(reply.ok());
            true
        })
        .await;
        let list = server.get(&format!("/v1/leases?owner={id}")).await.ok();
        let held = list["leases"].as_array().expect("leases");
        assert_eq!(held.len(), 1, "one key each: {held:?}");
        assert_eq!(held[0]["key"], answer.expect("a grant")["grants"][0]["key"]);
    }
}
