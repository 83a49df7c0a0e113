//! `routers`: keys of a pool change their owner, and routers that follow the pool learn it. How long after? And how long
//! does a lookup take?
//!
//! A change is decided between the request's sending and its answer. So the true latency lies between two figures, and
//! both are told: `seen` counts from sending, `seen_after_answer` from the arrival of the answer, and is 0 where the route
//! came first.
//!
//! Routers live on many machines. Here they share two cores with the coordinator, so their work delays its own.
//! `router-streams` measures the coordinator: its connections only note when the bytes of a route arrive.

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, de::IgnoredAny};
use tenure::client::{Client, Router};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::{acquire, acquire_batch};
use crate::http::{self, Connection, Grant};
use crate::lab::Lab;
use crate::load::{Latencies, Probes};
use crate::report::Outcome;
use crate::server::Server;
use crate::stopwatch::{key_prefix, tick};

/// Keys of the pool.
const KEYS: u32 = 1_000;
/// Changes, unless told otherwise.
const CHANGES: u64 = 200;
/// The pause between two changes.
const PAUSE: Duration = Duration::from_millis(50);
/// The leases' ttl: none ends during the run.
const TTL_MS: u64 = 600_000;
/// Lookups that are timed.
const LOOKUPS: usize = 5_000_000;

/// When a follower first knew each token of the key that changes.
type Seen = Vec<(u64, Instant)>;

/// A route, as far as it is looked at.
#[derive(Deserialize)]
struct Route<'a> {
    key: &'a str,
    owner: Option<IgnoredAny>,
    token: u64,
}

/// Who follows the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follower {
    /// A router of the Rust client.
    Router,
    /// A connection that gets the same bytes, and reads the token of the key that changes.
    Stream,
}

/// Runs the workload; `connections` is the number of followers.
pub async fn measure(lab: &Lab, connections: usize, follower: Follower) -> Result<Outcome> {
    let server = lab.server().await?;
    let disk = Probes::once(lab.scratch()?.path())?;
    let mut caller = Connection::open(&server.target).await?;
    let prefix = key_prefix();
    let fill = server
        .target
        .post("/v1/acquire-any", http::json(&acquire_batch(&prefix, 0, KEYS, TTL_MS)))?;
    caller.call(fill).await?.json::<IgnoredAny>().context("the keys were not granted")?;

    let url = format!("http://{}", server.target.address);
    let client = Client::new(&url)?;
    let lookup_ns = lookups(&Router::follow(client.clone(), "default").await?, &prefix)?;

    let changing: Arc<str> = format!("{prefix}/changing").into();
    let mut routers = JoinSet::new();
    let count = lab.args.count.unwrap_or(CHANGES);
    for _ in 0..connections {
        match follower {
            Follower::Router => {
                let router = Router::follow(client.clone(), "default").await?;
                while !router.is_current() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                routers.spawn(watch(router, changing.clone(), count));
            }
            Follower::Stream => {
                let stream = follow(server.target.address).await?;
                routers.spawn(note(stream, changing.clone(), count));
            }
        }
    }
    let begun = tick();
    let made = change(&server, &changing, count).await?;
    let (mut sent, mut answered) = (Latencies::new(), Latencies::new());
    let mut missed = 0;
    while let Some(seen) = tokio::time::timeout(lab.time_limit(), routers.join_next()).await? {
        let seen = seen??;
        for (token, sent_at, answered_at) in &made {
            match seen.iter().find(|(seen, _)| seen == token) {
                Some((_, at)) => {
                    sent.record(*at - *sent_at);
                    answered.record(at.saturating_duration_since(*answered_at));
                }
                None => missed += 1,
            }
        }
    }
    ensure!(missed == 0, "{missed} changes were not seen by a router");
    let name = if follower == Follower::Router { "routers" } else { "router-streams" };
    let mut outcome = Outcome::new(name, connections, &server.version);
    outcome.seconds = (tick() - begun).as_secs_f64();
    outcome.disk = disk;
    outcome.latency("seen", sent.summary());
    outcome.latency("seen_after_answer", answered.summary());
    outcome.figure("changes", made.len() as f64);
    outcome.figure("lookup_ns", lookup_ns);
    Ok(outcome)
}

/// The mean time of a lookup, in nanoseconds.
fn lookups(router: &Router, prefix: &str) -> Result<f64> {
    let keys: Vec<String> = (0..KEYS).map(|n| format!("{prefix}/{n:08}")).collect();
    ensure!(keys.iter().all(|key| router.lookup(key).is_some()), "the router lacks keys");
    let begun = tick();
    for n in 0..LOOKUPS {
        // Steps of a prime number: neighbours in time are none in memory.
        black_box(router.lookup(&keys[n * 617 % keys.len()]));
    }
    Ok((tick() - begun).as_nanos() as f64 / LOOKUPS as f64)
}

/// When a router first knew each token of a key.
async fn watch(router: Router, key: Arc<str>, count: u64) -> Result<Seen> {
    let mut changes = router.changes();
    let mut seen = Seen::new();
    while (seen.len() as u64) < count && changes.changed().await.is_ok() {
        let now = tick();
        let Some(route) = router.lookup(&key).filter(|route| route.owner().is_some()) else {
            continue;
        };
        if seen.last().is_none_or(|(token, _)| *token != route.token()) {
            seen.push((route.token(), now));
        }
    }
    Ok(seen)
}

/// Follows the changes of a pool, and returns when the first of them may come.
async fn follow(address: SocketAddr) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    let request = "GET /v1/pools/default/assignment/changes HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    let mut head = [0; 4_096];
    let length = stream.read(&mut head).await?;
    let head = String::from_utf8_lossy(&head[..length]);
    ensure!(head.starts_with("HTTP/1.1 200"), "the pool cannot be followed: {head}");
    Ok(stream)
}

/// When each token of a key arrived.
async fn note(mut stream: TcpStream, key: Arc<str>, count: u64) -> Result<Seen> {
    let mut seen = Seen::new();
    let (mut bytes, mut kept) = (vec![0; 64 * 1_024], 0);
    while (seen.len() as u64) < count {
        let length = stream.read(&mut bytes[kept..]).await?;
        let now = tick();
        ensure!(length > 0, "the connection ended");
        kept += length;
        let whole = bytes[..kept].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in bytes[..whole].split(|byte| *byte == b'\n') {
            let route = line.strip_prefix(b"data: ").map(serde_json::from_slice::<Route>);
            if let Some(Ok(route)) = route
                && *route.key == *key
                && route.owner.is_some()
            {
                seen.push((route.token, now));
            }
        }
        bytes.copy_within(whole..kept, 0);
        kept -= whole;
    }
    Ok(seen)
}

/// Has the key change its owner. For each time the token, and when that was asked for and answered.
async fn change(server: &Server, key: &str, count: u64) -> Result<Vec<(u64, Instant, Instant)>> {
    let mut caller = Connection::open(&server.target).await?;
    let mut made = Vec::new();
    for _ in 0..count {
        let request = server
            .target
            .post("/v1/acquire", http::json(&acquire(key.to_owned(), "bench", TTL_MS)))?;
        let sent = tick();
        let grant: Grant = caller.call(request).await?.json().context("a key was not granted")?;
        made.push((grant.token, sent, tick()));
        tokio::time::sleep(PAUSE).await;
        let request = server.target.post("/v1/release", http::json(&grant))?;
        caller.call(request).await?.json::<IgnoredAny>().context("a key was not released")?;
    }
    Ok(made)
}
