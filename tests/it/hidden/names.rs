//! New names may not have characters that are not seen. Leases from before go on.

use serde_json::{Value, json};

use super::table::samples;
use crate::support::harness::{Grant, Server};

/// A server that still takes every name.
const OLD: [(&str, &str); 1] = [("TENURE_TEST_BROKEN_ACCESS", "NewNamesUnchecked")];

const POOL: &str = "[[policy]]\nprefix = \"a\"\npool = \"shards\"\n";

/// The characters that were always refused.
fn is_control(c: char) -> bool {
    c.is_control()
}

#[tokio::test]
async fn no_new_name_has_a_character_that_is_not_seen() {
    let server = Server::configured(POOL);
    let held = server.acquire("held", "w", 600_000).await;
    for c in samples().into_iter().filter(|c| !is_control(*c)) {
        let (name, code) = (format!("a{c}b"), format!("U+{:04X} at byte 1", u32::from(c)));
        let acquire =
            |key: &str, owner: &str| json!({ "key": key, "owner": owner, "ttl_ms": 60_000 });
        let any =
            |key: &str, owner: &str| json!({ "keys": [key], "owner": owner, "ttl_ms": 60_000 });
        let all = |key: &str, owner: &str| json!({ "keys": [{ "key": key }], "owner": owner, "ttl_ms": 60_000 });
        let session = json!({ "owner": name, "ttl_ms": 60_000 });
        let offer = held.proof_and(json!({ "to": name }));
        let pin = json!({ "key": name, "by": "b" });
        let order = |action: &str, more: (&str, &str)| {
            let mut order =
                json!({ "pool": "shards", "action": action, "reason": "r", more.0: more.1 });
            if action == "move" {
                order["owner"] = json!("w");
            }
            order
        };

        let calls: [(&str, Value, &str); 12] = [
            ("/v1/admin/pool", order("cordon", ("owner", &name)), "owner"),
            ("/v1/admin/pool", order("pause", ("key", &name)), "key"),
            ("/v1/admin/pool", order("move", ("key", &name)), "key"),
            ("/v1/acquire", acquire(&name, "w"), "key"),
            ("/v1/acquire", acquire("k", &name), "owner"),
            ("/v1/acquire-any", any(&name, "w"), "keys"),
            ("/v1/acquire-any", any("k", &name), "owner"),
            ("/v1/acquire-all", all(&name, "w"), "key"),
            ("/v1/acquire-all", all("k", &name), "owner"),
            ("/v1/sessions", session, "owner"),
            ("/v1/transfer", offer, "to"),
            ("/v1/admin/pin", pin, "key"),
        ];
        for (path, body, field) in calls {
            let reply = server.post(path, &body).await;
            let problem = reply.problem(400, "invalid-field");
            let (named, detail) = (problem["field"].as_str(), problem["detail"].as_str());
            assert!(named.is_some_and(|named| named.contains(field)), "{path} {body}: {problem}");
            assert!(
                detail.is_some_and(|detail| detail.contains(&code)),
                "{path} {body}: {problem}"
            );
        }
    }
    // A value is a text of its holder.
    let body = json!({ "key": "v", "owner": "w", "ttl_ms": 60_000, "value": "a\u{202e}\u{e0041}" });
    assert_eq!(server.post("/v1/acquire", &body).await.ok()["value"], "a\u{202e}\u{e0041}");
    assert_eq!(server.history().await.len(), 2, "nothing else was granted");
}

#[tokio::test]
async fn a_lease_from_before_is_kept_released_revoked_and_forgotten() {
    let server = Server::configured_in(POOL, &OLD);
    let name = |n: usize| format!("old\u{ad}/{n}\u{3164}");
    let mut held = Vec::new();
    for n in 0..4 {
        held.push(server.acquire(&name(n), "w\u{e0072}", 600_000).await);
    }
    let session = server.session("w\u{200b}", 600_000, json!({ "pool": "shards" })).await;
    let server = server.kill().restart();
    assert_eq!(server.beat(&session).await.status, 200);
    for action in ["cordon", "uncordon"] {
        let order =
            json!({ "pool": "shards", "action": action, "owner": "w\u{200b}", "reason": "r" });
        server.post("/v1/admin/pool", &order).await.ok();
    }
    let all = json!({ "leases": held.iter().map(Grant::proof).collect::<Vec<_>>() });
    let beaten = server.post("/v1/heartbeats", &all).await.ok();
    let beaten = beaten["results"].as_array().expect("results");
    assert!(beaten.iter().all(|result| result["status"] == 200), "{beaten:?}");
    server.post("/v1/admin/pin", &json!({ "key": name(0), "by": "b" })).await.ok();
    server.post("/v1/admin/unpin", &json!({ "key": name(0), "by": "b" })).await.ok();
    server.release(&held[0]).await;
    server.post("/v1/transfer", &held[1].proof()).await.ok();
    let revoke = json!({ "key": name(2), "reason": "r", "immediately": true });
    server.post("/v1/admin/revoke", &revoke).await.ok();
    server.post("/v1/admin/drain", &json!({ "owner": "w\u{e0072}" })).await.ok();
    let path = format!("/v1/leases/{}", crate::support::harness::percent(&name(2)));
    assert_eq!(server.get(&path).await.ok()["key"], name(2));
    server.destroy(&session).await;
    let forget = json!({ "prefix": "old\u{ad}/", "reason": "r" });
    let forgotten = server.post("/v1/admin/forget", &forget).await.ok();
    assert_eq!(forgotten["forgotten"], 3, "{forgotten}");
    let again = json!({ "key": name(0), "owner": "w", "ttl_ms": 60_000 });
    server.post("/v1/acquire", &again).await.problem(400, "invalid-field");
}
