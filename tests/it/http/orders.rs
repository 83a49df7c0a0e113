//! The orders of operators for a pool.

use serde_json::{Value, json};

use crate::support::{
    harness::{Grant, Server, Session, eventually, ms},
    pool_worker::Worker,
};

const POLICY: &str = "[[policy]]\nprefix = \"shards/\"\npool = \"shards\"\nbalance = true\n";

fn shards(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("shards/{n:04}")).collect()
}

fn url(server: &Server) -> String {
    format!("http://{}", server.addr)
}

fn body(action: &str, more: &Value) -> Value {
    let mut body = json!({ "pool": "shards", "action": action, "reason": "repair" });
    let fields = more.as_object().expect("an object").clone();
    body.as_object_mut().expect("an object").extend(fields);
    body
}

async fn order(server: &Server, action: &str, more: Value) -> Value {
    server.post("/v1/admin/pool", &body(action, &more)).await.ok()
}

async fn join(server: &Server, owner: &str) -> Session {
    server.session(owner, 60_000, json!({ "pool": "shards" })).await
}

/// The keys that a fair call of a member is granted at once.
async fn fair(server: &Server, owner: &str, session: &Session, more: Value) -> Vec<Grant> {
    let mut body = json!({ "owner": owner, "session": session.id, "count": "fair" });
    let fields = more.as_object().expect("an object").clone();
    body.as_object_mut().expect("an object").extend(fields);
    let answer = server.post("/v1/acquire-any", &body).await.json();
    answer["grants"].as_array().map(|all| all.iter().map(Grant::of).collect()).unwrap_or_default()
}

fn member<'a>(pool: &'a Value, owner: &str) -> &'a Value {
    let all = pool["members"].as_array().expect("members");
    all.iter().find(|member| member["owner"] == owner).expect("a member")
}

#[tokio::test]
async fn in_a_frozen_pool_no_key_changes_its_member() {
    let server = Server::configured(&format!("{POLICY}rejoin_window = \"1h\"\n"));
    let (a, b) = (join(&server, "a").await, join(&server, "b").await);
    let of_a = fair(&server, "a", &a, json!({ "keys": shards(10) })).await;
    let of_b = fair(&server, "b", &b, json!({ "keys": shards(10) })).await;
    assert_eq!((of_a.len(), of_b.len()), (5, 5));
    let frozen = order(&server, "freeze", json!({})).await;
    assert_eq!(
        (&frozen["frozen"]["reason"], &frozen["frozen"]["by"]),
        (&json!("repair"), &json!("127.0.0.1"))
    );
    let at = frozen["frozen"]["at"].as_str().expect("a time");
    assert!(humantime::parse_rfc3339(at).is_ok(), "{frozen}");

    server.release(&of_a[0]).await;
    let none = fair(&server, "b", &b, json!({ "pool": "shards" })).await;
    assert!(none.is_empty(), "the key that came free has another last owner");
    let named = fair(&server, "b", &b, json!({ "keys": [of_a[0].key, "shards/new"] })).await;
    assert!(named.is_empty(), "nor by its name, nor one that is new");
    let again = fair(&server, "a", &a, json!({ "pool": "shards" })).await;
    assert_eq!(again.iter().map(|it| &it.key).collect::<Vec<_>>(), [&of_a[0].key]);

    // A member that comes back gets what it had, and a new one nothing.
    server.destroy(&a).await.ok();
    let c = join(&server, "c").await;
    assert!(fair(&server, "c", &c, json!({ "pool": "shards" })).await.is_empty());
    let back = join(&server, "a").await;
    assert_eq!(fair(&server, "a", &back, json!({ "pool": "shards" })).await.len(), 5);

    let thawed = order(&server, "thaw", json!({})).await;
    assert_eq!(thawed["frozen"], Value::Null);
    assert_eq!(member(&thawed, "c")["share"], 3);
}

