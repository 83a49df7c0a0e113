//! Connections on which nothing is said.

use std::{net::SocketAddr, time::Duration};

use tokio::{io::AsyncReadExt, task::JoinSet};

use super::{
    probe::{Rounds, span, tails},
    rounds, size,
};

use crate::support::harness::{Connection, Server, eventually};

/// Of memory that one idle connection may take.
const BYTES: u64 = 48 << 10;

/// Half of them have said nothing yet, and half of them have had one answer.
async fn crowd(addr: SocketAddr, count: usize) -> Vec<Connection> {
    let mut crowd = JoinSet::new();
    for lane in 0..64 {
        crowd.spawn(async move {
            let mut connections = Vec::new();
            for at in (lane..count).step_by(64) {
                let mut connection = Connection::open(addr).await;
                if at % 2 == 0 {
                    connection.call("GET", "/livez", &[], b"").await.ok();
                }
                connections.push(connection);
            }
            connections
        });
    }
    crowd.join_all().await.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_delay_nobody_and_those_that_never_speak_are_closed() {
    let server = Server::start();
    let twin = Server::start();
    let count = size(5000, 500);
    let mut rounds_of = Rounds::of("idle connections", server.pid());
    tails(&server, &twin, span() / 4).await;
    for round in 0..rounds() {
        rounds_of.quiet();
        let quiet = tails(&server, &twin, span()).await;
        let mut crowd = crowd(server.addr, count).await;
        let busy = tails(&server, &twin, span()).await;
        rounds_of.round(quiet, busy);
        if round > 0 {
            continue;
        }
        // A head of a request is waited for so long and no longer.
        let mut silent: Vec<_> = crowd.drain(..).skip(1).step_by(2).take(100).collect();
        let ends = async {
            for connection in &mut silent {
                let mut left = Vec::new();
                let _ = connection.stream.read_to_end(&mut left).await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(20), ends).await;
        assert!(ended.is_ok(), "a connection that never says anything stays open");
    }
    rounds_of.verdict(count, BYTES);
    eventually("the server has few sockets", async || sockets(server.pid()) < 50).await;
}

/// How many sockets a process has.
pub fn sockets(pid: u32) -> usize {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
    let links = entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.filter(|to| to.to_string_lossy().starts_with("socket:")).count()
}
