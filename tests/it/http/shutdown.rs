//! SIGTERM: no acknowledged call is lost, and nobody is left hanging.

use rustix::process::Signal;
use std::{cell::RefCell, collections::HashMap, time::Instant};

use serde_json::json;

use crate::support::harness::{
    Connection, Grant, Server, Stream, assert_no_hole, eventually, ms, soon,
};

/// What the clients were told of a key: the token, and whether it was released.
type Told = RefCell<HashMap<String, (u64, bool)>>;

/// Takes and releases keys of its own until the server answers no more.
async fn work(server: &Server, worker: usize, told: &Told) {
    let mut connection = Connection::open(server.addr).await;
    for round in 0_usize.. {
        let key = format!("w{worker}/{}", round % 7);
        let body =
            json!({ "key": key, "owner": format!("{worker}"), "ttl_ms": 60_000, "reclaim": true });
        connection.send("POST", "/v1/acquire", &[], body.to_string().as_bytes()).await;
        // In flight, it may or may not have happened: nothing is claimed of it.
        let before = told.borrow_mut().remove(&key);
        let Ok(reply) = connection.try_receive().await else { return };
        if reply.status == 503 {
            reply.problem(503, "draining");
            if let Some(before) = before {
                told.borrow_mut().insert(key, before);
            }
            return;
        }
        let grant = Grant::of(&reply.ok());
        if round % 3 == 0 {
            told.borrow_mut().insert(key, (grant.token, false));
            continue;
        }
        connection.send("POST", "/v1/release", &[], grant.proof().to_string().as_bytes()).await;
        let Ok(reply) = connection.try_receive().await else { return };
        assert_eq!(reply.ok()["released"], true);
        told.borrow_mut().insert(key, (grant.token, true));
    }
}

#[tokio::test]
async fn under_load_no_acknowledged_call_is_lost() {
    let server = Server::start();
    let told = Told::default();
    let load = futures_util::future::join_all((0..16).map(|n| work(&server, n, &told)));
    let stop = async {
        tokio::time::sleep(ms(1000)).await;
        server.signal(Signal::TERM);
    };
    let asked = Instant::now();
    tokio::join!(soon("the load", load), stop);
    let stopped = server.wait();
    let took = asked.elapsed() - ms(1000);
    assert_eq!(stopped.status.code(), Some(0), "{}", stopped.said);
    assert!(took < ms(10_000), "{took:?}");
    let server = stopped.restart();
    let told = told.into_inner();
    assert!(told.len() > 30, "there was load: {}", told.len());
    for (key, (token, released)) in told {
        let lease = server.lease(&key).await;
        assert_eq!(lease["token"], token, "{key}");
        assert_eq!(lease["state"], if released { "free" } else { "held" }, "{key}");
    }
    for n in 0..16 {
        assert_no_hole(&server.events_of(&format!("w{n}/0")).await);
    }
}

#[tokio::test]
async fn those_that_wait_and_listen_are_told() {
    let server = Server::start();
    let held = server.acquire("k", "holder", 60_000).await;
    let one = json!({ "key": "k", "owner": "w", "ttl_ms": 1000, "wait_ms": 60_000 });
    let any = json!({ "keys": ["k"], "owner": "w2", "ttl_ms": 1000, "wait_ms": 60_000 });
    let mut parked =
        [server.park("/v1/acquire", &one).await, server.park("/v1/acquire-any", &any).await];
    server.until_waiters("k", 2).await;
    let mut stream = Stream::open(&server, "").await;
    let mut poll = Connection::open(server.addr).await;
    poll.send("GET", "/v1/events?format=json&wait_ms=60000", &[], b"").await;
    eventually("both listen", async || server.metric("tenure_event_subscribers").await == 2.0)
        .await;
    // Kept alive, so that it can still ask once the door is shut.
    let mut probe = Connection::open(server.addr).await;
    probe.call("GET", "/readyz", &[], b"").await.ok();
    let asked = Instant::now();
    server.signal(Signal::TERM);
    for connection in &mut parked {
        let refused = soon("an answer", connection.receive()).await.problem(503, "draining");
        assert_eq!(refused["retryable"], true);
    }
    soon("an answer", poll.receive()).await.problem(503, "draining");
    assert!(soon("the end", stream.event()).await.is_none());
    if let Ok(reply) = async {
        probe.send("GET", "/readyz", &[], b"").await;
        probe.try_receive().await
    }
    .await
    {
        assert_eq!(reply.status, 503, "{}", reply.text());
        assert_eq!(reply.json()["ready"], false);
        assert!(!reply.json()["reasons"].as_array().expect("reasons").is_empty());
    }
    drop((parked, probe, poll));
    let stopped = server.wait();
    assert_eq!(stopped.status.code(), Some(0), "{}", stopped.said);
    assert!(asked.elapsed() < ms(5000), "{:?}", asked.elapsed());
    let server = stopped.restart();
    assert_eq!(server.lease("k").await["token"], held.token);
}

#[tokio::test]
async fn connections_that_are_idle_do_not_hold_it_up() {
    let server = Server::start();
    let mut idle = Vec::new();
    for _ in 0..5 {
        let mut connection = Connection::open(server.addr).await;
        connection.call("GET", "/livez", &[], b"").await.ok();
        idle.push(connection);
    }
    let asked = Instant::now();
    server.signal(Signal::TERM);
    let stopped = server.wait();
    assert_eq!(stopped.status.code(), Some(0));
    assert!(asked.elapsed() < ms(5000), "{:?}", asked.elapsed());
}

#[tokio::test]
async fn those_that_neither_read_nor_finish_are_not_waited_for_beyond_the_bound() {
    let server = Server::with(&["server.shutdown_timeout=2s", "events.buffer=64"]);
    let grant = server.acquire("k", "w", 60_000).await;
    // One that sent half a request, and one that subscribed and reads nothing.
    let half = b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{";
    let mut slow = Connection::open(server.addr).await;
    tokio::io::AsyncWriteExt::write_all(slow.stream.get_mut(), half).await.expect("sent");
    let deaf = crate::http::slow::deaf(&server).await;
    crate::http::slow::churn(&server, 1500).await;
    let asked = Instant::now();
    server.signal(Signal::TERM);
    let stopped = server.wait();
    assert_eq!(stopped.status.code(), Some(0), "{}", stopped.said);
    assert!(asked.elapsed() < ms(6000), "{:?}", asked.elapsed());
    drop((slow, deaf));
    assert_eq!(stopped.restart().lease("k").await["token"], grant.token);
}

#[tokio::test]
async fn told_twice_it_stops_at_once() {
    let server = Server::start();
    let half = b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{";
    let mut slow = Connection::open(server.addr).await;
    tokio::io::AsyncWriteExt::write_all(slow.stream.get_mut(), half).await.expect("sent");
    let grant = server.acquire("k", "w", 60_000).await;
    let asked = Instant::now();
    server.signal(Signal::TERM);
    eventually("it heard", async || server.said().contains("stopping")).await;
    server.signal(Signal::TERM);
    let stopped = server.wait();
    assert_eq!(stopped.status.code(), Some(0), "{}", stopped.said);
    assert!(asked.elapsed() < ms(5000), "{:?}", asked.elapsed());
    assert_eq!(stopped.restart().lease("k").await["token"], grant.token);
}
