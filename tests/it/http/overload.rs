//! Load that is shed in time, and what keeps leases, which is served all the same.

use std::{collections::BTreeSet, time::Duration};

use serde_json::json;
use tenure::client::{Client, EventFilter, Hold, LeaseFilter, SessionOptions, StreamItem};
use tokio::io::AsyncWriteExt as _;

use crate::support::harness::{Connection, Server, eventually, percent, soon};

/// A coordinator of one worker thread, which may be late by less than a thread that is kept busy is.
fn server() -> Server {
    Server::with(&["server.workers=1", "limits.shed_lag=10ms"])
}

/// Keeps the server's thread busy for so long, and waits until it sheds load.
async fn overload(server: &Server, for_ms: u64) {
    server.post("/v1/testing/busy", &json!({ "for_ms": for_ms })).await.ok();
    eventually("it sheds load", async || server.get("/v1/pools").await.status == 503).await;
}

#[tokio::test]
async fn new_work_is_refused_and_what_keeps_leases_is_served_on_the_same_connection() {
    let server = server();
    let held = server.acquire("held", "w", 60_000).await;
    let session = server.session("w", 60_000, json!({})).await;
    let own = |path: &str| format!("/v1/sessions/{}{path}", session.id);
    overload(&server, 60_000).await;
    let mut connection = Connection::open(server.addr).await;
    let acquire = json!({ "key": "k", "owner": "w", "ttl_ms": 60_000 });
    let waits = json!({ "key": "held", "owner": "v", "ttl_ms": 60_000, "wait_ms": 60_000 });
    let any = json!({ "keys": ["k"], "owner": "w", "ttl_ms": 60_000 });
    let open = json!({ "owner": "w", "ttl_ms": 60_000 });
    let mut pauses = BTreeSet::new();
    for (path, body) in
        [("acquire", &acquire), ("acquire", &waits), ("acquire-any", &any), ("sessions", &open)]
    {
        let reply = connection.post(&format!("/v1/{path}"), body).await;
        let problem = reply.problem(503, "overloaded");
        assert_eq!((reply.header("connection"), &problem["retryable"]), (None, &json!(true)));
        pauses.insert(problem["retry_after_ms"].as_u64().expect("a pause"));
        let alive = connection.post("/v1/heartbeat", &held.proof()).await.ok();
        assert!(alive["valid_for_ms"].as_u64().is_some_and(|ms| ms > 50_000), "{alive}");
    }
    assert!(pauses.iter().all(|ms| (500..=3000).contains(ms)), "{pauses:?}");
    assert!(pauses.len() > 1, "callers that were refused together come back together");
    for list in ["leases", "sessions", "pools", "events", "events?format=json&wait_ms=1000"] {
        let reply = connection.call("GET", &format!("/v1/{list}"), &[], b"").await;
        reply.problem(503, "overloaded");
    }
    let check = json!({ "key": "held", "token": held.token });
    let checked = connection.post("/v1/check", &check).await.ok();
    assert_eq!(checked["current"], true, "{checked}");
    connection.post(&own("/heartbeat"), &json!({})).await.ok();
    let beats = json!({ "leases": [held.proof()] });
    connection.post("/v1/heartbeats", &beats).await.ok();
    let pin = json!({ "key": "held", "by": "ops" });
    connection.post("/v1/admin/pin", &pin).await.ok();
    connection.post("/v1/admin/unpin", &pin).await.ok();
    let one = own("");
    for path in ["/livez", "/readyz", "/v1/leases/held", "/v1/nodes", "/v1/info", &one] {
        assert_eq!(connection.call("GET", path, &[], b"").await.status, 200, "{path}");
    }
    connection.post("/v1/release", &held.proof()).await.ok();
    connection.call("DELETE", &own(""), &[], b"").await.ok();
    let shed = [("acquire", 3.0), ("session", 1.0), ("stream", 2.0)];
    for (class, count) in shed {
        let counted = server.metric(&format!("tenure_shed_total{{class=\"{class}\"}}")).await;
        assert!((counted - count).abs() < f64::EPSILON, "{class}: {counted}");
    }
    eventually("the lag is shown", async || server.metric("tenure_http_lag_seconds").await > 0.01)
        .await;
}

