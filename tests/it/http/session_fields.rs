//! What is wrong with a request about a session is named.

use serde_json::{Value, json};

use crate::support::harness::{Server, session_body};

#[tokio::test]
async fn every_bad_field_is_named() {
    let server = Server::start();
    let ask = async |more: Value| server.post("/v1/sessions", &session_body("w", 5000, more)).await;
    ask(json!({ "owner": "" })).await.bad_field("owner");
    ask(json!({ "owner": "o".repeat(257) })).await.bad_field("owner");
    ask(json!({ "ttl_ms": 99 })).await.bad_field("ttl_ms");
    ask(json!({ "ttl_ms": 86_400_001 })).await.bad_field("ttl_ms");
    ask(json!({ "lock_delay_ms": 60_001 })).await.bad_field("lock_delay_ms");
    ask(json!({ "weight": 0 })).await.bad_field("weight");
    ask(json!({ "weight": 1_000_001 })).await.bad_field("weight");
    ask(json!({ "capacity": 0 })).await.bad_field("capacity");
    ask(json!({ "pool": "" })).await.bad_field("pool");
    // They say something of a member of a pool.
    ask(json!({ "weight": 2 })).await.bad_field("weight");
    ask(json!({ "capacity": 2 })).await.bad_field("capacity");
    ask(json!({ "pool": "p".repeat(65) })).await.bad_field("pool");
    for more in [
        json!({ "behavior": "keep" }),
        json!({ "nothing": 1 }),
        json!({ "ttl_ms": "5s" }),
        json!({ "lock_delay_ms": -1 }),
        json!({ "checks": {} }),
        json!({ "checks": [{ "type": "ping", "interval_ms": 1000 }] }),
        json!({ "checks": [{ "type": "tcp", "interval_ms": 1000 }] }),
        json!({ "checks": [["progress", { "interval_ms": 1000, "fail_after": 1 }]] }),
        json!({ "behavior": { "delete": null } }),
    ] {
        ask(more).await.malformed();
    }
    let http = |more: Value| {
        let mut check = json!({ "type": "http", "url": "http://127.0.0.1:1/", "interval_ms": 1000,
            "timeout_ms": 1000, "fail_after": 1 });
        check.as_object_mut().expect("one").extend(more.as_object().expect("one").clone());
        json!({ "checks": [check] })
    };
    ask(http(json!({ "url": "ftp://x/" }))).await.bad_field("checks[0].url");
    ask(http(json!({ "url": "http://" }))).await.bad_field("checks[0].url");
    ask(http(json!({ "interval_ms": 99 }))).await.bad_field("checks[0].interval_ms");
    ask(http(json!({ "timeout_ms": 3_600_001 }))).await.bad_field("checks[0].timeout_ms");
    ask(http(json!({ "fail_after": 0 }))).await.bad_field("checks[0].fail_after");
    ask(http(json!({ "fail_after": 1001 }))).await.bad_field("checks[0].fail_after");
    let check = json!({ "type": "progress", "interval_ms": 1000, "fail_after": 1 });
    ask(json!({ "checks": vec![check.clone(); 9] })).await.bad_field("checks");
    ask(json!({ "checks": vec![check; 8] })).await;
    let tcp = json!({ "type": "tcp", "address": "nowhere", "interval_ms": 1000, "timeout_ms": 1000,
        "fail_after": 1 });
    ask(json!({ "checks": [tcp.clone()] })).await.bad_field("checks[0].address");
    for address in ["a\nb:1", "a:+1", "a:\u{7f}1"] {
        let mut tcp = tcp.clone();
        tcp["address"] = address.into();
        ask(json!({ "checks": [tcp] })).await.bad_field("checks[0].address");
    }
    // Parsers of URLs leave out line breaks.
    ask(http(json!({ "url": "http://127.0.0.1\n/" }))).await.bad_field("checks[0].url");

    let session = server.session("w", 5000, json!({})).await;
    let long = json!({ "progress": "p".repeat(257) });
    server.post(&session.heartbeat_path(), &long).await.bad_field("progress");
    server.post(&session.heartbeat_path(), &json!({ "value": 1 })).await.malformed();
    server.get("/v1/sessions/x").await.bad_field("id");
    server.post("/v1/sessions/x/heartbeat", &json!({})).await.bad_field("id");
    server.call("DELETE", "/v1/sessions/x", b"").await.bad_field("id");
    server.get(&format!("/v1/sessions/{}", "0".repeat(32))).await.problem(404, "unknown-session");
}

#[tokio::test]
async fn a_command_is_text_and_what_is_too_much_to_keep_is_refused_by_name() {
    let server = Server::with(&["limits.exec_checks=true"]);
    let ask = async |checks: Value| {
        server.post("/v1/sessions", &session_body("w", 5000, json!({ "checks": checks }))).await
    };
    let exec = |argument: &str| {
        json!({ "type": "exec", "command": ["true", argument], "interval_ms": 60_000,
            "timeout_ms": 1000, "fail_after": 1 })
    };
    ask(json!([exec("a\0b")])).await.bad_field("checks[0].command");
    ask(json!([exec("a\u{1b}[2J")])).await.bad_field("checks[0].command");
    assert_eq!(ask(json!([exec("a script\n\tof two lines")])).await.status, 201);
    // Each is short enough, and all of them are not.
    ask(Value::Array(vec![exec(&"x".repeat(4000)); 8])).await.bad_field("checks");
}
