//! `GET /v1/status` and `GET /v1/status/series`: what needs a person, and what happened lately.

use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::harness::{Server, eventually};

/// A plugin whose fences fail, for the keys below `f/`. Their former owners must be shut out before the next grant.
const FAILING: &str = r#"
[[plugin]]
name = "power"
kind = "exec"
command = ["/bin/sh", "-c", "exit 3"]
retries = 0

[[policy]]
prefix = "f/"
pool = "fenced"
fence = ["power"]
"#;

async fn status(server: &Server) -> Value {
    server.get("/v1/status").await.ok()
}

/// The entries of one kind.
async fn entries(server: &Server, kind: &str) -> Vec<Value> {
    let mut all = status(server).await["attention"].as_array().expect("a list").clone();
    all.retain(|entry| entry["kind"] == kind);
    all
}

/// The keys of the failed fences, in their order.
async fn failed(server: &Server) -> Vec<String> {
    let text = |entry: &Value| entry["key"].as_str().expect("a key").to_owned();
    entries(server, "fence-failed").await.iter().map(text).collect()
}

#[tokio::test]
async fn three_keys_with_failed_fences_among_two_hundred_are_named_and_no_others() {
    let server = Server::configured(FAILING);
    let keys: Vec<_> = (0..197).map(|n| format!("k/{n:03}")).collect();
    let body = json!({ "keys": keys, "owner": "w", "ttl_ms": 600_000, "count": 197 });
    server.post("/v1/acquire-any", &body).await.ok();
    for key in ["f/1", "f/2", "f/3"] {
        server.acquire(key, "old", 300).await;
    }
    eventually("the fences failed", async || failed(&server).await == ["f/1", "f/2", "f/3"]).await;
    let told = status(&server).await;
    assert_eq!(told["severity"], "critical");
    let entry = &told["attention"][0];
    assert_eq!((&entry["kind"], &entry["severity"]), (&json!("fence-failed"), &json!("critical")));
    assert_eq!((&entry["plugin"], &entry["owner"]), (&json!("power"), &json!("old")));
    assert_eq!((&entry["pool"], &entry["scope"]), (&json!("fenced"), &json!("store")));
    assert!(entry["reason"].as_str().is_some_and(|why| why.contains("exit status 3")), "{entry}");
    assert!(entry["since"].is_string() && entry["for_ms"].is_u64(), "{entry}");
    let help = entry["help"].as_str().expect("what helps");
    assert!(help.contains("tenure fence-retry") && help.ends_with("f/1"), "{help}");
    eventually("they are counted", async || {
        let keys = status(&server).await["store"]["keys"].clone();
        keys["held"] == 197 && keys["fencing"] == 3 && keys["fences_failed"] == 3
    })
    .await;

    // The record remembers, and the node finds it.
    let server = server.kill().restart();
    eventually("they are found", async || failed(&server).await == ["f/1", "f/2", "f/3"]).await;
    let skip = json!({ "key": "f/2", "reason": "the host is scrapped" });
    server.post("/v1/admin/fence-skip", &skip).await.ok();
    assert_eq!(failed(&server).await, ["f/1", "f/3"], "at once");
}

#[tokio::test]
async fn a_node_where_all_is_well_says_so_and_has_every_figure() {
    let server = Server::start();
    let grant = server.acquire("k", "w", 60_000).await;
    server.acquire("k2", "w", 60_000).await;
    server.release(&grant).await;
    let mut waits = json!({ "key": "k2", "owner": "v", "ttl_ms": 1_000 });
    waits["wait_ms"] = json!(15_000);
    let _parked = server.park("/v1/acquire", &waits).await;
    server.until_waiters("k2", 1).await;
    let mut told = Value::Null;
    eventually("the keys are counted", async || {
        told = status(&server).await;
        told["store"]["keys"]["free"] == 1 && told["store"]["keys"]["held"] == 1
    })
    .await;
    assert_eq!((&told["severity"], &told["attention"]), (&json!("none"), &json!([])), "{told}");
    assert_eq!(
        (&told["store"]["kind"], &told["store"]["health"]),
        (&json!("embedded"), &json!("ready"))
    );
    assert_eq!(told["store"]["nodes"], json!({ "alive": 1, "drained": 0, "dead": 0 }));
    let node = &told["this_node"];
    assert_eq!(
        (&node["ready"], &node["leases"], &node["waiting"]),
        (&json!(true), &json!(1), &json!(1))
    );
    assert_eq!(node["last_minute"]["hold"]["count"], 1, "{node}");
    assert_eq!(told["last_minute"], json!({ "granted": 2, "released": 1 }));
}

#[tokio::test]
async fn a_check_that_fails_is_told_of_until_it_passes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let server = Server::start();
    let check = json!({ "type": "tcp", "address": address, "interval_ms": 100,
                        "timeout_ms": 1000, "fail_after": 1000 });
    let session = server.session("w", 60_000, json!({ "checks": [check] })).await;
    let mut found = Vec::new();
    eventually("it fails", async || {
        found = entries(&server, "check-failing").await;
        !found.is_empty()
    })
    .await;
    let entry = &found[0];
    assert_eq!((&entry["session"], &entry["owner"]), (&json!(session.digest), &json!("w")));
    assert_eq!((&entry["scope"], &entry["severity"]), (&json!("node"), &json!("warning")));
    let listener = TcpListener::bind(&address).await.expect("the same port");
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    eventually("it passes", async || entries(&server, "check-failing").await.is_empty()).await;
}

#[tokio::test]
async fn a_door_that_is_open_is_told_of() {
    let server = Server::listening([0, 0, 0, 0], &["server.accept_no_auth=true"]);
    assert_eq!(entries(&server, "open-door").await.len(), 1);
    assert_eq!(status(&server).await["severity"], "warning");
}

#[tokio::test]
async fn the_series_has_a_point_for_each_slice_and_what_happened_in_it() {
    let server = Server::start();
    let grant = server.acquire("k", "w", 60_000).await;
    server.release(&grant).await;
    server.acquire("k", "w", 200).await;
    let sum = |series: &Value, cause: &str| -> u64 {
        let points = series["points"].as_array().expect("points").iter();
        points.filter_map(|point| point["changes"][cause].as_u64()).sum()
    };
    for (step, length) in [("1m", 60_000), ("5s", 5_000)] {
        let path = format!("/v1/status/series?step={step}");
        let mut series = Value::Null;
        eventually("it expired", async || {
            series = server.get(&path).await.ok();
            sum(&series, "expired") == 1
        })
        .await;
        assert_eq!(series["step_ms"], length);
        assert_eq!((sum(&series, "granted"), sum(&series, "released")), (2, 1), "{series}");
        let points = series["points"].as_array().expect("points");
        assert!((1..=60).contains(&points.len()));
        let late: u64 = points
            .iter()
            .map(|point| point["this_node"]["lateness"]["count"].as_u64().expect("a count"))
            .sum();
        assert_eq!(late, 1, "{series}");
        let vacancies = points.iter().map(|point| point["this_node"]["vacancy"]["count"].as_u64());
        assert!(vacancies.sum::<Option<u64>>().expect("counts") >= 1, "{series}");
    }
    server.get("/v1/status/series?step=1h").await.bad_field("step");
    server.get("/v1/status/series?every=1m").await.malformed();
    server.get("/v1/status?all=1").await.malformed();
}
