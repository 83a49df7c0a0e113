//! A place in the queue survives the end of a call: the request id carries it for 10 s.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{
    clock::{eventually, ms},
    harness::process::Server,
    http,
};

/// A waiting call on a connection of its own.
fn ask(server: &Server, path: &str, body: Value) -> JoinHandle<Option<Value>> {
    let url = format!("http://{}/v1/{path}", server.addr);
    tokio::spawn(async move {
        let answer = http::client().post(url).json(&body).send().await.ok()?;
        answer.json().await.ok()
    })
}

fn body(owner: &str, id: &str, any: bool, wait_ms: u64) -> Value {
    let mut body =
        json!({ "owner": owner, "ttl_ms": 60_000, "wait_ms": wait_ms, "request_id": id });
    if any {
        body["keys"] = json!(["k"]);
    } else {
        body["key"] = json!("k");
    }
    body
}

async fn waiters(server: &Server, count: u64) {
    eventually("the queue", async || server.lease("k").await["waiters"] == count).await;
}

async fn owner(server: &Server) -> Value {
    eventually("a holder", async || server.lease("k").await["state"] == "held").await;
    server.lease("k").await["owner"].clone()
}

#[tokio::test]
async fn a_repeated_call_has_the_place_of_the_call_that_was_cut() {
    for any in [false, true] {
        let path = if any { "acquire-any" } else { "acquire" };
        let server = Server::start();
        let grant = server.acquire("k", "present", 60_000).await;
        let first = ask(&server, path, body("first", "f", any, 30_000));
        waiters(&server, 1).await;
        let _second = ask(&server, path, body("second", "s", any, 30_000));
        waiters(&server, 2).await;
        // A gateway ends the call.
        first.abort();
        waiters(&server, 1).await;
        tokio::time::sleep(ms(500)).await;
        // Another wait is the same request.
        let _again = ask(&server, path, body("first", "f", any, 20_000));
        waiters(&server, 2).await;
        server.post("/v1/release", &grant.proof()).await.ok();
        assert_eq!(owner(&server).await, "first", "{path}");
    }
}

#[tokio::test]
async fn a_call_whose_wait_is_over_has_its_place_again_if_it_comes_soon() {
    let server = Server::start();
    let grant = server.acquire("k", "present", 60_000).await;
    let first = ask(&server, "acquire", body("first", "f", false, 1_000));
    waiters(&server, 1).await;
    let _second = ask(&server, "acquire", body("second", "s", false, 30_000));
    waiters(&server, 2).await;
    assert_eq!(first.await.expect("no panic").expect("an answer")["code"], "held");
    let _again = ask(&server, "acquire", body("first", "f", false, 30_000));
    // A new request id is another caller.
    let _third = ask(&server, "acquire", body("third", "t", false, 30_000));
    waiters(&server, 3).await;
    server.post("/v1/release", &grant.proof()).await.ok();
    assert_eq!(owner(&server).await, "first");
}

#[tokio::test]
async fn a_caller_that_is_away_is_passed_over_and_after_ten_seconds_it_is_last() {
    let server = Server::start();
    let grant = server.acquire("k", "present", 60_000).await;
    let first = ask(&server, "acquire", body("first", "f", false, 30_000));
    waiters(&server, 1).await;
    let _second = ask(&server, "acquire", body("second", "s", false, 30_000));
    waiters(&server, 2).await;
    first.abort();
    waiters(&server, 1).await;
    tokio::time::sleep(Duration::from_millis(10_500)).await;
    let _again = ask(&server, "acquire", body("first", "f", false, 30_000));
    waiters(&server, 2).await;
    server.post("/v1/release", &grant.proof()).await.ok();
    assert_eq!(owner(&server).await, "second");
}