#[tokio::test]
async fn a_connection_whose_call_was_refused_serves_the_next_one_also_after_a_long_body() {
    let server = server();
    let held = server.acquire("held", "w", 60_000).await;
    overload(&server, 60_000).await;
    let mut connection = Connection::open(server.addr).await;
    let long = json!({ "key": "k", "owner": "w", "ttl_ms": 60_000, "value": "v".repeat(100_000) });
    for _ in 0..2 {
        let reply = connection.post("/v1/acquire", &long).await;
        reply.problem(503, "overloaded");
        assert_eq!(reply.header("connection"), None);
        connection.post("/v1/heartbeat", &held.proof()).await.ok();
    }
    let head = "POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\n";
    // Of a body whose length the head does not say, all is read too.
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n5\r\n{{\"key\r\n");
    connection.stream.get_mut().write_all(chunked.as_bytes()).await.expect("sent");
    let rest = format!("186a0\r\n{}\r\n0\r\n\r\n", "v".repeat(100_000));
    connection.stream.get_mut().write_all(rest.as_bytes()).await.expect("sent");
    connection.receive().await.problem(503, "overloaded");
    connection.post("/v1/heartbeat", &held.proof()).await.ok();
    // No call may have so long a body: it is not read, and the connection ends.
    let endless = format!("{head}Content-Length: 2000000\r\n\r\n");
    connection.stream.get_mut().write_all(endless.as_bytes()).await.expect("sent");
    let reply = connection.receive().await;
    reply.problem(503, "overloaded");
    assert_eq!(reply.header("connection"), Some("close"));
}

#[tokio::test]
async fn a_client_waits_until_the_overload_is_over() {
    let server = server();
    let client = Client::new(&format!("http://{}", server.addr)).expect("an address");
    overload(&server, 1_500).await;
    let mut events = client.events(EventFilter::default());
    let first = events.next().await.expect("no error");
    assert!(matches!(first, StreamItem::Disconnected { .. }), "{first:?}");
    let hold = Hold::key("k").ttl(Duration::from_secs(60));
    let filter = LeaseFilter::default();
    let (lease, session, leases, ()) = tokio::join!(
        client.hold(hold),
        client.open_session(SessionOptions::new("w")),
        client.leases(&filter),
        async { while !matches!(events.next().await, Ok(StreamItem::Connected)) {} },
    );
    assert!(lease.expect("a grant").valid() && session.expect("a session").valid());
    assert!(leases.is_ok());
    assert!(server.metric("tenure_shed_total").await >= 4.0);
}

#[tokio::test]
async fn while_too_many_writes_wait_for_the_disk_new_work_is_refused() {
    let slow = [("TENURE_TEST_SYNC_MS", "1500")];
    let server = Server::with(&["limits.shed_writes=1"]);
    let held = server.acquire("held", "w", 60_000).await;
    let server = server.kill().try_restart(&slow).unwrap_or_else(|ended| panic!("{}", ended.said));
    server.post("/v1/heartbeat", &held.proof()).await.ok();
    let mut waiting = Vec::new();
    for n in 0..3 {
        let body = json!({ "key": format!("k{n}"), "owner": "w", "ttl_ms": 60_000 });
        waiting.push(server.park("/v1/acquire", &body).await);
    }
    eventually("they wait for the disk", async || {
        server.metric("tenure_store_writes_waiting").await > 1.0
    })
    .await;
    let body = json!({ "key": "other", "owner": "w", "ttl_ms": 60_000 });
    let problem = server.post("/v1/acquire", &body).await.problem(503, "overloaded");
    assert!(problem["detail"].as_str().is_some_and(|said| said.contains("limits.shed_writes")));
    let beat = soon("the heartbeat", server.post("/v1/heartbeat", &held.proof())).await;
    beat.ok();
    for mut call in waiting {
        let status = call.receive().await.status;
        assert!([200, 503].contains(&status), "{status}");
    }
    eventually("it grants", async || server.post("/v1/acquire", &body).await.status == 200).await;
    assert_eq!(server.lease(&percent("other")).await["owner"], "w");
}
