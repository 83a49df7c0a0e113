//! Sessions: one heartbeat for many leases.

use std::time::Instant;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::harness::{
    Grant, Server, Session, assert_no_hole, eventually, kinds, ms, session_body,
};

/// As a client computes it, from the grants that it knows.
fn digest_of(grants: &[&Grant]) -> String {
    let share = |grant: &&Grant| {
        let hash = Sha256::digest(format!("{}\0{}", grant.key, grant.token));
        u64::from_be_bytes(hash[..8].try_into().expect("8 bytes"))
    };
    format!("{:016x}", grants.iter().map(share).fold(0, |sum, share| sum ^ share))
}

#[tokio::test]
async fn a_session_is_made_looked_at_kept_and_ended() {
    let server = Server::start();
    let more = json!({ "behavior": "delete", "lock_delay_ms": 250, "pool": "default", "weight": 3,
        "checks": [{ "type": "progress", "interval_ms": 60_000, "fail_after": 2 }] });
    let reply = server.post("/v1/sessions", &session_body("w", 5000, more)).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let made = reply.json();
    let (id, digest) = (made["id"].as_str().expect("id"), made["digest"].as_str().expect("digest"));
    let valid = made["valid_for_ms"].as_u64().expect("whole");
    assert!(valid > 4500 && valid < 6000, "{valid}");
    assert!(id.len() == 64 && digest.len() == 32);

    for name in [id, digest] {
        let seen = server.get(&format!("/v1/sessions/{name}")).await.ok();
        assert!(seen.get("id").is_none() && seen.get("valid_for_ms").is_none(), "{seen}");
        assert_eq!((&seen["owner"], &seen["ttl_ms"]), (&json!("w"), &json!(5000)));
        assert_eq!((&seen["behavior"], &seen["weight"]), (&json!("delete"), &json!(3)));
        assert_eq!((&seen["lock_delay_ms"], &seen["pool"]), (&json!(250), &json!("default")));
        assert_eq!(seen["checks"][0], made["checks"][0]);
        assert_eq!(seen["leases"], json!({ "count": 0, "digest": "0000000000000000" }));
        assert!(seen["expires_in_ms"].as_u64().is_some_and(|left| left <= 5000), "{seen}");
    }
    let beat = server.post(&format!("/v1/sessions/{id}/heartbeat"), &json!({})).await.ok();
    assert!(beat["valid_for_ms"].as_u64().is_some_and(|valid| valid > 4500 && valid < 6000));
    assert_eq!(beat["notices"], json!([]));
    // No body at all is a heartbeat, too; the digest authorises none.
    server.call("POST", &format!("/v1/sessions/{id}/heartbeat"), b"").await.ok();
    server.post(&format!("/v1/sessions/{digest}/heartbeat"), &json!({})).await.bad_field("id");
    let other = format!("{digest}{}", "0".repeat(32));
    let lost = server.post(&format!("/v1/sessions/{other}/heartbeat"), &json!({})).await;
    assert_eq!(lost.problem(409, "session-lost")["reason"], "unknown-lease");
    server.call("DELETE", &format!("/v1/sessions/{digest}"), b"").await.bad_field("id");

    let delete = async || server.call("DELETE", &format!("/v1/sessions/{id}"), b"").await.ok();
    assert_eq!(delete().await["destroyed"], true);
    assert_eq!(delete().await["destroyed"], false);
    server.get(&format!("/v1/sessions/{digest}")).await.problem(404, "unknown-session");
    let lost = server.post(&format!("/v1/sessions/{id}/heartbeat"), &json!({})).await;
    assert_eq!(lost.problem(409, "session-lost")["reason"], "released");
    assert_eq!(server.get("/v1/sessions").await.ok()["sessions"], json!([]));
}

