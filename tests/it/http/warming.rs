//! Members that prepare for keys before the holders are asked to hand them over.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{
    harness::{Grant, Server, Session, eventually, kinds, ms},
    pool_worker::Worker,
};

fn policy(more: &str) -> String {
    format!(
        "[[policy]]\nprefix = \"shards/\"\npool = \"shards\"\nbalance = true\nhandover_timeout = \"20s\"\n{more}\n"
    )
}

fn shards(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("shards/{n:04}")).collect()
}

async fn join(server: &Server, owner: &str) -> Session {
    let more = json!({ "pool": "shards", "address": format!("{owner}:1") });
    server.session(owner, 60_000, more).await
}

/// The keys that a fair call of a member is granted at once.
async fn fair(server: &Server, owner: &str, session: &Session, more: Value) -> Vec<Grant> {
    let mut body = json!({ "owner": owner, "session": session.id, "count": "fair" });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
    let answer = server.post("/v1/acquire-any", &body).await.json();
    answer["grants"].as_array().map(|all| all.iter().map(Grant::of).collect()).unwrap_or_default()
}

async fn move_to(server: &Server, key: &str, owner: &str) {
    let body = json!({ "pool": "shards", "action": "move", "key": key, "owner": owner,
        "reason": "repair" });
    server.post("/v1/admin/pool", &body).await.ok();
}

/// The notices of this kind in the answer to a heartbeat with this body.
async fn beat(server: &Server, session: &Session, body: Value, kind: &str) -> Vec<Value> {
    let answer = server.post(&session.heartbeat_path(), &body).await.ok();
    let notices = answer["notices"].as_array().expect("notices").iter();
    notices.filter(|notice| notice["type"] == kind).cloned().collect()
}

async fn told(server: &Server, session: &Session, kind: &str) -> Vec<Value> {
    beat(server, session, json!({}), kind).await
}

/// Waits until a session is told of this kind.
async fn until_told(server: &Server, session: &Session, kind: &str) -> Vec<Value> {
    let mut found = Vec::new();
    eventually(kind, async || {
        found = told(server, session, kind).await;
        !found.is_empty()
    })
    .await;
    found
}

async fn warming(server: &Server) -> Vec<Value> {
    let pool = server.get("/v1/pools/shards").await.ok();
    pool["warming"].as_array().expect("a list").clone()
}

async fn warmups(server: &Server) -> [f64; 3] {
    let mut counts = [0.0; 3];
    for (count, outcome) in counts.iter_mut().zip(["ready", "timed-out", "cancelled"]) {
        let series = format!("tenure_pool_warmups_total{{pool=\"shards\",outcome=\"{outcome}\"}}");
        *count = server.metric(&series).await;
    }
    counts
}

const PREPARE: &str = "handover-prepare";
const REQUESTED: &str = "handover-requested";

