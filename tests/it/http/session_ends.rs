//! How sessions end, and what becomes of their leases.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::harness::{Grant, Server, assert_no_hole, eventually, kinds, ms};

#[tokio::test]
async fn the_behavior_says_what_becomes_of_the_value() {
    let server = Server::start();
    for (behavior, value) in [("release", json!("checkpoint")), ("delete", Value::Null)] {
        let key = format!("k/{behavior}");
        let more = json!({ "behavior": behavior });
        let session = server.session("w", 60_000, more).await;
        let body =
            json!({ "key": key, "owner": "w", "session": session.id, "value": "checkpoint" });
        let grant = Grant::of(&server.post("/v1/acquire", &body).await.ok());
        server.destroy(&session).await.ok();
        eventually("it ended", async || server.lease(&key).await["state"] == "free").await;
        assert_eq!(server.lease(&key).await["value"], value, "{behavior}");
        let next = server.acquire(&key, "v", 60_000).await;
        assert_eq!(next.lease["value"], value, "{behavior}");
        assert!(next.token > grant.token, "the token is never reset");
    }
    // Given back under either, a value stays: the session did not end.
    let session = server.session("w", 60_000, json!({ "behavior": "delete" })).await;
    let body = json!({ "key": "k", "owner": "w", "session": session.id, "value": "v" });
    let grant = Grant::of(&server.post("/v1/acquire", &body).await.ok());
    server.release(&grant).await;
    assert_eq!(server.lease("k").await["value"], "v");
}

#[tokio::test]
async fn a_session_that_runs_out_takes_its_leases_along_and_no_others() {
    let server = Server::start();
    let asked = Instant::now();
    let session = server.session("w", 600, json!({})).await;
    for n in 0..10 {
        server.acquire_under(&format!("k/{n}"), "w", &session).await;
    }
    server.acquire("plain", "w", 60_000).await;
    let before = Instant::now();
    let promised = server.beat(&session).await.ok()["valid_for_ms"].as_u64().expect("whole");
    let waits = json!({ "key": "k/3", "owner": "v", "ttl_ms": 60_000, "wait_ms": 10_000 });
    server.post("/v1/acquire", &waits).await.ok();
    let after = before.elapsed();
    assert!(after >= ms(promised), "granted {after:?} after a promise of {promised} ms");
    assert!(after < ms(3000), "{after:?}");
    assert!(asked.elapsed() >= ms(session.valid_for_ms));
    eventually("all ended", async || {
        let list = server.get("/v1/leases?owner=w").await.ok();
        list["leases"].as_array().map(Vec::len) == Some(1)
    })
    .await;
    assert_eq!(server.lease("plain").await["state"], "held");
    for n in 0..10 {
        let events = server.events_of(&format!("k/{n}")).await;
        assert_no_hole(&events);
        assert_eq!(kinds(&events)[..2], ["granted", "session-ended"]);
        let data = &events[1]["data"];
        assert_eq!(data["session"], session.digest.as_str());
        assert!(data["reason"].as_str().is_some_and(|why| why.contains("expired")), "{data}");
    }
    let lost = server.beat(&session).await.problem(409, "session-lost");
    assert_eq!(lost["reason"], "expired");
    let ended = "tenure_lease_ended_total{pool=\"default\",reason=\"session-ended\"}";
    eventually(ended, async || (server.metric(ended).await - 10.0).abs() < 0.1).await;
}

#[tokio::test]
async fn a_holder_is_told_that_the_session_ended() {
    let server = Server::start();
    let session = server.session("w", 60_000, json!({})).await;
    let grant = server.acquire_under("k", "w", &session).await;
    server.destroy(&session).await.ok();
    eventually("it ended", async || server.lease("k").await["state"] == "free").await;
    let lost = server.post("/v1/heartbeat", &grant.proof()).await.problem(409, "lease-lost");
    assert_eq!(lost["reason"], "session-ended");
    let released = server.post("/v1/release", &grant.proof()).await.ok();
    assert_eq!(released["released"], false);
    let events = server.events_of("k").await;
    let reason = events[1]["data"]["reason"].as_str().expect("a reason");
    assert!(reason.contains("destroyed"), "{reason}");
}

