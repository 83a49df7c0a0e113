//! `[[policy]]`: ttl bounds and pools of the keys under a prefix, and the file read again on SIGHUP.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::harness::{Grant, Server, Stream, eventually};

const POLICIES: &str = r#"
[[policy]]
prefix = "jobs/"
pool = "jobs"
ttl_min = "1s"
ttl_max = "30s"

[[policy]]
prefix = "jobs/big/"
pool = "big"
ttl_max = "48h"

[[policy]]
prefix = "cron/"
pool = "jobs"
"#;

/// What the documentation says.
const SERIES_OF_A_POOL: usize = 104;

fn acquire(key: &str, ttl_ms: u64) -> Value {
    json!({ "key": key, "owner": "w", "ttl_ms": ttl_ms })
}

async fn keys(server: &Server, query: &str) -> Vec<String> {
    let list = server.get(&format!("/v1/leases?{query}")).await.ok();
    let leases = list["leases"].as_array().expect("leases").iter();
    leases.map(|lease| lease["key"].as_str().expect("key").to_owned()).collect()
}

#[tokio::test]
async fn a_ttl_outside_of_the_bounds_of_its_policy_is_refused() {
    let server = Server::configured(POLICIES);
    let refused = |reply: Value, bounds: &str| {
        let detail = reply["detail"].as_str().expect("detail");
        assert!(detail.contains(bounds), "{detail}");
    };
    let post = async |body: Value| server.post("/v1/acquire", &body).await;
    let of_jobs = "it must be from 1000 to 30000 in pool jobs";
    for ttl_ms in [999, 30_001] {
        refused(post(acquire("jobs/1", ttl_ms)).await.bad_field("ttl_ms"), of_jobs);
    }
    let of_big = "it must be from 100 to 172800000 in pool big";
    refused(post(acquire("jobs/big/1", 99)).await.bad_field("ttl_ms"), of_big);
    // Wider than the limits, which hold for what no policy names.
    post(acquire("jobs/big/1", 172_800_000)).await.ok();
    let of_others = "it must be from 100 to 86400000 in pool default";
    refused(post(acquire("job", 86_400_001)).await.bad_field("ttl_ms"), of_others);

    let grant = Grant::of(&post(acquire("jobs/1", 30_000)).await.ok());
    let longer = grant.proof_and(json!({ "ttl_ms": 30_001 }));
    refused(server.post("/v1/heartbeat", &longer).await.bad_field("ttl_ms"), of_jobs);
    let within = grant.proof_and(json!({ "ttl_ms": 20_000 }));
    server.post("/v1/heartbeat", &within).await.ok();
    let offer = grant.proof_and(json!({ "to": "v", "offer_ms": 500 }));
    refused(server.post("/v1/transfer", &offer).await.bad_field("offer_ms"), of_jobs);

    let any = |more: Value, ttl_ms: u64| {
        let mut body = json!({ "owner": "w", "ttl_ms": ttl_ms });
        let fields = more.as_object().expect("an object").clone();
        body.as_object_mut().expect("an object").extend(fields);
        body
    };
    let any = async |more: Value, ttl_ms| server.post("/v1/acquire-any", &any(more, ttl_ms)).await;
    let mixed = json!({ "keys": ["jobs/big/2", "jobs/2"] });
    refused(any(mixed.clone(), 31_000).await.bad_field("ttl_ms"), of_jobs);
    any(mixed, 5000).await.ok();
    refused(any(json!({ "prefix": "jobs/none" }), 999).await.bad_field("ttl_ms"), of_jobs);
    any(json!({ "pool": "none" }), 5000).await.bad_field("pool");
    refused(any(json!({ "pool": "big" }), 99).await.bad_field("ttl_ms"), of_big);
}

