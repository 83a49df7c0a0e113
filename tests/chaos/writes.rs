//! The store is written to for changes of ownership and for the nodes themselves, never for a heartbeat.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    clock::{nanos, now, sleep_ms},
    node::{NODE_TTL_MS, Node},
    run::{Plan, Stage, Verdict, orders},
};

const BEAT_MS: u64 = 3_000;
const TTL_MS: u64 = 10_000;
const OWNERS: usize = 6;

/// How many leases are kept, and for how long.
fn size(plan: &Plan) -> (usize, u64) {
    if plan.seconds > 0 { (20_000, 60_000) } else { (2_000, 12_000) }
}

/// Nobody takes a lease, nobody gives one back, and every owner keeps its own.
pub async fn run(plan: &Plan) -> Verdict {
    let (wanted, span_ms) = size(plan);
    let stage = Stage::set(plan, 0, orders(plan.seed)).await;
    let nodes = &stage.world.nodes;
    let held = take(nodes, wanted).await;
    let leases: usize = held.iter().map(Vec::len).sum();
    // What was written for the grants is counted by now.
    sleep_ms(500).await;
    if leases < wanted {
        // A slow store left a few in doubt, which run out by themselves.
        beat_for(nodes, &held, TTL_MS + BEAT_MS).await;
    }
    let (began, before) = (now(), writes(nodes).await);
    let beats = beat_for(nodes, &held, span_ms).await;
    let span = Duration::from_nanos(now() - began);
    let written = writes(nodes).await - before;
    let renewal = NODE_TTL_MS as f64 / 4_000.0;
    // Nothing changed its owner.
    let most = nodes.len() as f64 * span.as_secs_f64() / renewal * 1.1;
    let said = format!(
        "{beats} heartbeats of {leases} leases in {span:?}: {written} writes, at most {most:.0}"
    );
    assert!(beats as u64 >= leases as u64 * (span_ms / BEAT_MS - 1), "{said}");
    assert!(written as f64 <= most, "{said}");
    assert!(written > 0, "the nodes keep their own records: {said}");
    Verdict { struck: vec![said], ..Verdict::default() }
}

/// Takes so many leases for the owners, but for the few that a slow store left in doubt.
async fn take(nodes: &[Node], leases: usize) -> Vec<Vec<Value>> {
    let proof = |grant: &Value| json!({ "key": grant["key"], "lease_id": grant["lease_id"] });
    let keys: Vec<String> = (0..leases).map(|n| format!("held/{n:05}")).collect();
    let mut held: Vec<Vec<Value>> = Vec::new();
    for (n, keys) in keys.chunks(leases.div_ceil(OWNERS)).enumerate() {
        let mut taken = Vec::new();
        for some in keys.chunks(100) {
            let owner = format!("w{n}");
            let body =
                json!({ "keys": some, "count": some.len(), "owner": owner, "ttl_ms": TTL_MS });
            let answer = post(&nodes[n % nodes.len()], "/v1/acquire-any", &body).await;
            taken.extend(answer["grants"].as_array().expect("grants").iter().map(proof));
        }
        assert!(taken.len() * 20 >= keys.len() * 19, "{} of {}", taken.len(), keys.len());
        held.push(taken);
        // Those that were taken first are kept meanwhile.
        beat(nodes, &held).await;
    }
    held
}

/// Heartbeats for so long. How many leases were kept, counted at each.
async fn beat_for(nodes: &[Node], held: &[Vec<Value>], span_ms: u64) -> usize {
    let (mut kept, mut due) = (0, now());
    let end = due + nanos(span_ms);
    while now() < end {
        kept += beat(nodes, held).await;
        due += nanos(BEAT_MS);
        tokio::time::sleep(Duration::from_nanos(due.saturating_sub(now()))).await;
    }
    kept
}

/// One batch of each owner. How many leases were kept.
async fn beat(nodes: &[Node], held: &[Vec<Value>]) -> usize {
    let mut kept = 0;
    for (n, leases) in held.iter().enumerate() {
        let body = json!({ "leases": leases });
        let answer = post(&nodes[n % nodes.len()], "/v1/heartbeats", &body).await;
        let verdicts = answer["results"].as_array().expect("results");
        for verdict in verdicts {
            assert_eq!(verdict["status"], 200, "{verdict}");
        }
        kept += verdicts.len();
    }
    kept
}

async fn post(node: &Node, path: &str, body: &Value) -> Value {
    let (status, answer) = node.post(path, body).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

async fn writes(nodes: &[Node]) -> u64 {
    let mut all = 0;
    for node in nodes {
        let written = node.metric("tenure_store_writes_total").await;
        assert!(written > 0, "{} does not tell what it wrote", node.place);
        all += written;
    }
    all
}