#[tokio::test]
async fn a_frozen_pool_stays_frozen_after_a_restart_and_nothing_is_asked() {
    let server = Server::configured(POLICY);
    let mut a = Worker::join(&url(&server), "shards", "a", 1, 10_000).await;
    a.work(shards(10));
    eventually("it has all", async || a.held() == 10).await;
    order(&server, "freeze", json!({})).await;
    let mut b = Worker::join(&url(&server), "shards", "b", 1, 10_000).await;
    b.work(shards(10));
    order(&server, "rebalance", json!({})).await;
    tokio::time::sleep(ms(2_500)).await;
    assert_eq!((a.held(), b.held()), (10, 0));
    // The workers know the old address.
    drop((a, b));
    let server = server.kill().restart();
    let c = join(&server, "c").await;
    assert!(fair(&server, "c", &c, json!({ "pool": "shards" })).await.is_empty());
    let seen = server.get("/v1/pools/shards").await.ok();
    assert_eq!((&seen["frozen"]["reason"], &seen["keys"]), (&json!("repair"), &json!(10)));
    order(&server, "thaw", json!({})).await;
    eventually("its share was asked for", async || {
        let pool = server.get("/v1/pools/shards").await.ok();
        member(&pool, "a")["handovers"].as_u64().is_some_and(|asked| asked > 0)
    })
    .await;
}

#[tokio::test]
async fn a_cordoned_member_keeps_what_it_has_and_gets_no_more() {
    let server = Server::configured(POLICY);
    let (a, b) = (join(&server, "a").await, join(&server, "b").await);
    let of_a = fair(&server, "a", &a, json!({ "keys": shards(8) })).await;
    assert_eq!(of_a.len(), 4);
    let cordoned = order(&server, "cordon", json!({ "owner": "a" })).await;
    assert_eq!(member(&cordoned, "a")["cordoned"], true);
    assert_eq!(
        (&cordoned["cordoned"][0]["owner"], &cordoned["cordoned"][0]["reason"]),
        (&json!("a"), &json!("repair"))
    );
    assert_eq!(fair(&server, "b", &b, json!({ "keys": shards(12) })).await.len(), 8);
    server.release(&of_a[0]).await;
    assert!(fair(&server, "a", &a, json!({ "pool": "shards" })).await.is_empty());
    let pool = server.get("/v1/pools/shards").await.ok();
    assert_eq!(
        (&member(&pool, "a")["share"], &member(&pool, "b")["share"]),
        (&json!(3), &json!(9))
    );
    let freed = order(&server, "uncordon", json!({ "owner": "a" })).await;
    assert_eq!((&freed["cordoned"], &member(&freed, "a")["share"]), (&json!([]), &json!(6)));
}

#[tokio::test]
async fn a_fair_call_that_is_given_nothing_is_told_why() {
    let gpu = "[[policy]]\nprefix = \"gpu/\"\npool = \"shards\"\nrequire = [\"gpu=true\"]\n";
    let server = Server::configured(&format!("{POLICY}{gpu}"));
    let a = join(&server, "a").await;
    let why = async |owner: &str, session: &Session| {
        let body =
            json!({ "owner": owner, "session": session.id, "count": "fair", "pool": "shards" });
        let answer = server.post("/v1/acquire-any", &body).await.json();
        assert_eq!(answer["code"], "none-available", "{answer}");
        answer["detail"].as_str().expect("a text").to_owned()
    };
    let taken = server.acquire("gpu/1", "x", 60_000).await;
    server.release(&taken).await;
    let detail = why("a", &a).await;
    assert!(detail.ends_with("; keys without a member to go to: 1 (require)"), "{detail}");

    assert_eq!(fair(&server, "a", &a, json!({ "keys": shards(2) })).await.len(), 2);
    order(&server, "freeze", json!({})).await;
    let taken = server.acquire("shards/9", "x", 60_000).await;
    server.release(&taken).await;
    let detail = why("a", &a).await;
    assert!(detail.ends_with(" to go to: 2 (frozen)"), "{detail}");
    order(&server, "thaw", json!({})).await;

    order(&server, "cordon", json!({ "owner": "a" })).await;
    let detail = why("a", &a).await;
    let expected = "; it belongs to a cordoned owner; keys without a member to go to: 1 (require), 1 (cordoned)";
    assert!(detail.ends_with(expected), "{detail}");
    let unready = json!({ "pool": "shards", "ready": false });
    let b = server.session("b", 60_000, unready).await;
    let detail = why("b", &b).await;
    assert!(detail.contains("; it is not ready; "), "{detail}");
}

