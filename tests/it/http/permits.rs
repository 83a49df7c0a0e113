//! Keys with permits, and acquire-all: every key of a list or none.

use std::{collections::BTreeSet, time::Duration};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::{
    clock::{now, sleep_ms},
    harness::{Grant, Server, eventually, kinds},
};

const SETTINGS: &str = "[[policy]]\nprefix = \"gpus/\"\npool = \"gpus\"\npermits = 4\n\n\
                        [[policy]]\nprefix = \"tables/\"\npermits = 8\n";

fn server() -> Server {
    Server::configured(SETTINGS)
}

fn grants(answer: &Value) -> Vec<Grant> {
    answer["grants"].as_array().expect("grants").iter().map(Grant::of).collect()
}

fn one(key: &str, owner: &str, wait_ms: u64) -> Value {
    json!({ "key": key, "owner": owner, "ttl_ms": 60_000, "wait_ms": wait_ms })
}

fn all(keys: &Value, owner: &str, wait_ms: u64) -> Value {
    json!({ "keys": keys, "owner": owner, "ttl_ms": 60_000, "wait_ms": wait_ms })
}

async fn free(server: &Server, key: &str) -> u64 {
    server.get(&format!("/v1/leases/{key}")).await.ok()["permits"]["free"].as_u64().expect("free")
}

async fn give_back(server: &Server, leases: &[Grant]) {
    for lease in leases {
        server.release(lease).await;
    }
}

#[tokio::test]
async fn a_key_has_as_many_holders_as_permits() {
    let server = server();
    let mut held = Vec::new();
    for owner in ["a", "b", "c", "d"] {
        held.push(Grant::of(&server.post("/v1/acquire", &one("gpus/x", owner, 0)).await.ok()));
    }
    let keys: BTreeSet<&str> = held.iter().map(|grant| grant.key.as_str()).collect();
    assert_eq!(keys, BTreeSet::from(["gpus/x#1", "gpus/x#2", "gpus/x#3", "gpus/x#4"]));
    let tokens: BTreeSet<u64> = held.iter().map(|grant| grant.token).collect();
    assert_eq!(tokens.len(), 4, "each holder has a token of its own");
    let none = server.post("/v1/acquire", &one("gpus/x", "e", 0)).await;
    let none = none.problem(409, "none-available");
    assert_eq!((&none["counts"]["keys"], &none["counts"]["held"]), (&json!(4), &json!(4)));
    assert!(none["detail"].as_str().expect("a detail").contains("4 permits"), "{none}");
    // Another key has permits of its own.
    server.post("/v1/acquire", &one("gpus/y", "e", 0)).await.ok();
    let order = json!({ "key": "gpus/x", "reason": "test" });
    server.post("/v1/admin/revoke", &order).await.bad_field("key");

    let shown = server.get("/v1/leases/gpus/x").await.ok();
    assert_eq!((&shown["state"], &shown["permits"]["free"]), (&json!("held"), &json!(0)));
    assert_eq!(shown["permits"]["taken"][1]["key"], "gpus/x#2");
    let call = one("gpus/x", "e", 20_000);
    let waits = server.post("/v1/acquire", &call);
    let frees = async {
        eventually("it waits", async || {
            server.get("/v1/leases/gpus/x").await.ok()["waiters"] == json!(1)
        })
        .await;
        server.release(&held[2]).await;
    };
    let (answer, ()) = tokio::join!(waits, frees);
    let next = Grant::of(&answer.ok());
    assert_eq!(next.key, held[2].key);
    assert!(next.token > held[2].token);
    // A permit is a lease: heartbeats, checks and transfers name it.
    server.post("/v1/heartbeat", &next.proof()).await.ok();
    let check = json!({ "key": next.key, "token": next.token });
    assert_eq!(server.post("/v1/check", &check).await.ok()["current"], true);
    assert_eq!(server.get("/v1/leases/gpus/y").await.ok()["permits"]["free"], 3);
}

