//! How a stream ends with its coordinator.

use rustix::process::Signal;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::support::harness::{Server, Talk, eventually, soon};

#[tokio::test]
async fn a_coordinator_that_stops_answers_what_is_in_flight_and_says_so() {
    let server = Server::start();
    server.acquire("k", "w1", 60_000).await;
    let mut talk = Talk::open(server.addr).await;
    let mut quiet = Talk::open(server.addr).await;
    let wait = json!({ "key": "k", "owner": "w2", "ttl_ms": 60_000, "wait_ms": 60_000 });
    let waiting = talk.begin("acquire", &wait).await;
    server.until_waiters("k", 1).await;
    server.signal(Signal::TERM);
    let answer = talk.answer(waiting).await;
    assert_eq!((&answer["status"], &answer["body"]["code"]), (&json!(503), &json!("draining")));
    let (code, reason) = talk.end().await.expect("a reason");
    assert_eq!(code, 1001);
    assert!(reason.contains("no more work"), "{reason}");
    assert_eq!(quiet.code().await, Some(1001));
    let stopped = server.wait();
    assert_eq!(stopped.status.code(), Some(0), "{}", stopped.said);
}

#[tokio::test]
async fn a_stream_that_is_closed_is_answered_and_counted() {
    let server = Server::start();
    let mut talk = Talk::open(server.addr).await;
    talk.send_message(Message::Close(None)).await;
    assert_eq!(talk.code().await, Some(1000));
    drop(Talk::open(server.addr).await);
    let ended = async |reason: &str| {
        server.metric(&format!("tenure_streams_ended_total{{reason=\"{reason}\"}}")).await
    };
    eventually("both are counted", async || {
        ended("closed").await >= 1.0 && ended("gone").await >= 1.0
    })
    .await;
    assert!(server.metric("tenure_streams ").await < 0.5);
}

/// What was answered is durable, and what was not is found out by the request id.
#[tokio::test]
async fn a_kill_loses_no_answered_call() {
    let server = Server::start();
    let mut talk = Talk::open(server.addr).await;
    let body = |n: u32| json!({ "key": format!("k{n}"), "owner": "w", "ttl_ms": 600_000, "request_id": format!("r{n}") });
    let answered = talk.ok("acquire", &body(0)).await;
    for n in 1..100 {
        talk.begin("acquire", &body(n)).await;
    }
    let mut told = vec![answered];
    for _ in 0..20 {
        let Ok(message) = soon("an answer", talk.message()).await else { break };
        told.push(message["body"].clone());
    }
    let server = server.kill().restart();
    assert!(talk.end().await.is_none(), "nobody was left to say it");
    for grant in &told {
        let lease = server.lease(grant["key"].as_str().expect("a key")).await;
        assert_eq!(
            (&lease["state"], &lease["token"]),
            (&json!("held"), &grant["token"]),
            "{lease}"
        );
    }
    // Repeated by HTTP, each call is granted once.
    for n in 0..100 {
        let again = server.post("/v1/acquire", &body(n)).await.ok();
        let first = told.iter().find(|grant| grant["key"] == again["key"]);
        assert!(first.is_none_or(|grant| grant["lease_id"] == again["lease_id"]), "{again}");
    }
}
