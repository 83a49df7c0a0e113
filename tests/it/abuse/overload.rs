//! Three times the acquires that a node grants to 64 callers, from so many callers that the node must refuse, and the
//! heartbeats of leases that are held.
//!
//! The node has one core, and its callers another one: two cores are needed.
//!
//! Shown: no held lease is lost, the 99th percentile of heartbeats stays under a tenth of the ttl, and probes are
//! answered throughout. `OVERLOAD_SECONDS` says for how long. With each of several limits of lag, no lease is lost
//! either; what else the limits differ in is printed, so that the default can be chosen.

use std::{
    net::SocketAddr,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};

use super::size;

use crate::support::harness::{Connection, Grant, Server};

/// What a held lease lasts without a heartbeat.
const TTL: Duration = Duration::from_secs(15);
/// The longest time in which a probe is answered.
const PROBE: Duration = Duration::from_millis(1500);
/// How many callers wait for each answer while it is measured what a node sustains.
const WAITING: usize = 64;

/// The default of `limits.shed_lag`.
const DEFAULT: &str = "50ms";
/// The limits of lag that are compared.
const LIMITS: [&str; 4] = ["10ms", "20ms", "50ms", "100ms"];

fn seconds(full: usize, small: usize) -> Duration {
    let told = std::env::var("OVERLOAD_SECONDS").ok().and_then(|told| told.parse().ok());
    Duration::from_secs(told.unwrap_or(size(full, small) as u64))
}

/// A caller that costs little: the callers and the node share a machine.
struct Lean {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Lean {
    async fn open(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).await.expect("the server accepts");
        stream.set_nodelay(true).expect("a TCP socket");
        Self { stream, read: Vec::with_capacity(4096) }
    }

