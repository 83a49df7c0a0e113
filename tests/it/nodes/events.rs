//! Events of all nodes, at any node.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::nodes::{
    on_both_stores,
    pair::{DEATH_MS, Pair, acquire},
};

use crate::support::{
    clock::{ms, within},
    node::Node,
};

on_both_stores!(every_node_tells_the_same_history, a_cursor_of_one_node_is_good_at_another);

/// Everything after a cursor, and the next cursor.
pub async fn events_after(node: &Node, after: &str) -> (Vec<Value>, String) {
    let (mut events, mut after) = (Vec::new(), after.to_owned());
    loop {
        let page = node.get(&format!("/v1/events?format=json&after={after}")).await;
        assert_eq!(page["reset"], false, "{page}");
        let more = page["events"].as_array().expect("events").clone();
        after = page["next"].as_str().expect("a cursor").to_owned();
        if more.is_empty() {
            return (events, after);
        }
        events.extend(more);
    }
}

/// The history's end is there after a moment: the feed of a node follows the store.
pub async fn all_events(node: &Node, expected: usize) -> Vec<Value> {
    let mut events = Vec::new();
    let there = within(ms(2 * DEATH_MS), async || {
        events = events_after(node, "0").await.0;
        events.len() >= expected
    });
    assert!(there.await, "{} of {expected}", events.len());
    events
}

async fn every_node_tells_the_same_history(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    for round in 0..30 {
        let (one, other) = if round % 2 == 0 { (a, b) } else { (b, a) };
        let grant = acquire(one, &format!("key/{}", round % 6), "w", 30_000).await;
        other.post("/v1/release", &grant.proof()).await;
    }
    let (at_a, at_b) = (all_events(a, 60).await, all_events(b, 60).await);
    let plain = |events: &[Value]| -> Vec<Value> {
        events.iter().map(|event| event["data"].clone()).collect()
    };
    assert_eq!(plain(&at_a), plain(&at_b));
    let mut seqs: BTreeMap<&str, u64> = BTreeMap::new();
    for event in &at_a {
        let seq = seqs.entry(event["subject"].as_str().expect("a key")).or_default();
        *seq += 1;
        assert_eq!(event["data"]["seq"], *seq);
        let node = event["data"]["node"].as_str().expect("who did it");
        assert!(node == a.url || node == b.url);
    }
    assert_eq!(seqs.values().sum::<u64>(), 60);
}

async fn a_cursor_of_one_node_is_good_at_another(mut pair: Pair) {
    for n in 0..5 {
        acquire(&pair.a, &format!("before/{n}"), "w", 30_000).await;
    }
    all_events(&pair.a, 5).await;
    let (_, cursor) = events_after(&pair.a, "0").await;
    pair.a.stop().await;
    for n in 0..5 {
        acquire(&pair.b, &format!("after/{n}"), "w", 30_000).await;
    }
    all_events(&pair.b, 10).await;
    let (events, _) = events_after(&pair.b, &cursor).await;
    let keys: Vec<_> = events.iter().map(|event| event["subject"].clone()).collect();
    assert_eq!(keys, (0..5).map(|n| format!("after/{n}")).collect::<Vec<_>>());
}
