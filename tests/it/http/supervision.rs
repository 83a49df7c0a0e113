//! Actors that die, and actors that leave memory.

use std::{collections::HashMap, time::Duration};

use serde_json::{Value, json};

use crate::support::harness::{
    Connection, Grant, Server, Stream, assert_no_hole, eventually, kinds, ms, soon,
};

async fn inject(server: &Server, key: &str) {
    let answer = server.post("/v1/testing/panic", &json!({ "key": key })).await.ok();
    assert_eq!(answer["injected"], true);
}

async fn hold(server: &Server, keys: &[String], ttl_ms: u64) -> Vec<Grant> {
    let body = json!({ "keys": keys, "owner": "w", "ttl_ms": ttl_ms, "count": keys.len() });
    let answer = server.post("/v1/acquire-any", &body).await.ok();
    let grants: Vec<_> =
        answer["grants"].as_array().expect("grants").iter().map(Grant::of).collect();
    assert_eq!(grants.len(), keys.len());
    grants
}

/// The upper bound of the bucket in which the median of a histogram lies.
async fn median(server: &Server, histogram: &str) -> f64 {
    let text = server.get("/metrics").await.text();
    let mut buckets = Vec::new();
    for line in text.lines().filter(|line| line.starts_with(&format!("{histogram}_bucket"))) {
        let (_, rest) = line.split_once("le=\"").expect("a bucket");
        let (bound, count) = rest.split_once("\"}").expect("a bucket");
        let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().expect("a bound") };
        buckets.push((bound, count.trim().parse::<f64>().expect("a count")));
    }
    let total = buckets.last().expect("buckets").1;
    let half = |&&(_, count): &&(f64, f64)| count * 2.0 >= total;
    buckets.iter().find(half).expect("the median").0
}

#[tokio::test]
async fn a_hundred_panics_under_load_lose_no_lease_and_disturb_nobody() {
    let server = Server::with(&["actors.restart_intensity=1000"]);
    let keys: Vec<_> = (0..200).map(|n| format!("k{n}")).collect();
    let grants = hold(&server, &keys, 60_000).await;
    let tokens: HashMap<_, _> = grants.iter().map(|g| (g.key.clone(), g.token)).collect();
    // Half of the panics hit one key, the others twenty-five.
    let victims: Vec<_> = (0..100)
        .map(|n| if n % 2 == 0 { "k7".to_owned() } else { format!("k{}", n % 25 + 20) })
        .collect();
    let hit = |key: &str| victims.iter().any(|victim| victim == key);
    let over = std::cell::Cell::new(false);
    let (server, over, hit) = (&server, &over, &hit);
    let beats = grants.chunks(25).map(|grants| async move {
        let mut connection = Connection::open(server.addr).await;
        let mut slowest = Duration::ZERO;
        while !over.get() {
            for grant in grants {
                let sent = std::time::Instant::now();
                let mut reply = connection.post("/v1/heartbeat", &grant.proof()).await;
                // A key whose actor is replaced again and again may say that it is busy; the others may not.
                while reply.status == 429 && hit(&grant.key) {
                    reply = connection.post("/v1/heartbeat", &grant.proof()).await;
                }
                assert_eq!(reply.ok()["token"], grant.token, "{}", grant.key);
                if !hit(&grant.key) {
                    slowest = slowest.max(sent.elapsed());
                }
            }
        }
        slowest
    });
    let panics = async {
        let restarts = r#"tenure_actor_restarts_total{kind="lease",reason="panic"}"#;
        for (before, victim) in victims.iter().enumerate() {
            inject(server, victim).await;
            // A second one for an actor that has not died yet would be lost with its mailbox.
            let replaced = before as f64 + 1.0;
            eventually("it was replaced", async || server.metric(restarts).await == replaced).await;
        }
        over.set(true);
    };
    let (slowest, ()) = tokio::join!(futures_util::future::join_all(beats), panics);
    let slowest = slowest.into_iter().max().expect("beats");
    assert!(slowest < ms(500), "a heartbeat of another key took {slowest:?}");
    let restart = median(server, "tenure_actor_restart_duration_seconds").await;
    assert!(restart <= 0.010, "the median restart took {restart} s");
    let list = server.get("/v1/leases?state=held&limit=1000").await.ok();
    let held = list["leases"].as_array().expect("leases");
    assert_eq!(held.len(), 200);
    for lease in held {
        assert_eq!(lease["token"], tokens[lease["key"].as_str().expect("key")]);
    }
    assert_eq!(server.history().await.len(), 200, "ownership never changed");
    assert!(!server.said().contains("aborting"), "no panic in a panic");
}

