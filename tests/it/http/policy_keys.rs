//! `keys` of a `[[policy]]`: how many keys may exist whose policy it is.

use futures_util::future::join_all;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::harness::{Server, eventually};

const POLICIES: &str = r#"
[[policy]]
prefix = "jobs/"
keys = 3

[[policy]]
prefix = "jobs/big/"

[[policy]]
prefix = "cron/"
keys = 1
"#;

fn acquire(key: &str) -> Value {
    json!({ "key": key, "owner": "w", "ttl_ms": 60_000 })
}

async fn full(server: &Server, key: &str, prefix: &str, keys: u64) {
    let full = server.post("/v1/acquire", &acquire(key)).await.problem(507, "too-many-keys");
    let detail = full["detail"].as_str().expect("a detail");
    let told = [format!("{prefix:?}"), format!("keys = {keys}")];
    assert!(told.iter().all(|part| detail.contains(part)), "{detail}");
    assert_eq!(full["retryable"], false);
}

#[tokio::test]
async fn a_policys_keys_are_bounded_and_no_others() {
    let server = Server::configured(POLICIES);
    let mut grants = Vec::new();
    for n in 0..3 {
        grants.push(server.acquire(&format!("jobs/{n}"), "w", 60_000).await);
    }
    full(&server, "jobs/3", "jobs/", 3).await;
    let pin = json!({ "key": "jobs/3", "by": "ops" });
    server.post("/v1/admin/pin", &pin).await.problem(507, "too-many-keys");
    // A wait does not turn the refusal into contention.
    let waits = json!({ "key": "jobs/4", "owner": "w", "ttl_ms": 1000, "wait_ms": 5000 });
    server.post("/v1/acquire", &waits).await.problem(507, "too-many-keys");
    server.get("/v1/leases/jobs/3").await.problem(404, "unknown-key");
    // Longer prefixes have policies of their own, and sessions have none.
    for n in 0..5 {
        server.acquire(&format!("jobs/big/{n}"), "w", 60_000).await;
        server.acquire(&format!("other/{n}"), "w", 60_000).await;
        server.session("w", 60_000, json!({})).await;
    }
    server.acquire("cron/1", "w", 60_000).await;
    full(&server, "cron/2", "cron/", 1).await;
    // Of several keys those are granted that may be.
    let any = json!({ "keys": ["jobs/5", "more/1", "cron/3", "more/2"], "owner": "w",
                      "ttl_ms": 1000, "count": 4, "order": "listed" });
    let granted = server.post("/v1/acquire-any", &any).await.ok();
    let granted = granted["grants"].as_array().expect("grants").iter();
    let granted: Vec<_> = granted.map(|one| one["key"].clone()).collect();
    assert_eq!(granted, ["more/1", "more/2"]);
    let any = json!({ "keys": ["jobs/5", "cron/3"], "owner": "w", "ttl_ms": 1000 });
    server.post("/v1/acquire-any", &any).await.problem(507, "too-many-keys");
    // Keys that are there go on.
    for grant in &grants {
        server.post("/v1/heartbeat", &grant.proof()).await.ok();
        server.release(grant).await;
        server.acquire(&grant.key, "w2", 60_000).await;
    }
    server.get("/readyz").await.ok();
}

#[tokio::test]
async fn of_many_new_keys_at_once_just_as_many_are_granted_as_may_be() {
    let server = Server::configured("[[policy]]\nprefix = \"jobs/\"\nkeys = 7\n");
    let keys: Vec<_> = (0..60).map(|n| acquire(&format!("jobs/{n}"))).collect();
    let asked = keys.iter().map(|body| server.post("/v1/acquire", body));
    let statuses: Vec<_> = join_all(asked).await.into_iter().map(|reply| reply.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 7, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 507).count(), 53, "{statuses:?}");
}

#[tokio::test]
async fn after_a_restart_what_exists_is_counted() {
    let server = Server::configured(POLICIES);
    for n in 0..3 {
        let grant = server.acquire(&format!("jobs/{n}"), "w", 60_000).await;
        server.release(&grant).await;
    }
    let server = server.kill().restart();
    full(&server, "jobs/3", "jobs/", 3).await;
    server.acquire("jobs/0", "w2", 60_000).await;
    server.acquire("cron/1", "w2", 60_000).await;
}

#[tokio::test]
async fn a_hangup_applies_other_bounds_to_what_exists() {
    let server = Server::configured(POLICIES);
    let mut times = 0.0;
    let mut hang_up = async |config: &str| {
        times += 1.0;
        server.configure(config);
        server.signal(Signal::HUP);
        let applied = "tenure_config_reloads_total{outcome=\"applied\"}";
        eventually(applied, async || (server.metric(applied).await - times).abs() < 0.1).await;
    };
    for key in ["jobs/1", "jobs/2", "jobs/big/1", "jobs/big/2", "jobs/big/3", "x/1", "x/2"] {
        server.acquire(key, "w", 60_000).await;
    }
    // A bound alone: two of three are there.
    hang_up(&POLICIES.replace("keys = 3", "keys = 2")).await;
    full(&server, "jobs/3", "jobs/", 2).await;
    hang_up(POLICIES).await;
    server.acquire("jobs/3", "w", 60_000).await;
    full(&server, "jobs/4", "jobs/", 3).await;
    // Other prefixes: without the longer one, six keys are of the policy; the one of all counts two.
    hang_up("[[policy]]\nprefix = \"jobs/\"\nkeys = 7\n[[policy]]\nprefix = \"\"\nkeys = 3\n")
        .await;
    server.acquire("jobs/4", "w", 60_000).await;
    full(&server, "jobs/5", "jobs/", 7).await;
    server.acquire("x/3", "w", 60_000).await;
    full(&server, "x/4", "", 3).await;
    hang_up("").await;
    server.acquire("jobs/5", "w", 60_000).await;
    server.acquire("x/4", "w", 60_000).await;
}
