//! What a crash leaves of sessions.

use std::time::Instant;

use serde_json::json;

use crate::support::harness::{Grant, Server, assert_no_hole, eventually, kinds, ms};

#[tokio::test]
async fn sessions_live_through_a_crash_with_all_that_they_keep() {
    let server = Server::start();
    let session = server
        .session("w", 60_000, json!({ "behavior": "delete", "pool": "default", "weight": 7 }))
        .await;
    let gone = server.session("w", 60_000, json!({})).await;
    let mut kept = Vec::new();
    for n in 0..5 {
        kept.push(server.acquire_under(&format!("k/{n}"), "w", &session).await);
        server.acquire_under(&format!("g/{n}"), "w", &gone).await;
    }
    // The digest follows the store's history, so it may be milliseconds late (docs/sessions.md).
    eventually("all are counted", async || {
        server.beat(&session).await.ok()["leases"]["count"] == 5
    })
    .await;
    let kept_before = server.beat(&session).await.ok()["leases"].clone();
    server.destroy(&gone).await.ok();

    let server = server.kill().restart();
    let beat = server.beat(&session).await.ok();
    assert_eq!((&beat["leases"], &beat["notices"]), (&kept_before, &json!([])));
    let seen = server.get(&format!("/v1/sessions/{}", session.digest)).await.ok();
    assert_eq!((&seen["behavior"], &seen["weight"]), (&json!("delete"), &json!(7)));
    for grant in &kept {
        let lease = server.lease(&grant.key).await;
        assert_eq!((&lease["state"], &lease["token"]), (&json!("held"), &json!(grant.token)));
        assert_eq!(lease["session"], session.digest.as_str());
    }
    server.beat(&gone).await.problem(409, "session-lost");
    server.get(&format!("/v1/sessions/{}", gone.digest)).await.problem(404, "unknown-session");
    eventually("those of the ended session ended", async || {
        let list = server.get("/v1/leases?prefix=g/&state=held").await.ok();
        list["leases"].as_array().map(Vec::len) == Some(0)
    })
    .await;
    for n in 0..5 {
        assert_eq!(kinds(&server.events_of(&format!("g/{n}")).await), ["granted", "session-ended"]);
    }
    server.acquire_under("more", "w", &session).await;
    eventually("it is counted", async || server.beat(&session).await.ok()["leases"]["count"] == 6)
        .await;
}

#[tokio::test]
async fn a_session_that_nobody_keeps_ends_one_ttl_after_the_crash() {
    let server = Server::start();
    let session = server.session("w", 1000, json!({})).await;
    let grant = server.acquire_under("k", "w", &session).await;
    let server = server.kill().restart();
    let waits = json!({ "key": "k", "owner": "v", "ttl_ms": 60_000, "wait_ms": 15_000 });
    let next = Grant::of(&server.post("/v1/acquire", &waits).await.ok());
    let after = server.started.elapsed();
    assert!(after >= ms(1000) && after < ms(8000), "granted {after:?} after the start");
    assert!(next.token > grant.token);
    let events = server.events_of("k").await;
    assert_no_hole(&events);
    assert_eq!(kinds(&events), ["granted", "session-ended", "granted"]);
    server.beat(&session).await.problem(409, "session-lost");
}

#[tokio::test]
async fn a_lease_that_nobody_asks_for_ends_with_its_session_after_a_crash() {
    let server = Server::start();
    let session = server.session("w", 500, json!({})).await;
    server.acquire_under("k", "w", &session).await;
    let server = server.kill().restart();
    eventually("it ended", async || {
        kinds(&server.events_of("k").await) == ["granted", "session-ended"]
    })
    .await;
}

#[tokio::test]
async fn an_ordered_end_is_noticed_also_after_a_crash() {
    let server = Server::start();
    let session = server.session("w", 4000, json!({})).await;
    let a = server.acquire_under("a", "w", &session).await;
    server.acquire_under("b", "w", &session).await;
    server.post("/v1/admin/revoke", &json!({ "key": "a", "reason": "r" })).await.ok();
    let server = server.kill().restart();
    let before = Instant::now();
    let beat = server.beat(&session).await.ok();
    assert_eq!(beat["notices"], json!([{ "type": "revoked", "key": "a", "token": a.token }]));
    eventually("it ended", async || {
        server.beat(&session).await.ok();
        server.lease("a").await["state"] == "free"
    })
    .await;
    assert!(before.elapsed() < ms(9000), "{:?}", before.elapsed());
    assert_eq!(server.lease("b").await["state"], "held");
    assert_eq!(kinds(&server.events_of("a").await), ["granted", "revoked"]);
}

#[tokio::test]
async fn checks_go_on_after_a_crash() {
    let server = Server::start();
    let check = json!({ "type": "progress", "interval_ms": 200, "fail_after": 2 });
    let session = server.session("w", 1500, json!({ "checks": [check] })).await;
    server.acquire_under("k", "w", &session).await;
    let server = server.kill().restart();
    eventually("the check failed", async || server.beat(&session).await.status == 409).await;
    eventually("the lease ended", async || server.lease("k").await["state"] == "free").await;
    let events = server.events_of("k").await;
    let reason = events[1]["data"]["reason"].as_str().expect("a reason");
    assert!(reason.contains("progress"), "{reason}");
}
