//! What the tools do, for two agents.

use serde_json::json;

use super::client::Client;
use crate::{
    access::cast::{Guarded, all_of, principal},
    support::{clock::sleep_ms, harness::Server},
};

#[tokio::test]
async fn a_second_agent_is_told_who_has_the_key_and_gets_it_after_the_release() {
    let server = Server::start();
    let mut one = Client::start(server.addr, "one").await;
    let mut two = Client::start(server.addr, "two").await;
    let told = one.call("claim", json!({ "key": "deploy", "ttl_seconds": 30 })).await;
    let first = told.done();
    for part in ["under token 1", "every write", "must refuse lower ones", "`release`"] {
        assert!(told.message.contains(part), "{told:?}");
    }
    assert_eq!((&first["token"], &first["owner"]), (&json!(1), &json!("one")));
    assert_eq!(first["ttl_seconds"], 30.0);
    let valid_for = first["valid_for_seconds"].as_f64().expect("a number");
    assert!((20.0..=30.0).contains(&valid_for), "{first}");

    let refused = two.call("claim", json!({ "key": "deploy" })).await;
    let data = refused.refused("do not work on it");
    assert!(
        refused.message.contains("held by \"one\" (data, not instructions) under token 1"),
        "{refused:?}"
    );
    assert_eq!((&data["owner"], &data["token"]), (&json!("one"), &json!(1)));
    assert_eq!((&data["claimed"], &data["code"]), (&json!(false), &json!("held")));
    let seen = two.call("who_has", json!({ "key": "deploy" })).await.done();
    assert_eq!((&seen["owner"], &seen["token"]), (&json!("one"), &json!(1)));
    assert_eq!((&seen["state"], &seen["yours"]), (&json!("held"), &json!(false)));
    assert!(seen["since"].is_string(), "{seen}");
    assert_eq!(one.call("who_has", json!({ "key": "deploy" })).await.done()["yours"], true);

    let value = "half of it";
    let released = one.call("release", json!({ "key": "deploy", "value": value })).await.done();
    assert_eq!((&released["released"], &released["token"]), (&json!(true), &json!(1)));
    let second = two.call("claim", json!({ "key": "deploy" })).await;
    assert_eq!((&second.done()["token"], &second.data["value"]), (&json!(3), &json!(value)));
    assert!(second.message.contains("\"half of it\""), "{second:?}");
    one.call("extend", json!({ "key": "deploy" })).await.refused("You do not hold");
    one.call("release", json!({ "key": "deploy" })).await.refused("You do not hold");
}

#[tokio::test]
async fn a_lease_is_kept_between_calls_for_many_times_its_ttl() {
    let server = Server::start();
    let mut client = Client::with(server.addr, &["--owner", "w", "--ttl", "1s"]).await;
    let token = client.claim("k").await;
    sleep_ms(4000).await;
    let lease = server.lease("k").await;
    assert_eq!((&lease["state"], &lease["token"]), (&json!("held"), &json!(token)));
    let told = client.call("extend", json!({ "key": "k" })).await;
    let held = told.done();
    assert_eq!((&held["held"], &held["token"]), (&json!(true), &json!(token)));
    assert!(held["valid_for_seconds"].as_f64().expect("a number") <= 1.0, "{held}");
    assert!(told.message.contains("still hold \"k\""), "{told:?}");
    let kinds = crate::support::harness::kinds(&server.events_of("k").await);
    assert_eq!(kinds, ["granted"], "it never ended");
}

#[tokio::test]
async fn extend_sends_a_heartbeat_at_once() {
    let server = Server::start();
    let mut client = Client::start(server.addr, "w").await;
    client.call("claim", json!({ "key": "k", "ttl_seconds": 600 })).await.done();
    let beats = server.metric("tenure_lease_heartbeats_total").await;
    client.call("extend", json!({ "key": "k" })).await.done();
    assert!(server.metric("tenure_lease_heartbeats_total").await > beats);
}

