//! The end of the process: whoever ends it, nothing stays held.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::client::Client;
use crate::support::{
    clock::{ms, now},
    harness::{Server, kinds},
};

/// What ends a process.
#[derive(Clone, Copy, Debug)]
enum Cause {
    EndOfInput,
    Signal(Signal),
}

fn end(client: &mut Client, cause: Cause) {
    match cause {
        Cause::EndOfInput => client.close(),
        Cause::Signal(signal) => {
            let pid = i32::try_from(client.pid()).ok().and_then(Pid::from_raw);
            kill_process(pid.expect("a pid"), signal).expect("it runs");
        }
    }
}

fn state(lease: &Value) -> (&Value, &Value) {
    (&lease["state"], &lease["waiters"])
}

#[tokio::test]
async fn everything_is_released_at_once_and_what_waits_is_given_up() {
    for cause in [
        Cause::EndOfInput,
        Cause::Signal(Signal::TERM),
        Cause::Signal(Signal::INT),
        Cause::Signal(Signal::HUP),
    ] {
        let server = Server::start();
        let grant = server.acquire("taken", "other", 60_000).await;
        let mut client = Client::start(server.addr, "w").await;
        for key in ["a", "b"] {
            client.call("claim", json!({ "key": key, "ttl_seconds": 600 })).await.done();
        }
        client.begin("claim", json!({ "key": "taken", "wait_seconds": 50 })).await;
        client.begin("wait", json!({ "key": "taken", "wait_seconds": 50 })).await;
        server.until_waiters("taken", 1).await;
        let began = now();
        end(&mut client, cause);
        assert!(client.ended().await.success(), "{cause:?}");
        let took = now().since(began);
        assert!(took < ms(4_000), "{cause:?}: {took:?}");
        for key in ["a", "b"] {
            let lease = server.lease(key).await;
            assert_eq!(state(&lease), (&json!("free"), &json!(0)), "{cause:?}: {lease}");
            assert_eq!(kinds(&server.events_of(key).await), ["granted", "released"], "{cause:?}");
        }
        assert_eq!(server.lease("taken").await["waiters"], 0, "{cause:?}");
        server.release(&grant).await;
        assert_eq!(kinds(&server.events_of("taken").await), ["granted", "released"], "{cause:?}");
    }
}

#[tokio::test]
async fn what_an_agent_says_of_the_end_is_in_the_history() {
    let server = Server::start();
    let mut client = Client::start(server.addr, "w").await;
    for (tool, wanted) in
        [("release", "the tests fail"), ("hand_over", "to any successor: the tests fail")]
    {
        client.claim("k").await;
        let told = client.call(tool, json!({ "key": "k", "reason": "r".repeat(257) })).await;
        assert!(told.failed && told.message.contains("reason"), "{told:?}");
        client.call(tool, json!({ "key": "k", "reason": "the tests fail" })).await.done();
        let events = server.events_of("k").await;
        assert_eq!(events.last().expect("an event")["data"]["reason"], wanted);
    }
}

#[tokio::test]
async fn a_call_that_does_not_wait_is_answered_when_the_input_ends_behind_it() {
    let server = Server::start();
    server.acquire("k", "other", 60_000).await;
    let mut client = Client::start(server.addr, "w").await;
    let id = client.begin("who_has", json!({ "key": "k" })).await;
    client.close();
    assert_eq!(client.told(id).await.done()["owner"], "other");
    assert!(client.ended().await.success());
}

#[tokio::test]
async fn a_process_that_is_killed_leaves_its_keys_for_a_ttl() {
    let server = Server::start();
    let mut client = Client::with(server.addr, &["--owner", "w", "--ttl", "1s"]).await;
    client.claim("k").await;
    end(&mut client, Cause::Signal(Signal::KILL));
    assert!(!client.ended().await.success());
    let mut next = Client::start(server.addr, "next").await;
    let told = next.call("claim", json!({ "key": "k", "wait_seconds": 50 })).await.done();
    assert_eq!(told["token"], 2);
    assert_eq!(kinds(&server.events_of("k").await), ["granted", "expired", "granted"]);
}

#[tokio::test]
async fn an_owner_that_cannot_be_one_ends_it_at_the_start() {
    let server = Server::start();
    let client = Client::silent(server.addr, &["--owner", ""]);
    assert_eq!(client.ended().await.code(), Some(64));
}
