//! More connections, waiting calls and unfinished bodies than there is room for, and what others notice.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::{io::AsyncWriteExt, time::timeout};

use crate::support::harness::{Connection, Grant, Server, eventually, ms, soon};

/// How long a probe may take: an orchestrator waits as long.
const PROBE: Duration = Duration::from_secs(1);
const MIB: usize = 1 << 20;
/// It waits for what does not happen.
const POLL: &str = "/v1/events?format=json&wait_ms=60000&prefix=nothing/";

/// Physical memory of a process, in bytes.
fn resident(pid: u32) -> usize {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).expect("a process");
    let pages: usize = statm.split(' ').nth(1).expect("resident").parse().expect("a number");
    pages * 4096
}

/// What others depend on is answered, each time on a connection of its own.
async fn vital(server: &Server, grant: &Grant) {
    let calls = async {
        server.get("/livez").await.ok();
        server.get("/readyz").await.ok();
        server.post("/v1/heartbeat", &grant.proof()).await.ok();
        assert_eq!(server.get("/metrics").await.status, 200);
    };
    timeout(4 * PROBE, calls).await.expect("probes and heartbeats are answered");
}

/// A call whose body does not end.
async fn unfinished(addr: SocketAddr, path: &str, length: usize, sent: usize) -> Connection {
    let mut connection = Connection::open(addr).await;
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n");
    let stream = connection.stream.get_mut();
    let _ = stream.write_all(head.as_bytes()).await;
    // One that is refused may be closed before all is sent.
    let _ = stream.write_all(&vec![b' '; sent]).await;
    connection
}

/// Connections of which some say nothing, some half a head, some half a body, and some had an answer.
async fn crowd(addr: SocketAddr, count: usize) -> Vec<Connection> {
    let mut connections = Vec::new();
    for at in 0..count {
        let mut connection = match at % 4 {
            3 => unfinished(addr, "/v1/acquire", 1000, 500).await,
            _ => Connection::open(addr).await,
        };
        // It may be closed at any moment.
        match at % 4 {
            1 => {
                let half = b"POST /v1/acquire HTTP/1.1\r\nhost: loc";
                let _ = connection.stream.get_mut().write_all(half).await;
            }
            2 => {
                connection.send("GET", "/livez", &[], b"").await;
                let _ = connection.try_receive().await;
            }
            _ => {}
        }
        connections.push(connection);
        tokio::time::sleep(ms(4)).await;
    }
    connections
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_and_half_open_connections_keep_nobody_out_and_cost_the_store_no_file() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("more files");
    let server = Server::with_files(1000);
    let kept = server.acquire("kept", "w", 60_000).await;
    let (is_over, addr) = (AtomicBool::new(false), server.addr);
    let abuse = async {
        let lanes = (0..4).map(|_| tokio::spawn(crowd(addr, 750)));
        let crowds = futures_util::future::join_all(lanes).await;
        tokio::time::sleep(ms(500)).await;
        is_over.store(true, Ordering::Relaxed);
        crowds
    };
    let mut written = 0;
    let work = async {
        while !is_over.load(Ordering::Relaxed) {
            vital(&server, &kept).await;
            let key = format!("k{written}");
            let body =
                json!({ "key": key, "owner": "w", "ttl_ms": 60_000, "value": "v".repeat(16_000) });
            let reply = timeout(PROBE, server.post("/v1/acquire", &body)).await;
            reply.expect("a write is answered").ok();
            written += 1;
        }
    };
    let (crowds, ()) = tokio::join!(abuse, work);
    assert!(written > 20, "{written}");
    for at in 0..written {
        assert_eq!(server.lease(&format!("k{at}")).await["state"], "held", "{at}");
    }
    let said = server.said();
    assert!(said.contains("open_files=1000") && said.contains("max_connections=20000"), "{said}");
    assert!(!said.contains("Too many open files"), "{said}");
    drop(crowds);
}

#[tokio::test]
async fn calls_that_wait_leave_places_to_those_that_do_not() {
    let server = Server::with(&["server.max_connections=40", "server.workers=1"]);
    let held = server.acquire("held", "w", 60_000).await;
    let mut waiting = Vec::new();
    for at in 0..60 {
        let mut connection = Connection::open(server.addr).await;
        let path = if at % 2 == 0 { POLL } else { "/v1/events?prefix=nothing/" };
        connection.send("GET", path, &[], b"").await;
        if at >= 30 {
            let problem = connection.receive().await.problem(429, "busy");
            let detail = problem["detail"].as_str().expect("a detail");
            assert!(detail.contains("30 calls") && detail.contains("server.max_connections"));
        }
        waiting.push(connection);
    }
    vital(&server, &held).await;
    let acquire =
        |key: &str| json!({ "key": key, "owner": "x", "ttl_ms": 60_000, "wait_ms": 5000 });
    let any = |key: &str| json!({ "keys": [key], "owner": "x", "ttl_ms": 60_000, "wait_ms": 5000 });
    for (path, free, taken) in
        [("/v1/acquire", acquire("a"), acquire("held")), ("/v1/acquire-any", any("b"), any("held"))]
    {
        // It need not wait for a key that is free.
        timeout(PROBE, server.post(path, &free)).await.expect("granted at once").ok();
        let refused = timeout(PROBE, server.post(path, &taken)).await.expect("at once");
        refused.problem(429, "busy");
    }
    drop(waiting);
    eventually("there are places to wait", async || {
        let mut connection = Connection::open(server.addr).await;
        let poll = "/v1/events?format=json&wait_ms=10";
        connection.call("GET", poll, &[], b"").await.status == 200
    })
    .await;
}

