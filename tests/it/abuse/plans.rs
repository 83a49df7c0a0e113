//! Readers of the plan of a pool, and what heartbeats notice of them.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::probe::span;
use crate::support::harness::{Connection, Grant, Server};

const CONFIG: &str = "[[policy]]\nprefix = \"s/\"\npool = \"s\"\nbalance = \"load\"\n";
const READERS: usize = 6;
/// How many keys one call takes.
const PART: usize = 1_000;
/// A third of the keys are one member's, so there is always something to plan, once they are old enough to move.
const MUCH: usize = 3;
const PACE: Duration = Duration::from_millis(5);
const MEMBERS: usize = 200;
/// Leases move when they are older than 10 s, and the pool has been at rest.
const AGE: Duration = Duration::from_secs(12);

async fn join(connection: &mut Connection, member: usize) -> Value {
    let body = json!({ "owner": format!("m{member}"), "ttl_ms": 600_000, "pool": "s" });
    connection.post("/v1/sessions", &body).await.json()["id"].clone()
}

/// A coordinator with so many keys in one pool, and members that hold them.
async fn crowded(keys: usize, members: usize) -> Server {
    let server = Server::configured(CONFIG);
    let mut connection = Connection::open(server.addr).await;
    let mut sessions = Vec::new();
    for member in 0..members {
        sessions.push(join(&mut connection, member).await);
    }
    let all: Vec<String> = (0..keys).map(|at| format!("s/{at}")).collect();
    let (first, others) = all.split_at(keys / MUCH);
    let each = others.chunks(others.len().div_ceil(members - 1)).map(<[String]>::to_vec);
    for (member, keys) in std::iter::once(first.to_vec()).chain(each).enumerate() {
        for keys in keys.chunks(PART) {
            let body = json!({
                "owner": format!("m{member}"), "session": sessions[member], "keys": keys, "count": keys.len(),
            });
            let grants = connection.post("/v1/acquire-any", &body).await.ok();
            assert_eq!(grants["grants"].as_array().map(Vec::len), Some(keys.len()));
        }
    }
    server
}

/// Reads the plan again and again. Returns how often. It parses the first one only: the readers are to busy the server, and
/// not the machine.
async fn read(addr: SocketAddr, until: Instant) -> usize {
    let mut connection = Connection::open(addr).await;
    let mut times = 0;
    while Instant::now() < until {
        let plan = connection.call("GET", "/v1/pools/s/plan", &[], b"").await;
        assert!(plan.status == 200 && plan.body.starts_with(b"{"), "{}", plan.status);
        assert!(times > 0 || plan.json()["imbalance"].is_u64(), "{}", plan.text());
        times += 1;
    }
    times
}

/// As [`heartbeats`], on a separate thread. Otherwise a heartbeat would wait for the readers' turns in the test's runtime.
async fn apart(addr: SocketAddr, until: Instant) -> Duration {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let holder = move || runtime.expect("a runtime").block_on(heartbeats(addr, until));
    tokio::task::spawn_blocking(holder).await.expect("the holder is answered")
}

/// The 99th percentile of a holder's heartbeats. One that was to begin while the one before was under way counts from when
/// it was to begin.
async fn heartbeats(addr: SocketAddr, until: Instant) -> Duration {
    let mut connection = Connection::open(addr).await;
    let body = json!({ "key": "other", "owner": "w", "ttl_ms": 600_000, "reclaim": true });
    let beat = Grant::of(&connection.post("/v1/acquire", &body).await.ok()).proof();
    let (mut took, mut at) = (Vec::new(), Instant::now());
    while at < until {
        tokio::time::sleep_until(at.into()).await;
        connection.post("/v1/heartbeat", &beat).await.ok();
        took.push(at.elapsed());
        at += PACE;
    }
    took.sort();
    took[took.len() * 99 / 100]
}

/// What heartbeats take alone, and beside readers, when the leases have this age.
pub async fn beside_readers(keys: usize, members: usize, age: Duration) -> [Duration; 2] {
    let server = crowded(keys, members).await;
    tokio::time::sleep(age).await;
    let alone = apart(server.addr, Instant::now() + span()).await;
    let until = Instant::now() + 2 * span();
    let mut readers = JoinSet::new();
    (0..READERS).for_each(|_| drop(readers.spawn(read(server.addr, until))));
    let beside = apart(server.addr, until).await;
    let read: usize = readers.join_all().await.into_iter().sum();
    println!(
        "{keys} keys, {members} members, {read} plans read by {READERS}: heartbeats p99 {alone:?} alone, {beside:?} beside"
    );
    assert!(read >= READERS, "{read} plans were read");
    [alone, beside]
}

/// At full size, with an optimised program, this is the claim: below 20 ms.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_plans_delay_no_heartbeat() {
    let full = super::is_full();
    let [alone, beside] = beside_readers(super::size(100_000, 10_000), MEMBERS, AGE).await;
    let most = if full { Duration::from_millis(20) } else { Duration::from_millis(80) };
    assert!(beside < most.max(3 * alone), "{beside:?} beside readers, {alone:?} alone");
}
