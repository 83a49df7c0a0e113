//! Handing leases over: to whoever waits, when asked to, and all of a session's.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::harness::{
    Grant, Server, Session, assert_no_hole, eventually, kinds, ms, soon,
};

/// A pool that balances, whose members have little time.
const POLICIES: &str = r#"
[[policy]]
prefix = "jobs/"
pool = "jobs"
balance = true
handover_timeout = "600ms"

[[policy]]
prefix = "jobs/slow/"
pool = "jobs"
handover_timeout = "1500ms"

[[policy]]
prefix = "lazy/"
pool = "lazy"
handover_timeout = "60s"
"#;

async fn drain(server: &Server, session: &Session) -> Value {
    server.call("POST", &format!("/v1/sessions/{}/drain", session.id), b"").await.ok()
}

/// The notices of a heartbeat, without their deadlines, which must lie within `most_ms`.
async fn notices(server: &Server, session: &Session, most_ms: u64) -> Value {
    let mut notices = server.beat(session).await.ok()["notices"].clone();
    for notice in notices.as_array_mut().expect("notices") {
        let notice = notice.as_object_mut().expect("an object");
        if let Some(left) = notice.remove("deadline_ms") {
            assert!(left.as_u64().expect("whole") <= most_ms, "{left}");
        }
    }
    notices
}

#[tokio::test]
async fn whoever_waits_is_granted_at_once_and_reads_the_value() {
    let server = Server::start();
    let mut grant = server.acquire("k", "w0", 60_000).await;
    let mut longest = ms(0);
    for round in 1..=20_u64 {
        let owner = format!("w{round}");
        let body = json!({ "key": "k", "owner": owner, "ttl_ms": 60_000, "wait_ms": 15_000 });
        let mut next = server.park("/v1/acquire", &body).await;
        server.until_waiters("k", 1).await;
        let value = format!("offset {round}");
        let answer = server.post("/v1/transfer", &grant.proof_and(json!({ "value": value }))).await;
        let answered = Instant::now();
        let next = Grant::of(&soon("the grant", next.receive()).await.ok());
        longest = longest.max(answered.elapsed());
        assert_eq!(answer.ok()["lease"]["owner"], owner, "its own answer names the next owner");
        assert_eq!(next.lease["value"], value);
        assert!(next.token > grant.token);
        grant = next;
    }
    println!("from the answer of a transfer to the grant of who waits: {longest:?} at most");
    assert!(longest < ms(250), "{longest:?}");
    let events = server.events_of("k").await;
    assert_no_hole(&events);
    assert_eq!(kinds(&events)[1..3], ["transferred", "granted"]);
    assert_eq!(events[1]["data"]["reason"], "to any successor");
}

#[tokio::test]
async fn where_nobody_waits_the_key_is_free_and_an_offer_wants_a_name() {
    let server = Server::start();
    let grant = server.acquire("k", "w1", 60_000).await;
    let ask = async |more: Value| server.post("/v1/transfer", &grant.proof_and(more)).await;
    ask(json!({ "offer_ms": 1000 })).await.bad_field("offer_ms");
    let answer = ask(json!({ "value": "offset 3" })).await.ok();
    assert_eq!(
        (&answer["lease"]["state"], &answer["lease"]["value"]),
        (&json!("free"), &json!("offset 3"))
    );
    assert_eq!(server.acquire("k", "w2", 60_000).await.lease["value"], "offset 3");
    let lost = ask(json!({})).await.problem(409, "lease-lost");
    assert_eq!(lost["reason"], "transferred");
}

