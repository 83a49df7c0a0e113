//! Where the keys of a pool go: what policies require and prefer, over what they spread keys, and keys that go nowhere.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{
    clock::sleep_ms,
    harness::{Grant, Server, Session, eventually},
    pool_worker::Worker,
};

const GPU: &str = concat!(
    "[[policy]]\nprefix = \"gpu/\"\npool = \"jobs\"\nrequire = [\"gpu=true\"]\nbalance = true\n",
    "[[policy]]\nprefix = \"cpu/\"\npool = \"jobs\"\nbalance = true\n",
);

fn keys(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}/{n:02}")).collect()
}

fn all() -> Vec<String> {
    [keys("gpu", 6), keys("cpu", 6)].concat()
}

async fn worker(server: &Server, owner: &str, labels: Value, names: Vec<String>) -> Worker {
    let body = json!({ "owner": owner, "ttl_ms": 20_000, "pool": "jobs", "labels": labels });
    let mut worker = Worker::join_with(&format!("http://{}", server.addr), owner, &body).await;
    worker.work(names);
    worker
}

/// The pool, once the server knows all of it.
async fn shown(server: &Server) -> Value {
    let pool = async || server.get("/v1/pools/jobs").await.ok();
    eventually("the pool is known", async || !pool().await["unplaced"].is_null()).await;
    pool().await
}

/// Each unplaced key that is listed, with the reason, and the total.
fn unplaced(pool: &Value) -> (u64, BTreeMap<String, String>) {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let listed = pool["unplaced"]["keys"].as_array().expect("a list").iter();
    let listed = listed.map(|it| (text(&it["key"]), text(&it["why"]))).collect();
    (pool["unplaced"]["total"].as_u64().expect("a number"), listed)
}

fn of(worker: &Worker, prefix: &str) -> usize {
    worker.keys().iter().filter(|key| key.starts_with(prefix)).count()
}

async fn join(server: &Server, owner: &str, more: Value) -> Session {
    let mut body = json!({ "pool": "jobs" });
    body.as_object_mut().expect("one").extend(more.as_object().expect("one").clone());
    server.session(owner, 60_000, body).await
}

