//! A pool that is balanced by load, whose members are at home at two nodes.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::nodes::{on_both_stores, pair::Pair};
use crate::support::{
    clock::{ms, within},
    node::Node,
    pool_worker::{Worker, pool},
};

on_both_stores!(loads_of_members_at_two_nodes_are_even_and_outlive_a_node,);

const KEYS: usize = 30;
/// How long a pool may take to settle, on a machine that is busy with other tests.
const SETTLE_MS: u64 = 60_000;

/// One key as heavy as ten others: the sum is 39.
fn loads() -> BTreeMap<String, f64> {
    let key = |at| format!("heavy/{at:02}");
    (0..KEYS).map(|at| (key(at), if at == 3 { 10.0 } else { 1.0 })).collect()
}

async fn join(node: &Node, owner: &str) -> Worker {
    let mut worker = Worker::join(&node.url, "heavy", owner, 1, 6_000).await;
    worker.report(&loads());
    worker.work(loads().into_keys().collect());
    worker
}

/// The load and the number of leases of each member, as a node sees them.
async fn carried(node: &Node) -> (Value, Vec<(f64, u64)>) {
    let (seen, _) = pool(&node.url, "heavy").await;
    let members = seen["members"].as_array().expect("members").iter();
    let of = |member: &Value| {
        (member["load"].as_f64().unwrap_or(-1.0), member["held"].as_u64().expect("a number"))
    };
    let carried = members.map(of).collect();
    (seen, carried)
}

async fn even(nodes: &[&Node], members: usize) {
    let mut last = Value::Null;
    let even = within(ms(SETTLE_MS), async || {
        for node in nodes {
            let (seen, carried) = carried(node).await;
            last = seen;
            let mean = 39.0 / members as f64;
            let held: u64 = carried.iter().map(|(_, held)| held).sum();
            let fits = |load: f64| (0.85 * mean..=1.11 * mean).contains(&load);
            if held != KEYS as u64
                || carried.len() != members
                || !carried.iter().all(|(load, _)| fits(*load))
            {
                return false;
            }
        }
        true
    })
    .await;
    assert!(even, "loads are not even: {last:#}");
}

async fn loads_of_members_at_two_nodes_are_even_and_outlive_a_node(mut pair: Pair) {
    let mut workers = Vec::new();
    for (owner, node) in [("a", &pair.a), ("b", &pair.b), ("c", &pair.b)] {
        workers.push(join(node, owner).await);
    }
    even(&[&pair.a, &pair.b], 3).await;
    // The member at the node that dies loses its session; what it had goes to the others by its load.
    pair.a.kill();
    workers.remove(0);
    even(&[&pair.b], 2).await;
}
