//! Keys with everything in them, in bodies, paths, queries and events.

use serde_json::json;

use crate::support::harness::{Grant, Server, percent};

#[tokio::test]
async fn strange_keys_are_ordinary_everywhere() {
    let server = Server::start();
    let longest = "k".repeat(512);
    let wide = "🦀".repeat(128);
    let odd = [
        "a/b/c",
        "/",
        "//",
        "a//b",
        "/lead",
        "trail/",
        ".",
        "..",
        "../etc/passwd",
        "a b",
        " ",
        "🦀 ü ≥",
        "*",
        ">",
        "a.*.b",
        "a.>",
        "%",
        "%2F",
        "%25",
        "100%",
        "+",
        "a+b",
        "?",
        "a?b=c&d",
        "#",
        "\"",
        "\\",
        "'",
        "{}",
        "<b>",
        "\u{a0}",
        "e\u{301}",
        "\u{e9}",
        "null",
        "-",
        "~",
        "a:b;c,d",
        "=",
        &longest,
        &wide,
    ];
    let mut grants: Vec<Grant> = Vec::new();
    for key in odd {
        let grant = server.acquire(key, "w", 60_000).await;
        assert_eq!(grant.key, key);
        let lease = server.lease(key).await;
        assert_eq!(lease["key"], key);
        assert_eq!(lease["token"], grant.token, "{key:?} is a key of its own");
        server.post("/v1/heartbeat", &grant.proof()).await.ok();
        let only = server.get(&format!("/v1/leases?key={}", percent(key))).await.ok();
        assert_eq!(only["leases"][0]["key"], key);
        let check = json!({ "key": key, "token": grant.token });
        assert_eq!(server.post("/v1/check", &check).await.ok()["current"], true);
        grants.push(grant);
    }
    let list = server.get("/v1/leases?limit=1000").await.ok();
    let listed: Vec<_> =
        list["leases"].as_array().expect("leases").iter().map(|l| &l["key"]).collect();
    assert_eq!(listed.len(), odd.len(), "none was taken for another");
    let mut sorted = odd.to_vec();
    sorted.sort_unstable();
    assert!(listed.iter().zip(&sorted).all(|(listed, key)| *listed == key), "in byte order");
    let events = server.history().await;
    assert!(events.iter().zip(&odd).all(|(event, key)| event["subject"] == *key));
    for grant in &grants {
        server.release(grant).await;
    }
    // They survive a restart as they are.
    let server = server.kill().restart();
    for grant in &grants {
        let lease = server.lease(&grant.key).await;
        assert_eq!((&lease["state"], &lease["token"]), (&json!("free"), &json!(grant.token)));
    }
}

#[tokio::test]
async fn slashes_may_stand_as_they_are_in_a_path() {
    let server = Server::start();
    server.acquire("a/b//c", "w", 60_000).await;
    assert_eq!(server.get("/v1/leases/a/b//c").await.ok()["key"], "a/b//c");
    assert_eq!(server.get("/v1/leases/a%2Fb/%2fc").await.ok()["key"], "a/b//c");
    assert_eq!(server.get("/v1/leases/%61/b//c?gate=0").await.ok()["key"], "a/b//c");
}

#[tokio::test]
async fn a_path_is_decoded_once() {
    let server = Server::start();
    server.acquire("100%", "w1", 60_000).await;
    server.acquire("%2F", "w2", 60_000).await;
    assert_eq!(server.get("/v1/leases/100%25").await.ok()["owner"], "w1");
    assert_eq!(server.get("/v1/leases/%252F").await.ok()["owner"], "w2");
    for broken in ["100%", "%2", "%zz", "%+5", "%-1", "%f"] {
        server.get(&format!("/v1/leases/{broken}")).await.bad_field("key");
    }
    server.get("/v1/leases/%FF").await.bad_field("key");
    server.get("/v1/leases/%00").await.bad_field("key");
    server.get("/v1/leases/").await.bad_field("key");
    server.get(&format!("/v1/leases/{}", "k".repeat(513))).await.bad_field("key");
    server.get(&format!("/v1/leases/{}", "%6B".repeat(512))).await.problem(404, "unknown-key");
}

#[tokio::test]
async fn a_key_has_1_to_512_bytes_and_no_control_characters() {
    let server = Server::start();
    let crabs = format!("{}k", "🦀".repeat(128));
    let long = "k".repeat(513);
    let bad = ["", &long, &crabs, "a\u{0}b", "a\nb", "a\tb", "\u{7f}", "\u{85}", "\u{1b}[31m"];
    for key in bad {
        let body = json!({ "key": key, "owner": "w", "ttl_ms": 1000 });
        server.post("/v1/acquire", &body).await.bad_field("key");
        let body = json!({ "key": key, "token": 1 });
        server.post("/v1/check", &body).await.bad_field("key");
        let body = json!({ "key": key, "reason": "r" });
        server.post("/v1/admin/revoke", &body).await.bad_field("key");
        let body = json!({ "key": key, "by": "b" });
        server.post("/v1/admin/pin", &body).await.bad_field("key");
        let proof = json!({ "key": key, "lease_id": "0".repeat(32) });
        server.post("/v1/heartbeat", &proof).await.bad_field("key");
        server.post("/v1/release", &proof).await.bad_field("key");
        server.post("/v1/transfer", &proof).await.bad_field("key");
        let batch = json!({ "leases": [proof] });
        for path in ["/v1/heartbeats", "/v1/releases"] {
            let verdicts = server.post(path, &batch).await.ok();
            assert_eq!(verdicts["results"][0]["code"], "invalid-field", "{key:?}: {verdicts}");
        }
    }
    assert_eq!(server.get("/v1/leases").await.ok()["leases"], json!([]));
}

#[tokio::test]
async fn no_unicode_normalisation() {
    let server = Server::start();
    let composed = server.acquire("\u{e9}", "w1", 60_000).await;
    let decomposed = server.acquire("e\u{301}", "w2", 60_000).await;
    assert_ne!(composed.token, decomposed.token);
}
