//! Subscribers that do not read.

use std::time::Duration;

use serde_json::json;
use tokio::net::TcpSocket;

use crate::support::harness::{Connection, Grant, Server, Stream, eventually, soon};

/// A subscriber with a tiny receive window that sends its request and never reads.
pub async fn deaf(server: &Server) -> Connection {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small window");
    let mut connection = Connection::over(socket.connect(server.addr).await.expect("connected"));
    connection.send("GET", "/v1/events", &[], b"").await;
    connection
}

/// Takes and releases a key with a long name so often; the slowest turn.
pub async fn churn(server: &Server, turns: usize) -> Duration {
    let mut connection = Connection::open(server.addr).await;
    let mut slowest = Duration::ZERO;
    let key = "k".repeat(500);
    for _ in 0..turns {
        let sent = std::time::Instant::now();
        let body = json!({ "key": key, "owner": "w", "ttl_ms": 60_000 });
        let grant = Grant::of(&connection.post("/v1/acquire", &body).await.ok());
        connection.post("/v1/release", &grant.proof()).await.ok();
        slowest = slowest.max(sent.elapsed());
    }
    slowest
}

#[tokio::test]
async fn a_subscriber_that_never_reads_delays_nobody_and_is_cut_off() {
    let server = Server::with(&["events.buffer=64"]);
    let mut asleep = deaf(&server).await;
    eventually("it listens", async || server.metric("tenure_event_subscribers").await == 1.0).await;
    let mut reader = Stream::open(&server, "").await;
    // More than every buffer between the two can hold.
    let turns = 3000;
    let (slowest, resets) = tokio::join!(churn(&server, turns), async {
        let (mut events, mut resets) = (0, 0);
        let mut seq = 0;
        while events < turns * 2 {
            let (id, kind, event) = match reader.event().await {
                Some(event) => event,
                None => panic!("the reader was cut off after {events}"),
            };
            if kind == "reset" {
                // On a slow machine it may fall behind; then it resumes, and nothing is missing.
                reader = Stream::open(&server, &format!("after={id}")).await;
                resets += 1;
                continue;
            }
            events += 1;
            seq += 1;
            assert_eq!(event["data"]["seq"], seq);
        }
        resets
    });
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    // It wakes up: what is left in the buffers, a reset, and the end.
    let (status, _) = soon("a head", asleep.head()).await.expect("a head");
    assert_eq!(status, 200);
    let mut text = String::new();
    let reading = async {
        while let Ok(Some(chunk)) = asleep.chunk().await {
            text.push_str(std::str::from_utf8(&chunk).expect("UTF-8"));
        }
    };
    soon("the end of the stream", reading).await;
    let last = text.trim_end().rsplit("\n\n").next().expect("a block");
    assert!(last.contains("event: reset"), "{last}");
    let cursor = last.lines().find_map(|line| line.strip_prefix("id: ")).expect("a cursor");
    let dropped = server.metric("tenure_event_subscribers_dropped_total").await;
    assert_eq!(dropped, f64::from(1 + resets));
    // With that cursor it goes on where it was, without a hole.
    let seen = text.matches("event: granted").count() + text.matches("event: released").count();
    let mut stream = Stream::open(&server, &format!("after={cursor}")).await;
    let (_, _, event) = stream.event().await.expect("the next");
    assert_eq!(event["data"]["seq"], seen as u64 + 1);
}

#[tokio::test]
async fn a_subscriber_that_never_reads_again_does_not_keep_its_place() {
    let server = Server::with(&["events.buffer=64", "limits.subscribers=2"]);
    let _asleep = (deaf(&server).await, deaf(&server).await);
    eventually("they listen", async || server.metric("tenure_event_subscribers").await == 2.0)
        .await;
    churn(&server, 3000).await;
    // Both have fallen behind for good: their places are free, and they are counted.
    eventually("they are cut off", async || {
        server.metric("tenure_event_subscribers_dropped_total").await == 2.0
    })
    .await;
    Stream::open(&server, "").await;
}
