//! `POST /v1/heartbeat` and `POST /v1/heartbeats`.

use serde_json::{Value, json};

use crate::support::harness::{Grant, Server, eventually, kinds};

#[tokio::test]
async fn a_heartbeat_keeps_the_lease_and_writes_nothing() {
    let server = Server::start();
    let grant = server.acquire("k", "w", 60_000).await;
    let before = server.metric("tenure_store_synced_writes_total").await;
    for _ in 0..50 {
        let alive = server.post("/v1/heartbeat", &grant.proof()).await.ok();
        assert_eq!(alive["key"], "k");
        assert_eq!(alive["token"], grant.token);
        assert_eq!(alive["notices"], json!([]));
        let valid = alive["valid_for_ms"].as_u64().expect("whole");
        assert!((58_000..60_000).contains(&valid), "{valid}");
        assert!(alive.get("revived").is_none_or(|revived| revived == false));
    }
    assert_eq!(server.metric("tenure_store_synced_writes_total").await, before);
}

#[tokio::test]
async fn a_heartbeat_may_carry_a_value_and_a_ttl() {
    let server = Server::start();
    let grant = server.acquire("k", "w", 60_000).await;
    let beat = grant.proof_and(json!({ "value": "offset 9", "ttl_ms": 2000 }));
    let alive = server.post("/v1/heartbeat", &beat).await.ok();
    assert_eq!(alive["token"], grant.token);
    let lease = server.lease("k").await;
    assert_eq!(lease["value"], "offset 9");
    assert_eq!(lease["ttl_ms"], 2000);
    // The promise of the longer ttl may still run; it is not taken back.
    assert!(lease["expires_in_ms"].as_u64().expect("known") > 2000, "{lease}");
    server
        .post("/v1/heartbeat", &grant.proof_and(json!({ "ttl_ms": 99 })))
        .await
        .bad_field("ttl_ms");
    let long = "v".repeat(16 * 1024 + 1);
    server
        .post("/v1/heartbeat", &grant.proof_and(json!({ "value": long })))
        .await
        .bad_field("value");
    assert_eq!(server.events_of("k").await.len(), 1, "ownership did not change");
}

#[tokio::test]
async fn a_lease_that_ran_out_is_revived_under_its_token() {
    let server = Server::start();
    let grant = server.acquire("k", "w", 100).await;
    eventually("it ran out", async || server.lease("k").await["state"] == "free").await;
    let alive =
        server.post("/v1/heartbeat", &grant.proof_and(json!({ "ttl_ms": 60_000 }))).await.ok();
    assert_eq!(alive["token"], grant.token);
    assert_eq!(alive["revived"], true);
    let lease = server.lease("k").await;
    assert_eq!((&lease["state"], &lease["owner"]), (&json!("held"), &json!("w")));
    let again = server.post("/v1/heartbeat", &grant.proof()).await.ok();
    assert!(again.get("revived").is_none_or(|revived| revived == false));
    let events = server.events_of("k").await;
    assert_eq!(kinds(&events), ["granted", "expired", "granted"]);
    assert_eq!(events[2]["data"]["reason"], "revived");
    assert_eq!(events[2]["data"]["token"], grant.token);
}

#[tokio::test]
async fn nothing_is_revived_once_somebody_took_the_key() {
    let server = Server::start();
    let grant = server.acquire("k", "w1", 100).await;
    let body = json!({ "key": "k", "owner": "w2", "ttl_ms": 60_000, "wait_ms": 5000 });
    server.post("/v1/acquire", &body).await.ok();
    let lost = server.post("/v1/heartbeat", &grant.proof()).await.problem(409, "lease-lost");
    assert_eq!(lost["reason"], "expired");
    assert_eq!(lost["retryable"], false);
}

