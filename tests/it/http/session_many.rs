//! A session over many leases.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::harness::{Connection, Server, Session, eventually, ms, soon};

/// Takes so many leases under the session, over several connections.
async fn take(server: &Server, session: &Session, count: usize) {
    const CLIENTS: usize = 32;
    let client = async |mine: usize| {
        let mut connection = Connection::open(server.addr).await;
        for n in (mine..count).step_by(CLIENTS) {
            let body = json!({ "key": format!("k/{n}"), "owner": "w", "session": session.id });
            connection.post("/v1/acquire", &body).await.ok();
        }
    };
    futures_util::future::join_all((0..CLIENTS).map(client)).await;
}

/// A session over so many leases ends; another client does not notice.
async fn a_session_over(count: usize) {
    let server = Server::start();
    let session = server.session("w", 600_000, json!({})).await;
    take(&server, &session, count).await;
    eventually("all are known", async || {
        server.beat(&session).await.ok()["leases"]["count"] == count
    })
    .await;
    let own = server.acquire("own", "v", 60_000).await;
    let mut slow = Vec::new();
    let beating = async {
        let mut connection = Connection::open(server.addr).await;
        loop {
            let began = Instant::now();
            connection.post("/v1/heartbeat", &own.proof()).await.ok();
            slow.push(began.elapsed());
            tokio::time::sleep(ms(1)).await;
        }
    };
    let ending = async {
        let began = Instant::now();
        server.destroy(&session).await.ok();
        let destroyed = began.elapsed();
        eventually("all ended", async || {
            server.metric("tenure_leases_held{pool=\"default\"}").await < 1.5
        })
        .await;
        (destroyed, began.elapsed())
    };
    let (destroyed, ended) = tokio::select! {
        spans = ending => spans,
        () = beating => unreachable!("it goes on"),
    };
    slow.sort_unstable();
    let p99 = slow[slow.len() * 99 / 100];
    println!(
        "{count} leases: destroyed {destroyed:?}, ended {ended:?}; heartbeats: {}, p99 {p99:?}",
        slow.len()
    );
    let most = if cfg!(debug_assertions) { ms(600) } else { ms(250) };
    assert!(p99 < most, "heartbeats of another were slow: p99 {p99:?}");
    let history = server.history().await;
    let mut ends: Vec<_> = history
        .iter()
        .filter(|event| event["type"] == "io.tenure.lease.session-ended")
        .map(|event| {
            assert_eq!(event["data"]["session"], session.digest.as_str());
            assert_eq!(event["data"]["seq"], 2);
            event["subject"].as_str().expect("a key").to_owned()
        })
        .collect();
    ends.sort_unstable();
    ends.dedup();
    assert_eq!(ends.len(), count, "each with its event");
}

#[tokio::test]
async fn a_session_over_1_000_leases_ends_all_of_them_and_stalls_nobody() {
    soon("1000 leases", a_session_over(1000)).await;
}

#[tokio::test]
async fn a_session_over_10_000_leases_ends_all_of_them_and_stalls_nobody() {
    let limit = Duration::from_secs(120);
    tokio::time::timeout(limit, a_session_over(10_000)).await.expect("in time");
}