#[tokio::test]
async fn leases_are_listed_and_acquired_by_pool() {
    let server = Server::configured(POLICIES);
    let all = ["a", "cron/1", "cron/2", "jobs/1", "jobs/big/1", "jobs/z", "z"];
    for key in all {
        let lease = server.acquire(key, "w", 20_000).await.lease;
        let pool = match key {
            "jobs/big/1" => "big",
            "a" | "z" => "default",
            _ => "jobs",
        };
        assert_eq!(lease["pool"], pool);
        assert_eq!(server.lease(key).await["pool"], pool);
    }
    let of_jobs = ["cron/1", "cron/2", "jobs/1", "jobs/z"];
    assert_eq!(keys(&server, "pool=jobs").await, of_jobs);
    assert_eq!(keys(&server, "pool=big").await, ["jobs/big/1"]);
    assert_eq!(keys(&server, "pool=default").await, ["a", "z"]);
    for pool in ["none", ""] {
        server.get(&format!("/v1/leases?pool={pool}")).await.bad_field("pool");
        server.get(&format!("/v1/events?pool={pool}")).await.bad_field("pool");
    }
    assert_eq!(keys(&server, "pool=jobs&prefix=jobs").await, ["jobs/1", "jobs/z"]);
    assert_eq!(keys(&server, "pool=jobs&prefix=jobs/big").await, [""; 0]);
    assert_eq!(keys(&server, "pool=jobs&key=jobs/1").await, ["jobs/1"]);
    assert_eq!(keys(&server, "pool=big&key=jobs/1").await, [""; 0]);
    for (after, rest) in [("b", 0), ("cron/1", 1), ("cron/z", 2), ("jobs/big/1", 3), ("jobs/z", 4)]
    {
        assert_eq!(keys(&server, &format!("pool=jobs&after={after}")).await, of_jobs[rest..]);
    }
    let mut paged = Vec::new();
    let mut after = String::new();
    loop {
        let page = server.get(&format!("/v1/leases?pool=jobs&limit=1&after={after}")).await.ok();
        let leases = page["leases"].as_array().expect("leases");
        paged.extend(leases.iter().map(|lease| lease["key"].as_str().expect("key").to_owned()));
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(paged, of_jobs);

    let body = |pool: &str| json!({ "pool": pool, "owner": "v", "ttl_ms": 5000, "count": 10 });
    let ask = async |body: Value| server.post("/v1/acquire-any", &body).await;
    let none = ask(body("jobs")).await.problem(409, "none-available");
    assert_eq!(none["counts"]["keys"], 4, "{none}");
    ask(body("none")).await.bad_field("pool");
    for key in ["cron/2", "jobs/z", "jobs/big/1"] {
        let revoke = json!({ "key": key, "reason": "test", "immediately": true });
        server.post("/v1/admin/revoke", &revoke).await.ok();
    }
    let granted = ask(body("jobs")).await.ok();
    let grants = granted["grants"].as_array().expect("grants").iter();
    let mut got: Vec<_> = grants.map(|grant| grant["key"].as_str().expect("key")).collect();
    got.sort_unstable();
    assert_eq!(got, ["cron/2", "jobs/z"]);
    let both = json!({ "pool": "jobs", "prefix": "a", "owner": "v", "ttl_ms": 5000 });
    ask(both).await.bad_field("pool");

    // One registration waits on all keys of the pool.
    let waiting = json!({ "pool": "jobs", "owner": "u", "ttl_ms": 5000, "wait_ms": 20_000 });
    let mut parked = server.park("/v1/acquire-any", &waiting).await;
    server.until_waiters("cron/1", 1).await;
    assert!((server.metric("tenure_lease_waiters{pool=\"jobs\"}").await - 1.0).abs() < 0.1);
    let revoke = json!({ "key": "cron/1", "reason": "test", "immediately": true });
    server.post("/v1/admin/revoke", &revoke).await.ok();
    assert_eq!(parked.receive().await.ok()["grants"][0]["key"], "cron/1");
}

#[tokio::test]
async fn events_have_the_pool_of_their_key() {
    let server = Server::configured(POLICIES);
    let mut stream = Stream::open(&server, "pool=jobs").await;
    for key in ["a", "jobs/big/1", "jobs/1", "cron/1"] {
        server.acquire(key, "w", 20_000).await;
    }
    let live: Vec<_> = stream.events(2).await.into_iter().map(|(_, _, event)| event).collect();
    assert_eq!([&live[0]["subject"], &live[1]["subject"]], ["jobs/1", "cron/1"]);
    assert!(live.iter().all(|event| event["data"]["pool"] == "jobs"), "{live:?}");
    let beginning = server.cursor_of_the_beginning().await;
    for (pool, subjects) in [("jobs", vec!["jobs/1", "cron/1"]), ("big", vec!["jobs/big/1"])] {
        let path = format!("/v1/events?format=json&after={beginning}&pool={pool}");
        let page = server.get(&path).await.ok();
        let events = page["events"].as_array().expect("events");
        let found: Vec<_> = events.iter().map(|e| e["subject"].as_str().expect("key")).collect();
        assert_eq!(found, subjects);
        assert!(events.iter().all(|event| event["data"]["pool"] == pool));
    }
}

#[tokio::test]
async fn what_is_counted_is_counted_in_the_pool_of_its_key() {
    let server = Server::configured(POLICIES);
    let grant = server.acquire("jobs/1", "w", 20_000).await;
    server.acquire("a", "w", 20_000).await;
    server.post("/v1/heartbeat", &grant.proof()).await.ok();
    server.post("/v1/acquire", &acquire("jobs/1", 2000)).await.problem(409, "held-by-you");
    server.release(&grant).await;
    let counted = [
        ("tenure_lease_acquisitions_total{pool=\"jobs\",outcome=\"granted\"}", 1.0),
        ("tenure_lease_acquisitions_total{pool=\"jobs\",outcome=\"held\"}", 1.0),
        ("tenure_lease_acquisitions_total{pool=\"default\",outcome=\"granted\"}", 1.0),
        ("tenure_lease_acquisitions_total{pool=\"big\",outcome=\"granted\"}", 0.0),
        ("tenure_lease_heartbeats_total{pool=\"jobs\",outcome=\"alive\"}", 1.0),
        ("tenure_heartbeat_margin_ratio_count{pool=\"jobs\"}", 1.0),
        ("tenure_heartbeat_margin_ratio_count{pool=\"default\"}", 0.0),
        ("tenure_lease_acquire_duration_seconds_count{pool=\"jobs\"}", 1.0),
        ("tenure_lease_hold_duration_seconds_count{pool=\"jobs\"}", 1.0),
        ("tenure_lease_ended_total{pool=\"jobs\",reason=\"released\"}", 1.0),
        ("tenure_lease_ended_total{pool=\"default\",reason=\"released\"}", 0.0),
        ("tenure_leases_held{pool=\"jobs\"}", 0.0),
        ("tenure_leases_held{pool=\"default\"}", 1.0),
    ];
    for (series, value) in counted {
        // Ends are counted when they are published, which is after their answer.
        eventually(series, async || (server.metric(series).await - value).abs() < 0.1).await;
    }
}

/// A series of the recorder for every line that is no comment.
async fn series(server: &Server) -> usize {
    let text = server.get("/metrics").await.text();
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count()
}

#[tokio::test]
async fn a_pool_has_its_series_from_the_start() {
    let none = series(&Server::start()).await;
    let server = Server::configured(POLICIES);
    let fresh = series(&server).await;
    println!("series: {none} without pools, {fresh} with two");
    assert_eq!(fresh, none + 2 * SERIES_OF_A_POOL);
    assert!(none <= 500, "as docs/metrics.md says");
    server.acquire("jobs/1", "w", 20_000).await;
    assert_eq!(series(&server).await, fresh);
}

#[tokio::test]
async fn a_hangup_applies_the_policies_of_the_file_and_touches_no_held_lease() {
    let server = Server::configured(POLICIES);
    let grant = server.acquire("jobs/1", "w", 20_000).await;
    let applied = "tenure_config_reloads_total{outcome=\"applied\"}";
    let refused = "tenure_config_reloads_total{outcome=\"refused\"}";
    assert!(server.metric(applied).await.abs() < 0.1 && server.metric(refused).await.abs() < 0.1);
    let hang_up = async |config: &str, series: &str, times: f64| {
        server.configure(config);
        server.signal(Signal::HUP);
        eventually(series, async || (server.metric(series).await - times).abs() < 0.1).await;
    };
    let beat = async || {
        let alive = server.post("/v1/heartbeat", &grant.proof()).await.ok();
        assert_eq!(alive["token"], grant.token);
    };

    let other = concat!(
        "[limits]\nwait_max = \"1m\"\n",
        "[[policy]]\nprefix = \"jobs/\"\npool = \"fast\"\nttl_max = \"5s\"\n"
    );
    hang_up(other, applied, 1.0).await;
    beat().await;
    let lease = server.lease("jobs/1").await;
    assert_eq!((&lease["pool"], &lease["ttl_ms"]), (&json!("fast"), &json!(20_000)));
    assert_eq!(keys(&server, "pool=fast").await, ["jobs/1"]);
    let problem = server.post("/v1/acquire", &acquire("jobs/2", 20_000)).await.bad_field("ttl_ms");
    assert!(problem["detail"].as_str().expect("detail").contains("to 5000 in pool fast"));
    server.acquire("cron/1", "w", 40_000).await;
    for (pool, held) in [("jobs", 0.0), ("fast", 1.0)] {
        let series = format!("tenure_leases_held{{pool=\"{pool}\"}}");
        eventually(&series, async || (server.metric(&series).await - held).abs() < 0.1).await;
    }
    eventually("the warning", async || {
        let said = server.said();
        said.contains("limits.wait_max") && said.contains("need a restart")
    })
    .await;

    let wrong = "[[policy]]\nprefix = \"a\"\nlock_delay = \"2m\"\ncolour = 1\n[limits]\nkeys = 0\n";
    hang_up(wrong, refused, 1.0).await;
    eventually("every fault", async || {
        let said = server.said();
        let faults = [":3: policy.lock_delay", ":4: policy.colour", ":6: limits.keys"];
        faults.iter().all(|fault| said.contains(fault))
    })
    .await;
    beat().await;
    server.post("/v1/acquire", &acquire("jobs/2", 20_000)).await.bad_field("ttl_ms");

    hang_up("", applied, 2.0).await;
    beat().await;
    assert_eq!(server.lease("jobs/1").await["pool"], "default");
    server.acquire("jobs/2", "w", 86_400_000).await;
    server.release(&grant).await;
    assert!(server.acquire("jobs/1", "v", 100_000).await.token > grant.token);
}

#[tokio::test]
async fn with_strict_prefixes_only_keys_that_a_policy_names_are_granted() {
    let server = Server::configured(
        "[limits]\nstrict_prefixes = true\n[[policy]]\nprefix = \"jobs/\"\npool = \"jobs\"\n",
    );
    server.acquire("jobs/1", "w", 1000).await;
    let body = |key: &str| json!({ "key": key, "owner": "w", "ttl_ms": 1000 });
    let refused = server.post("/v1/acquire", &body("job/2")).await.problem(400, "invalid-field");
    assert_eq!(refused["field"], "key");
    let any = json!({ "keys": ["jobs/2", "jbos/3"], "owner": "w", "ttl_ms": 1000 });
    let refused = server.post("/v1/acquire-any", &any).await.problem(400, "invalid-field");
    assert_eq!(refused["field"], "keys");
    assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains("jbos/3")));
    // A session is no key of anybody's.
    server.session("w", 1000, json!({})).await;
}