#[tokio::test]
async fn a_panic_loses_no_waiter_of_the_key() {
    let server = Server::start();
    let held = server.acquire("k", "holder", 60_000).await;
    let one = json!({ "key": "k", "owner": "one", "ttl_ms": 60_000, "wait_ms": 15_000 });
    let mut waiter = server.park("/v1/acquire", &one).await;
    server.until_waiters("k", 1).await;
    inject(&server, "k").await;
    server.until_waiters("k", 1).await;
    server.release(&held).await;
    assert_eq!(soon("the grant", waiter.receive()).await.ok()["owner"], "one");
}

#[tokio::test]
async fn a_panic_loses_no_waiter_of_several_keys() {
    let server = Server::start();
    let held = server.acquire("k1", "holder", 60_000).await;
    server.acquire("k2", "holder", 60_000).await;
    let any = json!({ "keys": ["k1", "k2"], "owner": "any", "ttl_ms": 60_000, "wait_ms": 15_000 });
    let mut waiter = server.park("/v1/acquire-any", &any).await;
    server.until_waiters("k1", 1).await;
    inject(&server, "k1").await;
    server.until_waiters("k1", 1).await;
    server.release(&held).await;
    let answer = soon("the grant", waiter.receive()).await.ok();
    assert_eq!(answer["grants"][0]["key"], "k1");
    assert_eq!(server.lease("k2").await["owner"], "holder");
}

#[tokio::test]
async fn a_panic_under_a_write_grants_once() {
    let server = Server::with(&["actors.restart_intensity=1000"]);
    for round in 0..50 {
        let key = format!("k{round}");
        let body = json!({ "key": key, "owner": "w", "ttl_ms": 60_000 });
        let (reply, ()) = tokio::join!(server.post("/v1/acquire", &body), inject(&server, &key));
        let grant = Grant::of(&reply.ok());
        assert_eq!(server.post("/v1/heartbeat", &grant.proof()).await.ok()["token"], grant.token);
        assert_eq!(kinds(&server.events_of(&key).await), ["granted"]);
    }
}

#[tokio::test]
async fn a_dead_actors_promises_are_kept_by_the_next() {
    let server = Server::start();
    let asked = std::time::Instant::now();
    let grant = server.acquire("k", "w1", 700).await;
    tokio::time::sleep(ms(300)).await;
    server.post("/v1/heartbeat", &grant.proof()).await.ok();
    let beat = asked.elapsed();
    inject(&server, "k").await;
    let waits = json!({ "key": "k", "owner": "w2", "ttl_ms": 1000, "wait_ms": 10_000 });
    server.post("/v1/acquire", &waits).await.ok();
    assert!(asked.elapsed() >= beat + ms(650), "the heartbeat before the panic counts");
}

#[tokio::test]
async fn a_key_that_keeps_dying_rests_and_the_others_do_not_notice() {
    let server = Server::with(&["actors.restart_intensity=3", "actors.restart_window=1500ms"]);
    let grant = server.acquire("bad", "w", 60_000).await;
    let other = server.acquire("good", "w", 60_000).await;
    let restarts = r#"tenure_actor_restarts_total{kind="lease",reason="panic"}"#;
    for n in 1..=3 {
        inject(&server, "bad").await;
        eventually("it was replaced", async || server.metric(restarts).await == f64::from(n)).await;
    }
    inject(&server, "bad").await;
    let mut resting = None;
    eventually("the key rests", async || {
        let reply = server.post("/v1/heartbeat", &grant.proof()).await;
        let rests = reply.status == 503;
        resting = rests.then_some(reply);
        rests
    })
    .await;
    let problem = resting.expect("an answer").problem(503, "key-resting");
    assert_eq!(problem["retryable"], true);
    let after = problem["retry_after_ms"].as_u64().expect("it is known");
    assert!(after > 0 && after <= 1500, "{after}");
    assert_eq!(server.post("/v1/heartbeat", &other.proof()).await.ok()["token"], other.token);
    // Looking is possible all the same.
    assert_eq!(server.lease("bad").await["token"], grant.token);
    eventually("it goes on", async || {
        server.post("/v1/heartbeat", &grant.proof()).await.status == 200
    })
    .await;
    assert_eq!(kinds(&server.events_of("bad").await), ["granted"]);
}