    /// Acquires a key that is never asked for again. Returns the status.
    async fn acquire(&mut self, keys: &AtomicU64) -> u16 {
        let key = keys.fetch_add(1, Relaxed) % 1_000_000;
        let body = format!(r#"{{"key":"flood/{key}","owner":"flood","ttl_ms":1000}}"#);
        let length = body.len();
        let head = "POST /v1/acquire HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json";
        self.call(&format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}")).await
    }

    /// Sends a request. Returns the status.
    async fn call(&mut self, request: &str) -> u16 {
        self.stream.write_all(request.as_bytes()).await.expect("it is open");
        self.read.clear();
        while !self.is_whole() {
            let more = self.stream.read_buf(&mut self.read).await.expect("it is open");
            assert!(more > 0, "an answer: {}", String::from_utf8_lossy(&self.read));
        }
        let status = self.read.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
        status.and_then(|status| status.parse().ok()).expect("a status")
    }

    fn is_whole(&self) -> bool {
        let Ok(text) = std::str::from_utf8(&self.read) else { return false };
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
        let length = head.split("content-length: ").nth(1).expect("a length");
        let length = length.split('\r').next().and_then(|digits| digits.parse().ok());
        length.is_some_and(|length: usize| body.len() >= length)
    }
}

/// Of all acquires.
#[derive(Default)]
struct Counts {
    sent: AtomicU64,
    granted: AtomicU64,
    shed: AtomicU64,
}

/// So many callers, connected.
async fn connected(addr: SocketAddr, callers: usize) -> Vec<Lean> {
    let mut ready = Vec::with_capacity(callers);
    for _ in 0..callers {
        let mut caller = Lean::open(addr).await;
        // A node gives up connections that say nothing at first, and it takes a while until all have connected.
        assert_eq!(caller.call("GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await, 200);
        ready.push(caller);
    }
    ready
}

/// The callers ask until the time is up, each again after `pace`, or as soon as it has its answer. Returns how many
/// acquires per second were sent, granted and refused.
async fn ask(
    callers: Vec<Lean>,
    keys: &Arc<AtomicU64>,
    pace: Duration,
    span: Duration,
) -> [f64; 3] {
    let (counts, count) = (Arc::new(Counts::default()), callers.len());
    let (begun, mut asking) = (Instant::now(), JoinSet::new());
    for (n, mut caller) in callers.into_iter().enumerate() {
        let (counts, keys) = (counts.clone(), keys.clone());
        let mut at = begun + pace.mul_f64(n as f64 / count as f64);
        asking.spawn(async move {
            loop {
                if at > Instant::now() {
                    tokio::time::sleep_until(at.into()).await;
                }
                if at.max(Instant::now()) >= begun + span {
                    return;
                }
                counts.sent.fetch_add(1, Relaxed);
                match caller.acquire(&keys).await {
                    200 => counts.granted.fetch_add(1, Relaxed),
                    503 => counts.shed.fetch_add(1, Relaxed),
                    status => panic!("{status}"),
                };
                at += pace;
            }
        });
    }
    asking.join_all().await;
    let Counts { sent, granted, shed } = &*counts;
    [sent, granted, shed].map(|count| count.load(Relaxed) as f64 / span.as_secs_f64())
}

/// All threads of a process run on this core from now on.
fn pin(process: u32, core: u32) {
    let (core, process) = (core.to_string(), process.to_string());
    let mut taskset = Command::new("taskset");
    taskset.args(["--all-tasks", "--cpu-list", "--pid", &core, &process]);
    let done = taskset.output().expect("taskset of util-linux");
    assert!(done.status.success(), "two cores are needed: {done:?}");
}

/// A node on a core of its own, which its callers leave to it.
fn node(sets: &[&str]) -> Server {
    let server = Server::with(sets);
    pin(server.pid(), 0);
    server
}

/// Keeps a lease until the time is up. Returns how long each heartbeat took, from when it was due, and whether the
/// lease was lost. The last heartbeat is due when the time is up.
async fn keep(
    mut connection: Connection,
    held: Grant,
    mut at: Instant,
    until: Instant,
) -> (Vec<Duration>, bool) {
    let mut took = Vec::new();
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

/// Three times what a node with this limit of lag can do, for so long. The node has one core, and its callers another
/// one: on the same cores, they would slow the node and be no flood.
fn overload(limit: &str, span: Duration) -> Seen {
    pin(std::process::id(), 1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(overloaded(limit, span))
}

async fn overloaded(limit: &str, span: Duration) -> Seen {
    let server = node(&[&format!("limits.shed_lag={limit}")]);
    let (addr, keys) = (server.addr, Arc::new(AtomicU64::new(0)));
    let sustained = {
        // Without a limit of lag, the node grants all it can.
        let server = node(&["limits.shed_lag=0s"]);
        let span = Duration::from_secs(size(10, 2) as u64);
        ask(connected(server.addr, WAITING).await, &keys, Duration::ZERO, span).await[1]
    };
    let callers = connected(addr, size(17_500, 512)).await;
    let pace = Duration::from_secs_f64(callers.len() as f64 / (3.0 * sustained));
    let mut held = Vec::new();
    for n in 0..size(1000, 100) {
        let key = format!("held/{n}");
        held.push(server.acquire(&key, "holder", TTL.as_millis() as u64).await);
    }
    let mut connections = Vec::new();
    for _ in &held {
        connections.push(Connection::open(addr).await);
    }
    let (begun, count) = (Instant::now(), held.len());
    let until = begun + span;
    let mut keeping = JoinSet::new();
    for (n, (held, connection)) in held.into_iter().zip(connections).enumerate() {
        let at = begun + (TTL / 3).mul_f64(n as f64 / count as f64);
        keeping.spawn(keep(connection, held, at, until));
    }
    let probing = tokio::spawn(probe(addr, until));
    let [sent, granted, shed] = ask(callers, &keys, pace, span).await;
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

#[test]
fn three_times_what_a_node_can_do_costs_no_lease() {
    let settings = include_str!("../../../config/tenure.toml");
    assert!(
        settings.contains(&format!("shed_lag = \"{DEFAULT}\"")),
        "{DEFAULT} is not the default"
    );
    let seen = overload(DEFAULT, seconds(300, 10));
    // A caller waits for its answer, and a node may be unable to refuse three times what it grants. A short flood is
    // over before its callers have warmed up.
    let least = size(15, 10) as f64 / 10.0;
    assert!(seen.sent > least * seen.sustained, "it was no overload: {seen:?}");
    assert!(seen.granted > 0.0, "{seen:?}");
    assert!(seen.p99 < TTL / 10, "heartbeats are slow: {:?}", seen.p99);
    assert!(seen.probe < PROBE, "a probe took {:?}", seen.probe);
    assert_eq!(seen.lost, 0);
}

#[test]
fn no_limit_of_lag_costs_a_lease() {
    let mut seen: [Vec<Seen>; LIMITS.len()] = Default::default();
    // By turns: machines change within minutes.
    for _ in 0..size(3, 1) {
        for (limit, seen) in LIMITS.iter().zip(&mut seen) {
            seen.push(overload(limit, seconds(30, 5)));
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
