//! Holders that are asked to hand over one lease, and do or do not.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::harness::{Grant, Server, Session, assert_no_hole, eventually, kinds, ms};

const POLICIES: &str = r#"
[[policy]]
prefix = "jobs/"
pool = "jobs"
balance = true
handover_timeout = "700ms"

[[policy]]
prefix = "lazy/"
pool = "lazy"
balance = true
handover_timeout = "60s"
"#;

async fn ask(server: &Server, key: &str) {
    server.post("/v1/testing/handover", &json!({ "key": key })).await.ok();
}

async fn notices(server: &Server, session: &Session) -> Value {
    server.beat(session).await.ok()["notices"].clone()
}

async fn outcomes(server: &Server) -> [f64; 3] {
    let mut all = [0.0; 3];
    for (at, outcome) in ["requested", "handed-over", "timed-out"].iter().enumerate() {
        let series = format!("tenure_handovers_total{{pool=\"jobs\",outcome=\"{outcome}\"}}");
        all[at] = server.metric(&series).await;
    }
    all
}

#[tokio::test]
async fn who_does_not_answer_in_time_is_ordered_to_end_and_keeps_the_rest() {
    let server = Server::configured(POLICIES);
    let session = server.session("w", 1000, json!({ "pool": "jobs" })).await;
    let first = server.acquire_under("jobs/1", "w", &session).await;
    let rest = server.acquire_under("jobs/2", "w", &session).await;
    let asked = Instant::now();
    ask(&server, "jobs/1").await;
    let told = notices(&server, &session).await;
    assert_eq!(
        (&told[0]["type"], &told[0]["key"]),
        (&json!("handover-requested"), &json!("jobs/1"))
    );
    assert!((1..=700).contains(&told[0]["deadline_ms"].as_u64().expect("whole")), "{told}");
    ask(&server, "jobs/1").await;
    assert_eq!(notices(&server, &session).await.as_array().map(Vec::len), Some(1));
    let mut ordered = None;
    eventually("it ended", async || {
        let told = notices(&server, &session).await;
        if told == json!([{ "type": "revoked", "key": "jobs/1", "token": first.token }]) {
            ordered.get_or_insert_with(|| asked.elapsed());
        }
        server.lease("jobs/1").await["state"] == "free"
    })
    .await;
    let ordered = ordered.expect("heartbeats say first that it is not kept any more");
    assert!(ordered >= ms(690) && ordered < ms(3000), "{ordered:?}");
    // Notices follow the history, so they may be late by milliseconds.
    eventually("no notice is left", async || notices(&server, &session).await == json!([])).await;
    assert_eq!(server.lease("jobs/2").await["token"], rest.token);
    let events = server.events_of("jobs/1").await;
    assert_no_hole(&events);
    assert_eq!(kinds(&events), ["granted", "handover-requested", "revoked"]);
    let data = |at: usize, name: &str| events[at]["data"][name].clone();
    assert_eq!((data(1, "owner"), data(1, "reason")), (json!("w"), json!("balance")));
    assert_eq!((data(1, "actor"), data(1, "token")), (json!("balancer"), data(0, "token")));
    assert_eq!(
        (data(2, "reason"), data(2, "actor")),
        (json!("not handed over in time"), json!("balancer"))
    );
    assert_eq!(outcomes(&server).await, [1.0, 0.0, 1.0]);
}

#[tokio::test]
async fn who_hands_over_in_time_leaves_its_successor_in_peace() {
    let server = Server::configured(POLICIES);
    let session = server.session("w", 60_000, json!({ "pool": "jobs" })).await;
    let one = server.acquire_under("jobs/1", "w", &session).await;
    let two = server.acquire("jobs/2", "w", 60_000).await;
    for key in ["jobs/1", "jobs/2"] {
        ask(&server, key).await;
    }
    server.post("/v1/transfer", &one.proof_and(json!({ "value": "page 8" }))).await.ok();
    server.release(&two).await;
    let next: Vec<Grant> = vec![
        server.acquire("jobs/1", "v", 60_000).await,
        server.acquire("jobs/2", "v", 60_000).await,
    ];
    assert_eq!(next[0].lease["value"], "page 8");
    eventually("no notice is left", async || notices(&server, &session).await == json!([])).await;
    tokio::time::sleep(ms(1500)).await;
    for grant in next {
        server.post("/v1/heartbeat", &grant.proof()).await.ok();
    }
    assert_eq!(outcomes(&server).await, [2.0, 2.0, 0.0]);
}

