//! At least once, and in order per key, whatever happens to the coordinator.

use serde_json::Value;

use crate::{
    notifications::kit::{has_all, judge, kind, recorder, told, until_notifying},
    support::harness::{Server, eventually, ms},
};

const ON: &str = "on = [\"granted\", \"released\", \"expired\"]\nconcurrency = 8";

/// The events of the history that the plugin asked for.
async fn wanted(server: &Server) -> Vec<Value> {
    let mut events = server.history().await;
    events.retain(|event| ["granted", "released", "expired"].contains(&kind(event)));
    events
}

async fn work(server: &Server, rounds: usize) {
    for round in 0..rounds {
        for key in 0..5 {
            let ttl_ms = if round % 3 == 2 { 100 } else { 60_000 };
            let name = format!("k/{key}");
            let body = serde_json::json!(
                { "key": name, "owner": format!("w{round}"), "ttl_ms": ttl_ms, "wait_ms": 30_000 }
            );
            let grant = server.post("/v1/acquire", &body).await.ok();
            if ttl_ms > 100 {
                server.release(&crate::support::harness::Grant::of(&grant)).await;
            }
        }
    }
}

#[tokio::test]
async fn every_change_is_told_in_order_per_key_though_the_coordinator_is_killed() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = Server::configured(&recorder(dir.path(), "hook", ON));
    until_notifying(&server, "hook").await;
    for round in 0..4 {
        work(&server, 6).await;
        // In the middle: some of it is not told yet, and some of what was told is not stored as told.
        let before = told(dir.path(), "hook").len();
        eventually("some is told", async || told(dir.path(), "hook").len() > before).await;
        if round < 3 {
            server = server.kill().restart();
        }
    }
    eventually("the last tenures expired", async || {
        let held = server.get("/v1/leases?state=held").await.ok();
        held["leases"].as_array().is_some_and(Vec::is_empty)
    })
    .await;
    let expected = wanted(&server).await;
    assert!(expected.len() >= 4 * 30, "{}", expected.len());
    eventually("all is told", async || has_all(&told(dir.path(), "hook"), &expected)).await;
    judge(&told(dir.path(), "hook"), &expected);
    let lag = "tenure_notification_lag_seconds{plugin=\"hook\"}";
    eventually("nothing is behind", async || server.metric(lag).await < 0.001).await;
    let calls = "tenure_notification_duration_seconds_count{plugin=\"hook\",outcome=\"confirmed\"}";
    assert!(server.metric(calls).await > 0.0);
    // Where nothing happens, nothing is written.
    let writes = "tenure_store_synced_writes_total";
    tokio::time::sleep(ms(2_500)).await;
    let before = server.metric(writes).await;
    tokio::time::sleep(ms(2_500)).await;
    assert!((server.metric(writes).await - before).abs() < 0.5);
    // No caller sees the lease under which a node notifies.
    let leases = server.get("/v1/leases").await.ok();
    assert_eq!(leases["leases"].as_array().map(Vec::len), Some(5), "{leases}");
}

#[tokio::test]
async fn a_graceful_stop_repeats_nothing_and_misses_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::configured(&recorder(dir.path(), "hook", ON));
    until_notifying(&server, "hook").await;
    work(&server, 2).await;
    let first = wanted(&server).await;
    eventually("all is told", async || told(dir.path(), "hook").len() == first.len()).await;
    // A call may still be under way that has written its line.
    tokio::time::sleep(ms(200)).await;
    server.signal(rustix::process::Signal::TERM);
    let server = server.wait().restart();
    until_notifying(&server, "hook").await;
    work(&server, 2).await;
    let expected = wanted(&server).await;
    eventually("all is told", async || told(dir.path(), "hook").len() >= expected.len()).await;
    let told = told(dir.path(), "hook");
    judge(&told, &expected);
    assert_eq!(told.len(), expected.len(), "each once");
}
