//! Three times the acquires that a node can do, from callers that do not wait for answers before they ask again, and
//! the heartbeats of leases that are held.
//!
//! Shown: no held lease is lost, the 99th percentile of heartbeats stays under a tenth of the ttl, and probes are
//! answered throughout. `OVERLOAD_SECONDS` says for how long.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::size;

use crate::support::harness::{Connection, Grant, Server};

/// What a held lease lasts without a heartbeat.
const TTL: Duration = Duration::from_secs(5);
/// The longest time in which a probe is answered.
const PROBE: Duration = Duration::from_secs(1);
/// How many callers measure what the node can do. Each waits for its answer.
const CALLERS: usize = 64;
/// How many connections the flood has. Each sends at its pace, so far as the answers do not fill it up.
const FLOOD: usize = 512;

fn seconds() -> Duration {
    let told = std::env::var("OVERLOAD_SECONDS").ok().and_then(|told| told.parse().ok());
    Duration::from_secs(told.unwrap_or(size(300, 10) as u64))
}

/// An acquire of a key that is never asked for again.
fn acquire(keys: &AtomicU64) -> Value {
    let key = format!("flood/{}", keys.fetch_add(1, Relaxed) % 1_000_000);
    json!({ "key": key, "owner": "flood", "ttl_ms": 1000 })
}

/// How many acquires a second the node grants to callers that wait for their answers.
async fn sustained(addr: SocketAddr, keys: &Arc<AtomicU64>, span: Duration) -> f64 {
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let keys = keys.clone();
        callers.spawn(async move {
            let mut connection = Connection::open(addr).await;
            let (begun, mut granted) = (Instant::now(), 0.0);
            while begun.elapsed() < span {
                let reply = connection.post("/v1/acquire", &acquire(&keys)).await;
                granted += f64::from(u8::from(reply.status == 200));
            }
            granted
        });
    }
    let granted: f64 = callers.join_all().await.iter().sum();
    granted / span.as_secs_f64()
}

/// Sends acquires at a pace until the time is up, and counts the answers by their status.
async fn flood(
    addr: SocketAddr,
    keys: Arc<AtomicU64>,
    pace: Duration,
    until: Instant,
    [sent, granted, shed]: [Arc<AtomicU64>; 3],
) {
    let mut connection = Connection::open(addr).await;
    let mut at = Instant::now();
    while at < until {
        tokio::time::sleep_until(at.into()).await;
        // What could not be sent in time is sent together, as callers do that do not know of each other.
        let mut due = 0;
        while at <= Instant::now() && due < 16 {
            let body = acquire(&keys).to_string();
            connection.send("POST", "/v1/acquire", &[], body.as_bytes()).await;
            sent.fetch_add(1, Relaxed);
            at += pace;
            due += 1;
        }
        for _ in 0..due {
            let reply = connection.receive().await;
            match reply.status {
                200 => granted.fetch_add(1, Relaxed),
                503 => shed.fetch_add(1, Relaxed),
                _ => panic!("{} {}", reply.status, reply.text()),
            };
        }
    }
}

/// Keeps a lease until the time is up. Returns how long each heartbeat took, from when it was due.
async fn keep(addr: SocketAddr, held: Grant, until: Instant) -> Vec<Duration> {
    let mut connection = Connection::open(addr).await;
    let (mut took, mut at) = (Vec::new(), Instant::now());
    while at < until {
        tokio::time::sleep_until(at.into()).await;
        let alive = connection.post("/v1/heartbeat", &held.proof()).await.ok();
        assert_eq!(alive["token"].as_u64().unwrap_or(held.token), held.token, "{alive}");
        took.push(at.elapsed());
        at += TTL / 3;
    }
    took
}

/// Asks every path of probes until the time is up. Returns the longest time that one took.
async fn probe(addr: SocketAddr, until: Instant) -> Duration {
    let (mut longest, mut connection) = (Duration::ZERO, Connection::open(addr).await);
    while Instant::now() < until {
        for path in ["/livez", "/readyz"] {
            let begun = Instant::now();
            connection.call("GET", path, &[], b"").await.ok();
            longest = longest.max(begun.elapsed());
            // An orchestrator makes a connection for each probe.
            connection = Connection::open(addr).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    longest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_times_what_a_node_can_do_costs_no_lease() {
    let server = Server::with(&["limits.shed_lag=20ms"]);
    let (addr, keys) = (server.addr, Arc::new(AtomicU64::new(0)));
    let rate = sustained(addr, &keys, Duration::from_secs(size(10, 2) as u64)).await;
    let mut held = Vec::new();
    for n in 0..size(1000, 100) {
        let key = format!("held/{n}");
        held.push(server.acquire(&key, "holder", TTL.as_millis() as u64).await);
    }
    let until = Instant::now() + seconds();
    let (mut keeping, mut flooding) = (JoinSet::new(), JoinSet::new());
    for held in held.clone() {
        keeping.spawn(keep(addr, held, until));
    }
    let probing = tokio::spawn(probe(addr, until));
    let counts: [Arc<AtomicU64>; 3] = Default::default();
    let pace = Duration::from_secs_f64(FLOOD as f64 / (3.0 * rate));
    for _ in 0..FLOOD {
        flooding.spawn(flood(addr, keys.clone(), pace, until, counts.clone()));
    }
    let mut took: Vec<Duration> = keeping.join_all().await.concat();
    took.sort();
    let (p99, longest) = (took[took.len() * 99 / 100], probing.await.expect("no probe fails"));
    flooding.join_all().await;
    let [sent, granted, shed] = counts.map(|count| count.load(Relaxed));
    println!(
        "overload: {rate:.0} acquires/s sustained; {} s at {:.0} acquires/s; {granted} granted, {shed} shed; \
         {} heartbeats, p99 {p99:?}, longest {:?}; probes at most {longest:?}",
        seconds().as_secs(),
        sent as f64 / seconds().as_secs_f64(),
        took.len(),
        took.last().expect("heartbeats"),
    );
    assert!(shed > 0 && granted > 0, "it was no overload");
    assert!(p99 < TTL / 10, "heartbeats are slow: {p99:?}");
    assert!(longest < PROBE, "a probe took {longest:?}");
    for held in held {
        let lease = server.lease(&held.key).await;
        assert_eq!(lease["token"], held.token, "{lease}");
        assert_eq!(lease["owner"], "holder", "{lease}");
    }
}
