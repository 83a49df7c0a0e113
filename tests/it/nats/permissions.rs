//! The users of the manual, on a server that allows them what the manual says and nothing else.

use std::time::Duration;

use async_nats::{ConnectOptions, jetstream};
use serde_json::json;

use crate::{
    backup::node::Place,
    support::nats_server::{Server, Sync},
};

/// A user of the test's own, who may do everything.
const ADMIN: &str = r#"{ user: "admin", password: "admin" }"#;
/// What the server writes into its log when it denies something.
const DENIED: &str = "Violation";
/// How long the answer to a call that is denied is waited for: there is none.
const SILENCE: Duration = Duration::from_millis(300);
/// How long another answer may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// The server's settings in the manual, with one more user.
pub fn authorization() -> String {
    let manual = include_str!("../../../docs/security.md");
    let begin = manual.find("authorization {").expect("the settings");
    let block = manual[begin..].split("```").next().expect("their end");
    let users = "users = [";
    assert_eq!(block.matches(users).count(), 1, "{block}");
    block.replace(users, &format!("{users}\n    {ADMIN}"))
}

/// A store of the bucket `tenure`, as this user.
pub fn place(server: &Server, user: &str, password: &str) -> Place {
    let url = format!("store.nats.url={}", server.url());
    let user = format!("store.nats.user={user}");
    let mut place =
        Place::new(&["store.kind=nats", &url, &user, "store.nats.replicas=1", "node.ttl=1s"]);
    let file = place.file("password");
    std::fs::write(&file, password).expect("a file");
    place.settings.push(format!("store.nats.password_file={file}"));
    place
}

async fn client(server: &Server, user: &str, password: &str) -> async_nats::Client {
    let options = ConnectOptions::with_user_and_password(user.to_owned(), password.to_owned());
    options.request_timeout(Some(SILENCE)).connect(server.url()).await.expect("the user is known")
}

fn streams(client: &async_nats::Client, patience: Duration) -> jetstream::Context {
    jetstream::context::ContextBuilder::new().timeout(patience).build(client.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_does_no_more_than_the_manual_allows() {
    let server = Server::start_with(Sync::Always, &authorization());
    let tenure = place(&server, "tenure", "change-me");
    let node = tenure.serve().await;
    let held = node.acquire("held", "worker", "v").await;
    let proof = json!({ "key": "held", "lease_id": held["lease_id"] });
    node.call("/v1/heartbeat", proof.clone()).await;
    node.acquire_and_release("gone/1").await;
    node.call("/v1/admin/forget", json!({ "prefix": "gone/", "reason": "r" })).await;
    for (user, password) in [("tenure", "change-me"), ("tenure-backup", "change-me-too")] {
        let place = place(&server, user, password);
        let file = place.file("backup.jsonl");
        let said = place.tenure(&["backup", "--file", &file, "--output", "json"]).json();
        assert_eq!(said["keys"], 2, "{user}: {said}");
    }
    node.stop().await;
    // Another one reads the bucket, follows it, and adopts what the first one left.
    let node = tenure.serve().await;
    let events = node.get("/v1/events?format=json&after=0").await;
    let granted = events["events"].as_array().expect("events");
    assert!(granted.iter().any(|event| event["subject"] == "held"), "{events}");
    node.call("/v1/heartbeat", proof.clone()).await;
    node.call("/v1/release", proof).await;
    // What the store does minutes after a key is forgotten, or a node has left.
    let client = client(&server, "tenure", "change-me").await;
    let bucket = streams(&client, PATIENCE).get_stream("KV_tenure").await.expect("its own bucket");
    bucket.purge().filter("$KV.tenure.l.nobody").await.expect("it may purge its own bucket");
    node.stop().await;
    let rotated = tenure.tenure(&["secret", "rotate", "--raise-epoch", "--output", "json"]);
    assert_eq!(rotated.json()["epoch"], 1);
    assert!(!server.log().contains(DENIED), "{}", server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_users_of_the_manual_reach_nothing_else() {
    let server = Server::start_with(Sync::Always, &authorization());
    place(&server, "tenure", "change-me").serve().await.stop().await;
    let admin = streams(&client(&server, "admin", "admin").await, PATIENCE);
    let other = jetstream::kv::Config { bucket: "other".to_owned(), ..Default::default() };
    let other = admin.create_key_value(other).await.expect("the administrator may");
    other.put("key", "value".into()).await.expect("it is written");
    for (user, password) in [("tenure", "change-me"), ("tenure-backup", "change-me-too")] {
        let client = client(&server, user, password).await;
        assert!(streams(&client, PATIENCE).get_stream("KV_tenure").await.is_ok(), "{user}");
        assert!(streams(&client, SILENCE).get_stream("KV_other").await.is_err(), "{user}");
        for (subject, body) in [
            ("$JS.API.STREAM.MSG.GET.KV_other", r#"{"last_by_subj":"$KV.other.key"}"#),
            ("$JS.API.DIRECT.GET.KV_other.$KV.other.key", ""),
            ("$JS.API.STREAM.DELETE.KV_tenure", ""),
            ("$JS.API.STREAM.NAMES", ""),
            ("$KV.other.key", "changed"),
        ] {
            let answer = client.request(subject, body.into()).await;
            assert!(answer.is_err(), "{user}: {subject}: {answer:?}");
        }
    }
    let backup = client(&server, "tenure-backup", "change-me-too").await;
    for subject in ["$KV.tenure.l.mine", "$KV.tenure.meta", "$JS.API.STREAM.PURGE.KV_tenure"] {
        assert!(backup.request(subject, "{}".into()).await.is_err(), "{subject}");
    }
    let value = other.get("key").await.expect("it is readable").expect("it is there");
    assert_eq!(&value[..], b"value");
    let bucket = admin.get_stream("KV_tenure").await.expect("the bucket");
    let forged = bucket.get_last_raw_message_by_subject("$KV.tenure.l.mine").await;
    assert!(forged.is_err(), "{forged:?}");
    assert!(server.log().contains(DENIED), "{}", server.log());
}