#[tokio::test]
async fn what_a_call_cannot_have_is_named() {
    let server = server();
    let post = async |path: &str, body: Value| server.post(path, &body).await;
    let key = |key: &str, more: Value| {
        let mut wanted = json!({ "key": key });
        wanted.as_object_mut().expect("one").extend(more.as_object().expect("one").clone());
        all(&json!([wanted]), "w", 0)
    };
    let fields = [
        (key("gpus/x", json!({ "permits": 5 })), "keys[0].permits"),
        (key("gpus/x", json!({ "permits": 0 })), "keys[0].permits"),
        (key("plain", json!({ "permits": 2 })), "keys[0].permits"),
        (all(&json!([{ "key": "b" }, { "key": "a", "permits": 2 }]), "w", 0), "keys[1].permits"),
        (key("gpus/x", json!({ "permits": 1, "mode": "shared" })), "keys[0].mode"),
        (key("", json!({})), "keys[0].key"),
        (key("gpus/x#5", json!({})), "keys[0].key"),
        (key(&format!("gpus/{}", "x".repeat(507)), json!({})), "keys[0].key"),
        (all(&json!([]), "w", 0), "keys"),
        (all(&json!([{ "key": "a" }, { "key": "a" }]), "w", 0), "keys"),
        (all(&json!([{ "key": "gpus/x" }, { "key": "gpus/x#2" }]), "w", 0), "keys"),
    ];
    for (body, field) in fields {
        post("/v1/acquire-all", body).await.bad_field(field);
    }
    let many: Vec<Value> = (0..257).map(|n| json!({ "key": format!("k{n}") })).collect();
    post("/v1/acquire-all", all(&json!(many), "w", 0)).await.bad_field("keys");
    let mut reclaim = one("gpus/x", "w", 0);
    reclaim["reclaim"] = json!(true);
    post("/v1/acquire", reclaim).await.bad_field("reclaim");
    let any = json!({ "keys": ["gpus/x"], "owner": "w", "ttl_ms": 60_000 });
    post("/v1/acquire-any", any).await.bad_field("keys");
    post("/v1/acquire", one("gpus/x#5", "w", 0)).await.bad_field("key");
    let long = one(&format!("gpus/{}", "x".repeat(507)), "w", 0);
    post("/v1/acquire", long).await.bad_field("key");
    assert_eq!(free(&server, "gpus/x").await, 4);
}

#[tokio::test]
async fn an_exclusive_caller_waits_for_all_and_later_callers_wait_behind_it() {
    let server = server();
    let share = json!([{ "key": "tables/t", "mode": "shared" }]);
    let whole = json!([{ "key": "tables/t", "mode": "exclusive" }]);
    let mut readers = Vec::new();
    for n in 0..5 {
        let answer = server.post("/v1/acquire-all", &all(&share, &format!("r{n}"), 0)).await;
        readers.extend(grants(&answer.ok()));
    }
    let refused = server.post("/v1/acquire-all", &all(&whole, "writer", 0)).await;
    refused.problem(409, "none-available");
    assert_eq!(free(&server, "tables/t").await, 3, "a refused call has nothing");

    let writer = async {
        let answer = server.post("/v1/acquire-all", &all(&whole, "writer", 30_000)).await.ok();
        (grants(&answer), now())
    };
    let late = async {
        eventually("the writer waits", async || {
            server.get("/v1/leases/tables/t").await.ok()["waiters"] == json!(1)
        })
        .await;
        let at_once = server.post("/v1/acquire-all", &all(&share, "eager", 0)).await;
        let refused = at_once.problem(409, "none-available");
        let detail = refused["detail"].as_str().expect("a detail");
        assert!(detail.ends_with("earlier calls wait for the others"), "{detail}");
        let answer = server.post("/v1/acquire-all", &all(&share, "late", 30_000)).await.ok();
        (grants(&answer), now())
    };
    let ends = async {
        sleep_ms(1_000).await;
        // A permit that comes free meanwhile is the writer's.
        for reader in &readers {
            sleep_ms(30).await;
            server.release(reader).await;
        }
        eventually("the writer has them all", async || {
            let shown = server.get("/v1/leases/tables/t").await.ok();
            let taken = shown["permits"]["taken"].as_array().expect("a list");
            taken.len() == 8 && taken.iter().all(|lease| lease["owner"] == "writer")
        })
        .await;
        let whole = server.get("/v1/leases?owner=writer&state=held&limit=100").await.ok();
        assert_eq!(whole["leases"].as_array().expect("leases").len(), 8);
        now()
    };
    let give = async {
        let (leases, at) = writer.await;
        assert_eq!(leases.len(), 8);
        let readers_before = readers.iter().map(|reader| reader.token).max();
        let token = leases.iter().map(|lease| lease.token).max();
        assert!(token > readers_before, "the writer's highest token is above every reader's");
        sleep_ms(300).await;
        give_back(&server, &leases).await;
        at
    };
    let (written, (late, read_at), _) = tokio::join!(give, late, ends);
    assert_eq!(late.len(), 1);
    assert!(read_at > written, "the late reader comes after the writer");
}

