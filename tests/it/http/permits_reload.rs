//! A reload that changes `permits` while calls wait: what is granted after it obeys the new number.

use std::collections::BTreeSet;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    clock::sleep_ms,
    harness::{Grant, Reply, Server, eventually},
};

/// Longer than any test.
const WAIT_MS: u64 = 60_000;

fn settings(permits: u32) -> String {
    format!("[[policy]]\nprefix = \"g/\"\npermits = {permits}\n")
}

fn call(key: &str, owner: &str, wait_ms: u64) -> Value {
    json!({ "key": key, "owner": owner, "ttl_ms": 60_000, "wait_ms": wait_ms })
}

async fn acquire(server: &Server, key: &str, owner: &str) -> Reply {
    server.post("/v1/acquire", &call(key, owner, 0)).await
}

async fn take(server: &Server, key: &str, count: usize) -> Vec<Grant> {
    let mut held = Vec::new();
    for n in 0..count {
        held.push(Grant::of(&acquire(server, key, &format!("before-{n}")).await.ok()));
    }
    held
}

async fn release(server: &Server, leases: &[Grant]) {
    for lease in leases {
        server.release(lease).await;
    }
}

async fn reload(server: &Server, settings: &str) {
    let applied = "tenure_config_reloads_total{outcome=\"applied\"}";
    let before = server.metric(applied).await;
    server.configure(settings);
    server.signal(Signal::HUP);
    eventually(applied, async || server.metric(applied).await > before + 0.5).await;
}

/// Resolves once this many calls wait in queues of the coordinator.
async fn waiting(server: &Server, count: f64) {
    let waiters = "tenure_lease_waiters{pool=\"default\"}";
    eventually(waiters, async || server.metric(waiters).await > count - 0.5).await;
}

async fn held(server: &Server, prefix: &str) -> BTreeSet<String> {
    let leases = server.get(&format!("/v1/leases?limit=1000&prefix={prefix}")).await.ok();
    let leases = leases["leases"].as_array().expect("leases").clone();
    let held = leases.iter().filter(|lease| lease["state"] == "held");
    held.map(|lease| lease["key"].as_str().expect("a key").to_owned()).collect()
}

fn set<const N: usize>(keys: [&str; N]) -> BTreeSet<String> {
    keys.map(str::to_owned).into()
}

#[tokio::test]
async fn fewer_permits_have_fewer_holders() {
    let server = Server::configured(&settings(4));
    let before = take(&server, "g/x", 4).await;
    let calls = [call("g/x", "w1", WAIT_MS), call("g/x", "w2", WAIT_MS)];
    let change = async {
        waiting(&server, 2.0).await;
        reload(&server, &settings(2)).await;
        let high: Vec<_> = before.iter().rev().cloned().collect();
        release(&server, &high).await;
    };
    let (one, two, ()) = tokio::join!(
        server.post("/v1/acquire", &calls[0]),
        server.post("/v1/acquire", &calls[1]),
        change
    );
    let keys: BTreeSet<String> = [one, two].map(|answer| Grant::of(&answer.ok()).key).into();
    assert_eq!(keys, set(["g/x#1", "g/x#2"]));
    acquire(&server, "g/x", "new").await.problem(409, "none-available");
    assert_eq!(held(&server, "g/x").await, keys);
}

#[tokio::test]
async fn permits_that_become_a_lease_have_one_holder() {
    let server = Server::configured(&settings(2));
    let before = take(&server, "g/x", 2).await;
    let wait = call("g/x", "w", WAIT_MS);
    let change = async {
        waiting(&server, 1.0).await;
        reload(&server, &settings(1)).await;
    };
    // The key itself is free.
    let (answer, ()) = tokio::join!(server.post("/v1/acquire", &wait), change);
    assert_eq!(Grant::of(&answer.ok()).key, "g/x");
    release(&server, &before).await;
    acquire(&server, "g/x", "new").await.problem(409, "held");
    assert_eq!(held(&server, "g/x").await, set(["g/x"]));
}

