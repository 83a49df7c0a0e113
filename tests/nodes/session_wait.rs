//! Acquires under a session that wait, asked of a node that is not the session's home.

use serde_json::{Value, json};

use crate::{
    clock::{ms, within},
    node::Node,
    on_both_stores,
    pair::{Grant, Pair, acquire},
};

on_both_stores!(what_waits_under_a_session_is_passed_on_with_its_patience);

/// Keeps the session while the call is under way.
async fn beating(node: &Node, id: &str, call: impl Future<Output = (u16, Value)>) -> (u16, Value) {
    let beats = async {
        loop {
            let (status, beat) =
                node.post(&format!("/v1/sessions/{id}/heartbeat"), &json!({})).await;
            assert_eq!(status, 200, "{beat}");
            crate::clock::sleep_ms(200).await;
        }
    };
    tokio::select! {
        answer = call => answer,
        () = beats => unreachable!("it goes on"),
    }
}

async fn what_waits_under_a_session_is_passed_on_with_its_patience(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    let (status, made) = a.post("/v1/sessions", &json!({ "owner": "w", "ttl_ms": 2000 })).await;
    assert_eq!(status, 201, "{made}");
    let id = made["id"].as_str().expect("an id");
    let one = json!({ "key": "one", "owner": "w", "session": id, "wait_ms": 4_500 });
    let any = json!({ "keys": ["any"], "owner": "w", "session": id, "wait_ms": 4_500 });
    let marked = json!({ "keys": ["marked"], "owner": "w", "session": id, "wait_ms": 4_500,
        "request_id": "r" });
    for (path, body, key) in [
        ("/v1/acquire", one, "one"),
        ("/v1/acquire-any", any, "any"),
        ("/v1/acquire-any", marked, "marked"),
    ] {
        let held = acquire(a, key, "other", 60_000).await;
        let release = async {
            crate::clock::sleep_ms(3_000).await;
            a.post("/v1/release", &held.proof()).await
        };
        let call = async { tokio::join!(b.post(path, &body), release).0 };
        let (status, answer) = beating(b, id, call).await;
        assert_eq!(status, 200, "{path}: {answer}");
        let grant = answer.get("grants").map_or(&answer, |grants| &grants[0]);
        assert_eq!(grant["session"], made["digest"], "{grant}");
        assert!(Grant::of(grant).token > held.token);
    }
    // The feed brings the last grant a moment after its answer.
    let kept = async || {
        let (_, beat) = b.post(&format!("/v1/sessions/{id}/heartbeat"), &json!({})).await;
        beat["leases"]["count"] == 3
    };
    assert!(within(ms(5_000), kept).await);
}
