//! The revocation list beside a store that loses its end, and beside many readers.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use serde_json::{Value, json};

use super::cast::{Guarded, all_of, call_at, principal, write};
use crate::{
    nodes::pair::Pair,
    support::{clock::eventually, harness::Reply, node::Node},
};

fn cast() -> [String; 3] {
    ["admin", "leaver", "other"].map(|name| principal(name, &all_of("")))
}

fn order(action: &str, name: &str) -> Value {
    json!({ "action": action, "principal": name, "reason": "it leaked" })
}

async fn post(node: &Node, path: &str, body: &Value) -> Reply {
    call_at(&node.url, "admin", "POST", path, body).await
}

/// Whether the status says that the store lost changes of the list.
async fn went_back(url: &str) -> bool {
    let status = call_at(url, "admin", "GET", "/v1/status", &Value::Null).await;
    let attention = status.json()["attention"].as_array().cloned().unwrap_or_default();
    attention.iter().any(|entry| entry["kind"] == "revocations-went-back")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_store_lost_of_the_list_is_stored_by_an_order_that_stands_already() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("access.toml");
    write(&file, &cast());
    let sets = [format!("auth.file={}", file.display())];
    let mut pair = Pair::nats_with(&sets, &sets, "admin", &[]).await;
    post(&pair.a, "/v1/admin/access", &order("revoke", "other")).await.ok();
    pair.store.copy();
    eventually("the order stands", async || {
        post(&pair.a, "/v1/admin/access", &order("revoke", "leaver")).await.status == 200
    })
    .await;
    // More changes than the nodes make by themselves until the store is used again.
    for n in 0..3 {
        let keys: Vec<String> = (0..100).map(|key| format!("lost/{n}/{key}")).collect();
        let body = json!({ "keys": keys, "count": 100, "owner": "w", "ttl_ms": 60_000 });
        post(&pair.a, "/v1/acquire-any", &body).await.ok();
    }
    pair.store.put_back();
    for node in [&pair.a, &pair.b] {
        let frozen = async || node.metric("tenure_store_frozen").await > 0.5;
        eventually("the node freezes", frozen).await;
    }
    let raised = pair.tenure(&["restore", "--raise-epoch"]);
    assert!(raised.status.success(), "{}", String::from_utf8_lossy(&raised.stderr));
    eventually("the loss is told", async || went_back(&pair.a.url).await).await;
    let mut again = Value::Null;
    eventually("the order is carried out", async || {
        let reply = post(&pair.a, "/v1/admin/access", &order("revoke", "leaver")).await;
        again = reply.json();
        reply.status == 200
    })
    .await;
    assert_eq!(again["changed"], true, "{again}");
    eventually("the store has the list", async || !went_back(&pair.a.url).await).await;
    for node in [&mut pair.a, &mut pair.b] {
        node.stop().await;
        node.start().await;
    }
    for name in ["leaver", "other"] {
        let refused = call_at(&pair.a.url, name, "GET", "/v1/leases", &Value::Null).await;
        refused.problem(401, "unauthenticated");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_is_read_beside_orders_is_taken_for_no_loss() {
    let guarded = Guarded::start(&cast(), &[]);
    let url = format!("http://{}", guarded.server.addr);
    let ends = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..6)
        .map(|number| {
            let (url, ends) = (url.clone(), ends.clone());
            tokio::spawn(async move {
                let mut seen = 0;
                while !ends.load(SeqCst) {
                    if number % 2 == 0 {
                        seen += u32::from(went_back(&url).await);
                    } else {
                        let path = "/v1/revocations";
                        call_at(&url, "admin", "GET", path, &Value::Null).await.ok();
                    }
                }
                seen
            })
        })
        .collect();
    for _ in 0..150 {
        for action in ["revoke", "unrevoke"] {
            guarded.post("admin", "/v1/admin/access", &order(action, "leaver")).await.ok();
        }
    }
    ends.store(true, SeqCst);
    for reader in readers {
        assert_eq!(reader.await.expect("a reader"), 0, "a loss was told of");
    }
    assert_eq!(guarded.get("leaver", "/v1/leases").await.status, 200);
}

#[tokio::test]
async fn a_revocation_with_an_end_shortens_none_without() {
    let guarded = Guarded::start(&cast(), &[]);
    let revoke = async |for_ms: Value| {
        let mut body = order("revoke", "leaver");
        body["for_ms"] = for_ms;
        guarded.post("admin", "/v1/admin/access", &body).await.ok()
    };
    assert_eq!(revoke(json!(60_000)).await["changed"], true);
    assert_eq!(revoke(json!(30_000)).await["changed"], false, "it is shorter");
    assert_eq!(revoke(json!(90_000)).await["changed"], true, "it is longer");
    assert_eq!(revoke(Value::Null).await["changed"], true, "it is for good");
    let list = revoke(json!(60_000)).await;
    assert_eq!((&list["changed"], &list["revoked"][0]["until"]), (&json!(false), &Value::Null));
}
