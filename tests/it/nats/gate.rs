//! An application's own publish, conditional on a tenure (§8).

use async_nats::HeaderMap;
use tenure::{
    lease::Revision,
    store::{Gate, LeaseStore},
};

use crate::nats::harness::{committed, context, grant, key, open};

use crate::support::nats_server::Server;

/// Publishes as an application would, with nothing but what the gate says.
async fn publish(context: &async_nats::jetstream::Context, gate: &Gate, name: &str) -> bool {
    let Gate::Nats { stream, publish_prefix, subject, expected_last_sequence } = gate else {
        panic!("{gate:?}");
    };
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Expected-Stream", stream.as_str());
    headers
        .insert("Nats-Expected-Last-Subject-Sequence", expected_last_sequence.to_string().as_str());
    headers.insert("Nats-Expected-Last-Subject-Sequence-Subject", subject.as_str());
    let to = format!("{publish_prefix}{name}");
    context.publish_with_headers(to, headers, "work".into()).await.unwrap().await.is_ok()
}

#[tokio::test]
async fn a_publish_passes_for_the_present_tenure_only() {
    let server = Server::start();
    let store = open(&server.url()).await;
    let context = context(&server.url()).await;
    let gate = || async {
        let found = store.read(&key("k")).await.unwrap().unwrap();
        store.gate(&key("k"), &found).expect("it is held")
    };
    let first = committed(store.compare_and_set(grant("k", Revision::ABSENT, "w1", 1)).await);
    let of_first = gate().await;
    assert!(publish(&context, &of_first, "orders.1").await);
    assert!(publish(&context, &of_first, "orders.1").await, "as often as it likes");
    committed(store.compare_and_set(grant("other", Revision::ABSENT, "w1", 1)).await);
    assert!(publish(&context, &of_first, "orders.2").await, "other keys do not matter");

    // The same owner gets the key again: another tenure.
    committed(store.compare_and_set(grant("k", first, "w1", 2)).await);
    assert!(!publish(&context, &of_first, "orders.1").await);
    let of_second = gate().await;
    assert!(publish(&context, &of_second, "orders.1").await);
    assert!(!publish(&context, &of_first, "orders.9").await);
}