/// The keys that a fair call is granted.
async fn fair(server: &Server, owner: &str, session: &Session, more: Value) -> Vec<String> {
    let mut body = json!({ "owner": owner, "session": session.id, "count": "fair" });
    body.as_object_mut().expect("one").extend(more.as_object().expect("one").clone());
    let answer = server.post("/v1/acquire-any", &body).await.json();
    let grants =
        answer["grants"].as_array().map(|all| all.iter().map(|it| Grant::of(it).key).collect());
    let mut keys: Vec<String> = grants.unwrap_or_default();
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn keys_go_to_members_that_meet_what_is_required_also_when_labels_change() {
    let server = Server::configured(GPU);
    let plain = worker(&server, "plain", json!({}), all()).await;
    let fast = worker(&server, "fast", json!({ "gpu": "true" }), all()).await;
    eventually("each has six", async || of(&fast, "gpu") == 6 && of(&plain, "cpu") == 6).await;
    assert_eq!((of(&plain, "gpu"), of(&fast, "cpu")), (0, 0), "the shares are even as they are");
    assert_eq!(unplaced(&shown(&server).await).0, 0);

    // Nobody else may have them: they stay where they are.
    fast.label(json!({ "gpu": "false" })).await;
    sleep_ms(2_500).await;
    assert_eq!(of(&fast, "gpu"), 6);

    // Once another member may, they go there.
    plain.label(json!({ "gpu": "true" })).await;
    eventually("they go to the other", async || of(&plain, "gpu") == 6 && of(&fast, "cpu") == 6)
        .await;
    let history = server.history().await;
    let reasons = history.iter().filter_map(|event| event["data"]["reason"].as_str());
    let reasons: Vec<&str> = reasons.filter(|it| it.starts_with("require: ")).collect();
    assert!(reasons.contains(&"require: fast does not meet gpu=true, plain does"), "{reasons:?}");
}

#[tokio::test]
async fn a_key_that_nobody_may_have_says_so_and_goes_to_nobody() {
    let server = Server::configured(GPU);
    let plain = join(&server, "plain", json!({})).await;
    // A new key that it may not have is not granted, also after the time for keys that only one member names.
    let body = json!({ "keys": all(), "wait_ms": 1 });
    assert_eq!(fair(&server, "plain", &plain, body).await, keys("cpu", 6));
    let body = json!({ "keys": keys("gpu", 1), "wait_ms": 3_000 });
    assert_eq!(fair(&server, "plain", &plain, body).await, [""; 0]);

    // An acquire that asks for no share is granted as always.
    let held = server.acquire("gpu/00", "operator", 60_000).await;
    server.release(&held).await;
    let is_unplaced = async || {
        let (total, listed) = unplaced(&shown(&server).await);
        total == 1 && listed == BTreeMap::from([("gpu/00".to_owned(), "require".to_owned())])
    };
    eventually("it is unplaced", is_unplaced).await;
    for body in [json!({ "pool": "jobs" }), json!({ "keys": ["gpu/00"], "wait_ms": 2_500 })] {
        assert_eq!(fair(&server, "plain", &plain, body).await, [""; 0]);
    }
    // An order gives it to nobody who may not have it.
    let order = json!({ "pool": "jobs", "action": "move", "key": "gpu/00", "owner": "plain", "reason": "test" });
    server.post("/v1/admin/pool", &order).await.ok();
    assert_eq!(fair(&server, "plain", &plain, json!({ "pool": "jobs" })).await, [""; 0]);
    assert!(is_unplaced().await, "the order is not in force");
    let order = json!({ "pool": "jobs", "action": "resume", "key": "gpu/00", "reason": "test" });
    server.post("/v1/admin/pool", &order).await.ok();

    let counted =
        async || server.metric("tenure_pool_unplaced{pool=\"jobs\",why=\"require\"}").await == 1.0;
    eventually("the metric counts it", counted).await;
    let named = async || {
        let status = server.get("/v1/status").await.ok();
        let attention = status["attention"].as_array().expect("a list");
        attention
            .iter()
            .any(|it| it["kind"] == "pool-unplaced" && it["pool"] == "jobs" && it["count"] == 1)
    };
    eventually("the status names the pool", named).await;

    // A member that may have it is granted it at once.
    let fast = join(&server, "fast", json!({ "labels": { "gpu": "true" } })).await;
    let body = json!({ "pool": "jobs", "wait_ms": 5_000 });
    assert!(fair(&server, "fast", &fast, body).await.contains(&"gpu/00".to_owned()));
    assert_eq!(unplaced(&shown(&server).await).0, 0);
}

#[tokio::test]
async fn a_call_that_waits_leaves_the_queue_of_a_key_that_its_new_labels_do_not_allow() {
    let server = Server::configured(GPU);
    let labels = json!({ "labels": { "gpu": "true" } });
    let leaving = join(&server, "leaving", labels.clone()).await;
    let body =
        json!({ "owner": "leaving", "session": leaving.id, "count": "fair", "keys": ["gpu/00"] });
    let grants = server.post("/v1/acquire-any", &body).await.ok();
    let held = Grant::of(&grants["grants"][0]);
    let a = join(&server, "a", labels).await;
    let wait = json!({
        "owner": "a", "session": a.id, "count": "fair", "keys": ["gpu/00"], "wait_ms": 20_000,
    });
    let mut waits = server.park("/v1/acquire-any", &wait).await;
    server.post(&format!("/v1/sessions/{}/drain", leaving.id), &json!({})).await.ok();
    server.until_waiters("gpu/00", 1).await;
    // When the answer has come, the call has left the queue.
    server.post(&a.heartbeat_path(), &json!({ "labels": null })).await.ok();
    server.release(&held).await;
    sleep_ms(500).await;
    assert_eq!(server.get("/v1/leases/gpu%2F00").await.ok()["state"], "free");
    // With its former labels, the call that still waits is granted the key.
    server.post(&a.heartbeat_path(), &json!({ "labels": { "gpu": "true" } })).await.ok();
    assert_eq!(waits.receive().await.ok()["grants"][0]["key"], "gpu/00");
}

#[tokio::test]
async fn each_reason_why_a_key_goes_nowhere_is_told() {
    let server = Server::configured(&format!("{GPU}rejoin_window = \"1h\"\n"));
    for key in all() {
        let held = server.acquire(&key, "operator", 60_000).await;
        server.release(&held).await;
    }
    let whys = async |wanted: &[(&str, u64)]| {
        let wanted: BTreeMap<String, u64> =
            wanted.iter().map(|(why, count)| ((*why).to_owned(), *count)).collect();
        let is_so = async || shown(&server).await["unplaced"]["whys"] == json!(wanted);
        eventually(&format!("{wanted:?}"), is_so).await;
    };
    let order = async |action: &str, more: Value| {
        let mut body = json!({ "pool": "jobs", "action": action, "reason": "test" });
        body.as_object_mut().expect("one").extend(more.as_object().expect("one").clone());
        server.post("/v1/admin/pool", &body).await.ok();
    };
    let unready = join(&server, "unready", json!({ "ready": false })).await;
    whys(&[("no-member", 12)]).await;
    server.destroy(&unready).await.ok();
    let small = join(&server, "small", json!({ "capacity": 2 })).await;
    whys(&[("capacity", 4), ("require", 6)]).await;
    order("pause", json!({ "key": "cpu/00" })).await;
    whys(&[("capacity", 3), ("paused", 1), ("require", 6)]).await;
    order("resume", json!({ "key": "cpu/00" })).await;
    order("cordon", json!({ "owner": "small" })).await;
    whys(&[("cordoned", 6), ("require", 6)]).await;
    order("uncordon", json!({ "owner": "small" })).await;
    order("freeze", json!({})).await;
    whys(&[("frozen", 12)]).await;
    order("thaw", json!({})).await;
    assert_eq!(fair(&server, "small", &small, json!({ "pool": "jobs" })).await.len(), 2);
    server.destroy(&small).await.ok();
    let _other = join(&server, "other", json!({ "capacity": 10 })).await;
    whys(&[("kept", 2), ("require", 6)]).await;
}

#[tokio::test]
async fn keys_without_a_member_are_told_of_in_a_pool_whose_keys_go_anywhere() {
    let server = Server::configured("[[policy]]\nprefix = \"jobs/\"\npool = \"jobs\"\n");
    for key in keys("jobs", 5) {
        let held = server.acquire(&key, "operator", 60_000).await;
        server.release(&held).await;
    }
    let small = join(&server, "small", json!({ "capacity": 2 })).await;
    let three = async || unplaced(&shown(&server).await).0 == 3;
    eventually("three have no room", three).await;
    assert_eq!(shown(&server).await["unplaced"]["whys"], json!({ "capacity": 3 }));
    assert_eq!(fair(&server, "small", &small, json!({ "pool": "jobs" })).await.len(), 2);
    assert_eq!(unplaced(&shown(&server).await).0, 3);
    let _big = join(&server, "big", json!({})).await;
    eventually("all have a member", async || unplaced(&shown(&server).await).0 == 0).await;
}

#[tokio::test]
async fn keys_that_fit_no_limit_of_load_are_named() {
    let policy = "[[policy]]\nprefix = \"jobs/\"\npool = \"jobs\"\nbalance = \"load\"\n";
    let server = Server::configured(policy);
    let held = server.acquire("jobs/00", "operator", 60_000).await;
    server.release(&held).await;
    let _small = join(&server, "small", json!({ "load_limit": 0.5 })).await;
    let is_named = async || {
        unplaced(&shown(&server).await).1
            == BTreeMap::from([("jobs/00".to_owned(), "load-limit".to_owned())])
    };
    eventually("the limit keeps it free", is_named).await;
}

const ZONES: &str = concat!(
    "[[policy]]\nprefix = \"wide/\"\npool = \"jobs\"\nspread = \"zone\"\nbalance = true\n",
    "[[policy]]\nprefix = \"fast/\"\npool = \"jobs\"\nprefer = [\"disk=ssd\"]\nbalance = true\n",
);

#[tokio::test]
async fn keys_are_spread_over_zones_and_go_to_preferred_members() {
    let server = Server::configured(ZONES);
    let names = [keys("wide", 12), keys("fast", 6)].concat();
    let mut workers = Vec::new();
    for (owner, labels) in [
        ("a1", json!({ "zone": "a" })),
        ("a2", json!({ "zone": "a" })),
        ("a3", json!({ "zone": "a" })),
        ("b1", json!({ "zone": "b", "disk": "ssd" })),
    ] {
        workers.push(worker(&server, owner, labels, names.clone()).await);
    }
    let are_spread = async |workers: &[Worker], parts: &[(&str, usize)]| {
        parts.iter().all(|(zone, part)| {
            let of_zone = workers.iter().filter(|worker| worker.owner.starts_with(zone));
            of_zone.map(|worker| of(worker, "wide")).sum::<usize>() == *part
        })
    };
    let settled = async || {
        are_spread(&workers, &[("a", 6), ("b", 6)]).await
            && of(&workers[3], "fast") == 6
            && workers[..3].iter().all(|worker| of(worker, "wide") == 2)
    };
    eventually("six for each zone, and all fast ones at b1", settled).await;
    // A third zone gets its part, and a member with a fast disk its share of the fast ones.
    let third = worker(&server, "c1", json!({ "zone": "c", "disk": "ssd" }), names).await;
    workers.push(third);
    let settled = async || {
        are_spread(&workers, &[("a", 4), ("b", 4), ("c", 4)]).await
            && of(&workers[3], "fast") + of(&workers[4], "fast") == 6
            && of(&workers[3], "fast").abs_diff(of(&workers[4], "fast")) <= 1
    };
    eventually("four for each zone", settled).await;
    let before: Vec<Vec<String>> = workers.iter().map(Worker::keys).collect();
    sleep_ms(3_000).await;
    let after: Vec<Vec<String>> = workers.iter().map(Worker::keys).collect();
    let sorted = |all: Vec<Vec<String>>| -> Vec<Vec<String>> {
        all.into_iter()
            .map(|mut keys| {
                keys.sort_unstable();
                keys
            })
            .collect()
    };
    assert_eq!(sorted(before), sorted(after), "it comes to rest");
}
