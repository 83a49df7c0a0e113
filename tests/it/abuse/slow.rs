//! Slow loris: requests that come a byte at a time, and never quite.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

use super::{
    idle::sockets,
    probe::{Rounds, span, tails},
    rounds, size,
};

use crate::support::harness::{Server, eventually};

/// Of memory that one of them may take.
const BYTES: u64 = 64 << 10;
/// A byte in so long.
const DRIP: Duration = Duration::from_millis(500);
/// The server's patience with a head, with a body, and what a busy machine adds.
const HEAD: Duration = Duration::from_secs(10 + 10);
const BODY: Duration = Duration::from_secs(20 + 10);

/// What is sent at once, what is dripped, and how long the server may put up with it.
const KINDS: [(&str, &str, Duration); 3] = [
    ("", "GET /v1/leases?prefix=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", HEAD),
    (
        "POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\n",
        "X-Slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        HEAD,
    ),
    (
        "POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n",
        "{\"key\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        BODY,
    ),
];

/// Drips until the server has enough; what it said then, and after how long.
async fn drip(addr: SocketAddr, kind: usize) -> (Duration, String) {
    let begun = Instant::now();
    let (head, rest, _) = KINDS[kind];
    let mut stream = TcpStream::connect(addr).await.expect("the server accepts");
    let _ = stream.write_all(head.as_bytes()).await;
    let mut said = Vec::new();
    for byte in rest.bytes().cycle() {
        if stream.write_all(&[byte]).await.is_err() {
            break;
        }
        let read = stream.read_buf(&mut said);
        if let Ok(Ok(0) | Err(_)) = tokio::time::timeout(DRIP, read).await {
            break;
        }
    }
    (begun.elapsed(), String::from_utf8_lossy(&said).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_byte_by_byte_delay_nobody_and_are_given_up() {
    let server = Server::start();
    let twin = Server::start();
    let count = size(2000, 150);
    let mut rounds_of = Rounds::of("slow loris", server.pid());
    tails(&server, &twin, span() / 4).await;
    for _ in 0..rounds() {
        rounds_of.quiet();
        let quiet = tails(&server, &twin, span()).await;
        let mut slow = JoinSet::new();
        for at in 0..count {
            let addr = server.addr;
            slow.spawn(async move { (at % KINDS.len(), drip(addr, at % KINDS.len()).await) });
        }
        tokio::time::sleep(DRIP * 2).await;
        let busy = tails(&server, &twin, span()).await;
        rounds_of.round(quiet, busy);
        for (kind, (took, said)) in slow.join_all().await {
            let patience = KINDS[kind].2;
            assert!(took <= patience, "the server put up with kind {kind} for {took:?}");
            let told = said.is_empty() || said.starts_with("HTTP/1.1 408 ");
            assert!(told, "kind {kind} was told {said:?}");
        }
    }
    rounds_of.verdict(count, BYTES);
    eventually("the server has few sockets", async || sockets(server.pid()) < 50).await;
}