#[tokio::test]
async fn to_drain_an_owner_ends_its_sessions() {
    let server = Server::start();
    let session = server.session("leaver", 800, json!({})).await;
    let other = server.session("stayer", 60_000, json!({})).await;
    for n in 0..5 {
        server.acquire_under(&format!("k/{n}"), "leaver", &session).await;
        server.acquire_under(&format!("o/{n}"), "stayer", &other).await;
    }
    server.acquire("plain", "leaver", 60_000).await;
    let before = Instant::now();
    let promised = server.beat(&session).await.ok()["valid_for_ms"].as_u64().expect("whole");
    let drained = server.post("/v1/admin/drain", &json!({ "owner": "leaver" })).await.ok();
    assert_eq!(drained["pinned"], 0, "{drained}");
    let lost = server.beat(&session).await.problem(409, "session-lost");
    assert_eq!(lost["reason"], "revoked");
    let waits = json!({ "key": "k/0", "owner": "v", "ttl_ms": 60_000, "wait_ms": 10_000 });
    server.post("/v1/acquire", &waits).await.ok();
    assert!(before.elapsed() >= ms(promised), "{:?}", before.elapsed());
    eventually("all ended", async || {
        let list = server.get("/v1/leases?owner=leaver&prefix=k").await.ok();
        list["leases"].as_array().map(Vec::len) == Some(0)
    })
    .await;
    for n in 0..5 {
        let events = server.events_of(&format!("k/{n}")).await;
        assert_eq!(kinds(&events)[..2], ["granted", "session-ended"]);
        let data = &events[1]["data"];
        assert_eq!(data["reason"], "drain", "{data}");
        assert_eq!(data["actor"], "127.0.0.1", "{data}");
        assert_eq!(server.lease(&format!("o/{n}")).await["state"], "held");
    }
    server.beat(&other).await.ok();
}

#[tokio::test]
async fn who_ordered_the_end_of_a_session_is_told_also_after_a_crash() {
    let server = Server::start();
    let session = server.session("leaver", 700, json!({})).await;
    for n in 0..300 {
        server.acquire_under(&format!("k/{n}"), "leaver", &session).await;
    }
    // Those that are pinned outlive it.
    server.post("/v1/admin/pin", &json!({ "key": "k/7", "by": "ops" })).await.ok();
    server.post("/v1/admin/drain", &json!({ "owner": "leaver" })).await.ok();
    eventually("it is over", async || {
        server.get(&format!("/v1/sessions/{}", session.digest)).await.status == 404
    })
    .await;
    let server = server.kill().restart();
    server.post("/v1/admin/unpin", &json!({ "key": "k/7", "by": "ops" })).await.ok();
    eventually("all ended", async || {
        let list = server.get("/v1/leases?owner=leaver&state=held").await.ok();
        list["leases"].as_array().map(Vec::len) == Some(0)
    })
    .await;
    for n in [0, 7, 150, 299] {
        let events = server.events_of(&format!("k/{n}")).await;
        let last = &events.last().expect("an end")["data"];
        assert_eq!(
            (&last["reason"], &last["actor"]),
            (&json!("drain"), &json!("127.0.0.1")),
            "{n}"
        );
    }
}

#[tokio::test]
async fn who_waits_under_a_session_hears_of_its_end_and_is_granted_nothing() {
    let server = Server::start();
    let holder = server.acquire("q", "h", 60_000).await;
    let session = server.session("a", 60_000, json!({ "lock_delay_ms": 4000 })).await;
    let under = json!({ "key": "q", "owner": "a", "session": session.id, "wait_ms": 60_000 });
    let any = json!({ "keys": ["q"], "owner": "a", "session": session.id, "wait_ms": 60_000 });
    let plain = json!({ "key": "q", "owner": "b", "ttl_ms": 5000, "wait_ms": 60_000 });
    let waits = async {
        let (one, several) =
            tokio::join!(server.post("/v1/acquire", &under), server.post("/v1/acquire-any", &any));
        let told = Instant::now();
        for reply in [one, several] {
            reply.problem(409, "session-lost");
        }
        told
    };
    let ends = async {
        eventually("they wait", async || server.lease("q").await["waiters"] == 3).await;
        let destroyed = Instant::now();
        server.destroy(&session).await.ok();
        destroyed
    };
    let next = async {
        let granted = server.post("/v1/acquire", &plain).await;
        (granted.ok(), Instant::now())
    };
    let gives_back = async {
        let (told, destroyed) = tokio::join!(waits, ends);
        assert!(told.duration_since(destroyed) < ms(2000), "{:?}", told - destroyed);
        let released = Instant::now();
        server.release(&holder).await;
        released
    };
    let ((_, granted), released) = tokio::join!(next, gives_back);
    assert!(granted.duration_since(released) < ms(2000), "{:?}", granted - released);
    let events = server.events_of("q").await;
    assert_eq!(kinds(&events), ["granted", "released", "granted"]);
}
