//! Handshake, requests and faults.

use serde_json::{Value, json};

use super::client::Client;
use crate::support::{harness::Server, ports::free_port};

#[tokio::test]
async fn a_client_shakes_hands_and_finds_the_tools() {
    let server = Server::start();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut client = Client::silent(server.addr, &["--owner", "w"]);
        let result = client.shake_hands(version).await;
        assert_eq!(result["protocolVersion"], version);
        assert_eq!(result["serverInfo"]["name"], "tenure");
        assert!(result["instructions"].as_str().expect("a text").contains("fencing token"));
        assert_eq!(client.ask("ping", json!({})).await["result"], json!({}));
        let listed = client.ask("tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().expect("a list");
        let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        let expected = ["claim", "extend", "release", "hand_over", "who_has", "wait", "list"];
        assert_eq!(names, expected);
        client.close();
        assert!(client.ended().await.success());
    }
    let mut client = Client::silent(server.addr, &[]);
    assert_eq!(client.shake_hands("1999-01-01").await["protocolVersion"], "2025-11-25");
}

/// The id and the code of a fault.
fn fault(answer: &Value) -> (Value, i64) {
    let message = answer["error"]["message"].as_str().expect("a message");
    assert!(!message.is_empty());
    (answer["id"].clone(), answer["error"]["code"].as_i64().expect("a code"))
}

#[tokio::test]
async fn what_is_no_message_or_no_method_is_answered_with_its_code_and_the_next_line_is_read() {
    let server = Server::start();
    let mut client = Client::start(server.addr, "w").await;
    for (line, code) in [
        ("nonsense", -32700),
        (r#"{"jsonrpc":"2.0","id":7"#, -32700),
        ("[]", -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
    ] {
        client.send(line).await;
        assert_eq!(fault(&client.receive().await), (Value::Null, code), "{line}");
    }
    client.send(&"x".repeat((1 << 20) + 1)).await;
    assert_eq!(fault(&client.receive().await), (Value::Null, -32700));
    for (method, params, code, named) in [
        ("server/discover", json!({}), -32601, "server/discover"),
        ("resources/list", json!({}), -32601, "resources/list"),
        ("ping", json!([]), -32602, "params"),
        ("initialize", json!({}), -32602, "protocolVersion"),
        ("tools/call", json!({}), -32602, "name"),
        ("tools/call", json!({ "name": "fly" }), -32602, "fly"),
        ("tools/call", json!({ "name": "list", "arguments": 7 }), -32602, "arguments"),
    ] {
        let answer = client.ask(method, params).await;
        assert_eq!(fault(&answer).1, code, "{answer}");
        let message = answer["error"]["message"].as_str().expect("a message");
        assert!(message.contains(named), "{answer}");
    }
    // An empty line, a notification that is not known, and an answer to nothing are passed over.
    for line in ["", r#"{"jsonrpc":"2.0","method":"x"}"#, r#"{"jsonrpc":"2.0","id":9,"result":{}}"#]
    {
        client.send(line).await;
    }
    assert_eq!(client.ask("ping", json!({})).await["result"], json!({}));
    client.close();
    assert!(client.ended().await.success());
}

#[tokio::test]
async fn a_bad_argument_is_told_by_its_name_and_claims_nothing() {
    let server = Server::start();
    let mut client = Client::start(server.addr, "w").await;
    for (tool, arguments, field) in [
        ("claim", json!({}), "key"),
        ("claim", json!({ "key": "" }), "key"),
        ("claim", json!({ "key": "k", "ttl_seconds": 0 }), "ttl_seconds"),
        ("claim", json!({ "key": "k", "ttl_seconds": "15" }), "ttl_seconds"),
        ("claim", json!({ "key": "k", "wait_seconds": 51 }), "wait_seconds"),
        ("claim", json!({ "key": "k", "value": "x".repeat(16 * 1024 + 1) }), "value"),
        ("claim", json!({ "key": "k", "owner": "somebody" }), "owner"),
        ("extend", json!({ "keys": ["k"] }), "key"),
        ("release", json!({ "key": 7 }), "key"),
        ("hand_over", json!({ "key": "k", "to": "a\nb" }), "to"),
        ("who_has", json!({ "key": "k", "token": 7 }), "token"),
        ("wait", json!({ "key": "k", "token": -1 }), "token"),
        ("list", json!({ "key": "k" }), "key"),
    ] {
        let told = client.call(tool, arguments.clone()).await;
        let data = told.refused(&format!("`{field}`"));
        assert_eq!((&data["code"], &data["field"]), (&json!("invalid-field"), &json!(field)));
    }
    assert_eq!(client.call("list", json!({})).await.done()["leases"], json!([]));
    assert_eq!(client.call("who_has", json!({ "key": "k" })).await.done()["state"], "free");
}

#[tokio::test]
async fn what_a_policy_refuses_is_told_as_the_argument_that_the_agent_gave() {
    let server = Server::configured("[[policy]]\nprefix = \"short/\"\nttl_max = \"10s\"\n");
    let mut client = Client::start(server.addr, "w").await;
    let told = client.call("claim", json!({ "key": "short/1", "ttl_seconds": 60 })).await;
    assert_eq!(told.refused("10000")["field"], "ttl_seconds");
    client.call("claim", json!({ "key": "short/1", "ttl_seconds": 5 })).await.done();
}

#[tokio::test]
async fn the_handshake_needs_no_coordinator_and_a_claim_says_that_none_is_there() {
    let nobody = ([127, 0, 0, 1], free_port()).into();
    let mut client = Client::start(nobody, "w").await;
    let told = client.call("claim", json!({ "key": "k" })).await;
    assert_eq!(told.refused("cannot reach")["retryable"], true);
    client.close();
    assert!(client.ended().await.success());
}

#[tokio::test]
async fn more_calls_than_there_is_room_for_are_refused_and_the_others_go_on() {
    let server = Server::start();
    let grant = server.acquire("k", "other", 60_000).await;
    let mut client = Client::start(server.addr, "w").await;
    let mut waiting = Vec::new();
    for _ in 0..32 {
        waiting.push(client.begin("claim", json!({ "key": "k", "wait_seconds": 50 })).await);
    }
    let refused = client.ask("tools/call", json!({ "name": "list" })).await;
    assert_eq!(fault(&refused).1, -32000);
    assert_eq!(client.ask("ping", json!({})).await["result"], json!({}));
    for id in &waiting[1..] {
        client.notify("notifications/cancelled", json!({ "requestId": id })).await;
    }
    server.until_waiters("k", 1).await;
    server.release(&grant).await;
    assert_eq!(client.told(waiting[0]).await.done()["claimed"], true);
}
