//! The queue: first in, first out, and nobody in it who is not there.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::harness::{
    Connection, Grant, Server, assert_no_hole, eventually, kinds, ms, soon,
};

fn waiting(owner: &str) -> Value {
    json!({ "key": "k", "owner": owner, "ttl_ms": 60_000, "wait_ms": 60_000 })
}

#[tokio::test]
async fn a_parked_caller_that_closes_is_noticed_at_once() {
    let server = Server::start();
    server.acquire("k", "holder", 60_000).await;
    let connection = server.park("/v1/acquire", &waiting("gone")).await;
    server.until_waiters("k", 1).await;
    let closed = std::time::Instant::now();
    drop(connection);
    server.until_waiters("k", 0).await;
    assert!(closed.elapsed() < ms(500), "{:?}", closed.elapsed());
}

#[tokio::test]
async fn a_parked_caller_that_shuts_its_side_is_gone() {
    use tokio::io::AsyncWriteExt;
    let server = Server::start();
    let held = server.acquire("k", "holder", 60_000).await;
    let mut connection = server.park("/v1/acquire", &waiting("half")).await;
    server.until_waiters("k", 1).await;
    connection.stream.get_mut().shutdown().await.expect("shut");
    server.until_waiters("k", 0).await;
    server.release(&held).await;
    assert_eq!(server.lease("k").await["state"], "free");
}

#[tokio::test]
async fn a_parked_caller_is_noticed_though_it_sent_its_next_request_already() {
    let server = Server::start();
    server.acquire("k", "holder", 60_000).await;
    let mut connection = server.park("/v1/acquire", &waiting("allow_stale")).await;
    connection.send("GET", "/livez", &[], b"").await;
    server.until_waiters("k", 1).await;
    drop(connection);
    server.until_waiters("k", 0).await;
}

#[tokio::test]
async fn a_thousand_wait_half_hang_up_and_the_rest_are_served_in_order() {
    let server = Server::start();
    let mut held = server.acquire("k", "holder", 60_000).await;
    let mut parked: Vec<Option<Connection>> = Vec::new();
    for n in 0..1000 {
        parked.push(Some(server.park("/v1/acquire", &waiting(&format!("w{n}"))).await));
        if n % 50 == 49 {
            // Arrival order is only known where the server is seen to have them all.
            server.until_waiters("k", n + 1).await;
        }
    }
    for connection in parked.iter_mut().step_by(2) {
        *connection = None;
    }
    server.until_waiters("k", 500).await;
    let mut order = Vec::new();
    for n in (1..1000).step_by(2) {
        server.release(&held).await;
        // Whoever is next is one of the batch of fifty that arrived together.
        let batch = n / 50 * 50 + 1..(n / 50 + 1) * 50;
        let owner = server.lease("k").await["owner"].as_str().expect("an owner").to_owned();
        let at: usize = owner.strip_prefix('w').expect("a waiter").parse().expect("a number");
        assert!(at % 2 == 1, "{owner} had hung up");
        assert!(batch.contains(&at), "{owner} is not of {batch:?}");
        let connection = parked[at].as_mut().expect("it is there");
        held = Grant::of(&soon("the grant", connection.receive()).await.ok());
        assert_eq!(held.lease["owner"], owner);
        order.push(at);
    }
    server.release(&held).await;
    assert_eq!(server.lease("k").await["state"], "free");
    let events = server.events_of("k").await;
    assert_no_hole(&events);
    let granted = kinds(&events).iter().filter(|kind| *kind == "granted").count();
    assert_eq!(granted, 501, "the holder, and each that stayed once");
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert_eq!(sorted.len(), 500);
}

#[tokio::test]
async fn first_in_first_out_exactly() {
    let server = Server::start();
    let mut held = server.acquire("k", "holder", 60_000).await;
    let mut parked = Vec::new();
    for n in 0..30 {
        parked.push(server.park("/v1/acquire", &waiting(&format!("w{n}"))).await);
        server.until_waiters("k", n + 1).await;
    }
    for (n, connection) in parked.iter_mut().enumerate() {
        server.release(&held).await;
        held = Grant::of(&soon("the grant", connection.receive()).await.ok());
        assert_eq!(held.lease["owner"], format!("w{n}"));
    }
    let events = server.events_of("k").await;
    let tokens: Vec<_> = events.iter().map(|event| event["data"]["token"].as_u64()).collect();
    assert!(tokens.is_sorted(), "tokens rise");
}