#[tokio::test]
async fn a_member_prepares_before_the_holder_is_asked() {
    let server = Server::configured(&policy("warmup_timeout = \"1m\""));
    for key in shards(2) {
        let before = server.acquire(&key, "z", 60_000).await;
        server.post("/v1/release", &before.proof_and(json!({ "value": "row 7" }))).await.ok();
    }
    let a = join(&server, "a").await;
    let of_a = fair(&server, "a", &a, json!({ "keys": shards(2) })).await;
    assert_eq!(of_a.len(), 2);
    let (b, c) = (join(&server, "b").await, join(&server, "c").await);
    move_to(&server, &of_a[0].key, "b").await;
    let notices = until_told(&server, &b, PREPARE).await;
    let left = notices[0]["deadline_ms"].as_u64().expect("milliseconds");
    assert!((40_000..=60_000).contains(&left), "{left}");
    let expected = json!([{ "type": PREPARE, "key": of_a[0].key, "token": of_a[0].token,
        "value": "row 7", "from": "a", "address": "a:1", "deadline_ms": left, "prepared": false }]);
    let notices: Vec<_> = notices.iter().filter(|it| it["key"] == of_a[0].key).collect();
    assert_eq!(json!(notices), expected);
    let seen = warming(&server).await;
    let seen = seen.iter().find(|it| it["key"] == of_a[0].key).expect("it is shown");
    assert_eq!(
        (&seen["from"], &seen["to"], &seen["prepared"], &seen["requested"]),
        (&json!("a"), &json!("b"), &json!(false), &json!(false))
    );
    tokio::time::sleep(ms(1_500)).await;
    assert!(told(&server, &a, REQUESTED).await.iter().all(|it| it["key"] != of_a[0].key));

    // What a member is not asked for is passed over.
    for session in [&c, &b] {
        beat(&server, session, json!({ "prepared": ["shards/9", "else/1"] }), PREPARE).await;
    }
    beat(&server, &c, json!({ "prepared": [of_a[0].key] }), PREPARE).await;
    let wait = json!({ "key": of_a[0].key, "owner": "b", "session": b.id, "wait_ms": 20_000 });
    let mut waits = server.park("/v1/acquire", &wait).await;
    server.until_waiters(&of_a[0].key, 1).await;
    beat(&server, &b, json!({ "prepared": [of_a[0].key] }), PREPARE).await;
    eventually("the holder is asked", async || {
        let asked = told(&server, &a, REQUESTED).await;
        asked.iter().any(|it| it["key"] == of_a[0].key)
    })
    .await;
    let notices = told(&server, &b, PREPARE).await;
    let known = notices.iter().find(|it| it["key"] == of_a[0].key).expect("it stands");
    assert_eq!((&known["prepared"], &known["value"]), (&json!(true), &Value::Null));
    let transfer = json!({ "key": of_a[0].key, "lease_id": of_a[0].lease_id, "value": "row 8" });
    server.post("/v1/transfer", &transfer).await.ok();
    let granted = waits.receive().await.ok();
    assert_eq!((&granted["owner"], &granted["value"]), (&json!("b"), &json!("row 8")));
    eventually("the preparation is over", async || {
        warming(&server).await.iter().all(|it| it["key"] != of_a[0].key)
    })
    .await;
    assert_eq!(warmups(&server).await[0], 1.0);
    let events = server.events_of(&of_a[0].key).await;
    let kinds = kinds(&events);
    assert_eq!(kinds[2..], ["granted", "handover-requested", "transferred", "granted"]);
    assert_eq!(events[3]["data"]["reason"], "moved to b: repair");
}

#[tokio::test]
async fn a_key_is_kept_for_the_member_that_prepares_for_it() {
    let server = Server::configured(&policy("warmup_timeout = \"1m\""));
    let a = join(&server, "a").await;
    let of_a = fair(&server, "a", &a, json!({ "keys": shards(4) })).await;
    let (b, c) = (join(&server, "b").await, join(&server, "c").await);
    move_to(&server, &of_a[0].key, "b").await;
    until_told(&server, &b, PREPARE).await;
    // The holder gives it up before it is asked.
    server.release(&of_a[0]).await;
    let of_c = fair(&server, "c", &c, json!({ "pool": "shards" })).await;
    assert!(of_c.is_empty(), "{of_c:?}");
    let of_b = fair(&server, "b", &b, json!({ "pool": "shards" })).await;
    assert!(of_b.iter().any(|it| it.key == of_a[0].key), "{of_b:?}");
}

#[tokio::test]
async fn the_holder_is_asked_when_the_time_is_over() {
    let server = Server::configured(&policy("warmup_timeout = \"1s\""));
    let a = join(&server, "a").await;
    let of_a = fair(&server, "a", &a, json!({ "keys": shards(1) })).await;
    let (b, c) = (join(&server, "b").await, join(&server, "c").await);
    let before = Instant::now();
    move_to(&server, &of_a[0].key, "b").await;
    until_told(&server, &a, REQUESTED).await;
    assert!(before.elapsed() >= ms(1_000), "{:?}", before.elapsed());
    assert_eq!(warmups(&server).await, [0.0, 1.0, 0.0]);
    // The key is for the same member all the same.
    server.post("/v1/transfer", &of_a[0].proof()).await.ok();
    assert!(fair(&server, "c", &c, json!({ "pool": "shards" })).await.is_empty());
    assert_eq!(fair(&server, "b", &b, json!({ "pool": "shards" })).await.len(), 1);
}