#[tokio::test]
async fn an_address_has_no_more_connections_than_it_may() {
    let server = Server::with(&["limits.connections_per_address=3"]);
    let mut kept = Vec::new();
    for _ in 0..3 {
        let mut connection = Connection::open(server.addr).await;
        connection.call("GET", "/livez", &[], b"").await.ok();
        kept.push(connection);
    }
    let mut more = Connection::open(server.addr).await;
    more.send("GET", "/livez", &[], b"").await;
    assert!(soon("it is closed", more.try_receive()).await.is_err());
    kept.pop();
    eventually("there is a place again", async || {
        let mut connection = Connection::open(server.addr).await;
        connection.send("GET", "/livez", &[], b"").await;
        connection.try_receive().await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn where_all_places_are_taken_probes_and_heartbeats_have_their_own() {
    let server = Server::with(&["server.max_connections=1", "server.workers=1"]);
    let held = server.acquire("held", "w", 60_000).await;
    let mut poll = Connection::open(server.addr).await;
    poll.send("GET", "/v1/events", &[], b"").await;
    soon("the stream", poll.head()).await.expect("a head");
    vital(&server, &held).await;
    let body = json!({ "key": "k", "owner": "w", "ttl_ms": 60_000 });
    let mut other = Connection::open(server.addr).await;
    let reply = other.post("/v1/acquire", &body).await;
    reply.problem(503, "too-many-connections");
    assert_eq!(reply.header("connection"), Some("close"));
    // Connections that say nothing do not keep these places either.
    let silent = crowd(server.addr, 40).await;
    vital(&server, &held).await;
    server.post("/v1/release", &held.proof()).await.ok();
    drop((poll, silent));
    eventually("there is a place", async || server.post("/v1/acquire", &body).await.status == 200)
        .await;
}

#[tokio::test]
async fn bodies_that_do_not_end_take_their_budget_and_cost_no_heartbeat() {
    let server = Server::with(&["limits.body_bytes=4MiB"]);
    let held = server.acquire("held", "w", 60_000).await;
    let any = "/v1/acquire-any";
    let mut stalled = Vec::new();
    for _ in 0..3 {
        stalled.push(unfinished(server.addr, any, MIB, MIB - 100).await);
    }
    let large = json!({ "key": "k", "owner": "w", "ttl_ms": 60_000, "value": "v".repeat(16_000),
        "reclaim": true });
    let mut refused = None;
    // The last of them takes what is left, as it comes.
    eventually("there is no room for a body", async || {
        let mut connection = unfinished(server.addr, any, MIB, MIB - 100).await;
        if let Ok(reply) = timeout(ms(500), connection.receive()).await {
            refused = Some(reply);
        } else {
            stalled.push(connection);
        }
        refused.is_some()
    })
    .await;
    let problem = refused.expect("an answer").problem(503, "too-many-bodies");
    assert!(problem["detail"].as_str().expect("a detail").contains("limits.body_bytes"));
    for _ in 0..3 {
        let longer = held.proof_and(json!({ "value": "v".repeat(16_000) }));
        timeout(PROBE, server.post("/v1/heartbeat", &longer)).await.expect("in time").ok();
        vital(&server, &held).await;
    }
    // Smaller ones take the rest. Then a body is refused that has come whole, and its connection ends all the same.
    let whole = serde_json::to_vec(&large).expect("JSON");
    eventually("there is no room for a smaller body", async || {
        stalled.push(unfinished(server.addr, any, MIB, 20_000).await);
        let mut connection = Connection::open(server.addr).await;
        let reply = connection.call("POST", "/v1/acquire", &[], &whole).await;
        assert_eq!(reply.header("connection"), (reply.status == 503).then_some("close"));
        reply.status == 503
    })
    .await;
    // A short one is free.
    server.acquire("short", "w", 60_000).await;
    drop(stalled);
    eventually("there is room", async || server.post("/v1/acquire", &large).await.status == 200)
        .await;
}

#[tokio::test]
async fn unfinished_bodies_take_little_memory() {
    let server = Server::start();
    let held = server.acquire("held", "w", 60_000).await;
    let before = resident(server.pid());
    let mut stalled = Vec::new();
    for _ in 0..200 {
        stalled.push(unfinished(server.addr, "/v1/acquire-any", MIB, MIB - 100).await);
    }
    vital(&server, &held).await;
    // It reads on for a while: until it takes no more than it did half a second before.
    let mut last = 0;
    eventually("all is read that is going to be", async || {
        tokio::time::sleep(ms(500)).await;
        let now = resident(server.pid());
        now == std::mem::replace(&mut last, now)
    })
    .await;
    let took = last.saturating_sub(before);
    // What there is for bodies, and what the allocator keeps of their growth. It was 445 MiB.
    assert!(took < 256 * MIB, "200 unfinished bodies took {} MiB", took / MIB);
}

#[tokio::test]
async fn calls_sent_ahead_take_little_memory() {
    let server = Server::start();
    let held = server.acquire("held", "w", 60_000).await;
    let before = resident(server.pid());
    let mut ahead = Vec::new();
    for _ in 0..20 {
        let mut connection = Connection::open(server.addr).await;
        connection.send("GET", POLL, &[], b"").await;
        let many = "GET /livez HTTP/1.1\r\nhost: a\r\n\r\n".repeat(4000);
        // The server does not read it all.
        let _ = timeout(ms(20), connection.stream.get_mut().write_all(many.as_bytes())).await;
        ahead.push(connection);
    }
    vital(&server, &held).await;
    let took = resident(server.pid()).saturating_sub(before);
    assert!(took < 20 * MIB, "80 000 calls sent ahead took {} MiB", took / MIB);
}
