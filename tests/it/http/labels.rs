//! Labels of the members of pools.

use serde_json::{Value, json};

use crate::support::harness::{Server, Session, eventually};

async fn member(server: &Server, labels: Value) -> Session {
    server.session("a", 60_000, json!({ "pool": "default", "labels": labels })).await
}

/// The labels of the only member, as its session and its pool show them.
async fn shown(server: &Server, session: &Session) -> Value {
    let of_session = server.get(&format!("/v1/sessions/{}", session.id)).await.ok();
    let of_pool = server.get("/v1/pools/default").await.ok();
    assert_eq!(of_session["labels"], of_pool["members"][0]["labels"], "{of_session} {of_pool}");
    of_session["labels"].clone()
}

#[tokio::test]
async fn labels_are_replaced_as_a_whole_removed_by_null_and_survive_a_restart() {
    let server = Server::start();
    let a = member(&server, json!({ "gpu": "true", "zone": "a" })).await;
    assert_eq!(shown(&server, &a).await, json!({ "gpu": "true", "zone": "a" }));
    let beat = async |server: &Server, body: Value| {
        server.post(&a.heartbeat_path(), &body).await.ok();
        shown(server, &a).await
    };
    assert_eq!(beat(&server, json!({ "labels": { "zone": "b" } })).await, json!({ "zone": "b" }));
    // A heartbeat without labels leaves them as they are.
    assert_eq!(beat(&server, json!({ "progress": "1" })).await, json!({ "zone": "b" }));
    let server = server.kill().restart();
    eventually("the pool is known again", async || {
        server.get("/v1/pools/default").await.ok()["members"][0] != Value::Null
    })
    .await;
    assert_eq!(shown(&server, &a).await, json!({ "zone": "b" }));
    assert_eq!(beat(&server, json!({ "labels": null })).await, json!({}));
    assert_eq!(beat(&server, json!({ "labels": { "a": "1" } })).await, json!({ "a": "1" }));
    assert_eq!(beat(&server, json!({ "labels": {} })).await, json!({}));
}

/// Like any field that need not be given.
#[tokio::test]
async fn a_session_may_be_opened_with_labels_that_are_null() {
    let server = Server::start();
    let a = member(&server, Value::Null).await;
    assert_eq!(shown(&server, &a).await, json!({}));
    let alone = server.session("b", 60_000, json!({ "labels": null })).await;
    for said in [json!({ "ready": true }), json!({ "labels": { "zone": "a" } })] {
        let field = said.as_object().and_then(|said| said.keys().next()).expect("a field");
        server.post(&alone.heartbeat_path(), &said).await.bad_field(field);
    }
}

#[tokio::test]
async fn a_member_that_is_not_ready_keeps_its_labels_when_it_is() {
    let server = Server::start();
    let spec = json!({ "pool": "default", "ready": false, "labels": { "zone": "a" } });
    let a = server.session("a", 60_000, spec).await;
    let body = json!({ "ready": true, "labels": { "zone": "b" } });
    server.post(&a.heartbeat_path(), &body).await.ok();
    assert_eq!(shown(&server, &a).await, json!({ "zone": "b" }));
    let pool = server.get("/v1/pools/default").await.ok();
    assert_eq!(pool["members"][0]["unready"], false);
}

#[tokio::test]
async fn labels_beyond_a_bound_are_refused_by_name() {
    let server = Server::start();
    let a = member(&server, json!({ "zone": "a" })).await;
    let many: serde_json::Map<String, Value> =
        (0..17).map(|at| (format!("n{at}"), json!("v"))).collect();
    let heavy: serde_json::Map<String, Value> =
        (0..10).map(|at| (format!("n{at}"), json!("v".repeat(128)))).collect();
    for labels in [
        json!({ "": "v" }),
        json!({ "a=b": "v" }),
        json!({ "a": "" }),
        json!({ "a": "b c" }),
        json!({ "n".repeat(65): "v" }),
        json!({ "n": "v".repeat(129) }),
        Value::Object(many),
        Value::Object(heavy),
    ] {
        let body = json!({ "owner": "b", "ttl_ms": 5_000, "pool": "default", "labels": labels });
        let problem = server.post("/v1/sessions", &body).await.problem(400, "invalid-field");
        assert_eq!(problem["field"], "labels", "{problem}");
        let body = json!({ "labels": labels });
        let problem = server.post(&a.heartbeat_path(), &body).await.problem(400, "invalid-field");
        assert_eq!(problem["field"], "labels", "{problem}");
    }
    for labels in [json!(["gpu"]), json!("gpu"), json!({ "gpu": true })] {
        let body = json!({ "labels": labels });
        server.post(&a.heartbeat_path(), &body).await.problem(400, "malformed-request");
    }
    assert_eq!(shown(&server, &a).await, json!({ "zone": "a" }));
    // They describe a member.
    let body = json!({ "owner": "b", "ttl_ms": 5_000, "labels": { "zone": "a" } });
    let problem = server.post("/v1/sessions", &body).await.problem(400, "invalid-field");
    assert_eq!(problem["field"], "labels", "{problem}");
    let alone = server.session("b", 20_000, json!({})).await;
    let body = json!({ "labels": { "zone": "a" } });
    let problem = server.post(&alone.heartbeat_path(), &body).await.problem(400, "invalid-field");
    assert_eq!(problem["field"], "labels", "{problem}");
}
