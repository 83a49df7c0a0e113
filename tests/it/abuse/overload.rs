//! Three times the acquires that a node grants to callers that wait for each answer, from callers that do not wait for
//! answers before they ask again, and the heartbeats of leases that are held.
//!
//! Shown: no held lease is lost, the 99th percentile of heartbeats stays under a tenth of the ttl, and probes are
//! answered throughout. `OVERLOAD_SECONDS` says for how long. With each of several limits of lag, no lease is lost
//! either; what else the limits differ in is printed, so that the default can be chosen.

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
/// How many callers wait for each answer while it is measured what a node sustains.
const WAITING: usize = 64;
/// How many connections the flood has. Each sends at its pace, so far as the answers do not fill it up.
const FLOOD: usize = 512;
/// How many calls a connection of the flood may have under way. One that sends a call only after the answer to the last
/// one would be slowed by the node, and no flood.
const AHEAD: usize = 16;

/// The default of `limits.shed_lag`.
const DEFAULT: &str = "50ms";
/// The limits of lag that are compared.
const LIMITS: [&str; 4] = ["10ms", "20ms", "50ms", "100ms"];

fn seconds(full: usize, small: usize) -> Duration {
    let told = std::env::var("OVERLOAD_SECONDS").ok().and_then(|told| told.parse().ok());
    Duration::from_secs(told.unwrap_or(size(full, small) as u64))
}

/// An acquire of a key that is never asked for again.
fn acquire(keys: &AtomicU64) -> Value {
    let key = format!("flood/{}", keys.fetch_add(1, Relaxed) % 1_000_000);
    json!({ "key": key, "owner": "flood", "ttl_ms": 1000 })
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
    while at.max(Instant::now()) < until {
        tokio::time::sleep_until(at.into()).await;
        // What could not be sent in time is sent together, as callers do that do not know of each other.
        let mut due = 0;
        while at <= Instant::now() && due < AHEAD {
            let body = acquire(&keys).to_string();
            connection.send("POST", "/v1/acquire", &[], body.as_bytes()).await;
            sent.fetch_add(1, Relaxed);
            at += pace;
            due += 1;
        }
        for _ in 0..due {
            // The HTTP library ends a connection after an answer if it has half of a later request's body by then. Who
            // sends ahead must reckon with that: what has no answer was not served.
            let Ok(reply) = connection.try_receive().await else {
                connection = Connection::open(addr).await;
                break;
            };
            match reply.status {
                200 => granted.fetch_add(1, Relaxed),
                503 => shed.fetch_add(1, Relaxed),
                _ => panic!("{} {}", reply.status, reply.text()),
            };
        }
    }
}

/// All connections of the flood. Returns how many acquires per second were sent, granted and refused.
async fn flood_all(
    addr: SocketAddr,
    keys: &Arc<AtomicU64>,
    pace: Duration,
    span: Duration,
) -> [f64; 3] {
    let until = Instant::now() + span;
    let counts: [Arc<AtomicU64>; 3] = Default::default();
    let mut flooding = JoinSet::new();
    for _ in 0..FLOOD {
        flooding.spawn(flood(addr, keys.clone(), pace, until, counts.clone()));
    }
    flooding.join_all().await;
    counts.map(|count| count.load(Relaxed) as f64 / span.as_secs_f64())
}

/// Acquires per second of callers that wait for each answer.
async fn sustained(addr: SocketAddr, keys: &Arc<AtomicU64>, span: Duration) -> f64 {
    let mut asking = JoinSet::new();
    let until = Instant::now() + span;
    for _ in 0..WAITING {
        let keys = keys.clone();
        asking.spawn(async move {
            let (mut connection, mut granted) = (Connection::open(addr).await, 0_u64);
            while Instant::now() < until {
                connection.post("/v1/acquire", &acquire(&keys)).await.ok();
                granted += 1;
            }
            granted
        });
    }
    asking.join_all().await.into_iter().sum::<u64>() as f64 / span.as_secs_f64()
}

/// Keeps a lease until the time is up. Returns how long each heartbeat took, from when it was due, and whether the
/// lease was lost. The last heartbeat is due when the time is up.
async fn keep(addr: SocketAddr, held: Grant, until: Instant) -> (Vec<Duration>, bool) {
    let mut connection = Connection::open(addr).await;
    let (mut took, mut at) = (Vec::new(), Instant::now());
    loop {
        tokio::time::sleep_until(at.into()).await;
        let reply = connection.post("/v1/heartbeat", &held.proof()).await;
        took.push(at.elapsed());
        let token = if reply.status == 200 { reply.json()["token"].as_u64() } else { Some(0) };
        if token.is_some_and(|token| token != held.token) {
            println!("overload: {} is lost: {}", held.key, reply.text());
            return (took, true);
        }
        if at >= until {
            return (took, false);
        }
        at = (at + TTL / 3).min(until);
    }
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

/// What an overload of some seconds showed.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Acquires per second: granted while [`WAITING`] callers asked, and then sent and granted.
    sustained: f64,
    sent: f64,
    granted: f64,
    /// Of the heartbeats.
    p99: Duration,
    /// The longest time that one took.
    probe: Duration,
    /// Leases.
    lost: usize,
}

