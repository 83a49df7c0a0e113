//! All holders lose their connections at once and connect again, as after a switch that was restarted.
//!
//! Shown: within one ttl, each has a connection again and has renewed its lease; none is lost, and probes are answered
//! throughout.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};

use super::size;

use crate::support::harness::{Connection, Grant, Server, wire::request};

/// What a lease lasts without a heartbeat.
const TTL: Duration = Duration::from_secs(30);
/// The longest time in which a probe is answered.
const PROBE: Duration = Duration::from_secs(1);

/// A connection of a holder, in plain text or not.
trait Line: AsyncRead + AsyncWrite + Send + Unpin {}

impl<L: AsyncRead + AsyncWrite + Send + Unpin> Line for L {}

/// A new connection of a holder.
async fn connect(addr: SocketAddr) -> Box<dyn Line> {
    Box::new(TcpStream::connect(addr).await.expect("the server accepts"))
}

/// One call; its status and the beginning of what the server said.
async fn call(line: &mut dyn Line, path: &str, body: &Value) -> (u16, String) {
    let bytes = request("POST", path, &[], body.to_string().as_bytes());
    line.write_all(&bytes).await.expect("sent");
    let (mut said, mut length) = (Vec::new(), None);
    // The answer is short, and its length is in its head.
    while length.is_none_or(|length| said.len() < length) {
        assert!(line.read_buf(&mut said).await.expect("an answer") > 0, "the server hung up");
        let text = String::from_utf8_lossy(&said).to_ascii_lowercase();
        length = text.split_once("\r\n\r\n").map(|(head, _)| {
            let told = head.split_once("content-length: ").expect("a length").1;
            let told = told.lines().next().and_then(|told| told.trim().parse::<usize>().ok());
            head.len() + 4 + told.expect("a number")
        });
    }
    let text = String::from_utf8_lossy(&said).into_owned();
    (text.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status"), text)
}

/// Grants of so many keys, in few calls.
async fn acquire(server: &Server, count: usize) -> Vec<Grant> {
    let keys: Vec<_> = (0..count).map(|n| format!("held/{n}")).collect();
    let ttl_ms = TTL.as_millis();
    let any = json!({ "keys": keys, "owner": "holder", "ttl_ms": ttl_ms, "count": count });
    let granted = server.post("/v1/acquire-any", &any).await.ok();
    let grants: Vec<Grant> =
        granted["grants"].as_array().expect("grants").iter().map(Grant::of).collect();
    assert_eq!(grants.len(), count);
    grants
}

/// Connects, and renews the lease. Returns the connection, which the holder keeps.
async fn come_back(addr: SocketAddr, held: &Grant) -> Box<dyn Line> {
    let mut line = connect(addr).await;
    let (status, said) = call(&mut *line, "/v1/heartbeat", &held.proof()).await;
    assert_eq!(status, 200, "{said}");
    line
}

/// All holders come back at once. Returns how long it took until the last one was back, and their connections.
async fn storm(addr: SocketAddr, held: &[Grant]) -> (Duration, Vec<Box<dyn Line>>) {
    let begun = Instant::now();
    let mut holders = JoinSet::new();
    for held in held {
        let held = held.clone();
        holders.spawn(async move { come_back(addr, &held).await });
    }
    let connections = holders.join_all().await;
    (begun.elapsed(), connections)
}

async fn probe(addr: SocketAddr) -> Duration {
    let begun = Instant::now();
    Connection::open(addr).await.call("GET", "/livez", &[], b"").await.ok();
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_reconnects_within_one_ttl_loses_no_lease() {
    // Both ends of each connection are on this machine, and each process needs a file for it.
    let server = Server::with(&["limits.shed_lag=20ms"]);
    let held = acquire(&server, size(10_000, 500)).await;
    let mut longest = Duration::ZERO;
    let (mut worst, mut connections) = storm(server.addr, &held).await;
    for _ in 0..size(5, 2) {
        // Neither process may have twice as many files.
        drop(connections);
        let probing = tokio::spawn({
            let addr = server.addr;
            async move {
                let mut longest = Duration::ZERO;
                for _ in 0..20 {
                    longest = longest.max(probe(addr).await);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                longest
            }
        });
        let (took, again) = storm(server.addr, &held).await;
        (worst, connections) = (worst.max(took), again);
        longest = longest.max(probing.await.expect("no probe fails"));
    }
    drop(connections);
    println!(
        "reconnects: {} at a time, the last after {worst:?}; probes at most {longest:?}",
        held.len()
    );
    assert!(worst < TTL, "the last holder was back after {worst:?}");
    assert!(longest < PROBE, "a probe took {longest:?}");
    for held in &held {
        assert_eq!(server.lease(&held.key).await["token"], held.token, "{}", held.key);
    }
}
