//! The guard of a pool that loses many members at once.

use serde_json::{Value, json};

use crate::support::harness::{Grant, Server, Session, eventually, ms};

/// Two of five are many. The keys of a lost member stay shut until both are known to be lost.
const POLICY: &str = "[[policy]]\nprefix = \"shards/\"\npool = \"shards\"\nlock_delay = \"1s\"\n\
                      mass_failure_within = \"30s\"\n";

async fn join(server: &Server, owner: &str, ttl_ms: u64) -> Session {
    server.session(owner, ttl_ms, json!({ "pool": "shards" })).await
}

/// How many leases a member gets of its share.
async fn fair(server: &Server, owner: &str, session: &Session, wait_ms: u64) -> usize {
    let keys: Vec<String> = (0..20).map(|n| format!("shards/{n:02}")).collect();
    let body = json!({
        "owner": owner, "session": session.id, "count": "fair", "keys": keys, "wait_ms": wait_ms,
    });
    let answer = server.post("/v1/acquire-any", &body).await.json();
    answer["grants"].as_array().map_or(0, |all| all.iter().map(Grant::of).count())
}

async fn seen(server: &Server) -> Value {
    server.get("/v1/pools/shards").await.ok()
}

/// Five members with four keys each, of which so many ended without a word.
async fn lose(server: &Server, lost: usize) -> Vec<Session> {
    let mut members = Vec::new();
    for n in 0..5 {
        let ttl_ms = if n < lost { 1_500 } else { 60_000 };
        members.push(join(server, &format!("w{n}"), ttl_ms).await);
    }
    for (n, member) in members.iter().enumerate() {
        assert_eq!(fair(server, &format!("w{n}"), member, 0).await, 4);
    }
    eventually("they are over", async || {
        seen(server).await["members"].as_array().is_some_and(|left| left.len() == 5 - lost)
    })
    .await;
    members.split_off(lost)
}

#[tokio::test]
async fn after_a_mass_failure_nobody_gets_more_than_its_former_share() {
    let server = Server::configured(POLICY);
    let left = lose(&server, 2).await;
    let pool = seen(&server).await;
    assert_eq!(
        (&pool["guard"]["members"], &pool["guard"]["least"]),
        (&json!(5), &json!(2)),
        "{pool}"
    );
    // Their keys are open after a second, and nobody takes them.
    assert_eq!(fair(&server, "w2", &left[0], 2_500).await, 0);
    let pool = seen(&server).await;
    assert_eq!((&pool["free"], &pool["members"][0]["share"]), (&json!(8), &json!(4)), "{pool}");
    eventually("it is counted", async || {
        (server.metric("tenure_pool_guarded{pool=\"shards\"}").await - 1.0).abs() < f64::EPSILON
    })
    .await;
    // Up to its former share, a member gets what it asks for.
    let held = server.get("/v1/leases?owner=w2&limit=1").await.ok();
    let key = held["leases"][0]["key"].as_str().expect("a key").to_owned();
    let revoke = json!({ "key": key, "reason": "r", "immediately": true });
    server.post("/v1/admin/revoke", &revoke).await.ok();
    eventually("it has four again", async || fair(&server, "w2", &left[0], 0).await == 1).await;

    // The guard outlives the coordinator.
    let server = server.kill().restart();
    eventually("its orders are read", async || seen(&server).await["guard"]["members"] == 5).await;
    assert_eq!(fair(&server, "w3", &left[1], 0).await, 0);
    // One of the two is replaced: less than a mass failure is missing.
    let _replacement = join(&server, "w9", 60_000).await;
    eventually("the guard ended", async || seen(&server).await["guard"].is_null()).await;
    assert_eq!(fair(&server, "w3", &left[1], 5_000).await, 1, "four members share twenty keys");
}

#[tokio::test]
async fn an_operator_ends_the_guard() {
    let server = Server::configured(POLICY);
    let left = lose(&server, 3).await;
    assert_eq!(seen(&server).await["guard"]["members"], 5);
    tokio::time::sleep(ms(1_100)).await;
    assert_eq!(fair(&server, "w3", &left[0], 0).await, 0);
    let body = json!({ "pool": "shards", "action": "end-guard", "reason": "they stay away" });
    assert_eq!(server.post("/v1/admin/pool", &body).await.ok()["guard"], Value::Null);
    assert_eq!(fair(&server, "w3", &left[0], 1_000).await, 6);
    assert_eq!(fair(&server, "w4", &left[1], 1_000).await, 6);
}

#[tokio::test]
async fn one_loss_and_members_that_close_their_sessions_are_no_mass_failure() {
    let server = Server::configured(POLICY);
    let left = lose(&server, 1).await;
    assert_eq!(seen(&server).await["guard"], Value::Null);
    for member in &left[1..] {
        server.destroy(member).await.ok();
    }
    assert_eq!(seen(&server).await["guard"], Value::Null);
    let mut taken = 4;
    while taken < 20 {
        taken += fair(&server, "w1", &left[0], 5_000).await;
    }
}