#[tokio::test]
async fn a_lease_that_becomes_permits_is_not_granted_again() {
    let server = Server::configured(&settings(1));
    let before = take(&server, "g/x", 1).await;
    let waits = [call("g/x", "w1", WAIT_MS), call("g/x", "w2", WAIT_MS)];
    let change = async {
        waiting(&server, 2.0).await;
        reload(&server, &settings(2)).await;
    };
    let (one, two, ()) = tokio::join!(
        server.post("/v1/acquire", &waits[0]),
        server.post("/v1/acquire", &waits[1]),
        change
    );
    let keys: BTreeSet<String> = [one, two].map(|answer| Grant::of(&answer.ok()).key).into();
    assert_eq!(keys, set(["g/x#1", "g/x#2"]));
    assert_eq!(held(&server, "g/x").await, set(["g/x", "g/x#1", "g/x#2"]), "it goes on");
    release(&server, &before).await;
    acquire(&server, "g/x", "new").await.problem(409, "none-available");
}

#[tokio::test]
async fn a_session_that_waits_goes_on_for_a_permit() {
    let server = Server::configured(&settings(1));
    take(&server, "g/x", 1).await;
    let session = server.session("w", 30_000, json!({})).await;
    let wait = json!({ "key": "g/x", "owner": "w", "session": session.id, "wait_ms": WAIT_MS });
    let change = async {
        waiting(&server, 1.0).await;
        reload(&server, &settings(2)).await;
    };
    let (answer, ()) = tokio::join!(server.post("/v1/acquire", &wait), change);
    assert!(Grant::of(&answer.ok()).key.starts_with("g/x#"));
}

#[tokio::test]
async fn an_exclusive_caller_has_all_permits_of_the_new_number() {
    for (from, to) in [(2, 4), (4, 2), (1, 3), (3, 1)] {
        let server = Server::configured(&settings(from));
        let before = take(&server, "g/x", from as usize).await;
        let keys = json!([{ "key": "g/x", "mode": "exclusive" }]);
        let wait = json!({ "keys": keys, "owner": "writer", "ttl_ms": 60_000, "wait_ms": WAIT_MS });
        let change = async {
            waiting(&server, 1.0).await;
            // It has a part of the permits when the number changes.
            let (first, rest) = before.split_at(before.len() - 1);
            release(&server, first).await;
            sleep_ms(200).await;
            reload(&server, &settings(to)).await;
            release(&server, rest).await;
        };
        let (answer, ()) = tokio::join!(server.post("/v1/acquire-all", &wait), change);
        let answer = answer.ok();
        let grants = answer["grants"].as_array().expect("grants");
        let has: BTreeSet<&str> =
            grants.iter().map(|grant| grant["key"].as_str().expect("a key")).collect();
        assert_eq!(has.len(), to as usize, "{from} -> {to}: {has:?}");
        let refused = acquire(&server, "g/x", "reader").await;
        refused.problem(409, if to == 1 { "held" } else { "none-available" });
        assert_eq!(held(&server, "g/x").await, has.into_iter().map(str::to_owned).collect());
    }
}

#[tokio::test]
async fn a_caller_that_waits_gets_a_permit_of_a_higher_number() {
    let server = Server::configured(&settings(2));
    take(&server, "g/x", 2).await;
    let wait = call("g/x", "w", WAIT_MS);
    let change = async {
        waiting(&server, 1.0).await;
        reload(&server, &settings(4)).await;
    };
    let (answer, ()) = tokio::join!(server.post("/v1/acquire", &wait), change);
    assert!(["g/x#3", "g/x#4"].contains(&&*Grant::of(&answer.ok()).key));
}

