//! Members that come back: their keys are kept for them, and nothing else moves.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::support::{
    harness::{Grant, Server, Session, Talk, eventually, kinds, ms},
    pool_worker::{Worker, pool},
};

fn policy(window: &str) -> String {
    format!(
        "[[policy]]\nprefix = \"shards/\"\npool = \"shards\"\nbalance = true\nrejoin_window = \"{window}\"\n"
    )
}

fn shards(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("shards/{n:04}")).collect()
}

async fn join(server: &Server, owner: &str) -> Session {
    server.session(owner, 60_000, json!({ "pool": "shards" })).await
}

async fn close(server: &Server, session: &Session) {
    server.destroy(session).await.ok();
}

/// The answer to a fair call of a member.
async fn fair(server: &Server, owner: &str, session: &Session, more: Value) -> Value {
    let mut body = json!({ "owner": owner, "session": session.id, "count": "fair" });
    let fields = more.as_object().expect("an object").clone();
    body.as_object_mut().expect("an object").extend(fields);
    server.post("/v1/acquire-any", &body).await.json()
}

fn tokens(answer: &Value) -> BTreeMap<String, u64> {
    let grants = answer["grants"].as_array().unwrap_or_else(|| panic!("{answer}"));
    grants.iter().map(Grant::of).map(|grant| (grant.key, grant.token)).collect()
}

/// Two members, each of which has half of twenty keys.
async fn two(server: &Server) -> ([Session; 2], [BTreeMap<String, u64>; 2]) {
    let sessions = [join(server, "a").await, join(server, "b").await];
    let named = json!({ "keys": shards(20) });
    let a = tokens(&fair(server, "a", &sessions[0], named.clone()).await);
    let b = tokens(&fair(server, "b", &sessions[1], named).await);
    assert_eq!((a.len(), b.len()), (10, 10));
    (sessions, [a, b])
}

#[track_caller]
fn assert_same_keys_later(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) {
    assert!(before.keys().eq(after.keys()), "{before:?} {after:?}");
    assert!(before.iter().all(|(key, token)| after[key] > *token), "{before:?} {after:?}");
}

fn of_pool() -> Value {
    json!({ "pool": "shards" })
}

#[tokio::test]
async fn the_keys_of_a_member_that_closed_its_session_are_kept_for_its_owner() {
    let server = Server::configured(&policy("1h"));
    let ([a, b], [first, _]) = two(&server).await;
    assert_eq!(
        server.get(&format!("/v1/sessions/{}", a.digest)).await.ok()["rejoin_window_ms"],
        3_600_000
    );
    close(&server, &a).await;
    eventually("its keys are kept", async || {
        server.get("/v1/pools/shards").await.ok()["kept"] == 10
    })
    .await;
    // Nobody else has them, by whatever call.
    let none = fair(&server, "b", &b, of_pool()).await;
    assert_eq!((&none["code"], &none["held_by_session"]), (&json!("none-available"), &json!(10)));
    let key = first.keys().next().expect("one");
    let other = json!({ "key": key, "owner": "c", "ttl_ms": 60_000 });
    server.post("/v1/acquire", &other).await.problem(423, "cooling");
    let reclaim = json!({ "key": key, "owner": "c", "ttl_ms": 60_000, "reclaim": true });
    server.post("/v1/acquire", &reclaim).await.problem(423, "cooling");

    let back = join(&server, "a").await;
    let again = tokens(&fair(&server, "a", &back, of_pool()).await);
    assert_same_keys_later(&first, &again);
    assert_eq!(server.get("/v1/pools/shards").await.ok()["kept"], 0);
    let events = server.history().await;
    assert!(!kinds(&events).iter().any(|kind| kind == "handover-requested"));
}

#[tokio::test]
async fn kept_keys_are_shown_as_kept_after_a_restart_until_they_are_free() {
    let server = Server::configured(&policy("8s"));
    let ([a, _], _) = two(&server).await;
    close(&server, &a).await;
    let shown = async |server: &Server, kept: u64| {
        let pool = server.get("/v1/pools/shards").await.ok();
        pool["kept"] == kept && pool["free"] == 10
    };
    eventually("its keys are kept", async || shown(&server, 10).await).await;
    let server = server.kill().restart();
    eventually("they are kept still", async || shown(&server, 10).await).await;
    eventually("they are free", async || shown(&server, 0).await).await;
}

