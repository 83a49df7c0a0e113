//! Lock-delay: a key stays shut for a while after an end that its owner did not will.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::harness::{Grant, Server, assert_no_hole, eventually, kinds, ms};

const POLICY: &str = "[[policy]]\nprefix = \"slow/\"\nlock_delay = \"1500ms\"\n";

fn body(key: &str, owner: &str, more: Value) -> Value {
    let mut body = json!({ "key": key, "owner": owner, "ttl_ms": 60_000 });
    body.as_object_mut().expect("one").extend(more.as_object().expect("one").clone());
    body
}

/// Waits until it is cooling, and says since when at the latest.
async fn until_cooling(server: &Server, key: &str) -> Instant {
    eventually(&format!("{key} is cooling"), async || {
        server.lease(key).await["state"] == "cooling"
    })
    .await;
    Instant::now()
}

/// Takes the key when it opens; how long after `since` that was.
async fn opens(server: &Server, key: &str, since: Instant) -> Duration {
    let waits = body(key, "next", json!({ "wait_ms": 15_000 }));
    server.post("/v1/acquire", &waits).await.ok();
    since.elapsed()
}

#[tokio::test]
async fn after_a_session_the_key_is_shut_for_its_lock_delay() {
    let server = Server::start();
    let session = server.session("w", 60_000, json!({ "lock_delay_ms": 1500 })).await;
    let grant = server.acquire_under("k", "w", &session).await;
    let before = Instant::now();
    server.destroy(&session).await.ok();
    until_cooling(&server, "k").await;
    let refused = server.post("/v1/acquire", &body("k", "v", json!({}))).await;
    let refused = refused.problem(423, "cooling");
    let left = refused["retry_after_ms"].as_u64().expect("how long yet");
    assert!(left > 500 && left <= 1500, "{left}");
    assert!(refused["detail"].as_str().is_some_and(|d| d.contains("opens in")), "{refused}");
    let lease = server.lease("k").await;
    assert!(lease["expires_in_ms"].as_u64().is_some_and(|left| left <= 1500), "{lease}");
    assert_eq!((&refused["lease"]["state"], &lease["owner"]), (&json!("cooling"), &Value::Null));
    let list = server.get("/v1/leases?state=cooling").await.ok();
    assert_eq!(list["leases"][0]["key"], "k", "{list}");
    let any = json!({ "keys": ["k"], "owner": "v", "ttl_ms": 1000 });
    let none = server.post("/v1/acquire-any", &any).await.problem(409, "none-available");
    assert_eq!(none["counts"]["cooling"], 1);

    let after = opens(&server, "k", before).await;
    assert!(after >= ms(1500) && after < ms(4000), "{after:?}");
    let lost = server.post("/v1/heartbeat", &grant.proof()).await;
    lost.problem(409, "lease-lost");
    let events = server.events_of("k").await;
    assert_no_hole(&events);
    assert_eq!(kinds(&events), ["granted", "session-ended", "cooled", "granted"]);
}

#[tokio::test]
async fn a_session_without_lock_delay_opens_its_keys_at_once() {
    let server = Server::configured(POLICY);
    let session = server.session("w", 60_000, json!({ "lock_delay_ms": 0 })).await;
    server.acquire_under("slow/k", "w", &session).await;
    let before = Instant::now();
    server.destroy(&session).await.ok();
    let after = opens(&server, "slow/k", before).await;
    assert!(after < ms(1000), "{after:?}, though the policy has one");
    let events = server.events_of("slow/k").await;
    assert_eq!(kinds(&events), ["granted", "session-ended", "granted"]);
}

#[tokio::test]
async fn a_session_that_says_nothing_has_the_lock_delay_of_each_keys_policy() {
    let server = Server::configured(POLICY);
    let session = server.session("w", 60_000, json!({})).await;
    server.acquire_under("slow/k", "w", &session).await;
    server.acquire_under("quick/k", "w", &session).await;
    let before = Instant::now();
    server.destroy(&session).await.ok();
    assert!(opens(&server, "quick/k", before).await < ms(1000));
    let after = opens(&server, "slow/k", before).await;
    assert!(after >= ms(1500), "{after:?}");
}

