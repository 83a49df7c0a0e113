//! Members that are not ready, and upgrades of a pool's members.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::support::{
    clock::sleep_ms,
    harness::{Grant, Server, Session, eventually},
    pool_worker::{Worker, pool},
};

const KEYS: usize = 40;

fn policy(upgrade: &str) -> String {
    format!(
        "[[policy]]\nprefix = \"shards/\"\npool = \"shards\"\nbalance = true\nmixed_versions = \"{upgrade}\"\n"
    )
}

fn shards() -> Vec<String> {
    (0..KEYS).map(|n| format!("shards/{n:02}")).collect()
}

async fn join(server: &Server, owner: &str, more: Value) -> Session {
    let mut body = json!({ "pool": "shards" });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
    server.session(owner, 60_000, body).await
}

async fn fair(server: &Server, owner: &str, session: &Session) -> Value {
    let body = json!({ "owner": owner, "session": session.id, "count": "fair", "keys": shards() });
    server.post("/v1/acquire-any", &body).await.json()
}

/// What the pool says of a member; null while the server does not know it.
async fn member(server: &Server, session: &Session) -> Value {
    let pool = server.get("/v1/pools/shards").await.ok();
    let members = pool["members"].as_array().expect("members");
    members.iter().find(|it| it["session"] == session.digest.as_str()).cloned().unwrap_or_default()
}

#[tokio::test]
async fn a_member_that_is_not_ready_has_no_share_and_counts_for_nothing() {
    let server = Server::configured(&policy("10m"));
    let a = join(&server, "a", json!({})).await;
    let b = join(&server, "b", json!({ "ready": false, "version": "7" })).await;
    assert_eq!(server.get(&format!("/v1/sessions/{}", b.digest)).await.ok()["ready"], false);
    let none = fair(&server, "b", &b).await;
    assert_eq!((&none["code"], &none["share"]), (&json!("none-available"), &json!(0)), "{none}");
    let unready = member(&server, &b).await;
    assert_eq!((&unready["unready"], &unready["version"]), (&json!(true), &json!("7")));
    assert_eq!(fair(&server, "a", &a).await["grants"].as_array().expect("all").len(), KEYS);
    let path = b.heartbeat_path();
    server.post(&path, &json!({})).await.ok();
    assert_eq!(member(&server, &b).await["share"], 0, "a plain heartbeat says nothing");
    let wrong = server.post(&path, &json!({ "ready": false })).await.problem(400, "invalid-field");
    assert_eq!(wrong["field"], "ready");
    server.post(&path, &json!({ "ready": true })).await.ok();
    server.post(&path, &json!({ "ready": true })).await.ok();
    let ready = member(&server, &b).await;
    assert_eq!((&ready["unready"], &ready["share"]), (&json!(false), &json!(20)), "{ready}");
    assert_eq!(ready["version"], "7");
    // The session says so after a restart, too.
    let server = server.kill().restart();
    eventually("it is ready", async || member(&server, &b).await["unready"] == false).await;
}

#[tokio::test]
async fn what_a_member_says_of_itself_is_checked() {
    let server = Server::configured(&policy("10m"));
    let open = async |more: Value| {
        let mut body = json!({ "owner": "w", "ttl_ms": 60_000 });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        server.post("/v1/sessions", &body).await
    };
    for (more, field) in [
        (json!({ "version": "1" }), "version"),
        (json!({ "ready": false }), "ready"),
        (json!({ "pool": "shards", "version": "v".repeat(65) }), "version"),
        (json!({ "pool": "shards", "version": "a\nb" }), "version"),
        (json!({ "pool": "shards", "version": 7 }), "version"),
    ] {
        let refused = open(more.clone()).await;
        assert_eq!(refused.status, 400, "{more}");
        assert_eq!(refused.json()["field"], field, "{more}");
    }
    assert_eq!(open(json!({ "pool": "shards", "version": "" })).await.status, 201);
}