#[tokio::test]
async fn kept_keys_for_which_their_owner_has_no_room_are_shown_as_unplaced() {
    let server = Server::configured(&policy("1h"));
    let a = join(&server, "a").await;
    let named = json!({ "keys": shards(9) });
    assert_eq!(tokens(&fair(&server, "a", &a, named).await).len(), 9);
    join(&server, "b").await;
    join(&server, "c").await;
    close(&server, &a).await;
    let back = join(&server, "a").await;
    let shown = async || server.get("/v1/pools/shards").await.ok();
    // It is about to take three of them back.
    eventually("what is beyond its share is kept", async || {
        shown().await["unplaced"]["total"] == 0 && shown().await["kept"] == 9
    })
    .await;
    assert_eq!(tokens(&fair(&server, "a", &back, of_pool()).await).len(), 3);
    let pool = shown().await;
    assert_eq!((&pool["kept"], &pool["unplaced"]["total"]), (&json!(6), &json!(6)), "{pool}");
    let why = |it: &Value| it["why"] == "kept";
    assert!(pool["unplaced"]["keys"].as_array().expect("a list").iter().all(why), "{pool}");
}

/// A process that was killed comes back before its former session has ended.
#[tokio::test]
async fn a_member_takes_its_keys_from_its_former_session() {
    let server = Server::configured(&policy("10s"));
    let ([former, b], [first, of_b]) = two(&server).await;
    let back = join(&server, "a").await;
    let shares = server.get("/v1/pools/shards").await.ok();
    let member = |digest: &str| {
        let all = shares["members"].as_array().expect("members");
        all.iter().find(|it| it["session"] == digest).expect("a member").clone()
    };
    assert_eq!((&shares["keys"], &member(&former.digest)["replaced"]), (&json!(20), &json!(true)));
    assert_eq!(
        (&member(&back.digest)["share"], &member(&b.digest)["share"]),
        (&json!(10), &json!(10))
    );
    let again = tokens(&fair(&server, "a", &back, of_pool()).await);
    assert_same_keys_later(&first, &again);
    // The former session is no member any more, and holds nothing.
    let none = fair(&server, "a", &former, of_pool()).await;
    assert_eq!((&none["code"], &none["share"]), (&json!("none-available"), &json!(0)), "{none}");
    eventually("it knows that it lost all", async || {
        let beat = format!("/v1/sessions/{}/heartbeat", former.id);
        let beat = server.post(&beat, &json!({})).await.ok();
        assert_eq!(beat["notices"], json!([{ "type": "replaced" }]));
        beat["leases"]["count"] == 0
    })
    .await;
    for (key, token) in of_b {
        assert_eq!(server.lease(&key).await["token"], token, "nothing else moved");
    }
}

/// The holder of a session that was replaced hears of it before any of its leases ends.
#[tokio::test]
async fn a_replaced_session_is_told_at_once() {
    let server = Server::configured(&policy("10s"));
    let former = join(&server, "a").await;
    let beat = format!("/v1/sessions/{}/heartbeat", former.id);
    let mut talk = Talk::open(server.addr).await;
    let params = json!({ "id": former.id });
    let kept = talk.begin_with("heartbeat_session", &params, &Value::Null).await;
    assert_eq!(talk.answer(kept).await["body"]["notices"], json!([]));
    let other = json!({ "pool": "shards", "ready": false });
    let unready = server.session("a", 60_000, other).await;
    assert_eq!(server.post(&beat, &json!({})).await.ok()["notices"], json!([]), "not yet");
    let ready = format!("/v1/sessions/{}/heartbeat", unready.id);
    server.post(&ready, &json!({ "ready": true })).await.ok();
    let replaced = json!([{ "type": "replaced" }]);
    let told = talk.pushed("notice").await;
    assert_eq!(told, json!({ "session": former.digest, "notices": replaced, "ended": false }));
    assert_eq!(server.post(&beat, &json!({})).await.ok()["notices"], replaced);
    // When the newer session is gone, this one is the member again.
    close(&server, &unready).await;
    eventually("it is the member", async || {
        server.post(&beat, &json!({})).await.ok()["notices"] == json!([])
    })
    .await;
}

/// Only what a member's own earlier sessions in the pool hold is taken back.
#[tokio::test]
async fn a_session_of_the_owner_that_is_no_member_keeps_its_lease() {
    let server = Server::configured(&policy("10s"));
    let other = server.session("a", 60_000, json!({})).await;
    let held = server.acquire_under("shards/0000", "a", &other).await;
    let a = join(&server, "a").await;
    let got = tokens(&fair(&server, "a", &a, json!({ "keys": shards(2) })).await);
    assert_eq!(got.into_keys().collect::<Vec<_>>(), ["shards/0001"]);
    assert_eq!(server.lease("shards/0000").await["token"], held.token);
}

#[tokio::test]
async fn after_the_window_the_others_take_the_keys() {
    let server = Server::configured(&policy("1s"));
    let ([a, b], _) = two(&server).await;
    close(&server, &a).await;
    let mut body = of_pool();
    body["wait_ms"] = json!(20_000);
    let mut taken = 0;
    while taken < 10 {
        taken += tokens(&fair(&server, "b", &b, body.clone()).await).len();
    }
    let pool = server.get("/v1/pools/shards").await.ok();
    assert_eq!((&pool["free"], &pool["members"][0]["held"]), (&json!(0), &json!(20)), "{pool}");
}