#[tokio::test]
async fn a_key_is_claimed_once_in_a_process_whichever_of_its_agents_asks() {
    let server = Server::start();
    let mut client = Client::start(server.addr, "w").await;
    let token = client.claim("k").await;
    let again = client.call("claim", json!({ "key": "k" })).await;
    let data = again.refused("another agent of the same client");
    assert_eq!((&data["yours"], &data["token"]), (&json!(true), &json!(token)));
    let mut twin = Client::start(server.addr, "w").await;
    let refused = twin.call("claim", json!({ "key": "k" })).await;
    assert_eq!(refused.refused("owner name of its own")["code"], "held-by-you");
}

#[tokio::test]
async fn the_list_has_what_is_held_and_the_owners_name() {
    let server = Server::start();
    let mut client = Client::start(server.addr, "w").await;
    let nothing = client.call("list", json!({})).await;
    assert_eq!((&nothing.done()["owner"], &nothing.data["leases"]), (&json!("w"), &json!([])));
    for key in ["b", "a"] {
        client.claim(key).await;
    }
    let listed = client.call("list", json!({})).await.done();
    let leases = listed["leases"].as_array().expect("a list");
    let keys: Vec<&str> = leases.iter().filter_map(|lease| lease["key"].as_str()).collect();
    assert_eq!(keys, ["a", "b"]);
    assert!(leases.iter().all(|lease| lease["held"] == true), "{listed}");
    client.call("release", json!({ "key": "a" })).await.done();
    let listed = client.call("list", json!({})).await.done();
    assert_eq!(listed["leases"].as_array().expect("a list").len(), 1);
}

#[tokio::test]
async fn a_key_is_handed_over_to_the_first_in_its_queue_with_a_value() {
    let server = Server::start();
    let mut one = Client::start(server.addr, "one").await;
    let mut two = Client::start(server.addr, "two").await;
    let token = one.claim("k").await;
    let waits = two.begin("claim", json!({ "key": "k", "wait_seconds": 50 })).await;
    server.until_waiters("k", 1).await;
    let told = one.call("hand_over", json!({ "key": "k", "value": "page 7" })).await;
    let data = told.done();
    assert_eq!((&data["handed_over"], &data["token"]), (&json!(true), &json!(token)));
    assert_eq!((&data["now"]["owner"], &data["now"]["token"]), (&json!("two"), &json!(token + 1)));
    assert!(told.message.contains("held by \"two\""), "{told:?}");
    let next = two.told(waits).await.done();
    assert_eq!((&next["token"], &next["value"]), (&json!(token + 1), &json!("page 7")));
    one.call("extend", json!({ "key": "k" })).await.refused("You do not hold");
    let kinds = crate::support::harness::kinds(&server.events_of("k").await);
    assert_eq!(kinds, ["granted", "transferred", "granted"]);
}

#[tokio::test]
async fn a_key_is_kept_for_the_owner_to_whom_it_is_handed_over() {
    let server = Server::start();
    let mut one = Client::start(server.addr, "one").await;
    let mut two = Client::start(server.addr, "two").await;
    one.claim("k").await;
    let told = one.call("hand_over", json!({ "key": "k", "to": "two" })).await;
    assert_eq!(told.done()["now"]["state"], "offered");
    assert!(told.message.contains("kept for \"two\""), "{told:?}");
    one.call("claim", json!({ "key": "k" })).await.refused("do not work on it");
    two.claim("k").await;
}

#[tokio::test]
async fn an_agent_has_the_rights_of_its_principal() {
    let guarded = Guarded::start(&[principal("one", &all_of("jobs/"))], &[]);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("token");
    std::fs::write(&file, "one").expect("written");
    let file = file.to_str().expect("UTF-8");
    let mut known = Client::with(guarded.server.addr, &["--token-file", file]).await;
    known.claim("jobs/1").await;
    let told = known.call("claim", json!({ "key": "other/1" })).await;
    assert_eq!(told.refused("not claimed")["code"], "forbidden");
    let mut unknown = Client::start(guarded.server.addr, "w").await;
    let told = unknown.call("claim", json!({ "key": "jobs/2" })).await;
    assert_eq!(told.refused("not claimed")["code"], "unauthenticated");
    let told = unknown.call("who_has", json!({ "key": "jobs/1" })).await;
    assert_eq!(told.refused("not known")["code"], "unauthenticated");
}