/// Readers come and go without a pause. A writer is served all the same.
#[tokio::test]
async fn a_writer_does_not_starve() {
    let server = server();
    let share = json!([{ "key": "tables/t", "mode": "shared" }]);
    let over = std::cell::Cell::new(false);
    let reader = async |n: usize| {
        let mut turns = 0;
        while !over.get() {
            let call = all(&share, &format!("r{n}"), 20_000);
            let leases = grants(&server.post("/v1/acquire-all", &call).await.ok());
            sleep_ms(5).await;
            give_back(&server, &leases).await;
            turns += 1;
        }
        turns
    };
    let writer = async {
        sleep_ms(200).await;
        let mut longest = Duration::ZERO;
        for _ in 0..10 {
            let whole = json!([{ "key": "tables/t", "mode": "exclusive" }]);
            let asked = now();
            let answer = server.post("/v1/acquire-all", &all(&whole, "writer", 20_000)).await;
            longest = longest.max(now().since(asked));
            give_back(&server, &grants(&answer.ok())).await;
        }
        over.set(true);
        longest
    };
    let (longest, turns) = tokio::join!(writer, join_all((0..12).map(reader)));
    assert!(longest < Duration::from_secs(5), "{longest:?}");
    assert!(turns.iter().all(|turns| *turns > 0), "{turns:?}");
}