#[tokio::test]
async fn at_most_so_many_members_prepare_at_once() {
    let server = Server::configured(&policy("warmup_timeout = \"1m\"\nwarmups = 2"));
    let url = format!("http://{}", server.addr);
    let mut a = Worker::join(&url, "shards", "a", 1, 20_000).await;
    a.work(shards(12));
    eventually("it has all", async || a.held() == 12).await;
    let mut b = Worker::join(&url, "shards", "b", 1, 20_000).await;
    b.warms(ms(300));
    b.work(shards(12));
    let mut most = 0;
    eventually("each has its share", async || {
        most = most.max(warming(&server).await.len());
        (a.held(), b.held()) == (6, 6)
    })
    .await;
    assert_eq!(most, 2);
    eventually("each was prepared", async || warmups(&server).await == [6.0, 0.0, 0.0]).await;
    for (key, asked, prepared) in b.preparations() {
        assert!(prepared - asked >= ms(300), "{key}");
    }
}

#[tokio::test]
async fn a_member_that_ends_while_it_prepares_blocks_nothing() {
    let server = Server::configured(&policy("warmup_timeout = \"1m\""));
    let a = join(&server, "a").await;
    let of_a = fair(&server, "a", &a, json!({ "keys": shards(1) })).await;
    let (b, c) = (join(&server, "b").await, join(&server, "c").await);
    let draining = server.post(&format!("/v1/sessions/{}/drain", a.id), &json!({})).await.ok();
    let [all, warm] = ["deadline_ms", "warm_ms"].map(|name| draining[name].as_u64().expect("ms"));
    assert!((70_000..=80_000).contains(&all) && all - warm == 20_000, "{draining}");
    let mut first = "";
    eventually("one of them prepares", async || {
        for (owner, session) in [("b", &b), ("c", &c)] {
            if !told(&server, session, PREPARE).await.is_empty() {
                first = owner;
            }
        }
        !first.is_empty()
    })
    .await;
    let (gone, stays, owner) = if first == "b" { (b, c, "c") } else { (c, b, "b") };
    server.destroy(&gone).await.ok();
    until_told(&server, &stays, PREPARE).await;
    assert!(told(&server, &a, "draining").await.is_empty());
    beat(&server, &stays, json!({ "prepared": [of_a[0].key] }), PREPARE).await;
    until_told(&server, &a, REQUESTED).await;
    assert_eq!(told(&server, &a, "draining").await.len(), 1, "it has been asked for all");
    server.post("/v1/transfer", &of_a[0].proof()).await.ok();
    eventually("the next one has it", async || {
        fair(&server, owner, &stays, json!({ "pool": "shards" })).await.len() == 1
    })
    .await;
    assert_eq!(warmups(&server).await, [1.0, 0.0, 1.0]);
}

#[tokio::test]
async fn a_drain_asks_for_the_rest_when_the_time_for_preparations_is_over() {
    let server = Server::configured(&policy("warmup_timeout = \"2s\"\nwarmups = 1"));
    let a = join(&server, "a").await;
    let of_a = fair(&server, "a", &a, json!({ "keys": shards(5) })).await;
    let b = join(&server, "b").await;
    let drained = Instant::now();
    server.post(&format!("/v1/sessions/{}/drain", a.id), &json!({})).await.ok();
    until_told(&server, &b, PREPARE).await;
    assert!(told(&server, &a, REQUESTED).await.is_empty());
    let draining = until_told(&server, &a, "draining").await;
    assert!(drained.elapsed() >= ms(1_900), "{:?}", drained.elapsed());
    assert!(draining[0]["deadline_ms"].as_u64().is_some_and(|left| left <= 20_000));
    eventually("all are asked for", async || {
        told(&server, &a, REQUESTED).await.len() == of_a.len()
    })
    .await;
    for grant in &of_a {
        server.post("/v1/transfer", &grant.proof()).await.ok();
    }
    let mut had = 0;
    eventually("the other member gets all", async || {
        had += fair(&server, "b", &b, json!({ "pool": "shards" })).await.len();
        had == of_a.len()
    })
    .await;
}