#[tokio::test]
async fn a_caller_that_wants_more_than_there_are_is_refused() {
    let server = Server::configured(&settings(4));
    let before = take(&server, "g/x", 4).await;
    let keys = json!([{ "key": "g/x", "permits": 3 }, { "key": "plain" }]);
    let wait = json!({ "keys": keys, "owner": "w", "ttl_ms": 60_000, "wait_ms": WAIT_MS });
    let change = async {
        waiting(&server, 1.0).await;
        release(&server, &before[..1]).await;
        sleep_ms(200).await;
        reload(&server, &settings(2)).await;
    };
    let (answer, ()) = tokio::join!(server.post("/v1/acquire-all", &wait), change);
    answer.bad_field("keys[0].permits");
    assert!(!held(&server, "g/x").await.contains(&before[0].key), "it keeps nothing");
}

#[tokio::test]
async fn a_list_goes_on_with_the_new_number() {
    let server = Server::configured(&settings(2));
    let plain = server.acquire("plain", "other", 60_000).await;
    let keys = json!([{ "key": "g/x", "mode": "exclusive" }, { "key": "plain" }]);
    let wait = json!({ "keys": keys, "owner": "w", "ttl_ms": 60_000, "wait_ms": WAIT_MS,
        "request_id": "r1" });
    let change = async {
        waiting(&server, 1.0).await;
        assert_eq!(held(&server, "g/x").await, set(["g/x#1", "g/x#2"]));
        reload(&server, &settings(3)).await;
        eventually("the third permit", async || held(&server, "g/x").await.len() == 3).await;
        reload(&server, &settings(2)).await;
        eventually("two permits", async || held(&server, "g/x").await.len() == 2).await;
        reload(&server, &settings(3)).await;
        eventually("the third permit", async || held(&server, "g/x").await.len() == 3).await;
        server.release(&plain).await;
    };
    let (answer, ()) = tokio::join!(server.post("/v1/acquire-all", &wait), change);
    let answer = answer.ok();
    assert_eq!(answer["grants"].as_array().expect("grants").len(), 4);
    let again = server.post("/v1/acquire-all", &wait).await.ok();
    assert_eq!(again["grants"].as_array().expect("grants").len(), 4, "{again}");
}

#[tokio::test]
async fn acquire_any_waits_for_leases_alone() {
    let server = Server::configured(&settings(3));
    let before = take(&server, "g/x", 3).await;
    let any =
        |keys: &[&str]| json!({ "keys": keys, "owner": "w", "ttl_ms": 60_000, "wait_ms": WAIT_MS });
    let (some, none) = (any(&["g/x#1", "g/x#3"]), any(&["g/x#3"]));
    let change = async {
        waiting(&server, 2.0).await;
        reload(&server, &settings(2)).await;
        let high: Vec<_> = before.iter().rev().cloned().collect();
        release(&server, &high).await;
    };
    let (one, refused, ()) = tokio::join!(
        server.post("/v1/acquire-any", &some),
        server.post("/v1/acquire-any", &none),
        change
    );
    assert_eq!(one.ok()["grants"][0]["key"], "g/x#1");
    refused.bad_field("keys");
    assert_eq!(held(&server, "g/x").await, set(["g/x#1"]));
}

#[tokio::test]
async fn acquire_any_of_a_pool_is_granted_its_keys_alone() {
    let pools = |first: &str, second: &str| {
        format!(
            "[[policy]]\nprefix = \"a/\"\npool = \"{first}\"\n\
             [[policy]]\nprefix = \"b/\"\npool = \"{second}\"\n"
        )
    };
    let server = Server::configured(&pools("one", "two"));
    let a = server.acquire("a/1", "other", 60_000).await;
    let b = server.acquire("b/1", "other", 60_000).await;
    let wait = json!({ "pool": "one", "owner": "w", "ttl_ms": 60_000, "wait_ms": WAIT_MS });
    let change = async {
        let waiters = "tenure_lease_waiters{pool=\"one\"}";
        eventually(waiters, async || server.metric(waiters).await > 0.5).await;
        reload(&server, &pools("two", "one")).await;
        server.release(&a).await;
        sleep_ms(300).await;
        assert!(!held(&server, "a/").await.contains("a/1"), "it belongs to another pool");
        server.release(&b).await;
    };
    let (answer, ()) = tokio::join!(server.post("/v1/acquire-any", &wait), change);
    assert_eq!(answer.ok()["grants"][0]["key"], "b/1");
}