#[tokio::test]
async fn a_paused_key_is_handed_over_and_goes_to_no_member() {
    // A pool that is not balanced: only what is ordered moves.
    let server = Server::configured(&POLICY.replace("balance = true", "balance = false"));
    let mut workers = Vec::new();
    for owner in ["a", "b"] {
        workers.push(Worker::join(&url(&server), "shards", owner, 1, 10_000).await);
    }
    workers.iter_mut().for_each(|worker| worker.work(shards(10)));
    let held = |workers: &[Worker]| workers.iter().map(Worker::held).sum::<usize>();
    eventually("all is held", async || held(&workers) == 10).await;
    let key = "shards/0003";
    let paused = order(&server, "pause", json!({ "key": key })).await;
    assert_eq!(paused["paused"][0]["key"], key);
    eventually("it was handed over", async || held(&workers) == 9).await;
    let pool = server.get("/v1/pools/shards").await.ok();
    assert_eq!((&pool["keys"], &pool["free"]), (&json!(9), &json!(0)), "it does not count");
    tokio::time::sleep(ms(500)).await;
    assert_eq!((held(&workers), &server.lease(key).await["state"]), (9, &json!("free")));
    let events = server.history().await;
    let asked = events.iter().find(|event| event["type"] == "io.tenure.lease.handover-requested");
    let asked = asked.expect("its holder was asked");
    assert_eq!(
        (&asked["data"]["key"], &asked["data"]["reason"]),
        (&json!(key), &json!("paused: repair"))
    );
    order(&server, "resume", json!({ "key": key })).await;
    eventually("it is held again", async || held(&workers) == 10).await;
}

#[tokio::test]
async fn a_key_moves_to_a_member_and_stays_there_beyond_its_share() {
    for balance in ["true", "\"load\""] {
        let policy = POLICY.replace("balance = true", &format!("balance = {balance}"));
        let server = Server::configured(&policy);
        let mut workers = Vec::new();
        for owner in ["a", "b"] {
            workers.push(Worker::join(&url(&server), "shards", owner, 1, 10_000).await);
        }
        workers.iter_mut().for_each(|worker| worker.work(shards(10)));
        let held = |workers: &[Worker]| workers.iter().map(Worker::held).collect::<Vec<_>>();
        eventually("all is held", async || held(&workers) == [5, 5]).await;
        let key = workers[0].keys()[0].clone();
        let more = json!({ "key": key, "owner": "b" });
        let moved = order(&server, "move", more.clone()).await;
        assert_eq!(moved["paused"], order(&server, "move", more).await["paused"]);
        assert_eq!(
            (&moved["paused"][0]["key"], &moved["paused"][0]["to"]),
            (&json!(key), &json!("b"))
        );
        let has = async || {
            let lease = server.lease(&key).await;
            lease["owner"] == "b" && lease["state"] == "held"
        };
        eventually("b has it", has).await;
        let event = server.events_of(&key).await.into_iter().rev().find_map(|event| {
            let asked = event["type"] == "io.tenure.lease.handover-requested";
            asked.then(|| event["data"]["reason"].clone())
        });
        assert_eq!(event.expect("its holder was asked"), "moved to b: repair");
        // It stays there: the other nine keys are shared as before.
        tokio::time::sleep(ms(2_500)).await;
        let mut counts = held(&workers);
        counts.sort_unstable();
        assert!(has().await && counts.iter().sum::<usize>() == 10 && counts[0] >= 4, "{counts:?}");
        let pool = server.get("/v1/pools/shards/plan").await.ok();
        assert_eq!((&pool["imbalance"], &pool["keys"]), (&json!(0), &json!(9)), "{pool}");
        // To an owner who has no member, a key goes once one joins. Until then it is like the others.
        order(&server, "move", json!({ "key": key, "owner": "c" })).await;
        tokio::time::sleep(ms(1_500)).await;
        assert_eq!(server.lease(&key).await["state"], "held");
        let mut c = Worker::join(&url(&server), "shards", "c", 1, 10_000).await;
        c.work(shards(10));
        eventually("c has it", async || server.lease(&key).await["owner"] == "c").await;
        // When that member leaves, the others get it.
        drop(c.stop().await);
        eventually("another has it", async || {
            let lease = server.lease(&key).await;
            lease["state"] == "held" && lease["owner"] != "c"
        })
        .await;
        let resumed = order(&server, "resume", json!({ "key": key })).await;
        assert_eq!((&resumed["paused"], &resumed["keys"]), (&json!([]), &json!(10)));
    }
}

