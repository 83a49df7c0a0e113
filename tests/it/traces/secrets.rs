//! No span has a secret.

use serde_json::{Value, json};

use crate::traces::{
    collector::{Collector, Manner},
    node::Node,
};

/// A value, and the header of a collector.
const VALUE: &str = "canary-of-a-value";
const HEADER: &str = "canary-of-a-header";

fn text(answer: &Value, name: &str) -> String {
    answer[name].as_str().unwrap_or_else(|| panic!("{name} in {answer}")).to_owned()
}

#[tokio::test]
async fn no_span_has_a_lease_id_a_value_or_the_id_of_a_session() {
    let collector = Collector::start(Manner::Takes);
    let headers = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(headers.path(), format!("authorization: Bearer {HEADER}\n")).expect("written");
    let file = format!("telemetry.otlp_headers_file={}", headers.path().display());
    let node = Node::start(&collector, &["telemetry.trace_ratio=1", &file]).await;
    let call = async |path: &str, body: Value| {
        let (status, answer) = node.call(path, &[], &body).await;
        assert!((200..300).contains(&status), "{path}: {answer}");
        answer
    };
    let mut secrets = vec![VALUE.to_owned()];
    let owned = json!({"key": "a", "owner": "o", "ttl_ms": 60_000, "value": VALUE});
    let lease = text(&call("/v1/acquire", owned).await, "lease_id");
    call("/v1/heartbeat", json!({"key": "a", "lease_id": lease, "value": VALUE})).await;
    call("/v1/release", json!({"key": "a", "lease_id": lease, "value": VALUE})).await;
    secrets.push(lease);
    let session = text(&call("/v1/sessions", json!({"owner": "o", "ttl_ms": 60_000})).await, "id");
    let under = json!({"key": "b", "owner": "o", "session": session, "value": VALUE});
    secrets.push(text(&call("/v1/acquire", under).await, "lease_id"));
    let any = json!({"keys": ["c", "d"], "owner": "o", "ttl_ms": 60_000, "count": 2});
    let grants = call("/v1/acquire-any", any).await;
    let grants = grants["grants"].as_array().expect("grants").clone();
    secrets.extend(grants.iter().map(|grant| text(grant, "lease_id")));
    let (key, lease) = (&grants[0]["key"], &grants[0]["lease_id"]);
    call("/v1/transfer", json!({"key": key, "lease_id": lease, "to": "p", "value": VALUE})).await;
    call(&format!("/v1/sessions/{session}/heartbeat"), json!({})).await;
    call(&format!("/v1/sessions/{session}/drain"), json!({})).await;
    let (status, _) = node.process.delete(&format!("/v1/sessions/{session}")).await;
    assert_eq!(status, 200);
    secrets.push(session);

    let closed = collector.span("the last call", |span| span.name.starts_with("DELETE ")).await;
    assert_eq!(closed.attribute("http.route"), "/v1/sessions/{id}");
    for text in collector.texts() {
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.contains(HEADER), "the collector is sent its header");
        let told: Vec<_> = secrets.iter().filter(|secret| text.contains(&***secret)).collect();
        assert!(told.is_empty() && !body.contains(HEADER), "{told:?} in {text}");
    }
    assert!(!node.process.said().contains(HEADER));
    // The test would see them: what may be told is told.
    let keys: Vec<String> =
        collector.spans().iter().map(|span| span.attribute("tenure.key").to_owned()).collect();
    assert!(keys.iter().any(|key| key == "a") && keys.iter().any(|key| key == "b"), "{keys:?}");
}