#[tokio::test]
async fn a_permit_above_the_number_goes_on_and_is_not_handed_on() {
    let server = Server::configured(&settings(4));
    let before = take(&server, "g/x", 4).await;
    let last = before.iter().find(|grant| grant.key == "g/x#4").expect("the last permit");
    reload(&server, &settings(2)).await;
    server.post("/v1/heartbeat", &last.proof()).await.ok();
    let check = json!({ "key": last.key, "token": last.token });
    assert_eq!(server.post("/v1/check", &check).await.ok()["current"], true);
    let mut transfer = last.proof();
    transfer["to"] = json!("successor");
    let refused = server.post("/v1/transfer", &transfer).await.bad_field("key");
    let detail = refused["detail"].as_str().expect("a detail");
    assert!(detail.contains("#1 to #2") && detail.contains("release"), "{detail}");
    server.post("/v1/heartbeat", &last.proof()).await.ok();
    for mut acquire in [call("g/x#4", "successor", 0), call("g/x#4", "before-3", 0)] {
        server.post("/v1/acquire", &acquire).await.bad_field("key");
        acquire["reclaim"] = json!(true);
        server.post("/v1/acquire", &acquire).await.bad_field("key");
    }
    let order = json!({ "key": last.key, "reason": "test", "immediately": true });
    server.post("/v1/admin/revoke", &order).await.ok();
    server.post("/v1/heartbeat", &last.proof()).await.problem(409, "lease-lost");
    // To any successor: it only ends.
    let third = before.iter().find(|grant| grant.key == "g/x#3").expect("the third permit");
    server.post("/v1/transfer", &third.proof()).await.ok();
    assert_eq!(held(&server, "g/x").await, set(["g/x#1", "g/x#2"]));
}

/// A settings file that answers late does not undo what a later one said, and is told of while it is silent.
#[tokio::test]
async fn settings_that_are_read_late_undo_no_later_ones() {
    let settings = |permits: u32| format!("[[policy]]\nprefix = \"s/\"\npermits = {permits}\n");
    let server = Server::configured(&settings(2));
    let file = server.settings_file();
    let pipe = file.with_extension("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo runs").success());
    std::fs::rename(&pipe, &file).expect("renamed");
    std::fs::hard_link(&file, &pipe).expect("a second name");
    server.signal(Signal::HUP);
    let silent = "tenure_file_not_in_force{file=\"settings\"}";
    eventually(silent, async || server.metric(silent).await > 0.5).await;
    let other = file.with_extension("new");
    std::fs::write(&other, settings(5)).expect("a file");
    std::fs::rename(&other, &file).expect("renamed");
    server.signal(Signal::HUP);
    let late = settings(3);
    tokio::task::spawn_blocking(move || std::fs::write(pipe, late).expect("it is read"))
        .await
        .expect("written");
    let five = async || server.get("/v1/leases/s/x").await.json()["permits"]["count"] == 5;
    eventually("the later file is in force", five).await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert!(five().await, "and stays so");
    assert!(server.metric(silent).await < 0.5);
}

/// A lease from before its key had permits is shown as what it is, and a proxy lets its holder in.
#[tokio::test]
async fn a_lease_from_before_permits_is_shown_and_passes_the_gate() {
    let server = Server::configured("[[policy]]\nprefix = \"s/\"\npermits = 1\n");
    let held = server.acquire("s/v", "w", 60_000).await;
    reload(&server, "[[policy]]\nprefix = \"s/\"\npermits = 3\n").await;
    let lease = server.get("/v1/leases/s/v").await.ok();
    assert_eq!((&lease["state"], &lease["owner"]), (&json!("held"), &json!("w")), "{lease}");
    let gate = server.get("/v1/leases/s/v?gate=1").await.ok();
    assert_eq!(gate["token"], lease["token"], "{gate}");
    server.release(&held).await;
    server.get("/v1/leases/s/v?gate=1").await.problem(400, "invalid-field");
}
