//! What a holder is told at once.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::harness::{Grant, Server, Talk, ms};

const POLICIES: &str = r#"
[[policy]]
prefix = "jobs/"
pool = "jobs"
balance = true
handover_timeout = "20s"
"#;

async fn acquire(talk: &mut Talk, key: &str, ttl_ms: u64) -> Grant {
    let body = json!({ "key": key, "owner": "w", "ttl_ms": ttl_ms });
    Grant::of(&talk.ok("acquire", &body).await)
}

fn ended(grant: &Grant, reason: &str) -> Value {
    json!({ "type": "ended", "key": grant.key, "token": grant.token, "reason": reason })
}

#[tokio::test]
async fn who_was_granted_a_lease_or_renewed_it_is_told_of_its_end() {
    let server = Server::start();
    let mut talk = Talk::open(server.addr).await;
    let granted = acquire(&mut talk, "granted", 60_000).await;
    let renewed = server.acquire("renewed", "w", 60_000).await;
    talk.ok("heartbeat", &renewed.proof()).await;
    let in_batch = server.acquire("in-batch", "w", 60_000).await;
    talk.ok("heartbeats", &json!({ "leases": [in_batch.proof()] })).await;
    let any = json!({ "keys": ["any"], "owner": "w", "ttl_ms": 60_000 });
    let any = Grant::of(&talk.ok("acquire_any", &any).await["grants"][0]);
    // Not its own.
    server.acquire("other", "w2", 60_000).await;
    let revoke = |key: &str| json!({ "key": key, "reason": "r", "immediately": true });
    server.post("/v1/admin/revoke", &revoke("other")).await.ok();
    for grant in [granted, renewed, in_batch, any] {
        let revoked = Instant::now();
        server.post("/v1/admin/revoke", &revoke(&grant.key)).await.ok();
        assert_eq!(talk.pushed("notice").await, ended(&grant, "revoked"));
        assert!(revoked.elapsed() < ms(2_000), "{:?}", revoked.elapsed());
    }
    assert!((server.metric("tenure_stream_notices_total").await - 4.0).abs() < f64::EPSILON);
}

/// The tenure goes on until its last promise has run out, but its holder need not wait for that.
#[tokio::test]
async fn a_revocation_that_waits_is_told_when_it_is_ordered() {
    let server = Server::start();
    let mut talk = Talk::open(server.addr).await;
    let grant = acquire(&mut talk, "k", 4_000).await;
    server.acquire("other", "w2", 60_000).await;
    let revoke = |key: &str| json!({ "key": key, "reason": "r" });
    server.post("/v1/admin/revoke", &revoke("other")).await.ok();
    let revoked = server.post("/v1/admin/revoke", &revoke("k")).await.ok();
    assert!((1..=4_000).contains(&revoked["ends_in_ms"].as_u64().expect("whole")), "{revoked}");
    let answered = Instant::now();
    let told = json!({ "type": "revoked", "key": "k", "token": grant.token });
    assert_eq!(talk.pushed("notice").await, told);
    assert!(answered.elapsed() < ms(2_000), "{:?}", answered.elapsed());
    assert_eq!(server.lease("k").await["state"], "held");
    let beat = talk.call("heartbeat", &grant.proof()).await;
    assert_eq!(beat["body"]["code"], "lease-lost", "{beat}");
    // The second order is the first again.
    server.post("/v1/admin/revoke", &revoke("k")).await.ok();
    assert_eq!(talk.pushed("notice").await, ended(&grant, "revoked"));
}

#[tokio::test]
async fn whoever_drains_an_owner_has_its_streams_told_at_once() {
    let server = Server::start();
    let mut talk = Talk::open(server.addr).await;
    let grant = acquire(&mut talk, "k", 60_000).await;
    let drain = json!({ "owner": "w" });
    server.post("/v1/admin/drain", &drain).await.ok();
    let told = talk.pushed("notice").await;
    assert_eq!((&told["key"], &told["token"]), (&json!("k"), &json!(grant.token)), "{told}");
    assert_eq!(told["type"], "revoked", "{told}");
}