#[tokio::test]
async fn a_list_is_taken_as_a_whole_or_not_at_all() {
    let server = server();
    let rival = server.acquire("db/b", "rival", 60_000).await;
    let keys = json!([{ "key": "db/c" }, { "key": "gpus/x", "permits": 2 }, { "key": "db/b" }]);
    let refused = server.post("/v1/acquire-all", &all(&keys, "w", 0)).await.problem(409, "held");
    assert_eq!(refused["lease"]["key"], "db/b");
    assert_eq!(free(&server, "gpus/x").await, 4);
    let timed_out = server.post("/v1/acquire-all", &all(&keys, "w", 300)).await;
    timed_out.problem(409, "held");
    let held = server.get("/v1/leases?state=held").await.ok();
    assert_eq!(held["leases"].as_array().expect("leases").len(), 1, "{held}");

    let call = all(&keys, "w", 20_000);
    let waits = server.post("/v1/acquire-all", &call);
    let frees = async {
        sleep_ms(300).await;
        server.release(&rival).await;
    };
    let (answer, ()) = tokio::join!(waits, frees);
    let leases = grants(&answer.ok());
    let names: Vec<&str> = leases.iter().map(|lease| lease.key.as_str()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    assert!(names.contains(&"db/b") && names.contains(&"db/c"));
    give_back(&server, &leases).await;
}

/// Callers whose lists overlap in every way never block each other.
#[tokio::test]
async fn overlapping_lists_all_come_to_an_end() {
    let server = server();
    let worker = async |n: usize| {
        for round in 0..6 {
            let mut keys: Vec<Value> = ["db/a", "db/b", "gpus/x", "gpus/y", "db/c"]
                .iter()
                .enumerate()
                .filter(|(at, _)| !(n + round + at).is_multiple_of(5))
                .map(|(at, key)| {
                    let permits = if key.starts_with("gpus/") { 1 + (n + at) % 4 } else { 1 };
                    json!({ "key": key, "permits": permits })
                })
                .collect();
            let places = keys.len();
            keys.rotate_left((n + round) % places);
            let call = all(&json!(keys), &format!("w{n}"), 60_000);
            let leases = grants(&server.post("/v1/acquire-all", &call).await.ok());
            assert!(leases.len() >= keys.len());
            give_back(&server, &leases).await;
        }
    };
    let all = join_all((0..16).map(worker));
    tokio::time::timeout(Duration::from_secs(60), all).await.expect("no call waits for another");
}

/// What a call has is kept while it waits for the rest, far beyond its ttl.
#[tokio::test]
async fn what_a_call_has_outlives_its_wait() {
    let server = server();
    let rival = server.acquire("db/z", "rival", 60_000).await;
    let keys = json!([{ "key": "db/a" }, { "key": "gpus/x", "permits": 3 }, { "key": "db/z" }]);
    let mut call = all(&keys, "w", 20_000);
    call["ttl_ms"] = json!(600);
    let asked = now();
    let waits = server.post("/v1/acquire-all", &call);
    let frees = async {
        sleep_ms(2_500).await;
        server.release(&rival).await;
    };
    let (answer, ()) = tokio::join!(waits, frees);
    let answer = answer.ok();
    let waited = u64::try_from(now().since(asked).as_millis()).expect("a short wait");
    for grant in answer["grants"].as_array().expect("grants") {
        let valid_for_ms = grant["valid_for_ms"].as_u64().expect("a number");
        assert!(valid_for_ms > waited, "{valid_for_ms} of {waited} ms: {grant}");
    }
    for lease in grants(&answer) {
        let mut events = server.events_of(&lease.key).await;
        events.retain(|event| {
            event["data"]["owner"] == "w" || event["data"]["previous"]["owner"] == "w"
        });
        assert_eq!(kinds(&events), ["granted"], "{}: {events:?}", lease.key);
    }
}

#[tokio::test]
async fn a_session_keeps_them_and_ends_them() {
    let server = server();
    let session = server.session("w", 60_000, json!({})).await;
    let keys = json!([{ "key": "db/a" }, { "key": "gpus/x", "mode": "exclusive" }]);
    let call = json!({ "keys": keys, "owner": "w", "session": session.id });
    let leases = grants(&server.post("/v1/acquire-all", &call).await.ok());
    assert_eq!(leases.len(), 5);
    server.destroy(&session).await.ok();
    eventually("all are free", async || free(&server, "gpus/x").await == 4).await;
    assert_eq!(server.lease("db/a").await["state"], "free");
}

#[tokio::test]
async fn a_repeated_call_gets_the_same_leases() {
    let server = server();
    let keys = json!([{ "key": "db/a" }, { "key": "gpus/x", "permits": 2 }]);
    let mut call = all(&keys, "w", 0);
    call["request_id"] = json!("r1");
    let ids = |answer: &Value| {
        let ids = grants(answer).into_iter().map(|lease| (lease.key, lease.lease_id));
        ids.collect::<BTreeSet<_>>()
    };
    let first = ids(&server.post("/v1/acquire-all", &call).await.ok());
    assert_eq!(ids(&server.post("/v1/acquire-all", &call).await.ok()), first);
    assert_eq!(free(&server, "gpus/x").await, 2);
    let mut other = call.clone();
    other["keys"][1]["permits"] = json!(3);
    server.post("/v1/acquire-all", &other).await.problem(422, "request-id-reused");

    let mut permit = one("gpus/x", "v", 0);
    permit["request_id"] = json!("r2");
    let first = Grant::of(&server.post("/v1/acquire", &permit).await.ok());
    let again = Grant::of(&server.post("/v1/acquire", &permit).await.ok());
    assert_eq!((first.key, first.lease_id), (again.key, again.lease_id));
    assert_eq!(free(&server, "gpus/x").await, 1);
}

#[tokio::test]
async fn a_caller_that_leaves_keeps_nothing() {
    let server = server();
    let _rival = server.acquire("db/z", "rival", 60_000).await;
    let keys = json!([{ "key": "gpus/x", "permits": 3 }, { "key": "db/z" }]);
    let call = all(&keys, "w", 60_000);
    let waits = server.post("/v1/acquire-all", &call);
    let left = tokio::time::timeout(Duration::from_millis(700), waits).await;
    assert!(left.is_err(), "it waits");
    eventually("its permits are free again", async || free(&server, "gpus/x").await == 4).await;
}

/// A lease that an administrator takes from a call that still waits ends the call.
#[tokio::test]
async fn a_part_that_is_revoked_ends_the_call() {
    let server = server();
    let _rival = server.acquire("db/z", "rival", 60_000).await;
    let mut call = all(&json!([{ "key": "db/a" }, { "key": "db/z" }]), "w", 30_000);
    call["ttl_ms"] = json!(900);
    let waits = server.post("/v1/acquire-all", &call);
    let revokes = async {
        eventually("it has the first", async || {
            let held = server.get("/v1/leases?key=db/a&state=held").await.ok();
            held["leases"].as_array().is_some_and(|leases| leases.len() == 1)
        })
        .await;
        let order = json!({ "key": "db/a", "reason": "r", "immediately": true });
        server.post("/v1/admin/revoke", &order).await.ok();
    };
    let (answer, ()) = tokio::join!(waits, revokes);
    answer.problem(409, "request-id-spent");
}

/// What names the key where only one of its permits can be meant is refused, and not answered as if nothing were held.
#[tokio::test]
async fn a_call_that_must_name_a_permit_says_so() {
    let server = server();
    let lease = Grant::of(&server.post("/v1/acquire", &one("gpus/x", "w", 0)).await.ok());
    for key in ["gpus/x", "gpus/x#7", "gpus/x#01"] {
        let proof = json!({ "key": key, "lease_id": lease.lease_id });
        for path in ["/v1/heartbeat", "/v1/release", "/v1/transfer"] {
            server.post(path, &proof).await.bad_field("key");
        }
        let check = json!({ "key": key, "token": lease.token });
        server.post("/v1/check", &check).await.bad_field("key");
        server.post("/v1/admin/pin", &json!({ "key": key, "by": "b" })).await.bad_field("key");
    }
    server.post("/v1/acquire", &one("gpus/x#01", "w", 0)).await.bad_field("key");
    server.post("/v1/heartbeat", &lease.proof()).await.ok();
}

#[tokio::test]
async fn what_a_refused_call_had_is_not_counted() {
    let server = server();
    for key in ["gpus/x#2", "gpus/x#4"] {
        server.acquire(key, "other", 60_000).await;
    }
    let keys = json!([{ "key": "gpus/x", "permits": 3 }]);
    let refused = server.post("/v1/acquire-all", &all(&keys, "w", 0)).await;
    let refused = refused.problem(409, "none-available");
    assert_eq!(
        (&refused["counts"]["held"], &refused["counts"]["held_by_you"]),
        (&json!(2), &json!(0))
    );
}

/// The record of a key from before it had permits is no key of its pool.
#[tokio::test]
async fn a_key_with_permits_is_no_key_of_its_pool() {
    let pool = "[[policy]]\nprefix = \"gpus/\"\npool = \"gpus\"\nbalance = true\n";
    let server = Server::configured(pool);
    for key in ["gpus/x", "gpus/y"] {
        let lease = server.acquire(key, "w", 60_000).await;
        server.release(&lease).await;
    }
    server.configure(&format!("{pool}permits = 3\n"));
    let server = server.kill().restart();
    let session = server.session("m", 60_000, json!({ "pool": "gpus" })).await;
    let call = json!({ "key": "gpus/x", "owner": "m", "session": session.id });
    server.post("/v1/acquire", &call).await.ok();
    eventually("the pool has one key", async || {
        let shown = server.get("/v1/pools/gpus").await.ok();
        (&shown["keys"], &shown["free"]) == (&json!(1), &json!(0))
    })
    .await;
    let assigned = server.get("/v1/pools/gpus/assignment").await.ok();
    assert_eq!(assigned["keys"].as_array().expect("keys").len(), 1, "{assigned}");
}

/// A duplicate of a call may come late: when its caller has given back a part of what the call was granted.
#[tokio::test]
async fn a_repeated_call_takes_nothing_from_its_caller() {
    let server = server();
    let keys = json!([{ "key": "a" }, { "key": "b" }, { "key": "gpus/x", "permits": 2 }]);
    for released in ["a", "b", "gpus/x#1", "gpus/x#2"] {
        let call = json!({ "keys": keys, "owner": "w", "ttl_ms": 60_000, "request_id": format!("once for {released}") });
        let held = grants(&server.post("/v1/acquire-all", &call).await.ok());
        let again = grants(&server.post("/v1/acquire-all", &call).await.ok());
        let tokens = |grants: &[Grant]| grants.iter().map(|it| it.token).collect::<Vec<_>>();
        assert_eq!(tokens(&held), tokens(&again));
        let (over, kept): (Vec<Grant>, Vec<Grant>) =
            held.into_iter().partition(|grant| grant.key == released);
        assert_eq!((over.len(), kept.len()), (1, 3));
        give_back(&server, &over).await;
        server.post("/v1/acquire-all", &call).await.problem(409, "request-id-spent");
        for grant in &kept {
            let beat = json!({ "key": grant.key, "lease_id": grant.lease_id });
            server.post("/v1/heartbeat", &beat).await.ok();
        }
        give_back(&server, &kept).await;
    }
}