#[tokio::test]
async fn with_strict_prefixes_an_acquire_any_passes_over_keys_that_no_policy_names() {
    let server = Server::configured("");
    for key in ["jobs/1", "jobs-old", "other"] {
        let grant = server.acquire(key, "w", 1000).await;
        server.release(&grant).await;
    }
    server.configure(
        "[limits]\nstrict_prefixes = true\n[[policy]]\nprefix = \"jobs/\"\npool = \"jobs\"\n",
    );
    let server = server.kill().restart();
    let any = |prefix: &str, count: u32| json!({ "prefix": prefix, "owner": "w", "ttl_ms": 1000, "count": count });
    let granted = server.post("/v1/acquire-any", &any("job", 3)).await.ok();
    let keys: Vec<_> = granted["grants"].as_array().expect("grants").iter().collect();
    assert_eq!(keys.len(), 1, "{granted}");
    assert_eq!(keys[0]["key"], "jobs/1");
    let none = server.post("/v1/acquire-any", &any("other", 1)).await;
    assert_eq!(none.problem(409, "none-available")["counts"]["keys"], 0);
}

#[tokio::test]
async fn with_strict_prefixes_a_fair_call_passes_over_keys_that_no_policy_names() {
    let server = Server::configured("");
    let grant = server.acquire("old", "w", 1000).await;
    server.release(&grant).await;
    server.configure("[limits]\nstrict_prefixes = true\n");
    let server = server.kill().restart();
    let session = server.session("w", 10_000, json!({ "pool": "default" })).await;
    for wait_ms in [0, 300] {
        let fair = json!({ "pool": "default", "owner": "w", "session": session.id, "count": "fair", "wait_ms": wait_ms });
        let none = server.post("/v1/acquire-any", &fair).await.problem(409, "none-available");
        assert_eq!(none["counts"]["keys"], 0, "{wait_ms}: {none}");
    }
}