#[tokio::test]
async fn preparations_survive_a_restart() {
    let server = Server::configured(&policy("warmup_timeout = \"1m\""));
    let a = join(&server, "a").await;
    let of_a = fair(&server, "a", &a, json!({ "keys": shards(1) })).await;
    let b = join(&server, "b").await;
    move_to(&server, &of_a[0].key, "b").await;
    until_told(&server, &b, PREPARE).await;
    let server = server.kill().restart();
    let again = until_told(&server, &b, PREPARE).await;
    assert_eq!(again[0]["token"], of_a[0].token);
    beat(&server, &b, json!({ "prepared": [of_a[0].key] }), PREPARE).await;
    until_told(&server, &a, REQUESTED).await;
}

#[tokio::test]
async fn a_freeze_calls_a_preparation_off() {
    let server = Server::configured(&policy("warmup_timeout = \"1m\""));
    let a = join(&server, "a").await;
    assert_eq!(fair(&server, "a", &a, json!({ "keys": shards(4) })).await.len(), 4);
    let b = join(&server, "b").await;
    until_told(&server, &b, PREPARE).await;
    let freeze = json!({ "pool": "shards", "action": "freeze", "reason": "repair" });
    server.post("/v1/admin/pool", &freeze).await.ok();
    eventually("it is called off", async || told(&server, &b, PREPARE).await.is_empty()).await;
    tokio::time::sleep(ms(1_500)).await;
    assert!(told(&server, &a, REQUESTED).await.is_empty());
    assert_eq!(warmups(&server).await, [0.0, 0.0, 1.0]);
    let thaw = json!({ "pool": "shards", "action": "thaw", "reason": "done" });
    server.post("/v1/admin/pool", &thaw).await.ok();
    until_told(&server, &b, PREPARE).await;
}

#[tokio::test]
async fn what_no_member_may_report_is_refused() {
    let server = Server::configured(&policy("warmup_timeout = \"1m\""));
    let b = join(&server, "b").await;
    let many: Vec<_> = (0..257).map(|at| format!("shards/{at}")).collect();
    for odd in [json!(many), json!([""]), json!(["a\u{0}"])] {
        let reply = server.post(&b.heartbeat_path(), &json!({ "prepared": odd })).await;
        reply.bad_field("prepared");
    }
    let plain = server.session("w", 60_000, json!({})).await;
    let reply = server.post(&plain.heartbeat_path(), &json!({ "prepared": ["shards/1"] })).await;
    reply.bad_field("prepared");
}

#[tokio::test]
async fn an_order_to_move_a_key_elsewhere_calls_its_preparation_off() {
    let server = Server::configured(&policy("warmup_timeout = \"1m\""));
    let a = join(&server, "a").await;
    let of_a = fair(&server, "a", &a, json!({ "keys": shards(1) })).await;
    let (b, c) = (join(&server, "b").await, join(&server, "c").await);
    let key = &of_a[0].key;
    move_to(&server, key, "b").await;
    until_told(&server, &b, PREPARE).await;
    move_to(&server, key, "c").await;
    until_told(&server, &c, PREPARE).await;
    assert!(told(&server, &b, PREPARE).await.is_empty());
    let pause = json!({ "pool": "shards", "action": "pause", "key": key, "reason": "repair" });
    server.post("/v1/admin/pool", &pause).await.ok();
    until_told(&server, &a, REQUESTED).await;
    eventually("it is called off too", async || warming(&server).await.is_empty()).await;
    assert_eq!(warmups(&server).await[2], 2.0);
}