#[tokio::test]
async fn each_end_has_its_reason() {
    let server = Server::start();
    let reason = async |grant: &Grant| {
        let lost = server.post("/v1/heartbeat", &grant.proof()).await.problem(409, "lease-lost");
        lost["reason"].as_str().expect("a reason").to_owned()
    };
    let released = server.acquire("a", "w", 60_000).await;
    server.release(&released).await;
    assert_eq!(reason(&released).await, "released");

    let revoked = server.acquire("b", "w", 60_000).await;
    let order = json!({ "key": "b", "reason": "test", "immediately": true });
    server.post("/v1/admin/revoke", &order).await.ok();
    assert_eq!(reason(&revoked).await, "revoked");

    let transferred = server.acquire("c", "w", 60_000).await;
    server.post("/v1/transfer", &transferred.proof_and(json!({ "to": "w2" }))).await.ok();
    assert_eq!(reason(&transferred).await, "transferred");

    let held = server.acquire("d", "w", 60_000).await;
    let stranger = Grant { lease_id: released.lease_id.clone(), ..held };
    assert_eq!(reason(&stranger).await, "unknown-lease");
    let nowhere = Grant { key: "never-seen".into(), ..stranger };
    assert_eq!(reason(&nowhere).await, "unknown-lease");
    server.get("/v1/leases/never-seen").await.problem(404, "unknown-key");
}

#[tokio::test]
async fn what_is_no_lease_id_is_named() {
    let server = Server::start();
    server.acquire("k", "w", 60_000).await;
    let long = "f".repeat(1000);
    for id in ["", "x", "🦀", "0123456789abcdef0123456789abcde", long.as_str()] {
        let body = json!({ "key": "k", "lease_id": id });
        for path in ["/v1/heartbeat", "/v1/release"] {
            server.post(path, &body).await.bad_field("lease_id");
        }
    }
    server
        .post("/v1/heartbeat", &json!({ "key": "", "lease_id": "0".repeat(32) }))
        .await
        .bad_field("key");
}

#[tokio::test]
async fn a_batch_gets_a_verdict_per_lease_in_order() {
    let server = Server::start();
    let good = server.acquire("good", "w", 60_000).await;
    let gone = server.acquire("gone", "w", 60_000).await;
    server.release(&gone).await;
    let leases = json!([
        good.proof(),
        gone.proof(),
        { "key": "good", "lease_id": "nonsense" },
        { "key": "", "lease_id": good.lease_id },
        good.proof(),
    ]);
    let answer = server.post("/v1/heartbeats", &json!({ "leases": leases })).await.ok();
    let results = answer["results"].as_array().expect("results");
    assert_eq!(results.len(), 5);
    let of = |at: usize, field: &str| results[at][field].clone();
    assert_eq!(of(0, "status"), 200);
    assert_eq!(of(0, "token"), good.token);
    assert_eq!((of(1, "status"), of(1, "reason")), (json!(409), json!("released")));
    assert_eq!((of(2, "status"), of(2, "code")), (json!(400), json!("invalid-field")));
    assert_eq!(of(3, "status"), 400);
    assert_eq!((of(4, "status"), of(4, "key")), (json!(200), json!("good")));
}

#[tokio::test]
async fn ten_thousand_in_a_batch_and_not_one_more() {
    let server = Server::start();
    let ids = |count: usize| -> Value {
        let lease = |n: usize| json!({ "key": format!("k{n}"), "lease_id": "0".repeat(32) });
        json!({ "leases": (0..count).map(lease).collect::<Vec<_>>() })
    };
    let answer = server.post("/v1/heartbeats", &ids(10_000)).await.ok();
    let results = answer["results"].as_array().expect("results");
    assert_eq!(results.len(), 10_000);
    assert!(results.iter().all(|result| result["reason"] == "unknown-lease"));
    server.post("/v1/heartbeats", &ids(10_001)).await.bad_field("leases");
    server.post("/v1/releases", &ids(10_001)).await.bad_field("leases");
    assert_eq!(server.post("/v1/heartbeats", &ids(0)).await.ok()["results"], json!([]));
}