#[tokio::test]
async fn an_expiry_has_the_policys_and_a_willing_end_has_none() {
    let server = Server::configured(POLICY);
    let grant = server.acquire("slow/released", "w", 60_000).await;
    server.release(&grant).await;
    assert_eq!(server.lease("slow/released").await["state"], "free");
    let grant = server.acquire("slow/given", "w", 60_000).await;
    server.post("/v1/transfer", &grant.proof_and(json!({ "to": "v" }))).await.ok();
    server.acquire("slow/given", "v", 60_000).await;
    server.acquire("slow/revoked", "w", 60_000).await;
    let order = json!({ "key": "slow/revoked", "reason": "r", "immediately": true });
    server.post("/v1/admin/revoke", &order).await.ok();
    assert_eq!(server.lease("slow/revoked").await["state"], "free");

    // Given back under a session, too.
    let session = server.session("w", 60_000, json!({ "lock_delay_ms": 60_000 })).await;
    let grant = server.acquire_under("slow/kept", "w", &session).await;
    server.release(&grant).await;
    assert_eq!(server.lease("slow/kept").await["state"], "free");

    let before = Instant::now();
    server.acquire("slow/expired", "w", 300).await;
    let ended = until_cooling(&server, "slow/expired").await;
    let after = opens(&server, "slow/expired", before).await;
    assert!(after >= ms(1750), "{after:?} after the grant of 300 ms");
    assert!(ended.elapsed() < ms(3500), "{:?}", ended.elapsed());
}

#[tokio::test]
async fn the_old_owner_gets_its_own_lease_back_while_the_key_cools() {
    let server = Server::configured(POLICY);
    let grant = server.acquire("slow/a", "w", 300).await;
    until_cooling(&server, "slow/a").await;
    let alive = server.post("/v1/heartbeat", &grant.proof()).await.ok();
    assert_eq!((&alive["revived"], &alive["token"]), (&json!(true), &json!(grant.token)));
    assert_eq!(server.lease("slow/a").await["state"], "held");
    until_cooling(&server, "slow/a").await;

    // Restarted, it does not know its lease_id any more.
    let reclaim = body("slow/a", "w", json!({ "reclaim": true }));
    let again = Grant::of(&server.post("/v1/acquire", &reclaim).await.ok());
    assert!(again.token > grant.token);
    let other = body("slow/a", "v", json!({ "reclaim": true }));
    server.post("/v1/acquire", &other).await.problem(409, "held");
    assert_no_hole(&server.events_of("slow/a").await);
}

#[tokio::test]
async fn an_ended_sessions_lease_is_revived_by_nobody() {
    let server = Server::start();
    let session = server.session("w", 300, json!({ "lock_delay_ms": 10_000 })).await;
    let grant = server.acquire_under("k", "w", &session).await;
    until_cooling(&server, "k").await;
    let lost = server.post("/v1/heartbeat", &grant.proof()).await.problem(409, "lease-lost");
    assert_eq!(lost["reason"], "session-ended");
    server.beat(&session).await.problem(409, "session-lost");
    server.post("/v1/acquire", &body("k", "v", json!({}))).await.problem(423, "cooling");
}

#[tokio::test]
async fn a_lock_delay_survives_a_crash() {
    let server = Server::start();
    let session = server.session("w", 60_000, json!({ "lock_delay_ms": 2500 })).await;
    server.acquire_under("k", "w", &session).await;
    server.destroy(&session).await.ok();
    until_cooling(&server, "k").await;
    let server = server.kill().restart();
    server.post("/v1/acquire", &body("k", "v", json!({}))).await.problem(423, "cooling");
    let after = opens(&server, "k", server.started).await;
    assert!(after >= ms(2500) && after < ms(9000), "it starts again in full: {after:?}");
    let events = server.events_of("k").await;
    assert_no_hole(&events);
    assert_eq!(kinds(&events), ["granted", "session-ended", "cooled", "granted"]);
}

#[tokio::test]
async fn a_key_that_nobody_wants_cools_by_itself() {
    let server = Server::start();
    let session = server.session("w", 60_000, json!({ "lock_delay_ms": 300 })).await;
    server.acquire_under("k", "w", &session).await;
    server.destroy(&session).await.ok();
    eventually("it is told", async || {
        kinds(&server.events_of("k").await) == ["granted", "session-ended", "cooled"]
    })
    .await;
    assert_eq!(server.lease("k").await["state"], "free");
}
