//! Three times the acquires that a node grants to callers which wait for their answers, from so many callers that it can
//! refuse but not slow them, and the heartbeats of leases that are held.
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
/// A pace that no node keeps up with: each caller asks again as soon as it has its answer.
const FASTEST: Duration = Duration::from_micros(1);

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

/// One caller asks at a pace until the time is up. What is due while it waits for an answer, it asks right after.
async fn ask(
    addr: SocketAddr,
    keys: Arc<AtomicU64>,
    (mut at, pace): (Instant, Duration),
    until: Instant,
    [sent, granted, shed]: [Arc<AtomicU64>; 3],
) {
    let mut connection = Connection::open(addr).await;
    loop {
        tokio::time::sleep_until(at.into()).await;
        if Instant::now() >= until {
            return;
        }
        sent.fetch_add(1, Relaxed);
        let reply = connection.post("/v1/acquire", &acquire(&keys)).await;
        match reply.status {
            200 => granted.fetch_add(1, Relaxed),
            503 => shed.fetch_add(1, Relaxed),
            _ => panic!("{} {}", reply.status, reply.text()),
        };
        at += pace;
    }
}

/// So many callers, each at this pace, one after another. Returns how many acquires per second were sent, granted and
/// refused.
async fn flood(
    addr: SocketAddr,
    keys: &Arc<AtomicU64>,
    callers: usize,
    pace: Duration,
    span: Duration,
) -> [f64; 3] {
    let counts: [Arc<AtomicU64>; 3] = Default::default();
    let mut flooding = JoinSet::new();
    let begun = Instant::now();
    for n in 0..callers {
        let at = begun + pace.mul_f64(n as f64 / callers as f64);
        flooding.spawn(ask(addr, keys.clone(), (at, pace), begun + span, counts.clone()));
    }
    flooding.join_all().await;
    counts.map(|count| count.load(Relaxed) as f64 / span.as_secs_f64())
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
        flood(server.addr, &keys, WAITING, FASTEST, span).await[1]
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
    let callers = size(4096, 512);
    let pace = Duration::from_secs_f64(callers as f64 / (3.0 * sustained));
    let [sent, granted, shed] = flood(addr, &keys, callers, pace, span).await;
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
