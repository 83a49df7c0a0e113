//! `POST /v1/acquire-any` under a session.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::harness::{Grant, Reply, Server, Session, eventually, kinds, ms};

fn grants(answer: &Value) -> Vec<Grant> {
    answer["grants"].as_array().expect("grants").iter().map(Grant::of).collect()
}

async fn any(server: &Server, session: &Session, more: Value) -> Reply {
    let mut body = json!({ "owner": "w", "session": session.id, "keys": ["a", "b", "c", "d"] });
    let fields = more.as_object().expect("an object").clone();
    body.as_object_mut().expect("an object").extend(fields);
    server.post("/v1/acquire-any", &body).await
}

#[tokio::test]
async fn its_grants_are_kept_by_the_session() {
    let server = Server::start();
    let session = server.session("w", 1000, json!({ "behavior": "delete" })).await;
    server.acquire("a", "other", 60_000).await;
    let got = grants(&any(&server, &session, json!({ "count": 3 })).await.ok());
    assert_eq!(got.len(), 3);
    for grant in &got {
        assert_eq!(grant.lease["session"], session.digest.as_str());
        // What the call took is in it.
        assert!(grant.valid_for_ms > 500 && grant.valid_for_ms < 2000, "{}", grant.valid_for_ms);
        server.post("/v1/heartbeat", &grant.proof()).await.problem(409, "kept-by-session");
    }
    for _ in 0..6 {
        tokio::time::sleep(ms(300)).await;
        server.beat(&session).await.ok();
    }
    eventually("three are kept", async || server.beat(&session).await.ok()["leases"]["count"] == 3)
        .await;
    let none = any(&server, &session, json!({})).await.problem(409, "none-available");
    assert_eq!((&none["counts"]["held"], &none["counts"]["held_by_you"]), (&json!(1), &json!(3)));
    server.destroy(&session).await.ok();
    for grant in &got {
        eventually("it ended", async || server.lease(&grant.key).await["state"] == "free").await;
        assert_eq!(kinds(&server.events_of(&grant.key).await), ["granted", "session-ended"]);
    }
    assert_eq!(server.lease("a").await["state"], "held");
    any(&server, &session, json!({})).await.problem(409, "session-lost");
}

#[tokio::test]
async fn the_promise_of_a_grant_that_was_waited_for_is_the_sessions() {
    let server = Server::start();
    let session = server.session("w", 1000, json!({})).await;
    let others = ["a", "b", "c", "d"].map(|key| server.acquire(key, "other", 60_000));
    let others = futures_util::future::join_all(others).await;
    let body = json!({ "owner": "w", "session": session.id, "keys": ["a", "b", "c", "d"],
        "wait_ms": 15_000 });
    let sent = Instant::now();
    let mut parked = server.park("/v1/acquire-any", &body).await;
    server.until_waiters("b", 1).await;
    let beating = async {
        while sent.elapsed() < ms(1500) {
            server.beat(&session).await.ok();
            tokio::time::sleep(ms(100)).await;
        }
        server.release(&others[1]).await;
        std::future::pending::<()>().await;
    };
    let reply = tokio::select! {
        reply = parked.receive() => reply,
        () = beating => unreachable!("it goes on"),
    };
    let granted = sent.elapsed();
    let got = grants(&reply.ok());
    assert_eq!((got.len(), got[0].key.as_str()), (1, "b"));
    assert_eq!(got[0].lease["session"], session.digest.as_str());
    // Counted from before it was sent.
    assert!(ms(got[0].valid_for_ms) > granted, "{} after {granted:?}", got[0].valid_for_ms);
    assert_eq!(server.beat(&session).await.status, 200);
}

#[tokio::test]
async fn a_session_that_ends_while_its_caller_waits_gets_nothing() {
    let server = Server::start();
    let session = server.session("w", 60_000, json!({})).await;
    let other = server.acquire("a", "other", 60_000).await;
    let body = json!({ "owner": "w", "session": session.id, "keys": ["a"], "wait_ms": 15_000 });
    let mut parked = server.park("/v1/acquire-any", &body).await;
    let mut single = server
        .park(
            "/v1/acquire",
            &json!({ "key": "a", "owner": "w2", "session": session.id,
            "wait_ms": 15_000 }),
        )
        .await;
    server.until_waiters("a", 2).await;
    server.destroy(&session).await.ok();
    server.release(&other).await;
    parked.receive().await.problem(409, "session-lost");
    single.receive().await.problem(409, "session-lost");
    eventually("nobody has it", async || server.lease("a").await["state"] == "free").await;
    server.acquire("a", "next", 1000).await;
}

#[tokio::test]
async fn a_repeated_call_gets_the_same_grants() {
    let server = Server::start();
    let session = server.session("w", 60_000, json!({})).await;
    let call = async || {
        let more = json!({ "count": 2, "request_id": "r" });
        let mut got = grants(&any(&server, &session, more).await.ok());
        got.sort_by(|a, b| a.key.cmp(&b.key));
        got.into_iter().map(|grant| (grant.key, grant.token, grant.lease_id)).collect::<Vec<_>>()
    };
    let first = call().await;
    assert_eq!(first.len(), 2);
    assert_eq!(call().await, first);
    let other = json!({ "count": 3, "request_id": "r" });
    any(&server, &session, other).await.problem(422, "request-id-reused");
    eventually("two are kept", async || server.beat(&session).await.ok()["leases"]["count"] == 2)
        .await;
}

#[tokio::test]
async fn it_is_kept_by_a_ttl_or_a_session() {
    let server = Server::start();
    let session = server.session("w", 60_000, json!({})).await;
    any(&server, &session, json!({ "ttl_ms": 1000 })).await.bad_field("session");
    any(&server, &session, json!({ "session": "x" })).await.bad_field("session");
    let neither = json!({ "owner": "w", "keys": ["a"] });
    server.post("/v1/acquire-any", &neither).await.bad_field("ttl_ms");
}