#[tokio::test]
async fn a_key_that_rested_ends_on_its_own_though_nobody_calls() {
    let server = Server::with(&["actors.restart_intensity=1", "actors.restart_window=500ms"]);
    let mut stream = Stream::open(&server, "types=expired").await;
    server.acquire("k", "w", 300).await;
    let restarts = r#"tenure_actor_restarts_total{kind="lease",reason="panic"}"#;
    inject(&server, "k").await;
    eventually("it was replaced", async || server.metric(restarts).await == 1.0).await;
    inject(&server, "k").await;
    let (_, kind, event) = soon("the end", stream.event()).await.expect("the stream goes on");
    assert_eq!((kind.as_str(), &event["subject"]), ("expired", &json!("k")));
}

#[tokio::test]
async fn idle_keys_leave_memory() {
    let server = Server::with(&["node.passivate_after=200ms"]);
    let keys: Vec<_> = (0..300).map(|n| format!("k{n}")).collect();
    let grants = hold(&server, &keys, 60_000).await;
    assert!(server.metric("tenure_actors{").await >= 300.0);
    tokio::time::sleep(ms(500)).await;
    assert!(server.metric("tenure_actors{").await >= 300.0, "those that are held stay");
    let proofs: Vec<Value> = grants.iter().map(Grant::proof).collect();
    server.post("/v1/releases", &json!({ "leases": proofs })).await.ok();
    eventually("they left", async || server.metric("tenure_actors{").await == 0.0).await;
    // Those that expire leave too.
    hold(&server, &keys, 150).await;
    eventually("they left", async || server.metric("tenure_actors{").await == 0.0).await;
}

#[tokio::test]
async fn mail_to_a_retiring_actor_is_not_lost() {
    let server = Server::with(&["node.passivate_after=10ms"]);
    let workers = (0..8).map(|worker: u64| {
        let server = &server;
        async move {
            let mut connection = Connection::open(server.addr).await;
            for round in 0..60 {
                let key = format!("k{}", worker % 3);
                let owner = format!("w{worker}");
                let body = if worker.is_multiple_of(2) {
                    json!({ "key": key, "owner": owner, "ttl_ms": 60_000, "wait_ms": 15_000 })
                } else {
                    json!({ "keys": [key], "owner": owner, "ttl_ms": 60_000, "wait_ms": 15_000 })
                };
                let path = if worker.is_multiple_of(2) { "/v1/acquire" } else { "/v1/acquire-any" };
                let answer = soon("a grant", connection.post(path, &body)).await.ok();
                let grant = Grant::of(if worker.is_multiple_of(2) {
                    &answer
                } else {
                    &answer["grants"][0]
                });
                let released = connection.post("/v1/release", &grant.proof()).await.ok();
                assert_eq!(released["released"], true);
                if round % 4 == 0 {
                    // About the moment at which the actor leaves.
                    tokio::time::sleep(Duration::from_micros(9700 + 137 * worker)).await;
                }
            }
        }
    });
    futures_util::future::join_all(workers).await;
    for n in 0..3 {
        let events = server.events_of(&format!("k{n}")).await;
        assert_no_hole(&events);
        let tokens: Vec<_> = events.iter().map(|event| event["data"]["token"].as_u64()).collect();
        assert!(tokens.is_sorted(), "tokens rise");
    }
    assert_eq!(server.history().await.len(), 8 * 60 * 2);
}
