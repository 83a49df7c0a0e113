//! Ten people who have the page open, over many leases that change all the time.
//!
//! Their calls are those of the page (docs/page.md says how often it makes them), without the browsers, which would
//! take the machine from the server. `browser/page/many.rs` shows what a browser does with the answers.

use std::{net::SocketAddr, time::Duration};

use serde_json::json;
use tokio::task::JoinSet;

use super::{
    probe::{Rounds, span, tails},
    rounds, size,
};

use crate::support::harness::{Connection, Grant, Server};

/// How many people there are.
const PAGES: usize = 10;
/// Of memory that one of them may take: a stream, two connections, and answers in the making.
const BYTES: u64 = 2 << 20;
/// One acquire and one release in so long are 200 events per second.
const CHANGE: Duration = Duration::from_millis(5);
/// How many keys one call takes.
const PART: usize = 1000;

/// Takes so many leases.
async fn take(server: &Server, count: usize) {
    let mut connection = Connection::open(server.addr).await;
    for first in (0..count).step_by(PART) {
        let keys: Vec<_> = (first..first + PART).map(|n| format!("many/{n:06}")).collect();
        let body = json!({ "keys": keys, "owner": "w", "ttl_ms": 3_600_000, "count": PART });
        let grants = connection.post("/v1/acquire-any", &body).await.ok();
        assert_eq!(grants["grants"].as_array().map(Vec::len), Some(PART));
    }
}

/// Changes owners, 200 times per second.
async fn change(addr: SocketAddr) {
    let mut connection = Connection::open(addr).await;
    let mut pace = tokio::time::interval(CHANGE);
    for n in 0u64.. {
        pace.tick().await;
        let key = format!("changes/{}", n % 50);
        let body = json!({ "key": key, "owner": "w", "ttl_ms": 60_000, "reclaim": true });
        let grant = Grant::of(&connection.post("/v1/acquire", &body).await.ok());
        pace.tick().await;
        connection.post("/v1/release", &grant.proof()).await.ok();
    }
}

/// Reads all events, as they happen.
async fn listen(addr: SocketAddr) {
    let mut stream = Connection::open(addr).await;
    stream.send("GET", "/v1/events", &[], b"").await;
    let (status, _) = stream.head().await.expect("an answer");
    assert_eq!(status, 200);
    while stream.chunk().await.expect("the stream goes on").is_some() {}
}

/// Asks as the page does: a list that changes each second, the status every other second, and the series.
async fn look(addr: SocketAddr) {
    let mut connection = Connection::open(addr).await;
    let mut pace = tokio::time::interval(Duration::from_secs(1));
    for second in 0u64.. {
        pace.tick().await;
        let mut paths = vec!["/v1/leases?limit=100&state=fencing,cooling,offered,held"];
        if second % 2 == 0 {
            paths.push("/v1/status");
        }
        if second % 5 == 0 {
            paths.push("/v1/status/series?step=5s");
            // Somebody types a filter that no index helps with.
            paths.push("/v1/leases?limit=100&owner=nobody");
        }
        for path in paths {
            connection.call("GET", path, &[], b"").await.ok();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_open_pages_delay_nobody() {
    let (server, twin) = (Server::start(), Server::start());
    take(&server, size(100_000, 5_000)).await;
    let mut rounds_of = Rounds::of("open pages", server.pid());
    let mut changing = JoinSet::new();
    changing.spawn(change(server.addr));
    changing.spawn(change(twin.addr));
    tails(&server, &twin, span() / 4).await;
    for _ in 0..rounds() {
        rounds_of.quiet();
        let quiet = tails(&server, &twin, span()).await;
        let mut pages = JoinSet::new();
        for _ in 0..PAGES {
            pages.spawn(listen(server.addr));
            pages.spawn(look(server.addr));
        }
        let busy = tails(&server, &twin, span()).await;
        assert!(pages.try_join_next().is_none(), "a page has ended");
        rounds_of.round(quiet, busy);
        pages.shutdown().await;
    }
    assert!(changing.try_join_next().is_none(), "the changes have ended");
    rounds_of.verdict(PAGES, BYTES);
}
