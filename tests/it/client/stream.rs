//! Heartbeats by a stream, and without one.

use std::time::Instant;

use serde_json::json;
use tenure::client::{Hold, Loss, SessionOptions};

use crate::client::harness::{Server, eventually, hold, soon};
use crate::support::clock::{ms, sleep_ms};

/// The heartbeats that came by streams.
async fn by_stream(server: &Server) -> f64 {
    server.node.metric("tenure_stream_calls_total").await
}

async fn until_streamed(server: &Server) {
    eventually("heartbeats go by a stream", async || by_stream(server).await >= 1.0).await;
}

#[tokio::test]
async fn the_heartbeats_of_all_leases_go_by_one_stream() {
    let server = Server::start().await;
    let client = server.client();
    let mut leases = Vec::new();
    for n in 0..20 {
        leases.push(client.hold(hold(&format!("k{n}"), 1000)).await.expect("a grant"));
    }
    until_streamed(&server).await;
    let before = by_stream(&server).await;
    sleep_ms(3000).await;
    assert!(by_stream(&server).await > before + 60.0, "each lease has three in a ttl");
    assert!((server.node.metric("tenure_streams ").await - 1.0).abs() < f64::EPSILON);
    assert!(leases.iter().all(tenure::client::Lease::valid));
    drop(leases);
    drop(client);
    eventually("it is closed", async || server.node.metric("tenure_streams ").await < 0.5).await;
}

#[tokio::test]
async fn a_revocation_is_told_at_once() {
    let server = Server::start().await;
    for immediately in [true, false] {
        let key = format!("immediately-{immediately}");
        let lease = server.hold(&key, 9_000).await;
        let beats = by_stream(&server).await;
        eventually("its heartbeats go by a stream", async || by_stream(&server).await > beats)
            .await;
        let revoke = json!({ "key": key, "reason": "r", "immediately": immediately });
        let revoked = Instant::now();
        assert_eq!(server.node.post("/v1/admin/revoke", &revoke).await.0, 200);
        assert_eq!(soon("the loss", lease.lost()).await, Loss::Revoked);
        // The next heartbeat would be due after 2 s at the earliest.
        assert!(revoked.elapsed() < ms(1500), "{:?}", revoked.elapsed());
    }
}

#[tokio::test]
async fn a_session_is_told_at_once_of_a_lease_that_is_revoked() {
    let server = Server::start().await;
    let session = SessionOptions::new("w").ttl(ms(9_000));
    let session = server.client().open_session(session).await.expect("a session");
    let lease = session.hold(Hold::key("k")).await.expect("a grant");
    until_streamed(&server).await;
    let revoke = json!({ "key": "k", "reason": "r" });
    let revoked = Instant::now();
    let (told, _) = tokio::join!(soon("the loss", lease.lost()), async {
        // It is answered when the session's promise is over.
        tokio::time::timeout(ms(1000), server.node.post("/v1/admin/revoke", &revoke)).await
    });
    assert_eq!(told, Loss::Revoked);
    assert!(revoked.elapsed() < ms(1900), "{:?}", revoked.elapsed());
    assert!(session.valid());
}

#[tokio::test]
async fn leases_are_kept_where_there_is_no_stream() {
    let server = Server::configured("[limits]\nstreams = 0\n").await;
    let lease = server.hold("k", 1000).await;
    sleep_ms(4000).await;
    assert!(lease.valid());
    assert!(by_stream(&server).await < 0.5);
}

#[tokio::test]
async fn a_lease_outlives_a_server_that_is_killed_while_heartbeats_are_in_flight() {
    let mut server = Server::start().await;
    let client = server.client();
    let mut leases = Vec::new();
    for n in 0..50 {
        leases.push(client.hold(hold(&format!("k{n}"), 6_000)).await.expect("a grant"));
    }
    until_streamed(&server).await;
    server.node.kill();
    server.node.start().await;
    sleep_ms(7_000).await;
    assert!(leases.iter().all(tenure::client::Lease::valid), "all go on");
    eventually("there is another stream", async || by_stream(&server).await >= 1.0).await;
}