/// A call that stands in the queue of a key leaves it before the order that forbids the key is answered.
#[tokio::test]
async fn who_waits_for_a_key_is_not_granted_it_after_an_order() {
    for action in ["pause", "cordon"] {
        let server = Server::configured(POLICY);
        let x = join(&server, "x").await;
        let of_x = fair(&server, "x", &x, json!({ "keys": shards(1) })).await;
        assert_eq!(of_x.len(), 1, "it is the only key");
        let y = join(&server, "y").await;
        let key = of_x[0].key.clone();
        server.post(&format!("/v1/sessions/{}/drain", x.id), &json!({})).await.ok();
        let wait = json!({
            "owner": "y", "session": y.id, "count": "fair", "pool": "shards", "wait_ms": 3_000,
        });
        let waiting = server.park("/v1/acquire-any", &wait).await;
        eventually("it stands in the queue", async || server.lease(&key).await["waiters"] == 1)
            .await;
        let more = if action == "pause" { json!({ "key": key }) } else { json!({ "owner": "y" }) };
        order(&server, action, more).await;
        let body = json!({ "key": key, "lease_id": of_x[0].lease_id });
        server.post("/v1/transfer", &body).await.ok();
        assert_eq!(server.lease(&key).await["state"], "free", "{action}");
        drop(waiting);
    }
}

/// A freeze does not leave a key without an owner that was asked for before.
#[tokio::test]
async fn what_is_being_handed_over_goes_to_its_next_member_in_a_frozen_pool() {
    let server = Server::configured(POLICY);
    let (x, y) = (join(&server, "x").await, join(&server, "y").await);
    let of_x = fair(&server, "x", &x, json!({ "keys": shards(6) })).await;
    let of_y = fair(&server, "y", &y, json!({ "keys": shards(6) })).await;
    assert_eq!((of_x.len(), of_y.len()), (3, 3));
    server.post(&format!("/v1/sessions/{}/drain", x.id), &json!({})).await.ok();
    eventually("all is asked for", async || {
        member(&server.get("/v1/pools/shards").await.ok(), "x")["handovers"] == 3
    })
    .await;
    order(&server, "freeze", json!({})).await;
    for lease in &of_x[..2] {
        let body = json!({ "key": lease.key, "lease_id": lease.lease_id });
        server.post("/v1/transfer", &body).await.ok();
    }
    let mut passed_on = 0;
    while passed_on < 2 {
        let wait = json!({ "pool": "shards", "wait_ms": 5_000 });
        passed_on += fair(&server, "y", &y, wait).await.len();
    }
    server.release(&of_y[0]).await;
    assert!(
        fair(&server, "y", &y, json!({ "pool": "shards" })).await.is_empty(),
        "this was not asked for"
    );
}

/// What is ordered for a while ends by itself, also after a restart.
#[tokio::test]
async fn an_order_with_an_end_ends_by_itself() {
    let server = Server::configured(POLICY);
    let frozen = order(&server, "freeze", json!({ "for_ms": 2_592_000_000_u64 })).await;
    let until = frozen["frozen"]["until"].as_str().expect("a time");
    assert!(humantime::parse_rfc3339(until).is_ok(), "{frozen}");
    let sooner = order(&server, "freeze", json!({ "for_ms": 3_000 })).await;
    assert_ne!(sooner["frozen"]["until"], frozen["frozen"]["until"], "it is ordered anew");
    order(&server, "pause", json!({ "key": "shards/0001", "for_ms": 3_000 })).await;
    order(&server, "cordon", json!({ "owner": "x" })).await;
    let server = server.kill().restart();
    let mut a = Worker::join(&url(&server), "shards", "a", 1, 10_000).await;
    a.work(shards(10));
    let stands = server.get("/v1/pools/shards").await.ok();
    assert_eq!((&stands["frozen"]["reason"], a.held()), (&json!("repair"), 0), "{stands}");
    eventually("both are over, and it has all", async || a.held() == 10).await;
    let over = server.get("/v1/pools/shards").await.ok();
    assert_eq!((&over["frozen"], &over["paused"]), (&Value::Null, &json!([])));
    assert_eq!(over["cordoned"][0]["owner"], "x", "this one has no end");
    assert_eq!(over["cordoned"][0]["until"], Value::Null);
}

