//! The store is written to for changes of ownership and for the nodes themselves, never for a
//! heartbeat.

use serde_json::{Value, json};

use crate::cluster::{
    cluster::{Cluster, NODE_TTL_MS},
    long,
};

use crate::support::{
    clock::{ms, now, sleep_ms, within},
    node::Node,
    servers::Servers,
};

const BEAT_MS: u64 = 3_000;
const TTL_MS: u64 = 10_000;
const OWNERS: usize = 6;

fn proof(grant: &Value) -> Value {
    json!({ "key": grant["key"], "lease_id": grant["lease_id"] })
}

/// Takes these keys, but for the few that a slow store left in doubt: those run out by themselves,
/// before anything is counted.
async fn take(node: &Node, owner: &str, keys: &[String]) -> Vec<Value> {
    let mut taken = Vec::new();
    for some in keys.chunks(100) {
        let body = json!({ "keys": some, "count": some.len(), "owner": owner, "ttl_ms": TTL_MS });
        let (status, answer) = node.post("/v1/acquire-any", &body).await;
        assert_eq!(status, 200, "{answer}");
        taken.extend(answer["grants"].as_array().expect("grants").iter().map(proof));
    }
    assert!(taken.len() * 20 >= keys.len() * 19, "{} of {}", taken.len(), keys.len());
    taken
}

async fn writes(cluster: &Cluster) -> f64 {
    let mut writes = 0.0;
    for node in &cluster.nodes {
        writes += node.metric("tenure_store_writes_total").await;
    }
    writes
}

pub async fn are_few(servers: Servers) {
    let (leases, span_ms): (usize, u64) = if long() { (20_000, 60_000) } else { (2_000, 15_000) };
    let cluster = Cluster::start(servers, 3, TTL_MS).await;
    let keys: Vec<String> = (0..leases).map(|n| format!("held/{n:05}")).collect();
    let nodes = cluster.nodes.len();
    let mut held = Vec::new();
    for (n, keys) in keys.chunks(leases.div_ceil(OWNERS)).enumerate() {
        held.push(take(&cluster.nodes[n % nodes], &format!("w{n}"), keys).await);
        // Those that were taken first are kept meanwhile.
        beat(&cluster, &held).await;
    }
    let wanted = leases;
    let leases: usize = held.iter().map(Vec::len).sum();
    // What was written for the grants is counted by now.
    sleep_ms(500).await;
    if leases < wanted {
        for _ in 0..TTL_MS / BEAT_MS + 1 {
            beat(&cluster, &held).await;
            sleep_ms(BEAT_MS).await;
        }
    }
    let (began, before) = (now(), writes(&cluster).await);
    let mut beats = 0;
    let whole = within(ms(span_ms), async || {
        let due = now() + ms(BEAT_MS);
        beats += beat(&cluster, &held).await;
        tokio::time::sleep(due.since(now())).await;
        now().since(began) >= ms(span_ms)
    });
    whole.await;
    let (span, written) = (now().since(began), writes(&cluster).await - before);
    let renewal = NODE_TTL_MS as f64 / 4_000.0;
    // Nothing changed its owner.
    let most = nodes as f64 * span.as_secs_f64() / renewal * 1.1;
    println!(
        "{beats} heartbeats of {leases} leases in {span:?}: {written} writes, at most {most:.0}"
    );
    assert!(beats as u64 >= leases as u64 * (span_ms / BEAT_MS - 1), "{beats}");
    assert!(written <= most, "{written} writes, and at most {most} were to be");
    assert!(written > 0.0, "the nodes keep their own records");
}

/// One batch of each owner. Returns how many leases were kept.
async fn beat(cluster: &Cluster, held: &[Vec<Value>]) -> usize {
    let mut kept = 0;
    for (n, leases) in held.iter().enumerate() {
        let node = &cluster.nodes[n % cluster.nodes.len()];
        let (status, answer) = node.post("/v1/heartbeats", &json!({ "leases": leases })).await;
        assert_eq!(status, 200, "{answer}");
        let verdicts = answer["results"].as_array().expect("results");
        for verdict in verdicts {
            assert_eq!(verdict["status"], 200, "{verdict}");
        }
        kept += verdicts.len();
    }
    kept
}
