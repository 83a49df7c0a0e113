//! The minimum hold: for how long from a grant nobody else is granted the key.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::harness::{Grant, Server, eventually, kinds, ms};

fn body(owner: &str, more: Value) -> Value {
    let mut body = json!({ "key": "k", "owner": owner, "ttl_ms": 60_000 });
    body.as_object_mut().expect("one").extend(more.as_object().expect("one").clone());
    body
}

/// What is left of it, as a caller is told that is refused.
async fn left(server: &Server) -> u64 {
    let refused = server.post("/v1/acquire", &body("other", json!({}))).await;
    refused.problem(423, "cooling")["retry_after_ms"].as_u64().expect("how long yet")
}

#[tokio::test]
async fn a_released_key_opens_when_it_is_over() {
    let server = Server::start();
    let before = Instant::now();
    let granted = server.post("/v1/acquire", &body("w", json!({ "min_hold_ms": 1500 }))).await;
    server.release(&Grant::of(&granted.ok())).await;
    let left = left(&server).await;
    assert!(left > 500 && left <= 1500, "{left}");
    assert_eq!(server.lease("k").await["state"], "cooling");

    let next = body("next", json!({ "wait_ms": 15_000 }));
    let next = Grant::of(&server.post("/v1/acquire", &next).await.ok());
    let after = before.elapsed();
    assert!(after >= ms(1500) && after < ms(4000), "{after:?}");
    assert_eq!(kinds(&server.events_of("k").await), ["granted", "released", "cooled", "granted"]);
    server.release(&next).await;
    assert_eq!(server.lease("k").await["state"], "free", "the next one has none");
}

#[tokio::test]
async fn it_survives_a_crash_and_counts_for_the_leases_of_a_session() {
    let server = Server::start();
    let session = server.session("w", 60_000, json!({})).await;
    let under = json!({ "key": "k", "owner": "w", "session": session.id, "min_hold_ms": 60_000 });
    server.post("/v1/acquire", &under).await.ok();
    let server = server.kill().restart();
    server.destroy(&session).await.ok();
    eventually("the key is shut", async || server.lease("k").await["state"] == "cooling").await;
    assert!(left(&server).await > 40_000);
}

#[tokio::test]
async fn a_revocation_ends_it() {
    let server = Server::start();
    server.post("/v1/acquire", &body("w", json!({ "min_hold_ms": 60_000 }))).await.ok();
    let order = json!({ "key": "k", "reason": "r", "immediately": true });
    server.post("/v1/admin/revoke", &order).await.ok();
    assert_eq!(server.lease("k").await["state"], "free");
}

#[tokio::test]
async fn a_repeated_call_must_name_the_same_one() {
    let server = Server::start();
    let call = |hold: u64| body("w", json!({ "min_hold_ms": hold, "request_id": "r" }));
    let first = Grant::of(&server.post("/v1/acquire", &call(9000)).await.ok());
    let again = Grant::of(&server.post("/v1/acquire", &call(9000)).await.ok());
    assert_eq!(again.token, first.token);
    for other in [0, 9001] {
        server.post("/v1/acquire", &call(other)).await.problem(422, "request-id-reused");
    }
}

#[tokio::test]
async fn more_than_a_day_is_refused_and_so_is_one_for_any_of_several() {
    let server = Server::start();
    let long = server.post("/v1/acquire", &body("w", json!({ "min_hold_ms": 86_400_001 }))).await;
    let refused = long.problem(400, "invalid-field");
    assert_eq!(refused["field"], "min_hold_ms", "{refused}");
    let any = json!({ "keys": ["k"], "owner": "w", "ttl_ms": 1000, "min_hold_ms": 1 });
    server.post("/v1/acquire-any", &any).await.problem(400, "malformed-request");
}