#[tokio::test]
async fn a_lease_without_a_session_ends_when_its_last_promise_ran_out() {
    let server = Server::configured(POLICIES);
    let grant = server.acquire("jobs/1", "w", 1000).await;
    ask(&server, "jobs/1").await;
    let (mut last, asked) = (Instant::now(), Instant::now());
    loop {
        let before = Instant::now();
        let beat = server.post("/v1/heartbeat", &grant.proof()).await;
        if beat.status != 200 {
            assert_eq!(beat.problem(409, "lease-lost")["reason"], "revoked");
            break;
        }
        last = before;
        tokio::time::sleep(ms(20)).await;
    }
    assert!(asked.elapsed() >= ms(690), "{:?}", asked.elapsed());
    let waits = json!({ "key": "jobs/1", "owner": "v", "ttl_ms": 60_000, "wait_ms": 10_000 });
    server.post("/v1/acquire", &waits).await.ok();
    assert!(last.elapsed() >= ms(980), "{:?} after its last heartbeat", last.elapsed());
}

#[tokio::test]
async fn requests_survive_a_crash_and_are_carried_out_though_nobody_asks() {
    let server = Server::configured(POLICIES);
    let session = server.session("w", 60_000, json!({ "pool": "lazy" })).await;
    for key in ["lazy/1", "lazy/2"] {
        server.acquire_under(key, "w", &session).await;
    }
    let first = server.acquire_under("jobs/1", "w", &session).await;
    let plain = server.acquire("jobs/2", "w", 60_000).await;
    for key in ["lazy/1", "jobs/1", "jobs/2"] {
        ask(&server, key).await;
    }
    let server = server.kill().restart();
    let told = notices(&server, &session).await;
    let lazy = told.as_array().expect("notices").iter().find(|told| told["key"] == "lazy/1");
    let lazy = lazy.unwrap_or_else(|| panic!("{told}"));
    assert_eq!(lazy["type"], "handover-requested");
    assert!(lazy["deadline_ms"].as_u64().expect("whole") > 50_000, "in full again: {lazy}");
    eventually("it is ordered to end", async || {
        let told = notices(&server, &session).await;
        let revoked = json!({ "type": "revoked", "key": "jobs/1", "token": first.token });
        told.as_array().expect("notices").contains(&revoked)
    })
    .await;
    eventually("so is the other", async || {
        server.post("/v1/heartbeat", &plain.proof()).await.status == 409
    })
    .await;
    assert_eq!(server.lease("lazy/2").await["state"], "held");
}

#[tokio::test]
async fn a_pinned_lease_stays_and_its_session_is_not_told_otherwise() {
    let server = Server::configured(POLICIES);
    let session = server.session("w", 1000, json!({ "pool": "jobs" })).await;
    server.acquire_under("jobs/1", "w", &session).await;
    server.post("/v1/admin/pin", &json!({ "key": "jobs/1", "by": "ops" })).await.ok();
    ask(&server, "jobs/1").await;
    let asked = Instant::now();
    while asked.elapsed() < ms(2500) {
        let told = notices(&server, &session).await;
        assert_eq!(told[0]["type"], "handover-requested", "{told}");
        tokio::time::sleep(ms(50)).await;
    }
    server.post("/v1/admin/unpin", &json!({ "key": "jobs/1", "by": "ops" })).await.ok();
    eventually("it ended", async || {
        server.beat(&session).await.ok();
        server.lease("jobs/1").await["state"] == "free"
    })
    .await;
}
