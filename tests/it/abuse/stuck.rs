//! Subscribers that never read.

use tokio::{net::TcpSocket, task::JoinSet};

use super::{
    probe::{Rounds, span, tails},
    rounds, size,
};

use crate::support::harness::{Connection, Server, eventually};

/// Of memory that one of them may take: a chunk of the stream that was made, and one that is sent.
const BYTES: u64 = 256 << 10;

/// A subscriber with a tiny receive window; or those that want nothing of a long history.
async fn deaf(addr: std::net::SocketAddr, at: usize) -> Connection {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small window");
    let mut connection = Connection::over(socket.connect(addr).await.expect("connected"));
    let path = [
        "/v1/events?after=0",
        "/v1/events?after=0&prefix=nothing",
        "/v1/events?after=0&prefix=nothing&format=json&wait_ms=60000",
    ][at % 3];
    connection.send("GET", path, &[], b"").await;
    connection
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribers_that_never_read_delay_nobody_and_lose_their_place() {
    let server = Server::with(&["events.buffer=1024"]);
    let twin = Server::with(&["events.buffer=1024"]);
    let count = size(1000, 30);
    let mut rounds_of = Rounds::of("stuck subscribers", server.pid());
    tails(&server, &twin, span() / 4).await;
    for _ in 0..rounds() {
        rounds_of.quiet();
        let quiet = tails(&server, &twin, span()).await;
        let mut opening = JoinSet::new();
        for at in 0..count {
            opening.spawn(deaf(server.addr, at));
        }
        let stuck = opening.join_all().await;
        eventually("they listen", async || {
            server.metric("tenure_event_subscribers ").await >= count as f64
        })
        .await;
        let busy = tails(&server, &twin, span()).await;
        rounds_of.round(quiet, busy);
        // The well-behaved clients' own changes push them out, or they leave.
        drop(stuck);
        eventually("nobody listens any more", async || {
            server.metric("tenure_event_subscribers ").await == 0.0
        })
        .await;
    }
    rounds_of.verdict(count, BYTES);
}