#[tokio::test]
async fn what_a_member_drains_is_not_kept() {
    let server = Server::configured(&policy("1h"));
    let url = format!("http://{}", server.addr);
    let mut workers = Vec::new();
    for owner in ["a", "b"] {
        let mut worker = Worker::join(&url, "shards", owner, 1, 5_000).await;
        worker.work(shards(20));
        workers.push(worker);
    }
    settled(&url, 20, 2).await;
    workers[0].drain().await;
    eventually("the other one has them all", async || workers[1].held() == 20).await;
}

/// A worker that stops leaves a value for itself.
#[tokio::test]
async fn a_lease_that_is_offered_to_its_own_owner_waits_for_the_window() {
    let server = Server::configured(&policy("1h"));
    let a = join(&server, "a").await;
    let grant = server.acquire_under("shards/0000", "a", &a).await;
    let offer =
        json!({ "key": grant.key, "lease_id": grant.lease_id, "to": "a", "value": "row 7" });
    server.post("/v1/transfer", &offer).await.ok();
    let lease = server.lease(&grant.key).await;
    assert_eq!((&lease["state"], &lease["offered_to"]), (&json!("offered"), &json!("a")));
    assert!(lease["expires_in_ms"].as_u64().is_some_and(|left| left > 3_500_000), "{lease}");
    // To another owner an offer stands for the ttl.
    let second = server.acquire_under("shards/0001", "a", &a).await;
    let offer = json!({ "key": second.key, "lease_id": second.lease_id, "to": "b" });
    server.post("/v1/transfer", &offer).await.ok();
    let lease = server.lease(&second.key).await;
    assert!(lease["expires_in_ms"].as_u64().is_some_and(|left| left <= 60_000), "{lease}");
    close(&server, &a).await;

    let b = join(&server, "b").await;
    let back = join(&server, "a").await;
    let of_b = tokens(&fair(&server, "b", &b, of_pool()).await);
    assert_eq!(of_b.into_keys().collect::<Vec<_>>(), ["shards/0001"]);
    let mine = fair(&server, "a", &back, of_pool()).await;
    assert_eq!(mine["grants"][0]["key"], "shards/0000", "{mine}");
    assert_eq!(mine["grants"][0]["value"], "row 7");
}

/// The history of a pool of which every member restarts, one after the other: no key changes its member.
#[tokio::test]
async fn a_rolling_restart_moves_nothing() {
    const KEYS: usize = 200;
    let server = Server::configured(&policy("30s"));
    let url = format!("http://{}", server.addr);
    let mut workers = Vec::new();
    for n in 0..10 {
        workers.push(Worker::join(&url, "shards", &format!("w{n}"), 1, 2_000).await);
    }
    workers.iter_mut().for_each(|worker| worker.work(shards(KEYS)));
    settled(&url, KEYS, 10).await;
    let before = owners(&server, KEYS).await;
    // Keys may move until each member has its share.
    let passed = server.history().await.len();
    for n in 0..10 {
        let owner = format!("w{n}");
        let (former, is_killed) = (workers.remove(0), n % 2 == 0);
        let had: BTreeSet<String> = former.keys().into_iter().collect();
        if is_killed {
            drop(former);
        } else {
            former.stop().await;
        }
        let mut back = Worker::join(&url, "shards", &owner, 1, 2_000).await;
        back.work(shards(KEYS));
        eventually("it has its keys again", async || {
            back.keys().into_iter().collect::<BTreeSet<_>>() == had
        })
        .await;
        workers.push(back);
    }
    // Also when the sessions of those that were killed have ended.
    tokio::time::sleep(ms(2_500)).await;
    settled(&url, KEYS, 10).await;
    assert_eq!(owners(&server, KEYS).await, before);
    let events = server.history().await;
    let events = events[passed..].iter();
    let granted = events.filter(|event| event["type"] == "io.tenure.lease.granted");
    let mut of_key: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for event in granted.filter(|event| event["data"]["pool"] == "shards") {
        let key = event["subject"].as_str().expect("a key");
        of_key.entry(key).or_default().insert(event["data"]["owner"].as_str().expect("an owner"));
    }
    assert_eq!(of_key.len(), KEYS);
    assert!(of_key.values().all(|owners| owners.len() == 1), "{of_key:?}");
}

async fn settled(url: &str, keys: usize, members: usize) {
    eventually("every member has its share", async || {
        let (seen, shares) = pool(url, "shards").await;
        let fits = shares.values().all(|(held, share)| held == share);
        let each = seen["members"].as_array().is_some_and(|all| all.len() == members);
        fits && each && seen["keys"] == keys && seen["free"] == 0
    })
    .await;
}

async fn owners(server: &Server, keys: usize) -> Vec<Value> {
    let mut owners = Vec::new();
    for key in shards(keys) {
        owners.push(server.lease(&key).await["owner"].clone());
    }
    owners
}
