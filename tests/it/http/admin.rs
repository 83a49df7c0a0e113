//! What administrators order: revoke, pin and unpin, drain.

use serde_json::{Value, json};

use crate::support::harness::{Server, assert_no_hole, eventually, kinds, ms};

async fn revoke(server: &Server, key: &str, immediately: bool) -> crate::support::harness::Reply {
    let order = json!({ "key": key, "reason": "bad host", "immediately": immediately });
    server.post("/v1/admin/revoke", &order).await
}

#[tokio::test]
async fn a_graceful_revoke_waits_for_the_last_promise() {
    let server = Server::start();
    let grant = server.acquire("k", "w", 600).await;
    let asked = std::time::Instant::now();
    let answer = revoke(&server, "k", false).await.ok();
    assert_eq!(answer["revoked"], true);
    let ends = answer["ends_in_ms"].as_u64().expect("whole");
    assert!(ends > 0 && ends <= 600, "{ends}");
    let lost = server.post("/v1/heartbeat", &grant.proof()).await.problem(409, "lease-lost");
    assert_eq!(lost["reason"], "revoked");
    let other = json!({ "key": "k", "owner": "w2", "ttl_ms": 1000 });
    server.post("/v1/acquire", &other).await.problem(409, "held");
    let waits = json!({ "key": "k", "owner": "w2", "ttl_ms": 1000, "wait_ms": 10_000 });
    server.post("/v1/acquire", &waits).await.ok();
    assert!(asked.elapsed() + ms(50) >= ms(ends), "not before the promise ended");
    let events = server.events_of("k").await;
    assert_no_hole(&events);
    assert_eq!(kinds(&events)[..3], ["granted", "revoked", "granted"]);
    assert_eq!(events[1]["data"]["reason"], "bad host");
    assert!(events[1]["data"]["actor"].is_string(), "who ordered it is told");
}

#[tokio::test]
async fn an_immediate_revoke_is_at_once() {
    let server = Server::start();
    let grant = server.acquire("k", "w", 60_000).await;
    assert_eq!(revoke(&server, "k", true).await.ok()["ends_in_ms"], 0);
    assert_eq!(server.lease("k").await["state"], "free");
    let next = server.acquire("k", "w2", 1000).await;
    assert!(next.token > grant.token);
}

#[tokio::test]
async fn a_revoke_of_what_nobody_holds_is_a_conflict() {
    let server = Server::start();
    revoke(&server, "never", false).await.problem(409, "not-held");
    let grant = server.acquire("k", "w", 60_000).await;
    server.release(&grant).await;
    revoke(&server, "k", true).await.problem(409, "not-held");
    let empty = json!({ "key": "k", "reason": "" });
    server.post("/v1/admin/revoke", &empty).await.bad_field("reason");
    let long = json!({ "key": "k", "reason": "r".repeat(257) });
    server.post("/v1/admin/revoke", &long).await.bad_field("reason");
    let secret = json!({ "key": "k", "reason": "r", "owner": "w" });
    server.post("/v1/admin/revoke", &secret).await.malformed();
}

#[tokio::test]
async fn a_revoke_takes_an_offer_back() {
    let server = Server::start();
    let grant = server.acquire("k", "w", 60_000).await;
    server.post("/v1/transfer", &grant.proof_and(json!({ "to": "w2" }))).await.ok();
    revoke(&server, "k", false).await.ok();
    assert_eq!(server.lease("k").await["state"], "free");
    assert_no_hole(&server.events_of("k").await);
}

async fn pin(server: &Server, how: &str, key: &str, by: &str) -> Value {
    let body = json!({ "key": key, "by": by });
    server.post(&format!("/v1/admin/{how}"), &body).await.ok()["lease"].clone()
}

