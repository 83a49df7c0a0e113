//! Pools whose leases move by the loads that members report.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{
    clock::sleep_ms,
    harness::{Server, eventually},
    pool_worker::Worker,
};

const KEYS: usize = 40;

fn policy(tolerance: &str) -> String {
    format!(
        "[[policy]]\nprefix = \"shards/\"\npool = \"shards\"\nbalance = \"load\"\ntolerance = \"{tolerance}\"\n"
    )
}

fn shards() -> Vec<String> {
    (0..KEYS).map(|n| format!("shards/{n:02}")).collect()
}

/// One key as heavy as twenty others.
fn loads() -> BTreeMap<String, f64> {
    let load = |key: String| (key.clone(), if key == "shards/07" { 20.0 } else { 1.0 });
    shards().into_iter().map(load).collect()
}

async fn shown(server: &Server) -> Value {
    server.get("/v1/pools/shards").await.ok()
}

/// The load of each member as the server knows it, and how many leases it holds, by owner.
async fn carried(server: &Server) -> BTreeMap<String, (f64, u64)> {
    let pool = shown(server).await;
    let members = pool["members"].as_array().expect("members").iter();
    let of = |member: &Value| {
        let owner = member["owner"].as_str().expect("an owner").to_owned();
        (owner, (member["load"].as_f64().unwrap_or(-1.0), member["held"].as_u64().expect("held")))
    };
    members.map(of).collect()
}

async fn worker(server: &Server, owner: &str, more: Value) -> Worker {
    let mut body = json!({ "owner": owner, "ttl_ms": 20_000, "pool": "shards" });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
    let mut worker = Worker::join_with(&format!("http://{}", server.addr), owner, &body).await;
    worker.report(&loads());
    worker.work(shards());
    worker
}

#[tokio::test]
async fn loads_are_even_and_each_move_says_what_it_gains() {
    let server = Server::configured(&policy("default"));
    let mut workers = Vec::new();
    for owner in ["a", "b", "c"] {
        workers.push(worker(&server, owner, json!({})).await);
    }
    // The sum is 59: the hot key for one, and half of the others for each of the others.
    let is_even = async || {
        let pool = shown(&server).await;
        let members = pool["members"].as_array().expect("members");
        if !members.iter().all(|it| it["share"] == it["held"] && it["handovers"] == 0) {
            return false;
        }
        let mut carried: Vec<_> = carried(&server).await.into_values().collect();
        carried.sort_by_key(|(_, held)| *held);
        let held: u64 = carried.iter().map(|(_, held)| held).sum();
        held == KEYS as u64
            && carried.len() == 3
            && carried.iter().all(|(load, _)| (17.6..=21.7).contains(load))
            && carried[0].1 <= 2
    };
    eventually("loads are even", is_even).await;
    let pool = shown(&server).await;
    let peak = pool["load_peak"].as_f64().expect("a peak");
    assert!((1.0..=1.11).contains(&peak), "{pool}");

    // Nothing moves from now on, and no key has two owners.
    let before = carried(&server).await;
    sleep_ms(3_000).await;
    assert_eq!(carried(&server).await, before);
    let mut reasons = 0;
    for event in server.history().await {
        if event["type"].as_str().is_some_and(|kind| kind.ends_with("handover-requested")) {
            let reason = event["data"]["reason"].as_str().unwrap_or_default();
            assert!(reason.starts_with("load: ") && reason.contains("; gain "), "{event}");
            reasons += 1;
        }
    }
    assert!(reasons > 5, "{reasons} moves");
    let plan = server.get("/v1/pools/shards/plan").await.ok();
    assert_eq!((&plan["imbalance"], &plan["moves"]), (&json!(0), &json!([])), "{plan}");

    // A member that comes gets its part, and one that drains gives up all.
    let late = worker(&server, "d", json!({})).await;
    let has_joined = async || {
        let carried = carried(&server).await;
        carried.get("d").is_some_and(|(load, _)| *load > 11.0) && carried.len() == 4
    };
    eventually("the new member carries its part", has_joined).await;
    workers[0].drain().await;
    let has_left = async || {
        let carried = carried(&server).await;
        carried.get("a").is_none_or(|(_, held)| *held == 0)
            && carried.values().map(|(_, held)| held).sum::<u64>() == KEYS as u64
    };
    eventually("the others carry what it had", has_left).await;
    drop(late);
}