#[tokio::test]
async fn sessions_are_listed_by_owner_and_page() {
    let server = Server::start();
    let mut all = Vec::new();
    for n in 0..7 {
        let owner = if n < 5 { "a" } else { "b" };
        all.push(server.session(owner, 60_000, json!({})).await.digest);
    }
    let (mut of_a, of_b) = (all[..5].to_vec(), &all[5..]);
    of_a.sort_unstable();
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let page = server.get(&format!("/v1/sessions?owner=a&limit=2{after}")).await.ok();
        let sessions = page["sessions"].as_array().expect("sessions");
        seen.extend(sessions.iter().map(|s| s["digest"].as_str().expect("digest").to_owned()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, of_a);
    let page = server.get("/v1/sessions?owner=b").await.ok();
    let sessions = page["sessions"].as_array().expect("sessions");
    assert!(sessions.iter().all(|s| of_b.iter().any(|digest| s["digest"] == **digest)));
    assert_eq!(server.get("/v1/sessions").await.ok()["sessions"].as_array().map(Vec::len), Some(7));
    server.get("/v1/sessions?limit=0").await.bad_field("limit");
    server.get("/v1/sessions?limit=1001").await.bad_field("limit");
    server.get("/v1/sessions?after=x").await.bad_field("after");
    server.get("/v1/sessions?nothing=x").await.malformed();
}

#[tokio::test]
async fn a_session_keeps_its_leases_which_have_no_heartbeat_of_their_own() {
    let server = Server::start();
    let session = server.session("w", 1000, json!({})).await;
    let grant = server.acquire_under("k", "w", &session).await;
    assert_eq!(grant.lease["session"], session.digest.as_str());
    // What the call took is in it.
    assert!(grant.valid_for_ms > 500 && grant.valid_for_ms < 2000, "{}", grant.valid_for_ms);
    for _ in 0..5 {
        tokio::time::sleep(ms(300)).await;
        server.beat(&session).await.ok();
    }
    let lease = server.lease("k").await;
    assert_eq!((&lease["state"], &lease["token"]), (&json!("held"), &json!(grant.token)));
    assert_eq!(lease["session"], session.digest.as_str());

    let kept = server.post("/v1/heartbeat", &grant.proof()).await;
    let detail = kept.problem(409, "kept-by-session")["detail"].clone();
    assert!(detail.as_str().is_some_and(|detail| detail.contains(&session.digest)), "{detail}");
    let batch = json!({ "leases": [grant.proof()] });
    let verdict = server.post("/v1/heartbeats", &batch).await.ok();
    assert_eq!(verdict["results"][0]["code"], "kept-by-session");
    let wrong = json!({ "key": "k", "lease_id": "0".repeat(32) });
    server.post("/v1/heartbeat", &wrong).await.problem(409, "lease-lost");

    // Its own lease's proof still gives it back, or away.
    server.release(&grant).await;
    let again = server.acquire_under("k", "w", &session).await;
    assert!(again.token > grant.token);
    server.post("/v1/transfer", &again.proof_and(json!({ "to": "v" }))).await.ok();
    assert_eq!(server.lease("k").await["state"], "offered");
    server.acquire("k", "v", 1000).await;
    keeps(&server, &session, 0).await;
}

#[tokio::test]
async fn what_keeps_a_lease_is_a_ttl_or_a_living_session() {
    let server = Server::start();
    let session = server.session("w", 60_000, json!({})).await;
    let acquire = async |more: Value| {
        let mut body = json!({ "key": "k", "owner": "w" });
        let fields = more.as_object().expect("an object").clone();
        body.as_object_mut().expect("an object").extend(fields);
        server.post("/v1/acquire", &body).await
    };
    acquire(json!({})).await.bad_field("ttl_ms");
    acquire(json!({ "ttl_ms": 1000, "session": session.id })).await.bad_field("session");
    acquire(json!({ "session": session.digest })).await.bad_field("session");
    acquire(json!({ "session": "" })).await.bad_field("session");
    let nobody = acquire(json!({ "session": "0".repeat(64) })).await;
    nobody.problem(409, "session-lost");
    server.destroy(&session).await.ok();
    acquire(json!({ "session": session.id })).await.problem(409, "session-lost");
    server.get("/v1/leases/k").await.problem(404, "unknown-key");
}

/// The count follows the history, so it may be late by milliseconds.
async fn keeps(server: &Server, session: &Session, count: u64) {
    eventually("the count", async || server.beat(session).await.ok()["leases"]["count"] == count)
        .await;
}

#[tokio::test]
async fn a_repeated_grant_under_a_session_is_the_same_grant() {
    let server = Server::start();
    let session = server.session("w", 60_000, json!({})).await;
    let body = json!({ "key": "k", "owner": "w", "session": session.id, "request_id": "r" });
    let first = Grant::of(&server.post("/v1/acquire", &body).await.ok());
    let again = Grant::of(&server.post("/v1/acquire", &body).await.ok());
    assert_eq!((&first.token, &first.lease_id), (&again.token, &again.lease_id));
    assert!(again.valid_for_ms > 50_000, "{}", again.valid_for_ms);
    keeps(&server, &session, 1).await;
    let other = server.session("w", 60_000, json!({})).await;
    let body = json!({ "key": "k", "owner": "w", "session": other.id, "request_id": "r" });
    server.post("/v1/acquire", &body).await.problem(422, "request-id-reused");
}

#[tokio::test]
async fn count_and_digest_are_those_of_the_leases_that_it_keeps() {
    let server = Server::start();
    let session = server.session("w", 60_000, json!({})).await;
    let mut grants = Vec::new();
    for n in 0..20 {
        grants.push(server.acquire_under(&format!("k/{n}"), "w", &session).await);
        server.acquire(&format!("plain/{n}"), "w", 60_000).await;
    }
    let kept = async |grants: &[&Grant]| {
        let wanted = json!({ "count": grants.len(), "digest": digest_of(grants) });
        // The feed brings the last grant a moment after its answer.
        eventually("the digest", async || server.beat(&session).await.ok()["leases"] == wanted)
            .await;
        let seen = server.get(&format!("/v1/sessions/{}", session.digest)).await.ok();
        assert_eq!(seen["leases"], wanted);
    };
    kept(&grants.iter().collect::<Vec<_>>()).await;
    let list = server.get(&format!("/v1/leases?session={}", session.digest)).await.ok();
    assert_eq!(list["leases"].as_array().map(Vec::len), Some(20), "{list}");
    for grant in &grants[..15] {
        server.release(grant).await;
    }
    kept(&grants[15..].iter().collect::<Vec<_>>()).await;
    let server = &server;
    let revoke = json!({ "key": grants[15].key, "reason": "test", "immediately": true });
    server.post("/v1/admin/revoke", &revoke).await.ok();
    kept(&grants[16..].iter().collect::<Vec<_>>()).await;
    // A digest is enough to find them, whatever else is asked for.
    let query = format!("/v1/leases?session={}&limit=3&prefix=k/", session.digest);
    let page = server.get(&query).await.ok();
    assert_eq!(page["leases"].as_array().map(Vec::len), Some(3), "{page}");
    let rest = server.get(&format!("{query}&after={}", page["next"].as_str().expect("more"))).await;
    assert_eq!(rest.ok()["leases"].as_array().map(Vec::len), Some(1));
    server.get("/v1/leases?session=nothing").await.bad_field("session");
}

#[tokio::test]
async fn the_id_is_told_to_nobody_but_its_holder() {
    let server = Server::with(&["telemetry.log=trace"]);
    let session = server.session("w", 60_000, json!({ "lock_delay_ms": 0 })).await;
    let grant = server.acquire_under("k", "w", &session).await;
    let beat = server.beat(&session).await.text();
    let mut public = vec![beat];
    for path in ["/v1/sessions", "/v1/leases", "/v1/leases/k", "/metrics", "/"] {
        public.push(server.get(path).await.text());
    }
    public.push(server.get(&format!("/v1/sessions/{}", session.id)).await.text());
    public.push(server.post("/v1/heartbeat", &grant.proof()).await.text());
    server.destroy(&session).await.ok();
    public.push(server.beat(&session).await.text());
    eventually("the end", async || server.lease("k").await["state"] == "free").await;
    public.push(Value::Array(server.history().await).to_string());
    public.push(server.said());
    for text in public {
        assert!(!text.contains(session.proof()), "the secret is in {text}");
        assert!(!text.contains(&grant.lease_id), "the lease's secret is in {text}");
    }
    let keys: Vec<_> = server.history().await.iter().map(|e| e["subject"].clone()).collect();
    assert!(keys.iter().all(|key| key == "k"), "sessions are no keys: {keys:?}");
    // The key of a session is out of callers' reach.
    let hidden = format!("\u{7f}session/{}", session.digest);
    let body = json!({ "key": hidden, "lease_id": session.proof() });
    for path in ["/v1/heartbeat", "/v1/release"] {
        let reply = server.post(path, &body).await;
        assert!(reply.status == 400 || reply.status == 409, "{path}: {}", reply.text());
    }
    let batch = server.post("/v1/heartbeats", &json!({ "leases": [body] })).await.ok();
    assert!(batch["results"][0]["status"].as_u64().is_some_and(|s| s >= 400), "{batch}");
}

#[tokio::test]
async fn sessions_are_no_candidates_of_an_acquire_any() {
    let server = Server::start();
    for _ in 0..3 {
        server.session("w", 60_000, json!({})).await;
    }
    for which in [json!({ "prefix": "" }), json!({ "pool": "default" })] {
        let mut body = json!({ "owner": "v", "ttl_ms": 1000 });
        let fields = which.as_object().expect("an object").clone();
        body.as_object_mut().expect("an object").extend(fields);
        let none = server.post("/v1/acquire-any", &body).await.problem(409, "none-available");
        assert_eq!(none["counts"]["keys"], 0, "{none}");
    }
}

#[tokio::test]
async fn a_graceful_revoke_of_one_kept_lease_is_noticed_and_waits_for_the_sessions_promise() {
    let server = Server::start();
    let session = server.session("w", 1500, json!({})).await;
    let revoked = server.acquire_under("a", "w", &session).await;
    server.acquire_under("b", "w", &session).await;
    let before = Instant::now();
    let promised = server.beat(&session).await.ok()["valid_for_ms"].as_u64().expect("whole");
    let order = json!({ "key": "a", "reason": "move it" });
    let ends = server.post("/v1/admin/revoke", &order).await.ok()["ends_in_ms"].clone();
    assert!(ends.as_u64().is_some_and(|ends| ends > 500 && ends <= 1501), "{ends}");
    let notices = server.beat(&session).await.ok()["notices"].clone();
    assert_eq!(notices, json!([{ "type": "revoked", "key": "a", "token": revoked.token }]));

    let waits = json!({ "key": "a", "owner": "v", "ttl_ms": 60_000, "wait_ms": 10_000 });
    let mut parked = server.park("/v1/acquire", &waits).await;
    let beating = async {
        loop {
            server.beat(&session).await.ok();
            tokio::time::sleep(ms(100)).await;
        }
    };
    let next = tokio::select! {
        reply = parked.receive() => Grant::of(&reply.ok()),
        () = beating => unreachable!("it goes on"),
    };
    let after = before.elapsed();
    assert!(after >= ms(promised), "granted {after:?} after a promise of {promised} ms");
    assert!(after < ms(4000), "and heartbeats of the session do not keep it: {after:?}");
    assert!(next.token > revoked.token);
    eventually("one is left", async || {
        let beat = server.beat(&session).await.ok();
        beat["notices"] == json!([]) && beat["leases"]["count"] == 1
    })
    .await;
    assert_eq!(server.lease("b").await["state"], "held");
    let events = server.events_of("a").await;
    assert_no_hole(&events);
    assert_eq!(kinds(&events), ["granted", "revoked", "granted"]);
    assert_eq!(events[1]["data"]["reason"], "move it");
    assert!(events[1]["data"]["actor"].is_string());
    assert_eq!(events[1]["data"]["session"], session.digest.as_str());
}

/// The order counts the promises that were made before it: an answer that comes after is none.
#[tokio::test]
async fn a_repeated_acquire_promises_nothing_of_a_kept_lease_that_is_ordered_to_end() {
    let server = Server::start();
    let session = server.session("w", 1500, json!({})).await;
    let one = json!({ "key": "a", "owner": "w", "session": session.id, "request_id": "r1" });
    let any = json!({ "keys": ["b"], "owner": "w", "session": session.id, "request_id": "r2" });
    let granted = Grant::of(&server.post("/v1/acquire", &one).await.ok());
    server.post("/v1/acquire-any", &any).await.ok();
    assert_eq!(Grant::of(&server.post("/v1/acquire", &one).await.ok()).token, granted.token);
    for key in ["a", "b"] {
        server.post("/v1/admin/revoke", &json!({ "key": key, "reason": "move it" })).await.ok();
    }
    server.post("/v1/acquire", &one).await.problem(409, "request-id-spent");
    server.post("/v1/acquire-any", &any).await.problem(409, "request-id-spent");
    eventually("both have ended", async || {
        server.beat(&session).await.ok();
        server.lease("a").await["state"] == "free" && server.lease("b").await["state"] == "free"
    })
    .await;
    let anew = json!({ "key": "a", "owner": "w", "session": session.id, "request_id": "r3" });
    assert!(Grant::of(&server.post("/v1/acquire", &anew).await.ok()).token > granted.token);
}

#[tokio::test]
async fn sessions_are_counted_in_their_pool() {
    let server = Server::configured("[[policy]]\nprefix = \"jobs/\"\npool = \"jobs\"\n");
    let gauge = async |series: &str, value: f64| {
        eventually(series, async || (server.metric(series).await - value).abs() < 0.1).await;
    };
    let (jobs, default) = ("tenure_sessions{pool=\"jobs\"}", "tenure_sessions{pool=\"default\"}");
    gauge(jobs, 0.0).await;
    let session = server.session("w", 60_000, json!({ "pool": "jobs" })).await;
    server.session("w", 60_000, json!({})).await;
    gauge(jobs, 1.0).await;
    gauge(default, 1.0).await;
    gauge("tenure_sessions_opened_total", 2.0).await;
    assert_eq!(server.metric("tenure_leases_held").await, 0.0, "they are no leases");
    assert_eq!(server.metric("tenure_lease_acquisitions_total").await, 0.0);
    server.destroy(&session).await.ok();
    gauge(jobs, 0.0).await;
}