#[tokio::test]
async fn a_rebalance_is_exact_and_waits_for_no_age() {
    let server = Server::configured_in(POLICY, &[("TENURE_TEST_MIN_AGE_MS", "60000")]);
    let (mut a, mut b) = (
        Worker::join(&url(&server), "shards", "a", 1, 10_000).await,
        Worker::join(&url(&server), "shards", "b", 1, 10_000).await,
    );
    a.work(shards(100));
    b.work(shards(100));
    eventually("all is held", async || a.held() + b.held() == 100).await;
    let mut c = Worker::join(&url(&server), "shards", "c", 1, 10_000).await;
    c.work(shards(100));
    tokio::time::sleep(ms(1_500)).await;
    assert_eq!(c.held(), 0, "the leases are too young to move by themselves");
    order(&server, "rebalance", json!({})).await;
    eventually("it is exact", async || {
        let all = [a.held(), b.held(), c.held()];
        all.iter().sum::<usize>() == 100 && all.iter().all(|held| (33..=34).contains(held))
    })
    .await;
    eventually("it is over", async || {
        server.get("/v1/pools/shards").await.ok()["rebalancing"] == false
    })
    .await;
}

#[tokio::test]
async fn an_order_that_is_not_valid_names_the_field() {
    let server = Server::configured(POLICY);
    for (action, more, field) in [
        ("cordon", json!({}), "owner"),
        ("freeze", json!({ "owner": "a" }), "owner"),
        ("pause", json!({}), "key"),
        ("thaw", json!({ "key": "shards/1" }), "key"),
        ("move", json!({ "key": "shards/1" }), "owner"),
        ("move", json!({ "owner": "a" }), "key"),
        ("move", json!({ "key": "other/1", "owner": "a" }), "key"),
        ("resume", json!({ "key": "shards/1", "owner": "a" }), "owner"),
        ("thaw", json!({ "for_ms": 5_000 }), "for_ms"),
        ("freeze", json!({ "for_ms": 999 }), "for_ms"),
        ("freeze", json!({ "for_ms": 2_592_000_001_u64 }), "for_ms"),
        ("pause", json!({ "key": "other/1" }), "key"),
        ("cordon", json!({ "owner": "" }), "owner"),
        ("freeze", json!({ "reason": "" }), "reason"),
        ("freeze", json!({ "reason": "r".repeat(257) }), "reason"),
    ] {
        let refused = server.post("/v1/admin/pool", &body(action, &more)).await;
        let problem = refused.problem(400, "invalid-field");
        assert_eq!(problem["field"], field, "{action} {more} {problem}");
    }
    let refused = server.post("/v1/admin/pool", &body("melt", &json!({}))).await;
    assert_eq!(refused.problem(400, "malformed-request")["field"], "action");
    let unknown = body("freeze", &json!({ "pool": "other" }));
    let unknown = server.post("/v1/admin/pool", &unknown).await.problem(404, "unknown-pool");
    assert_eq!(unknown["field"], "pool");
    let still = Server::configured(&POLICY.replace("balance = true", "balance = false"));
    let refused = still.post("/v1/admin/pool", &body("rebalance", &json!({}))).await;
    assert_eq!(refused.problem(400, "invalid-field")["field"], "action");
    // The orders of one pool have a bounded length.
    let mut refused = None;
    for n in 0..100 {
        let more = json!({ "key": format!("shards/{n:0400}"), "reason": "r".repeat(256) });
        let reply = server.post("/v1/admin/pool", &body("pause", &more)).await;
        if reply.status != 200 {
            refused = Some((n, reply.problem(400, "invalid-field")));
            break;
        }
    }
    let (stored, problem) = refused.expect("a bound");
    assert!(stored > 10 && problem["field"] == "action", "{stored} {problem}");
    let pool = server.get("/v1/pools/shards").await.ok();
    assert_eq!(pool["paused"].as_array().expect("keys").len(), stored);
    order(&server, "resume", json!({ "key": format!("shards/{:0400}", 0) })).await;
}