#[tokio::test]
async fn a_pinned_lease_does_not_expire_until_everybody_unpinned() {
    let server = Server::start();
    server.acquire("k", "w", 200).await;
    let lease = pin(&server, "pin", "k", "ops").await;
    assert_eq!(lease["pinned"], true);
    assert!(lease["expires_in_ms"].is_null());
    pin(&server, "pin", "k", "backup").await;
    pin(&server, "pin", "k", "ops").await;
    tokio::time::sleep(ms(500)).await;
    assert_eq!(server.lease("k").await["state"], "held", "beyond its ttl");
    revoke(&server, "k", false).await.problem(409, "pinned");
    assert_eq!(pin(&server, "unpin", "k", "ops").await["pinned"], true);
    assert_eq!(pin(&server, "unpin", "k", "nobody").await["pinned"], true);
    assert_eq!(pin(&server, "unpin", "k", "backup").await["pinned"], false);
    eventually("it expires", async || server.lease("k").await["state"] == "free").await;
    assert_no_hole(&server.events_of("k").await);
}

#[tokio::test]
async fn a_pin_on_a_free_key_holds_its_next_tenure() {
    let server = Server::start();
    let lease = pin(&server, "pin", "k", "ops").await;
    assert_eq!((&lease["state"], &lease["pinned"]), (&json!("free"), &json!(true)));
    let grant = server.acquire("k", "w", 100).await;
    assert_eq!(grant.lease["pinned"], true);
    tokio::time::sleep(ms(300)).await;
    let alive = server.post("/v1/heartbeat", &grant.proof()).await.ok();
    assert!(alive.get("revived").is_none_or(|revived| revived == false));
    // Its holder may give it back, and an administrator may insist.
    server.release(&grant).await;
    server.acquire("k", "w", 60_000).await;
    revoke(&server, "k", true).await.ok();
    assert_eq!(server.lease("k").await["state"], "free");
}

#[tokio::test]
async fn pins_are_bounded_and_named() {
    let server = Server::start();
    let ask = async |by: &str| {
        let body = json!({ "key": "k", "by": by });
        server.post("/v1/admin/pin", &body).await
    };
    ask("").await.bad_field("by");
    ask(&"b".repeat(65)).await.bad_field("by");
    let mut refused = None;
    for n in 0..100 {
        let reply = ask(&format!("name-{n}")).await;
        if reply.status != 200 {
            refused = Some(reply);
            break;
        }
    }
    refused.expect("there is a bound").bad_field("by");
}

#[tokio::test]
async fn drain_revokes_every_lease_of_an_owner_but_the_pinned() {
    let server = Server::start();
    for n in 0..5 {
        server.acquire(&format!("mine/{n}"), "leaver", 400).await;
    }
    server.acquire("theirs", "stayer", 60_000).await;
    pin(&server, "pin", "mine/4", "ops").await;
    let answer = server.post("/v1/admin/drain", &json!({ "owner": "leaver" })).await.ok();
    assert_eq!(answer, json!({ "revoked": 4, "pinned": 1, "draining": 0 }));
    eventually("they ended", async || {
        let list = server.get("/v1/leases?owner=leaver").await.ok();
        list["leases"].as_array().expect("leases").len() == 1
    })
    .await;
    assert_eq!(server.lease("theirs").await["state"], "held");
    let events = server.events_of("mine/0").await;
    assert_eq!(kinds(&events), ["granted", "revoked"]);
    assert_eq!(events[1]["data"]["reason"], "drain");
    server.post("/v1/admin/drain", &json!({ "owner": "" })).await.bad_field("owner");
    let nobody = server.post("/v1/admin/drain", &json!({ "owner": "nobody" })).await.ok();
    assert_eq!(nobody, json!({ "revoked": 0, "pinned": 0, "draining": 0 }));
}

#[tokio::test]
async fn a_revoked_owner_does_not_reclaim_past_the_queue() {
    let server = Server::start();
    server.acquire("k", "w", 800).await;
    revoke(&server, "k", false).await.ok();
    let reclaim = json!({ "key": "k", "owner": "w", "ttl_ms": 1000, "reclaim": true });
    server.post("/v1/acquire", &reclaim).await.problem(409, "held");
    let waits = json!({ "key": "k", "owner": "w2", "ttl_ms": 1000, "wait_ms": 10_000 });
    assert_eq!(server.post("/v1/acquire", &waits).await.ok()["owner"], "w2");
    let events = server.events_of("k").await;
    assert_eq!(kinds(&events)[..3], ["granted", "revoked", "granted"]);
}
