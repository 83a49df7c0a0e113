//! `POST /v1/acquire`.

use serde_json::json;

use crate::support::{
    clock::now,
    harness::{Grant, Server, assert_no_hole, eventually, kinds, ms},
};

#[tokio::test]
async fn a_grant_has_every_field_of_the_contract() {
    let server = Server::start();
    let body = json!({ "key": "jobs/1", "owner": "w1", "ttl_ms": 5000, "value": "at 10" });
    let asked = now();
    let grant = server.post("/v1/acquire", &body).await.ok();
    let took = now().since(asked).as_millis() as u64;
    let fields = [
        "key",
        "state",
        "owner",
        "token",
        "ttl_ms",
        "expires_in_ms",
        "acquired_at",
        "session",
        "value",
        "pool",
        "node",
        "waiters",
        "pinned",
        "lease_id",
        "valid_for_ms",
    ];
    for field in fields {
        assert!(grant.get(field).is_some(), "{field} is missing in {grant}");
    }
    assert_eq!(grant["key"], "jobs/1");
    assert_eq!(grant["state"], "held");
    assert_eq!(grant["owner"], "w1");
    assert_eq!(grant["ttl_ms"], 5000);
    assert_eq!(grant["value"], "at 10");
    assert_eq!(grant["pinned"], false);
    assert_eq!(grant["waiters"], 0);
    assert!(grant["acquired_at"].as_str().expect("an instant").ends_with('Z'));
    let grant = Grant::of(&grant);
    assert!(grant.token > 0 && grant.token < 1 << 53);
    assert!(grant.lease_id.len() >= 22, "128 bits");
    // It counts from when the caller asked.
    let most = 5000 + took;
    assert!((4000..most).contains(&grant.valid_for_ms), "{} of {most}", grant.valid_for_ms);
}

#[tokio::test]
async fn a_lease_id_is_told_to_its_holder_alone() {
    let server = Server::with(&["telemetry.log=trace"]);
    let grant = server.acquire("secret", "w1", 60_000).await;
    let held = server
        .post("/v1/acquire", &json!({ "key": "secret", "owner": "w2", "ttl_ms": 1000 }))
        .await;
    held.problem(409, "held");
    let heartbeat = server.post("/v1/heartbeat", &grant.proof()).await;
    let check = json!({ "key": "secret", "token": grant.token });
    let places = [
        held,
        heartbeat,
        server.get("/v1/leases/secret").await,
        server.get("/v1/leases").await,
        server.get("/v1/events?format=json").await,
        server.post("/v1/check", &check).await,
        server.post("/v1/transfer", &grant.proof_and(json!({ "to": "w3" }))).await,
        server.get("/metrics").await,
    ];
    for place in places {
        assert!(!place.text().contains(&grant.lease_id), "{}", place.text());
    }
    let events = serde_json::to_string(&server.history().await).expect("JSON");
    assert!(!events.contains(&grant.lease_id));
    assert!(events.contains("w1"));
    let said = server.said();
    assert!(said.contains("secret"), "an ownership change is logged");
    assert!(!said.contains(&grant.lease_id), "not in the logs");
}

#[tokio::test]
async fn tokens_rise_and_the_held_problem_says_who_and_how_long() {
    let server = Server::start();
    let first = server.acquire("k", "w1", 30_000).await;
    let body = json!({ "key": "k", "owner": "w2", "ttl_ms": 1000 });
    let held = server.post("/v1/acquire", &body).await.problem(409, "held");
    assert_eq!(held["lease"]["owner"], "w1");
    assert_eq!(held["lease"]["token"], first.token);
    assert_eq!(held["retryable"], true);
    let left = held["retry_after_ms"].as_u64().expect("it is known");
    assert!((25_000..=30_000).contains(&left), "{left}");
    assert!(held["lease"].get("lease_id").is_none());
    server.release(&first).await;
    let second = server.acquire("k", "w2", 1000).await;
    assert!(second.token > first.token);
    assert_ne!(second.lease_id, first.lease_id);
}

#[tokio::test]
async fn the_present_owner_is_told_so_unless_it_reclaims() {
    let server = Server::start();
    let first = server.acquire("k", "w1", 30_000).await;
    let again = json!({ "key": "k", "owner": "w1", "ttl_ms": 1000 });
    let mine = server.post("/v1/acquire", &again).await.problem(409, "held-by-you");
    assert_eq!(mine["lease"]["token"], first.token);
    assert_eq!(mine["retryable"], false);

    let reclaim = json!({ "key": "k", "owner": "w1", "ttl_ms": 2000, "reclaim": true });
    let second = Grant::of(&server.post("/v1/acquire", &reclaim).await.ok());
    assert!(second.token > first.token);
    let lost = server.post("/v1/heartbeat", &first.proof()).await.problem(409, "lease-lost");
    assert_eq!(lost["reason"], "reclaimed");
    assert_eq!(server.post("/v1/heartbeat", &second.proof()).await.ok()["token"], second.token);

    // Somebody else's lease is not reclaimed.
    let theirs = json!({ "key": "k", "owner": "w2", "ttl_ms": 2000, "reclaim": true });
    server.post("/v1/acquire", &theirs).await.problem(409, "held");

    let events = server.events_of("k").await;
    assert_no_hole(&events);
    assert_eq!(kinds(&events), ["granted", "reclaimed", "granted"]);
    assert_eq!(events[2]["data"]["previous"]["token"], first.token);
}