#[tokio::test]
async fn a_session_that_leaves_is_told_so_and_ends_in_the_end() {
    let server = Server::configured(POLICIES);
    let session = server.session("w", 1000, json!({ "pool": "jobs" })).await;
    let one = server.acquire_under("jobs/1", "w", &session).await;
    server.acquire_under("jobs/2", "w", &session).await;
    assert_eq!(notices(&server, &session, 0).await, json!([]));
    let asked = Instant::now();
    let left = drain(&server, &session).await;
    assert_eq!(left["draining"], true);
    let deadline_ms = left["deadline_ms"].as_u64().expect("whole");
    assert!((1200..=1500).contains(&deadline_ms), "the pool's longest time-out: {left}");
    let again = drain(&server, &session).await["deadline_ms"].as_u64().expect("whole");
    assert!(again <= deadline_ms, "asked again it is no later");
    let told = notices(&server, &session, 1500).await;
    assert!(told.as_array().expect("notices").contains(&json!({ "type": "draining" })), "{told}");
    server.post("/v1/transfer", &one.proof_and(json!({ "value": "v" }))).await.ok();
    eventually("the session is ordered to end", async || server.beat(&session).await.status == 409)
        .await;
    assert!(asked.elapsed() >= ms(deadline_ms), "{:?}", asked.elapsed());
    eventually("so is what it kept", async || server.lease("jobs/2").await["state"] == "free")
        .await;
    // In a pool that is balanced each lease is asked for too, and its time may be over first.
    let events = server.events_of("jobs/2").await;
    let ended = events.last().expect("an end");
    let kinds_of_2 = kinds(&events);
    assert!(["revoked", "session-ended"].contains(&kinds_of_2[kinds_of_2.len() - 1].as_str()));
    assert_eq!(ended["data"]["reason"], "not handed over in time", "{ended}");
    assert_eq!(ended["data"]["actor"], "w", "{ended}");
    let mut kinds_of_1 = kinds(&server.events_of("jobs/1").await);
    kinds_of_1.retain(|kind| kind != "handover-requested");
    assert_eq!(kinds_of_1, ["granted", "transferred"]);
}

#[tokio::test]
async fn a_drain_survives_a_crash_and_its_time_begins_again() {
    let server = Server::configured(POLICIES);
    let session = server.session("w", 60_000, json!({ "pool": "lazy" })).await;
    server.acquire_under("lazy/1", "w", &session).await;
    drain(&server, &session).await;
    let server = server.kill().restart();
    let beat = server.beat(&session).await.ok();
    assert_eq!(beat["notices"][0]["type"], "draining", "{beat}");
    let left = beat["notices"][0]["deadline_ms"].as_u64().expect("whole");
    assert!((50_000..=60_000).contains(&left), "{left}");
}

#[tokio::test]
async fn an_owner_is_drained_by_asking_its_members_and_revoking_the_rest() {
    let server = Server::configured(POLICIES);
    let member = server.session("w", 60_000, json!({ "pool": "jobs" })).await;
    let other = server.session("w", 1000, json!({ "pool": "lazy" })).await;
    server.acquire_under("jobs/1", "w", &member).await;
    server.acquire("plain", "w", 500).await;
    let drained = server.post("/v1/admin/drain", &json!({ "owner": "w" })).await.ok();
    assert_eq!(drained, json!({ "revoked": 2, "pinned": 0, "draining": 1 }));
    assert_eq!(notices(&server, &member, 1500).await, json!([{ "type": "draining" }]));
    let lost = server.beat(&other).await.problem(409, "session-lost");
    assert_eq!(lost["reason"], "revoked");
    eventually("the rest ended", async || server.lease("plain").await["state"] == "free").await;
    eventually("the member too", async || server.beat(&member).await.status == 409).await;
}

#[tokio::test]
async fn only_the_holder_of_its_id_has_a_session_leave() {
    let server = Server::start();
    let session = server.session("w", 60_000, json!({})).await;
    let post = async |id: &str| server.call("POST", &format!("/v1/sessions/{id}/drain"), b"").await;
    post(&session.digest).await.bad_field("id");
    post(&format!("{}{}", session.digest, "0".repeat(32))).await.problem(409, "session-lost");
    assert_eq!(notices(&server, &session, 0).await, json!([]));
    let path = format!("/v1/sessions/{}/drain", session.id);
    server.post(&path, &json!({ "when": 1 })).await.malformed();
    let left = server.post(&path, &json!({})).await.ok();
    assert!(left["deadline_ms"].as_u64().expect("whole") > 25_000, "30 s where no policy says it");
}
