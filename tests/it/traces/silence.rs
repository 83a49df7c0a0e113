//! A collector that hangs or refuses holds up no call, and what it does not take is counted.

use futures_util::{StreamExt as _, stream};
use serde_json::json;

use crate::{
    support::clock::{eventually, ms, now},
    traces::{
        collector::{Collector, Manner},
        node::Node,
        parent,
    },
};

const DROPPED: &str = "tenure_trace_spans_dropped_total";
/// More than a queue and a request hold.
const BEATS: usize = 6000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_hangs_slows_no_call_and_the_queue_stays_bounded() {
    let collector = Collector::start(Manner::Hangs);
    let mut node = Node::start(&collector, &[]).await;
    let body = json!({"key": "a", "owner": "o", "ttl_ms": 60_000});
    let (status, grant) = node.call("/v1/acquire", &[], &body).await;
    assert_eq!(status, 200, "{grant}");
    let (proof, parent) = (json!({"key": "a", "lease_id": grant["lease_id"]}), parent());
    let beat = |_| async {
        let began = now();
        let headers = [("traceparent", &*parent)];
        let (status, answer) = node.call("/v1/heartbeat", &headers, &proof).await;
        assert_eq!(status, 200, "{answer}");
        now().since(began)
    };
    let took: Vec<_> = stream::iter(0..BEATS).map(beat).buffer_unordered(16).collect().await;
    let longest = took.iter().max().expect("there are some");
    // The collector would answer after 5 s at the soonest: never.
    assert!(*longest < ms(3_000), "{longest:?}");
    assert!(!collector.texts().is_empty(), "it was sent something");
    assert!(node.process.metric(&format!("{DROPPED}{{reason=\"queue-full\"}}")).await > 0.0);
    let began = now();
    node.process.stop().await;
    assert!(now().since(began) < ms(15_000), "the stop waits for the collector for 2 s");
}

#[tokio::test]
async fn what_a_collector_refuses_is_counted() {
    let collector = Collector::start(Manner::Refuses);
    let node = Node::start(&collector, &[]).await;
    assert_eq!(node.process.metric(DROPPED).await, 0.0);
    let body = json!({"key": "a", "owner": "o", "ttl_ms": 60_000});
    assert_eq!(node.call("/v1/acquire", &[("traceparent", &*parent())], &body).await.0, 200);
    // The call, its mailbox and its write.
    eventually("three spans are lost", async || {
        node.process.metric(&format!("{DROPPED}{{reason=\"not-accepted\"}}")).await >= 3.0
    })
    .await;
    eventually("the log says so", async || {
        node.process.said().contains("the collector of traces takes no spans")
    })
    .await;
}