/// A new member comes before the old one leaves. Its keys go to the newest version, and nothing else moves.
#[tokio::test]
async fn in_a_rolling_upgrade_each_key_moves_once() {
    let server = Server::configured(&policy("10m"));
    let url = format!("http://{}", server.addr);
    let start = async |owner: String, version: &str| {
        let body = json!({ "owner": owner, "ttl_ms": 5_000, "pool": "shards", "version": version });
        Worker::join_with(&url, &owner, &body).await
    };
    let mut old = Vec::new();
    for n in 0..4 {
        old.push(start(format!("old-{n}"), "1.9").await);
    }
    old.iter_mut().for_each(|worker| worker.work(shards()));
    let settled = async |members: usize| {
        eventually("no key is free, and nobody has too much", async || {
            let (seen, shares) = pool(&url, "shards").await;
            let held: u64 = shares.values().map(|(held, _)| held).sum();
            seen["free"] == 0 && shares.len() == members && held == KEYS as u64
        })
        .await;
    };
    settled(4).await;
    let cursor = granted(&server.history().await).len();
    let mut new = Vec::new();
    for n in 0..4 {
        let mut next = start(format!("new-{n}"), "1.10").await;
        next.work(shards());
        eventually("it is known", async || pool(&url, "shards").await.1.len() == 5).await;
        let leaving = old.remove(0);
        leaving.drain().await;
        eventually("it has handed everything over", async || leaving.held() == 0).await;
        leaving.stop().await;
        eventually("it is gone", async || pool(&url, "shards").await.1.len() == 4).await;
        settled(4).await;
        new.push(next);
    }
    eventually("all are even", async || {
        pool(&url, "shards").await.1.values().all(|share| *share == (10, 10))
    })
    .await;
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for (key, owner) in granted(&server.history().await).into_iter().skip(cursor) {
        assert!(owner.starts_with("new-"), "{key} went to {owner}");
        *times.entry(key).or_default() += 1;
    }
    assert_eq!(times.into_values().collect::<Vec<_>>(), [1; KEYS]);
}

/// The keys that were granted, in their order, with their owners.
fn granted(events: &[Value]) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let granted = events.iter().filter(|event| event["type"] == "io.tenure.lease.granted");
    let granted = granted.filter(|event| event["data"]["pool"] == "shards");
    granted.map(|event| (text(&event["subject"]), text(&event["data"]["owner"]))).collect()
}

#[tokio::test]
async fn an_upgrade_that_takes_too_long_no_longer_counts() {
    let server = Server::configured(&policy("3s"));
    let old = join(&server, "old", json!({ "version": "1" })).await;
    let new = join(&server, "new", json!({ "version": "2" })).await;
    // What is free goes to the new version.
    let none = fair(&server, "old", &old).await;
    assert_eq!((&none["code"], &none["share"]), (&json!("none-available"), &json!(0)), "{none}");
    let grants = fair(&server, "new", &new).await;
    let keys: BTreeSet<String> = grants["grants"]
        .as_array()
        .expect("grants")
        .iter()
        .map(|grant| Grant::of(grant).key)
        .collect();
    assert_eq!(keys.len(), KEYS);
    sleep_ms(1_000).await;
    assert_eq!(member(&server, &old).await["share"], 0);
    eventually("both have a share", async || member(&server, &old).await["share"] == 20).await;
}

/// What the newest version has no room for is served by the others.
#[tokio::test]
async fn one_small_member_of_a_new_version_leaves_the_rest_to_the_others() {
    let server = Server::configured(&policy("10m"));
    let old = join(&server, "old", json!({ "version": "1" })).await;
    let new = join(&server, "new", json!({ "version": "2", "capacity": 5 })).await;
    assert_eq!(fair(&server, "new", &new).await["grants"].as_array().expect("some").len(), 5);
    assert_eq!(fair(&server, "old", &old).await["grants"].as_array().expect("some").len(), 35);
    // A newer member that leaves takes nothing, and is no measure for those that stay.
    let server = server.kill().restart();
    eventually("both are known", async || member(&server, &old).await["share"] == 35).await;
    server.post(&format!("/v1/sessions/{}/drain", new.id), &json!({})).await.ok();
    eventually("all are for the other", async || member(&server, &old).await["share"] == KEYS)
        .await;
}

/// Keys that only this member names are not granted to it either.
#[tokio::test]
async fn a_member_that_is_not_ready_waits_in_vain() {
    let server = Server::configured(&policy("10m"));
    let unready = join(&server, "a", json!({ "ready": false })).await;
    let body = json!({
        "owner": "a", "session": unready.id, "count": "fair", "keys": shards(), "wait_ms": 4_000,
    });
    let none = server.post("/v1/acquire-any", &body).await.problem(409, "none-available");
    assert_eq!((&none["share"], &none["held_by_session"]), (&json!(0), &json!(0)), "{none}");
}
