//! Callers that wait at thousands of keys each.

use serde_json::json;

use super::{
    probe::{Rounds, span, tails},
    rounds, size,
};

use crate::support::harness::{Connection, Server, eventually};

/// Of memory that one place in a queue may take.
const BYTES: u64 = 2 << 10;
/// Places of one call: a process cannot have a socket for each of so many waiters.
const KEYS: usize = 10_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_in_queues_delay_nobody_and_are_given_up_with_their_callers() {
    let server = Server::start();
    let twin = Server::start();
    let callers = size(20, 2);
    let keys: Vec<_> = (0..KEYS).map(|key| format!("held/{key}")).collect();
    let body = json!({ "keys": keys, "owner": "holder", "ttl_ms": 86_400_000, "count": KEYS });
    let granted = server.post("/v1/acquire-any", &body).await.ok();
    assert_eq!(granted["grants"].as_array().map(Vec::len), Some(KEYS));
    let wait = json!({ "keys": keys, "owner": "late", "ttl_ms": 1000, "wait_ms": 600_000 });
    let wait = wait.to_string();
    let mut rounds_of = Rounds::of("parked waiters", server.pid());
    tails(&server, &twin, span() / 4).await;
    for _ in 0..rounds() {
        rounds_of.quiet();
        let quiet = tails(&server, &twin, span()).await;
        let mut parked = Vec::new();
        for _ in 0..callers {
            let mut connection = Connection::open(server.addr).await;
            connection.send("POST", "/v1/acquire-any", &[], wait.as_bytes()).await;
            parked.push(connection);
        }
        for key in ["held/0", "held/4711", "held/9999"] {
            server.until_waiters(key, callers as u64).await;
        }
        let busy = tails(&server, &twin, span()).await;
        rounds_of.round(quiet, busy);
        drop(parked);
        for key in ["held/0", "held/4711", "held/9999"] {
            server.until_waiters(key, 0).await;
        }
    }
    println!("parked waiters: {} places in queues at a time", callers * KEYS);
    rounds_of.verdict(callers * KEYS, BYTES);
    eventually("nobody waits any more", async || {
        server.metric("tenure_lease_waiters{").await == 0.0
    })
    .await;
}
