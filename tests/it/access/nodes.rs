//! Calls that one node forwards to another, and nodes with different files.

use serde_json::json;

use super::cast::{all_of, call_at, principal, reload, write};
use crate::{
    nodes::pair::Pair,
    support::harness::{Connection, Grant, Reply},
};

/// A call of the node at this URL.
async fn call(url: &str, token: &str, path: &str, body: &serde_json::Value) -> Reply {
    let method = if body.is_null() { "GET" } else { "POST" };
    call_at(url, token, method, path, body).await
}

#[tokio::test]
async fn a_forwarded_call_has_the_rights_that_both_nodes_give() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str| dir.path().join(name);
    let (full, narrow) = (all_of(""), all_of("shared/"));
    let common = [principal("observer", &full), principal("other", &full)];
    let more = [principal("worker", &full), principal("leaver", &full)];
    for name in ["a", "b"] {
        write(&file(name), &[&common[..], &more].concat());
    }
    let set = |name: &str| format!("auth.file={}", file(name).display());
    let pair = Pair::nats_with(&[set("a")], &[set("b")], "observer", &[]).await;
    let (a, b) = (pair.a.url.clone(), pair.b.url.clone());
    let acquire = |key: &str| json!({ "key": key, "owner": "w", "ttl_ms": 60_000 });
    let shared = Grant::of(&call(&a, "worker", "/v1/acquire", &acquire("shared/k")).await.ok());
    let private = Grant::of(&call(&a, "worker", "/v1/acquire", &acquire("private/k")).await.ok());
    let left = Grant::of(&call(&a, "leaver", "/v1/acquire", &acquire("shared/l")).await.ok());
    // `b` forwards to `a`, which holds both.
    call(&b, "worker", "/v1/heartbeat", &shared.proof()).await.ok();
    call(&b, "worker", "/v1/heartbeat", &private.proof()).await.ok();
    call(&b, "leaver", "/v1/heartbeat", &left.proof()).await.ok();
    // `a` reads a newer file: the worker has less rights, and the leaver is gone. `b` is stale.
    reload(&pair.a, &file("a"), &[&common[..], &[principal("worker", &narrow)]].concat()).await;
    call(&b, "worker", "/v1/heartbeat", &shared.proof()).await.ok();
    let refused = call(&b, "worker", "/v1/heartbeat", &private.proof()).await;
    refused.problem(403, "forbidden");
    let refused = call(&b, "leaver", "/v1/heartbeat", &left.proof()).await;
    refused.problem(403, "forbidden");
    // Nor do several leases in one call have other rights than one.
    let batch = json!({ "leases": [left.proof()] });
    for path in ["/v1/releases", "/v1/heartbeats"] {
        let verdicts = call(&b, "leaver", path, &batch).await.ok();
        let verdict = &verdicts["results"][0];
        assert_eq!(
            (&verdict["status"], &verdict["code"]),
            (&json!(403), &json!("forbidden")),
            "{path}: {verdicts}"
        );
    }
    let kept = call(&a, "observer", "/v1/leases/shared%2Fl", &json!(null)).await.ok();
    assert_eq!(kept["owner"], "w", "{kept}");
    // A lease id that another principal shows proves nothing, whichever node it is shown to.
    for url in [&a, &b] {
        let beat = call(url, "other", "/v1/heartbeat", &shared.proof()).await;
        beat.problem(409, "lease-lost");
        let mut taken = acquire("shared/k");
        taken["reclaim"] = true.into();
        call(url, "other", "/v1/acquire", &taken).await.problem(409, "held");
    }
    call(&b, "worker", "/v1/release", &shared.proof()).await.ok();
    // Nobody is who they say in a header that only nodes may send.
    let address = b.trim_start_matches("http://").parse().expect("an address");
    let mut connection = Connection::open(address).await;
    let headers = [("x-tenure-principal", "b3RoZXI"), ("Authorization", "Bearer worker")];
    let body = private.proof().to_string();
    let reply = connection.call("POST", "/v1/heartbeat", &headers, body.as_bytes()).await;
    reply.problem(400, "forged-header");
}