/// Three times what a node with this limit of lag can do, for so long.
async fn overload(limit: &str, span: Duration) -> Seen {
    let server = Server::with(&[&format!("limits.shed_lag={limit}")]);
    let (addr, keys) = (server.addr, Arc::new(AtomicU64::new(0)));
    let sustained = {
        // Without a limit of lag, the node grants all it can.
        let server = Server::start();
        let span = Duration::from_secs(size(10, 2) as u64);
        sustained(server.addr, &keys, span).await
    };
    let mut held = Vec::new();
    for n in 0..size(1000, 100) {
        let key = format!("held/{n}");
        held.push(server.acquire(&key, "holder", TTL.as_millis() as u64).await);
    }
    let until = Instant::now() + span;
    let mut keeping = JoinSet::new();
    for held in held {
        keeping.spawn(keep(addr, held, until));
    }
    let probing = tokio::spawn(probe(addr, until));
    let pace = Duration::from_secs_f64(FLOOD as f64 / (3.0 * sustained));
    let [sent, granted, shed] = flood_all(addr, &keys, pace, span).await;
    let (took, lost): (Vec<_>, Vec<_>) = keeping.join_all().await.into_iter().unzip();
    let mut took: Vec<Duration> = took.concat();
    took.sort();
    let probe = probing.await.expect("no probe fails");
    let lost = lost.into_iter().filter(|lost| *lost).count();
    let (p99, slowest) = (took[took.len() * 99 / 100], took.last().expect("heartbeats"));
    println!(
        "overload: limit {limit}, {} s: {sustained:.0} acquires/s sustained, 3 times as many wanted, {sent:.0} sent, {granted:.0} granted, \
         {shed:.0} shed; {} heartbeats, p99 {p99:?}, longest {slowest:?}; probes at most {probe:?}; {lost} leases lost",
        span.as_secs(),
        took.len(),
    );
    Seen { sustained, sent, granted, p99, probe, lost }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_times_what_a_node_can_do_costs_no_lease() {
    let settings = include_str!("../../../config/tenure.toml");
    assert!(
        settings.contains(&format!("shed_lag = \"{DEFAULT}\"")),
        "{DEFAULT} is not the default"
    );
    let seen = overload(DEFAULT, seconds(300, 10)).await;
    // A short flood is over before its callers have warmed up.
    let least = size(27, 10) as f64 / 10.0;
    assert!(seen.sent > least * seen.sustained, "it was no overload: {seen:?}");
    assert!(seen.granted > 0.0, "{seen:?}");
    assert!(seen.p99 < TTL / 10, "heartbeats are slow: {:?}", seen.p99);
    assert!(seen.probe < PROBE, "a probe took {:?}", seen.probe);
    assert_eq!(seen.lost, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_limit_of_lag_costs_a_lease() {
    let mut seen: [Vec<Seen>; LIMITS.len()] = Default::default();
    // By turns: machines change within minutes.
    for _ in 0..size(3, 1) {
        for (limit, seen) in LIMITS.iter().zip(&mut seen) {
            seen.push(overload(limit, seconds(30, 5)).await);
        }
    }
    println!(
        "overload: limit | lost | p99 of heartbeats | probe at most | granted/s | share of what is sustained"
    );
    for (limit, seen) in LIMITS.iter().zip(&seen) {
        let middle = |figure: fn(&Seen) -> f64| {
            let mut all: Vec<f64> = seen.iter().map(figure).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        println!(
            "overload: {limit} | {} | {:.1} ms | {:.1} ms | {:.0} | {:.2}",
            seen.iter().map(|seen| seen.lost).sum::<usize>(),
            middle(|seen| seen.p99.as_secs_f64() * 1e3),
            middle(|seen| seen.probe.as_secs_f64() * 1e3),
            middle(|seen| seen.granted),
            middle(|seen| seen.granted / seen.sustained),
        );
    }
    for seen in seen.iter().flatten() {
        assert_eq!(seen.lost, 0, "{seen:?}");
        assert!(seen.granted > 0.0, "{seen:?}");
    }
}
