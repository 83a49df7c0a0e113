//! Subscribers that do not read.

use std::{collections::BTreeMap, time::Duration};

use futures_util::future::join_all;
use serde_json::{Value, json};
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

/// The keys that change, at once, so that a slow disk syncs their writes together.
const KEYS: usize = 8;

/// Takes and releases keys with long names, all of them together so often; the slowest turn.
pub async fn churn(server: &Server, turns: usize) -> Duration {
    let each = (0..KEYS).map(async |n| {
        let mut connection = Connection::open(server.addr).await;
        let mut slowest = Duration::ZERO;
        let key = format!("{n}{}", "k".repeat(500));
        for _ in 0..turns / KEYS {
            let sent = std::time::Instant::now();
            let body = json!({ "key": key, "owner": "w", "ttl_ms": 60_000 });
            let grant = Grant::of(&connection.post("/v1/acquire", &body).await.ok());
            connection.post("/v1/release", &grant.proof()).await.ok();
            slowest = slowest.max(sent.elapsed());
        }
        slowest
    });
    join_all(each).await.into_iter().max().unwrap_or_default()
}

/// Counts the events of each key.
#[derive(Default)]
struct Seen(BTreeMap<String, u64>);

impl Seen {
    /// Nothing is missing before this event.
    fn next(&mut self, event: &Value) {
        let seq = self.0.entry(event["data"]["key"].to_string()).or_default();
        *seq += 1;
        assert_eq!(event["data"]["seq"], *seq);
    }
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
        let mut seen = Seen::default();
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
            seen.next(&event);
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
    let mut seen = Seen::default();
    for block in text.split("\n\n").filter(|block| !block.contains("event: reset")) {
        if let Some(event) = block.lines().find_map(|line| line.strip_prefix("data: ")) {
            seen.next(&serde_json::from_str(event).expect("JSON"));
        }
    }
    let mut stream = Stream::open(&server, &format!("after={cursor}")).await;
    let (_, _, event) = stream.event().await.expect("the next");
    seen.next(&event);
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