#[tokio::test]
async fn reclaim_of_a_free_key_is_a_plain_acquire() {
    let server = Server::start();
    let reclaim = json!({ "key": "k", "owner": "w1", "ttl_ms": 2000, "reclaim": true });
    server.post("/v1/acquire", &reclaim).await.ok();
    assert_eq!(kinds(&server.events_of("k").await), ["granted"]);
}

#[tokio::test]
async fn a_lease_that_runs_out_goes_to_the_next() {
    let server = Server::start();
    let asked = std::time::Instant::now();
    let first = server.acquire("k", "w1", 200).await;
    let body = json!({ "key": "k", "owner": "w2", "ttl_ms": 60_000, "wait_ms": 10_000 });
    let second = Grant::of(&server.post("/v1/acquire", &body).await.ok());
    assert!(asked.elapsed() >= ms(200), "not before the ttl is over");
    assert!(second.token > first.token);
    // The time in the queue is the holder's: it is counted from before the request was sent.
    assert!(second.valid_for_ms > 55_000, "{}", second.valid_for_ms);
    let lost = server.post("/v1/heartbeat", &first.proof()).await.problem(409, "lease-lost");
    assert_eq!(lost["reason"], "expired");
    let events = server.events_of("k").await;
    assert_no_hole(&events);
    assert_eq!(kinds(&events), ["granted", "expired", "granted"]);
}

#[tokio::test]
async fn a_wait_that_runs_out_is_a_409() {
    let server = Server::start();
    server.acquire("k", "w1", 60_000).await;
    let asked = std::time::Instant::now();
    let body = json!({ "key": "k", "owner": "w2", "ttl_ms": 1000, "wait_ms": 150 });
    let held = server.post("/v1/acquire", &body).await.problem(409, "held");
    assert!(asked.elapsed() >= ms(150));
    assert_eq!(held["lease"]["owner"], "w1");
    assert_eq!(server.lease("k").await["waiters"], 0);
}

#[tokio::test]
async fn a_value_stays_with_the_key_until_somebody_writes_another() {
    let server = Server::start();
    let body = json!({ "key": "k", "owner": "w1", "ttl_ms": 60_000, "value": "offset 7 🦀" });
    let first = Grant::of(&server.post("/v1/acquire", &body).await.ok());
    server.release(&first).await;
    assert_eq!(server.lease("k").await["value"], "offset 7 🦀");
    let second = server.acquire("k", "w2", 60_000).await;
    assert_eq!(second.lease["value"], "offset 7 🦀");
    let body = json!({ "key": "k2", "owner": "w", "ttl_ms": 1000, "value": "v".repeat(16 * 1024) });
    server.post("/v1/acquire", &body).await.ok();
    let body =
        json!({ "key": "k3", "owner": "w", "ttl_ms": 1000, "value": "v".repeat(16 * 1024 + 1) });
    server.post("/v1/acquire", &body).await.bad_field("value");
}

#[tokio::test]
async fn bounds_are_named_and_nothing_is_clamped() {
    let server = Server::with(&["limits.wait_max=2s"]);
    let ask = async |more: serde_json::Value| {
        let mut body = json!({ "key": "k", "owner": "w", "ttl_ms": 1000 });
        body.as_object_mut().expect("object").extend(more.as_object().expect("object").clone());
        server.post("/v1/acquire", &body).await
    };
    for ttl in [0, 1, 99, 86_400_001_u64, u64::MAX] {
        let detail = ask(json!({ "ttl_ms": ttl })).await.bad_field("ttl_ms");
        let detail = detail["detail"].as_str().expect("text").to_owned();
        assert!(detail.contains("100") && detail.contains("86400000"), "{detail}");
    }
    ask(json!({ "wait_ms": 2001 })).await.bad_field("wait_ms");
    ask(json!({ "wait_ms": u64::MAX })).await.bad_field("wait_ms");
    ask(json!({ "owner": "" })).await.bad_field("owner");
    ask(json!({ "owner": "o".repeat(257) })).await.bad_field("owner");
    ask(json!({ "owner": "a\u{0}b" })).await.bad_field("owner");
    ask(json!({ "request_id": "" })).await.bad_field("request_id");
    ask(json!({ "request_id": "r".repeat(65) })).await.bad_field("request_id");
    server.get("/v1/leases/k").await.problem(404, "unknown-key");
    ask(json!({ "ttl_ms": 86_400_000, "owner": "o".repeat(256) })).await.ok();
}

#[tokio::test]
async fn the_bounds_of_the_ttl_are_settings() {
    let server = Server::with(&["limits.ttl_min=2s", "limits.ttl_max=3s"]);
    let ask = async |ttl: u64| {
        let body = json!({ "key": "k", "owner": "w", "ttl_ms": ttl });
        server.post("/v1/acquire", &body).await
    };
    let low = ask(1999).await.bad_field("ttl_ms");
    let detail = low["detail"].as_str().expect("text");
    assert!(detail.contains("2000") && detail.contains("3000"), "{detail}");
    ask(3001).await.bad_field("ttl_ms");
    ask(2000).await.ok();
}

#[tokio::test]
async fn expiry_is_announced_without_anybody_asking() {
    let server = Server::start();
    server.acquire("k", "w1", 100).await;
    eventually("the event is there", async || server.events_of("k").await.len() == 2).await;
    assert_eq!(kinds(&server.events_of("k").await), ["granted", "expired"]);
    eventually("it is free", async || server.lease("k").await["state"] == "free").await;
    let lease = server.lease("k").await;
    assert!(lease["owner"].is_null() && lease["expires_in_ms"].is_null());
}