#[tokio::test]
async fn loads_survive_a_restart_and_count_for_who_gets_a_free_key() {
    let server = Server::configured(&policy("default"));
    let a = server.session("a", 60_000, json!({ "pool": "shards" })).await;
    let fair = json!({ "owner": "a", "session": a.id, "count": "fair", "keys": shards() });
    server.post("/v1/acquire-any", &fair).await.ok();
    server.post(&a.heartbeat_path(), &json!({ "loads": loads() })).await.ok();
    let is_known = async |server: &Server| {
        let carried = carried(server).await;
        carried.get("a").is_some_and(|(load, held)| *load > 58.0 && *held == KEYS as u64)
    };
    eventually("the loads are known", async || is_known(&server).await).await;
    let server = server.kill().restart();
    eventually("they are known after a restart", async || is_known(&server).await).await;
    let _others = [worker(&server, "b", json!({})).await, worker(&server, "c", json!({})).await];
    server.call("DELETE", &format!("/v1/sessions/{}", a.id), b"").await.ok();
    let even = async || {
        let carried = carried(&server).await;
        let [b, c] = ["b", "c"].map(|owner| carried.get(owner).copied().unwrap_or_default());
        b.1 + c.1 == KEYS as u64 && (b.0 - c.0).abs() < 6.0
    };
    eventually("free keys go where the load is low", even).await;
}

#[tokio::test]
async fn a_member_gets_no_more_than_the_load_that_it_accepts() {
    let server = Server::configured(&policy("default"));
    let session = server.session("small", 20_000, json!({ "pool": "shards" })).await;
    server.post(&session.heartbeat_path(), &json!({ "load_limit": 5.0 })).await.ok();
    let has_limit = async || shown(&server).await["members"][0]["load_limit"] == 5.0;
    eventually("the limit is known", has_limit).await;
    let _big = worker(&server, "big", json!({})).await;
    let knows = async || carried(&server).await.get("big").is_some_and(|(load, _)| *load > 30.0);
    eventually("the loads are known", knows).await;
    let body = json!({
        "owner": "small", "session": session.id, "count": "fair", "pool": "shards", "wait_ms": 500,
    });
    for _ in 0..12 {
        server.post("/v1/acquire-any", &body).await;
    }
    let (load, held) = carried(&server).await["small"];
    assert!((1..=5).contains(&held) && load <= 5.0, "{load} by {held}");
}

#[tokio::test]
async fn a_limit_is_known_from_the_start_and_what_was_reported_is_stored_by_later_heartbeats() {
    let server = Server::configured(&policy("default"));
    let a = server.session("a", 60_000, json!({ "pool": "shards", "load_limit": 7.0 })).await;
    let b = server.session("b", 60_000, json!({ "pool": "shards" })).await;
    // Keys without a load count as 1.
    let fair = |owner: &str, session: &str| json!({ "owner": owner, "session": session, "count": "fair", "keys": shards() });
    server.post("/v1/acquire-any", &fair("b", &b.id)).await.ok();
    let body = json!({ "loads": loads() });
    server.post(&b.heartbeat_path(), &body).await.ok();
    let known = async || carried(&server).await.get("b").is_some_and(|(load, _)| *load > 15.0);
    eventually("the loads are known", known).await;
    assert_eq!(limit(&server, "a").await, 7.0);
    // Too early to be stored: later heartbeats see to it.
    server.post(&a.heartbeat_path(), &json!({ "load_limit": 9.0 })).await.ok();
    sleep_ms(1_500).await;
    server.post(&a.heartbeat_path(), &json!({ "load_limit": null, "loads": null })).await.ok();
    let has_none = async || {
        server.post(&a.heartbeat_path(), &json!({})).await.ok();
        limit(&server, "a").await == Value::Null
    };
    eventually("the limit is gone", has_none).await;
    // A load is removed by null: the key counts as the mean again.
    let hot = json!({ "loads": { "shards/07": null } });
    let is_gone = async || {
        server.post(&b.heartbeat_path(), &hot).await.ok();
        // The hot key counts as much as the mean of the others, which is 1.
        let (load, held) = carried(&server).await["b"];
        (load - held as f64).abs() < 0.1
    };
    eventually("the load is removed", is_gone).await;
}

