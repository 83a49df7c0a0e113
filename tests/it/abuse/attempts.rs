//! Callers that wait for keys that nobody gives back: they run out of time, or hang up.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::task::JoinSet;

use super::{
    probe::{Rounds, tails},
    rounds, size,
};

use crate::support::harness::{Connection, Server, eventually};

/// Of memory that one caller may take.
const BYTES: u64 = 64 << 10;
/// How many wait at a time.
const CALLERS: usize = 500;
/// How many attempts there are in a second: the machine is shared by all sides of the test, and a program
/// that is not optimised does a tenth.
fn rate() -> usize {
    size(2500, 150)
}

const KEYS: usize = 50;

/// Attempts of one caller, at its pace; every fiftieth hangs up.
async fn try_in_vain(addr: SocketAddr, caller: usize, made: Arc<AtomicUsize>, count: usize) {
    let mut connection = Connection::open(addr).await;
    let pace = Duration::from_secs_f64(CALLERS as f64 / rate() as f64);
    let mut at = Instant::now() + pace * u32::try_from(caller).expect("few") / 500;
    loop {
        tokio::time::sleep_until(at.into()).await;
        at += pace;
        let attempt = made.fetch_add(1, Relaxed);
        if attempt >= count {
            return;
        }
        let key = format!("held/{}", attempt % KEYS);
        let wait_ms = 20 + attempt % 150;
        let body = json!({ "key": key, "owner": "late", "ttl_ms": 1000, "wait_ms": wait_ms });
        if attempt % 50 == 7 {
            connection.send("POST", "/v1/acquire", &[], body.to_string().as_bytes()).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
            connection = Connection::open(addr).await;
        } else {
            connection.post("/v1/acquire", &body).await.problem(409, "held");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_that_wait_in_vain_delay_nobody_and_leave_nothing() {
    let server = Server::start();
    let twin = Server::start();
    for key in 0..KEYS {
        server.acquire(&format!("held/{key}"), "holder", 86_400_000).await;
    }
    let total = size(1_000_000, 2_000);
    let each = total / rounds();
    let mut rounds_of = Rounds::of("waiting attempts", server.pid());
    tails(&server, &twin, Duration::from_secs(1)).await;
    let span = Duration::from_secs_f64(each as f64 / rate() as f64 * 0.9);
    let mut all = 0;
    for _ in 0..rounds() {
        rounds_of.quiet();
        let quiet = tails(&server, &twin, span.min(Duration::from_secs(15))).await;
        let made = Arc::new(AtomicUsize::new(0));
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            callers.spawn(try_in_vain(server.addr, caller, made.clone(), each));
        }
        let busy = tails(&server, &twin, span).await;
        rounds_of.round(quiet, busy);
        callers.join_all().await;
        all += made.load(Relaxed).min(each);
    }
    println!("waiting attempts: {all} in all");
    rounds_of.verdict(CALLERS, BYTES);
    eventually("nobody waits any more", async || {
        server.metric("tenure_lease_waiters{").await == 0.0
    })
    .await;
    assert_eq!(server.lease("held/0").await["waiters"], 0);
    // Nobody but the holder was ever granted one of them.
    assert_eq!(server.lease("held/1").await["owner"], "holder");
}
