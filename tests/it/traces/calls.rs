//! Which calls are traced, and as a part of what.

use serde_json::json;
use tenure::client::{Client, Hold};

use crate::{
    support::clock::{ms, sleep_ms},
    traces::{
        SPAN, TRACE,
        collector::{Collector, Manner, Span},
        node::Node,
        parent,
    },
};

/// A traced call after which everything that was to be sent before it was sent.
async fn marker(node: &Node, collector: &Collector) -> Span {
    let headers = [("traceparent", "00-000000000000000000000000000000aa-00000000000000bb-01")];
    let body = json!({"key": "marker", "owner": "marker", "ttl_ms": 60_000, "reclaim": true});
    assert_eq!(node.call("/v1/acquire", &headers, &body).await.0, 200);
    collector.child("POST /v1/acquire", "00000000000000bb").await
}

#[tokio::test]
async fn whatever_is_no_parent_counts_as_absent_and_without_a_ratio_nothing_begins() {
    let collector = Collector::start(Manner::Takes);
    let node = Node::start(&collector, &[]).await;
    let unsampled = parent().replace("-01", "-00");
    let upper = parent().to_uppercase();
    let malformed = ["", "garbage", &*upper, "00-0-0-01", &*unsampled];
    for (number, header) in malformed.into_iter().enumerate() {
        let body = json!({"key": format!("k{number}"), "owner": "o", "ttl_ms": 60_000});
        let (status, answer) = node.call("/v1/acquire", &[("traceparent", header)], &body).await;
        assert_eq!(status, 200, "{header:?}: {answer}");
    }
    let twice = [("traceparent", &*parent()), ("traceparent", &*parent())];
    let body = json!({"key": "twice", "owner": "o", "ttl_ms": 60_000});
    assert_eq!(node.call("/v1/acquire", &twice, &body).await.0, 200);
    marker(&node, &collector).await;
    for span in collector.spans() {
        assert_eq!(span.trace, "000000000000000000000000000000aa", "{span:?}");
    }
}

#[tokio::test]
async fn with_a_ratio_calls_begin_traces_of_their_own_and_heartbeats_do_not() {
    let collector = Collector::start(Manner::Takes);
    let node = Node::start(&collector, &["telemetry.trace_ratio=1"]).await;
    let body = json!({"key": "a", "owner": "o", "ttl_ms": 60_000});
    let (_, grant) = node.call("/v1/acquire", &[("traceparent", "garbage")], &body).await;
    let unsampled = parent().replace("-01", "-00");
    let body = json!({"key": "b", "owner": "o", "ttl_ms": 60_000});
    assert_eq!(node.call("/v1/acquire", &[("traceparent", &unsampled)], &body).await.0, 200);
    let proof = json!({"key": "a", "lease_id": grant["lease_id"]});
    for _ in 0..3 {
        assert_eq!(node.call("/v1/heartbeat", &[], &proof).await.0, 200);
    }
    let sampled = [("traceparent", &*parent())];
    assert_eq!(node.call("/v1/heartbeat", &sampled, &proof).await.0, 200);
    let beat = collector.child("POST /v1/heartbeat", SPAN).await;
    assert_eq!((&*beat.trace, beat.attribute("tenure.key")), (TRACE, "a"));
    assert_eq!(beat.attribute("tenure.token"), grant["token"].to_string());
    marker(&node, &collector).await;
    let spans = collector.spans();
    let beats = spans.iter().filter(|span| span.name == "POST /v1/heartbeat").count();
    assert_eq!(beats, 1, "the one with a sampled parent");
    let is_first =
        |span: &&Span| span.name == "POST /v1/acquire" && span.attribute("tenure.key") == "a";
    let first = spans.iter().find(is_first).expect("the acquire is traced");
    assert!(
        first.parent.is_empty() && first.trace.len() == 32 && first.trace != TRACE,
        "{first:?}"
    );
    assert!(spans.iter().all(|span| span.attribute("tenure.key") != "b"), "the caller said no");
    assert!(spans.iter().all(|span| span.attribute("http.route") != "/readyz"));
}

#[tokio::test]
async fn a_refusal_has_its_code_and_a_waiter_that_gives_up_has_its_wait() {
    let collector = Collector::start(Manner::Takes);
    let node = Node::start(&collector, &[]).await;
    let body = json!({"key": "a", "owner": "one", "ttl_ms": 60_000});
    assert_eq!(node.call("/v1/acquire", &[], &body).await.0, 200);
    let body = json!({"key": "a", "owner": "two", "ttl_ms": 60_000, "wait_ms": 300});
    let (status, _) = node.call("/v1/acquire", &[("traceparent", &*parent())], &body).await;
    assert_eq!(status, 409);
    let call = collector.child("POST /v1/acquire", SPAN).await;
    assert_eq!(call.attribute("tenure.code"), "held");
    assert_eq!(call.attribute("http.response.status_code"), "409");
    assert!(!call.failed, "the caller is told that the key is held");
    let queue = collector.child("tenure.queue", &call.id).await;
    assert!(queue.to - queue.from >= 250_000_000, "{queue:?}");
    let spans = collector.spans();
    assert!(spans.iter().all(|span| span.name != "tenure.store.write"), "nothing was written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_sends_the_parent_that_its_caller_gives_and_not_with_heartbeats() {
    let collector = Collector::start(Manner::Takes);
    let node = Node::start(&collector, &[]).await;
    let client = Client::new(&node.process.url).expect("an address").traced(&parent());
    let lease = client.hold(Hold::key("c").owner("w").ttl(ms(900))).await.expect("a grant");
    sleep_ms(2500).await;
    assert!(lease.valid(), "heartbeats went on");
    drop(client.leases(&tenure::client::LeaseFilter::default()).await.expect("a list"));
    let call = collector.child("POST /v1/acquire", SPAN).await;
    assert_eq!(call.attribute("tenure.owner"), "w");
    collector.child("GET /v1/leases", SPAN).await;
    marker(&node, &collector).await;
    let spans = collector.spans();
    assert!(spans.iter().all(|span| !span.name.contains("heartbeat")), "{spans:?}");
}

#[tokio::test]
async fn a_node_that_stops_sends_its_last_spans() {
    let collector = Collector::start(Manner::Takes);
    let mut node = Node::start(&collector, &[]).await;
    let body = json!({"key": "last", "owner": "o", "ttl_ms": 60_000});
    assert_eq!(node.call("/v1/acquire", &[("traceparent", &*parent())], &body).await.0, 200);
    node.process.stop().await;
    let spans = collector.spans();
    assert!(spans.iter().any(|span| span.parent == SPAN), "{spans:?}");
}
