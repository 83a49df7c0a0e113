//! Calls that wait: beside other calls, and cancelled.

use serde_json::{Value, json};

use super::client::Client;
use crate::support::{
    clock::{eventually, ms, sleep_ms},
    harness::{Grant, Server, kinds},
};

#[tokio::test]
async fn a_wait_that_runs_out_says_so_and_holds_up_no_other_call() {
    let server = Server::start();
    server.acquire("k", "other", 60_000).await;
    let mut client = Client::start(server.addr, "w").await;
    let claims = client.begin("claim", json!({ "key": "k", "wait_seconds": 6 })).await;
    let waits = client.begin("wait", json!({ "key": "k", "wait_seconds": 6 })).await;
    server.until_waiters("k", 1).await;
    assert_eq!(client.ask("ping", json!({})).await["result"], json!({}));
    assert_eq!(client.call("who_has", json!({ "key": "k" })).await.done()["owner"], "other");
    client.claim("free").await;
    assert!(!client.answers_within(ms(300), claims).await);
    let told = client.told(claims).await;
    assert_eq!(told.refused("again")["owner"], "other");
    let told = client.told(waits).await;
    assert_eq!(told.done()["over"], false);
    assert!(told.message.contains("Call `wait` again"), "{told:?}");
}

#[tokio::test]
async fn wait_ends_with_the_tenure_and_takes_nothing() {
    let server = Server::start();
    let grant = server.acquire("k", "other", 60_000).await;
    let mut client = Client::start(server.addr, "w").await;
    let waits = client.begin("wait", json!({ "key": "k", "wait_seconds": 50 })).await;
    let again = client.begin("wait", json!({ "key": "k", "token": grant.token })).await;
    assert!(!client.answers_within(ms(700), waits).await);
    let release = grant.proof_and(json!({ "value": "done, see page 7" }));
    server.post("/v1/release", &release).await.ok();
    for id in [waits, again] {
        let told = client.told(id).await;
        let data = told.done();
        assert_eq!((&data["over"], &data["state"]), (&json!(true), &json!("free")));
        assert_eq!(data["value"], "done, see page 7");
        assert!(told.message.contains("tenure with token 1 is over"), "{told:?}");
    }
    assert_eq!(kinds(&server.events_of("k").await), ["granted", "released"]);

    // The tenure of an agent that looked long ago is over, whoever holds the key now.
    let second = server.acquire("k", "third", 60_000).await;
    let told = client.call("wait", json!({ "key": "k", "token": grant.token })).await.done();
    assert_eq!((&told["over"], &told["owner"]), (&json!(true), &json!("third")));
    let waits = client.begin("wait", json!({ "key": "k", "token": second.token })).await;
    assert!(!client.answers_within(ms(300), waits).await);
    let never = client.call("wait", json!({ "key": "never" })).await.done();
    assert_eq!((&never["over"], &never["state"]), (&json!(true), &json!("free")));
}

#[tokio::test]
async fn a_wait_outlasts_an_expiry() {
    let server = Server::start();
    server.acquire("k", "other", 1000).await;
    let mut client = Client::start(server.addr, "w").await;
    let told = client.call("wait", json!({ "key": "k", "wait_seconds": 50 })).await.done();
    assert_eq!((&told["over"], &told["state"]), (&json!(true), &json!("free")));
}

#[tokio::test]
async fn a_claim_that_is_cancelled_while_it_waits_leaves_nothing() {
    let server = Server::start();
    let grant = server.acquire("k", "other", 60_000).await;
    let mut client = Client::start(server.addr, "w").await;
    let claims = client.begin("claim", json!({ "key": "k", "wait_seconds": 50 })).await;
    server.until_waiters("k", 1).await;
    client
        .notify("notifications/cancelled", json!({ "requestId": claims, "reason": "late" }))
        .await;
    server.until_waiters("k", 0).await;
    // The client asks once more what it may have been granted, while somebody else holds the key.
    sleep_ms(1000).await;
    server.release(&grant).await;
    assert!(!client.answers_within(ms(500), claims).await, "a cancelled call is not answered");
    assert_eq!(server.lease("k").await["state"], "free");
    assert_eq!(kinds(&server.events_of("k").await), ["granted", "released"]);
    client.claim("k").await;
    client.close();
    assert!(client.ended().await.success());
}

#[tokio::test]
async fn a_claim_whose_answer_crosses_its_cancellation_is_given_back() {
    let server = Server::start();
    let mut client = Client::start(server.addr, "w").await;
    let claims = client.begin("claim", json!({ "key": "k" })).await;
    client.told(claims).await.done();
    client.notify("notifications/cancelled", json!({ "requestId": claims })).await;
    eventually("it is given back", async || server.lease("k").await["state"] == "free").await;
    assert_eq!(client.call("list", json!({})).await.done()["leases"], json!([]));
    // No other claim goes with it, and not the next one of the same key.
    let token = client.claim("k").await;
    client.notify("notifications/cancelled", json!({ "requestId": claims })).await;
    client.notify("notifications/cancelled", json!({ "requestId": 999 })).await;
    client.notify("notifications/cancelled", Value::Null).await;
    client.ask("ping", json!({})).await;
    assert_eq!(client.call("extend", json!({ "key": "k" })).await.done()["token"], token);
}

#[tokio::test]
async fn a_claim_that_is_cancelled_while_it_is_granted_is_held_by_nobody() {
    let server = Server::start();
    let mut client = Client::start(server.addr, "w").await;
    for round in 0..30_u64 {
        // The client may still hold, for a moment, what it gives back.
        let body = json!({ "key": "k", "owner": "other", "ttl_ms": 60_000, "wait_ms": 10_000 });
        let grant = Grant::of(&server.post("/v1/acquire", &body).await.ok());
        let claims = client.begin("claim", json!({ "key": "k", "wait_seconds": 50 })).await;
        server.until_waiters("k", 1).await;
        // The release and the cancellation arrive at about the same time, in either order.
        let release = async {
            sleep_ms(round % 6).await;
            server.release(&grant).await;
        };
        let cancel = async {
            sleep_ms(round / 6).await;
            client.notify("notifications/cancelled", json!({ "requestId": claims })).await;
        };
        tokio::join!(release, cancel);
        eventually("nobody holds it", async || {
            let lease = server.lease("k").await;
            lease["state"] == "free" && lease["waiters"] == 0
        })
        .await;
    }
    assert_eq!(client.call("list", json!({})).await.done()["leases"], json!([]));
}
