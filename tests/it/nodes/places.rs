//! A pool whose keys go where their policies say, with members at two nodes.

use serde_json::json;

use crate::nodes::{on_both_stores, pair::Pair};
use crate::support::{
    clock::{ms, within},
    node::Node,
    pool_worker::Worker,
};

on_both_stores!(members_at_two_nodes_get_the_keys_that_their_labels_allow,);

/// How long a pool may take to settle, on a machine that is busy with other tests.
const SETTLE_MS: u64 = 60_000;

fn keys() -> Vec<String> {
    (0..12).map(|at| format!("placed/{at:02}")).collect()
}

async fn join(node: &Node, owner: &str, gpu: &str) -> Worker {
    let body =
        json!({ "owner": owner, "ttl_ms": 6_000, "pool": "placed", "labels": { "gpu": gpu } });
    let mut worker = Worker::join_with(&node.url, owner, &body).await;
    worker.work(keys());
    worker
}

async fn settles(workers: &[&Worker], wanted: &[usize]) {
    let held = || workers.iter().map(|worker| worker.held()).collect::<Vec<_>>();
    let settled = within(ms(SETTLE_MS), async || held() == wanted).await;
    assert!(settled, "{:?} instead of {wanted:?}", held());
}

async fn members_at_two_nodes_get_the_keys_that_their_labels_allow(mut pair: Pair) {
    let a = join(&pair.a, "a", "true").await;
    let b = join(&pair.b, "b", "false").await;
    let c = join(&pair.b, "c", "true").await;
    settles(&[&a, &b, &c], &[6, 0, 6]).await;
    // The other node learns of new labels, and the keys go where they may.
    b.label(json!({ "gpu": "true" })).await;
    a.label(json!({ "gpu": "false" })).await;
    settles(&[&a, &b, &c], &[0, 6, 6]).await;
    a.label(json!({ "gpu": "true" })).await;
    settles(&[&a, &b, &c], &[4, 4, 4]).await;
    pair.a.kill();
    drop(a);
    settles(&[&b, &c], &[6, 6]).await;
}