#[tokio::test]
async fn the_end_of_the_ttl_is_told_and_a_release_is_not() {
    let server = Server::start();
    let mut talk = Talk::open(server.addr).await;
    let released = acquire(&mut talk, "released", 60_000).await;
    talk.ok("release", &released.proof()).await;
    let expired = acquire(&mut talk, "expired", 300).await;
    assert_eq!(talk.pushed("notice").await, ended(&expired, "expired"));
    // The next tenure of the key is another's.
    let next = server.acquire("expired", "w2", 60_000).await;
    server.release(&next).await;
    let again = acquire(&mut talk, "expired", 300).await;
    assert!(again.token > next.token);
    assert_eq!(talk.pushed("notice").await, ended(&again, "expired"));
}

#[tokio::test]
async fn a_session_is_told_what_its_heartbeat_would_be() {
    let server = Server::configured(POLICIES);
    let mut talk = Talk::open(server.addr).await;
    let body = json!({ "owner": "w", "ttl_ms": 60_000, "pool": "jobs" });
    let opened = talk.ok("open_session", &body).await;
    let (id, digest) = (opened["id"].clone(), opened["digest"].clone());
    let mut under = async |key: &str| {
        let body = json!({ "key": key, "owner": "w", "session": id });
        Grant::of(&talk.ok("acquire", &body).await)
    };
    let first = under("jobs/1").await;
    let second = under("jobs/2").await;
    server.post("/v1/testing/handover", &json!({ "key": "jobs/1" })).await.ok();
    let told = talk.pushed("notice").await;
    // The lease itself has a notice of its own.
    let told = if told.get("session").is_some() { told } else { talk.pushed("notice").await };
    assert_eq!((&told["session"], &told["ended"]), (&digest, &json!(false)), "{told}");
    let asked = &told["notices"][0];
    assert_eq!(
        (&asked["type"], &asked["key"], &asked["token"]),
        (&json!("handover-requested"), &json!("jobs/1"), &json!(first.token))
    );
    assert!((1..=20_000).contains(&asked["deadline_ms"].as_u64().expect("whole")), "{told}");
    // It is announced long before it is carried out: the session's promise covers it for 60 s.
    let revoked = Instant::now();
    let revoke = json!({ "key": "jobs/2", "reason": "r" });
    let _parked = server.park("/v1/admin/revoke", &revoke).await;
    loop {
        let told = talk.pushed("notice").await;
        let revoked = json!({ "type": "revoked", "key": "jobs/2", "token": second.token });
        if told["notices"].as_array().is_some_and(|notices| notices.contains(&revoked)) {
            break;
        }
    }
    assert!(revoked.elapsed() < ms(2_000), "{:?}", revoked.elapsed());
    let params = json!({ "id": id });
    let close = talk.begin_with("close_session", &params, &Value::Null).await;
    assert_eq!(talk.answer(close).await["body"]["destroyed"], true);
    loop {
        let told = talk.pushed("notice").await;
        if told["ended"] == true {
            assert_eq!(told, json!({ "session": digest, "notices": [], "ended": true }));
            break;
        }
    }
}

#[tokio::test]
async fn who_keeps_a_session_by_heartbeats_alone_is_told_too() {
    let server = Server::start();
    let session = server.session("w", 60_000, json!({})).await;
    let grant = server.acquire_under("k", "w", &session).await;
    let mut talk = Talk::open(server.addr).await;
    let params = json!({ "id": session.id });
    let beat = talk.begin_with("heartbeat_session", &params, &Value::Null).await;
    assert_eq!(talk.answer(beat).await["status"], 200);
    let revoke = json!({ "key": "k", "reason": "r" });
    let _parked = server.park("/v1/admin/revoke", &revoke).await;
    let revoked = json!({ "type": "revoked", "key": "k", "token": grant.token });
    let told = talk.pushed("notice").await;
    assert_eq!(told, json!({ "session": session.digest, "notices": [revoked], "ended": false }));
}

/// The bound is generous, for a build without optimisation on a busy machine; `make bench` has the figure.
#[tokio::test]
async fn notices_come_at_once() {
    let server = Server::start();
    let mut talk = Talk::open(server.addr).await;
    let mut late = Vec::new();
    for n in 0..50 {
        let grant = acquire(&mut talk, &format!("k{n}"), 60_000).await;
        let revoke = json!({ "key": grant.key, "reason": "r", "immediately": true });
        let mut admin = server.park("/v1/admin/revoke", &revoke).await;
        admin.receive().await.ok();
        let answered = Instant::now();
        assert_eq!(talk.pushed("notice").await, ended(&grant, "revoked"));
        late.push(answered.elapsed());
    }
    late.sort_unstable();
    assert!(late[late.len() / 2] < ms(50), "{late:?}");
}