#[tokio::test]
async fn a_newcomer_does_not_overtake_the_queue() {
    let server = Server::start();
    let held = server.acquire("k", "holder", 60_000).await;
    let mut parked = server.park("/v1/acquire", &waiting("first")).await;
    server.until_waiters("k", 1).await;
    let newcomer = json!({ "key": "k", "owner": "late", "ttl_ms": 60_000 });
    let (_, reply) = tokio::join!(server.release(&held), server.post("/v1/acquire", &newcomer));
    reply.problem(409, "held");
    assert_eq!(soon("the grant", parked.receive()).await.ok()["owner"], "first");
}

#[tokio::test]
async fn those_that_wait_and_those_whose_time_is_up_do_not_mix() {
    let server = Server::start();
    let held = server.acquire("k", "holder", 60_000).await;
    let impatient = json!({ "key": "k", "owner": "impatient", "ttl_ms": 60_000, "wait_ms": 200 });
    let mut early = server.park("/v1/acquire", &impatient).await;
    server.until_waiters("k", 1).await;
    let mut patient = server.park("/v1/acquire", &waiting("patient")).await;
    server.until_waiters("k", 2).await;
    soon("the refusal", early.receive()).await.problem(409, "held");
    server.release(&held).await;
    assert_eq!(soon("the grant", patient.receive()).await.ok()["owner"], "patient");
}

#[tokio::test]
async fn the_queue_is_bounded_and_says_so() {
    let server = Server::with(&["limits.waiters_per_key=3"]);
    server.acquire("k", "holder", 60_000).await;
    let mut parked = Vec::new();
    for n in 0..3 {
        parked.push(server.park("/v1/acquire", &waiting(&format!("w{n}"))).await);
        server.until_waiters("k", n + 1).await;
    }
    let busy = server.post("/v1/acquire", &waiting("w3")).await.problem(429, "busy");
    assert_eq!(busy["retryable"], true);
    // Whoever hangs up makes room.
    parked.pop();
    let _fourth = server.park("/v1/acquire", &waiting("w4")).await;
    server.until_waiters("k", 3).await;
}

#[tokio::test]
async fn the_places_of_all_queues_are_bounded_together() {
    let server = Server::with(&["limits.waiting_places=25"]);
    for n in 0..10 {
        server.acquire(&format!("p/{n}"), "holder", 60_000).await;
    }
    let any = |owner: &str| json!({ "prefix": "p/", "owner": owner, "ttl_ms": 60_000, "wait_ms": 30_000, "count": 1 });
    let mut parked = Vec::new();
    for n in 0..2 {
        parked.push(server.park("/v1/acquire-any", &any(&format!("w{n}"))).await);
    }
    let taken = async |places: f64| {
        eventually("so many places are taken", async || {
            (server.metric("tenure_waiting_places").await - places).abs() < 0.1
        })
        .await;
    };
    taken(20.0).await;
    let busy = server.post("/v1/acquire-any", &any("w2")).await.problem(429, "busy");
    assert!(busy["detail"].as_str().is_some_and(|detail| detail.contains("limits.waiting_places")));
    assert_eq!(busy["retryable"], true);
    let one = |key: &str| json!({ "key": key, "owner": "w3", "ttl_ms": 60_000, "wait_ms": 30_000 });
    let mut single = Vec::new();
    for n in 0..5 {
        single.push(server.park("/v1/acquire", &one(&format!("p/{n}"))).await);
    }
    taken(25.0).await;
    server.post("/v1/acquire", &one("p/9")).await.problem(429, "busy");
    // A call that does not wait needs no place.
    let now = json!({ "key": "free", "owner": "w", "ttl_ms": 60_000 });
    server.post("/v1/acquire", &now).await.ok();
    // Whoever hangs up makes room.
    drop(parked.pop());
    taken(15.0).await;
    parked.push(server.park("/v1/acquire-any", &any("w4")).await);
    taken(25.0).await;
}

#[tokio::test]
async fn waiting_costs_no_heartbeat_its_time() {
    let server = Server::start();
    let held = server.acquire("k", "holder", 60_000).await;
    let mut parked = Vec::new();
    for n in 0..200 {
        parked.push(server.park("/v1/acquire", &waiting(&format!("w{n}"))).await);
    }
    eventually("all wait", async || server.metric("tenure_lease_waiters").await >= 200.0).await;
    let mut connection = Connection::open(server.addr).await;
    let mut slowest = Duration::ZERO;
    for _ in 0..100 {
        let sent = std::time::Instant::now();
        connection.post("/v1/heartbeat", &held.proof()).await.ok();
        slowest = slowest.max(sent.elapsed());
    }
    assert!(slowest < ms(500), "{slowest:?}");
}
