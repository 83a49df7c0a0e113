//! Leases that end before their holder ends them.

use serde_json::json;

use super::client::Client;
use crate::support::{
    clock::{eventually, sleep_ms},
    harness::Server,
};

async fn revoke(server: &Server, key: &str) {
    let order = json!({ "key": key, "reason": "a test", "immediately": true });
    server.post("/v1/admin/revoke", &order).await.ok();
}

#[tokio::test]
async fn extend_says_stop_when_the_lease_was_revoked_and_a_new_claim_has_a_higher_token() {
    let server = Server::start();
    let mut client = Client::start(server.addr, "w").await;
    let token = client.claim("k").await;
    revoke(&server, "k").await;
    for _ in 0..2 {
        let told = client.call("extend", json!({ "key": "k" })).await;
        let data = told.refused("STOP");
        assert_eq!((&data["held"], &data["lost"]), (&json!(false), &json!("revoked")));
        assert!(told.message.contains(&format!("nothing more under token {token}")), "{told:?}");
        assert!(told.notices.is_empty(), "it is told once: {told:?}");
    }
    let listed = client.call("list", json!({})).await.done();
    assert_eq!(listed["leases"][0]["lost"], "revoked");
    assert!(client.claim("k").await > token);
    client.call("extend", json!({ "key": "k" })).await.done();
}

#[tokio::test]
async fn a_loss_is_told_once_with_the_answer_of_any_other_tool() {
    let server = Server::start();
    let mut client = Client::with(server.addr, &["--owner", "w", "--ttl", "1s"]).await;
    client.claim("k").await;
    client.claim("kept").await;
    revoke(&server, "k").await;
    let mut told = client.call("who_has", json!({ "key": "x" })).await;
    eventually("it is told", async || {
        if told.notices.is_empty() {
            told = client.call("who_has", json!({ "key": "x" })).await;
        }
        !told.notices.is_empty()
    })
    .await;
    assert_eq!(told.notices.len(), 1, "{told:?}");
    assert!(told.notices[0].starts_with("STOP. You no longer hold \"k\""), "{told:?}");
    assert_eq!(told.data["notices"], json!(told.notices));
    let next = client.call("extend", json!({ "key": "kept" })).await;
    assert!(!next.failed && next.notices.is_empty(), "{next:?}");
    let released = client.call("release", json!({ "key": "k" })).await;
    assert_eq!(released.refused("STOP")["lost"], "revoked");
    client.call("release", json!({ "key": "k" })).await.refused("You do not hold");
}

#[tokio::test]
async fn an_agent_whose_coordinator_is_gone_is_told_how_long_it_holds_its_key_and_then_to_stop() {
    let server = Server::start();
    let mut client = Client::with(server.addr, &["--owner", "w", "--ttl", "4s"]).await;
    client.claim("k").await;
    server.kill();
    let told = client.call("extend", json!({ "key": "k" })).await;
    let data = told.refused("Not confirmed");
    assert_eq!((&data["held"], &data["confirmed"]), (&json!(true), &json!(false)));
    let left = data["valid_for_seconds"].as_f64().expect("a number");
    assert!(left > 0.0 && left <= 4.0, "{data}");
    sleep_ms(4500).await;
    let told = client.call("extend", json!({ "key": "k" })).await;
    assert_eq!(told.refused("STOP")["lost"], "unreachable");
    client.close();
    assert!(client.ended().await.success());
}

#[tokio::test]
async fn a_release_that_no_coordinator_hears_of_says_until_when_the_key_stays_shut() {
    let server = Server::start();
    let mut client = Client::with(server.addr, &["--owner", "w", "--ttl", "3s"]).await;
    client.claim("k").await;
    server.kill();
    let told = client.call("release", json!({ "key": "k" })).await;
    let data = told.refused("within 3 s");
    assert_eq!((&data["held"], &data["retryable"]), (&json!(false), &json!(true)));
}