async fn limit(server: &Server, owner: &str) -> Value {
    let pool = shown(server).await;
    let members = pool["members"].as_array().expect("members");
    members.iter().find(|it| it["owner"] == owner).expect("a member")["load_limit"].clone()
}

#[tokio::test]
async fn idle_keys_are_spread_by_their_number() {
    let server = Server::configured(&policy("default"));
    let idle: BTreeMap<String, f64> = shards().into_iter().map(|key| (key, 0.0)).collect();
    let mut workers = Vec::new();
    for owner in ["a", "b", "c", "d"] {
        let worker = worker(&server, owner, json!({})).await;
        worker.report(&idle);
        workers.push(worker);
    }
    let even = async || {
        let carried = carried(&server).await;
        carried.len() == 4 && carried.values().all(|(_, held)| (9..=11).contains(held))
    };
    eventually("each has ten", even).await;
}

#[tokio::test]
async fn what_a_heartbeat_reports_is_checked() {
    let server = Server::configured(&policy("tight"));
    let member = server.session("a", 20_000, json!({ "pool": "shards" })).await;
    let path = member.heartbeat_path();
    for (body, field) in [
        (json!({ "loads": { "shards/00": -1.0 } }), "loads"),
        (json!({ "loads": { "shards/00": 1e10 } }), "loads"),
        (json!({ "loads": { "": 1.0 } }), "loads"),
        (json!({ "load_limit": -1.0 }), "load_limit"),
    ] {
        let problem = server.post(&path, &body).await.problem(400, "invalid-field");
        assert!(problem["field"].as_str().is_some_and(|it| it.starts_with(field)), "{problem}");
    }
    let much = json!({ "loads": { "shards/00": "much" } });
    let problem = server.post(&path, &much).await.problem(400, "malformed-request");
    assert_eq!(problem["field"], "loads.shards/00");
    // A key that the session does not hold is passed over.
    server.post(&path, &json!({ "loads": { "shards/00": 3.0 } })).await.ok();
    let grants = json!({
        "owner": "a", "session": member.id, "count": "fair",
        "keys": (0..700).map(|n| format!("shards/{n:04}")).collect::<Vec<_>>(),
    });
    server.post("/v1/acquire-any", &grants).await.ok();
    let many: BTreeMap<String, f64> = (0..700).map(|n| (format!("shards/{n:04}"), 1.5)).collect();
    let problem = server.post(&path, &json!({ "loads": many })).await.problem(400, "invalid-field");
    assert_eq!(problem["field"], "loads", "{problem}");
    let few: BTreeMap<String, f64> = many.into_iter().take(300).collect();
    server.post(&path, &json!({ "loads": few })).await.ok();
    let alone = server.session("b", 20_000, json!({})).await;
    let body = json!({ "loads": { "shards/00": 1.0 } });
    server.post(&alone.heartbeat_path(), &body).await.problem(400, "invalid-field");
    let known = async || {
        let pool = shown(&server).await;
        pool["members"][0]["load"].as_f64().is_some_and(|load| load > 1_000.0)
    };
    eventually("300 are known, and the others count as much", known).await;
}
