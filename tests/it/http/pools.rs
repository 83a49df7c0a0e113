//! Pools: fair shares, and leases that move when members come and go.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{
    harness::{Grant, Server, Session, eventually, kinds, ms},
    pool_worker::{Worker, pool},
};

const BALANCED: &str = concat!(
    "[[policy]]\nprefix = \"shards/\"\npool = \"shards\"\nbalance = true\nhandover_timeout = \"20s\"\n",
    "[[policy]]\nprefix = \"still/\"\npool = \"still\"\n",
);

fn shards(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}/{n:03}")).collect()
}

fn url(server: &Server) -> String {
    format!("http://{}", server.addr)
}

/// Waits until every member has its share, and no key is free; how much each has.
async fn settled(server: &Server, keys: u64) -> BTreeMap<String, u64> {
    let url = url(server);
    let mut found = BTreeMap::new();
    eventually("every member has its share", async || {
        let (seen, members) = pool(&url, "shards").await;
        let fits = members.values().all(|(held, share)| held == share);
        found = members.into_iter().map(|(owner, (held, _))| (owner, held)).collect();
        fits && seen["keys"] == keys && seen["free"] == 0
    })
    .await;
    found
}

fn counted(events: &[Value], kind: &str) -> usize {
    kinds(events).iter().filter(|found| *found == kind).count()
}

#[tokio::test]
async fn members_share_a_pool_and_what_moves_is_what_must() {
    let server = Server::configured(BALANCED);
    let url = url(&server);
    let mut workers = Vec::new();
    for owner in ["a", "b", "c", "d"] {
        workers.push(Worker::join(&url, "shards", owner, 1, 2000).await);
    }
    workers.iter_mut().for_each(|worker| worker.work(shards("shards", 40)));
    assert_eq!(settled(&server, 40).await.into_values().collect::<Vec<_>>(), [10; 4]);
    assert_eq!(counted(&server.history().await, "handover-requested"), 0);
    let members = "tenure_pool_members{pool=\"shards\"}";
    eventually("members are counted", async || (server.metric(members).await - 4.0).abs() < 0.1)
        .await;

    // One with weight 2 comes: 40 · 2/6 = 13⅓, the others 6⅔ each.
    let mut heavy = Worker::join(&url, "shards", "e", 2, 2000).await;
    heavy.work(shards("shards", 40));
    let mut found = settled(&server, 40).await;
    assert_eq!(found.remove("e"), Some(13));
    let mut rest: Vec<_> = found.values().copied().collect();
    rest.sort_unstable();
    assert_eq!(rest, [6, 7, 7, 7]);
    let events = server.history().await;
    assert_eq!((counted(&events, "handover-requested"), counted(&events, "transferred")), (13, 13));
    let asked = events.iter().find(|event| event["type"] == "io.tenure.lease.handover-requested");
    assert_eq!(asked.expect("one")["data"]["reason"], "balance");

    // One leaves: what it had goes to the others, and nothing else moves.
    let drained = found["a"];
    assert_eq!(workers[0].drain().await["draining"], true);
    eventually("its share is none", async || pool(&url, "shards").await.1["a"].1 == 0).await;
    let found = settled(&server, 40).await;
    assert_eq!(found["a"], 0);
    assert_eq!((found["e"], found["b"] + found["c"] + found["d"]), (16, 24));
    let events = server.history().await;
    let moved = 13 + usize::try_from(drained).expect("few");
    assert_eq!(counted(&events, "transferred"), moved);
    eventually("it has nothing", async || workers[0].held() == 0).await;

    // One is killed: what it had is free at the end of its session, and taken.
    drop(workers.remove(1));
    let killed = async || pool(&url, "shards").await.1.contains_key("b");
    eventually("it is gone", async || !killed().await).await;
    let found = settled(&server, 40).await;
    assert_eq!((found["e"], found["c"], found["d"]), (20, 10, 10));
    let events = server.history().await;
    assert_eq!(counted(&events, "transferred"), moved);
    assert_eq!(counted(&events, "revoked"), 0);
    for key in shards("shards", 40) {
        assert_eq!(server.lease(&key).await["state"], "held", "{key}");
    }
    let imbalance = "tenure_pool_imbalance{pool=\"shards\"}";
    eventually("balanced", async || server.metric(imbalance).await.abs() < 0.1).await;
    // A key that was handed over has what its last holder left.
    let transferred = events.iter().rev().find(|e| e["type"] == "io.tenure.lease.transferred");
    let key = transferred.expect("one")["subject"].as_str().expect("a key").to_owned();
    let value = server.lease(&key).await["value"].clone();
    assert!(value.as_str().is_some_and(|value| value.starts_with("from ")), "{value}");
}

async fn fair(server: &Server, session: &Session, more: Value) -> crate::support::harness::Reply {
    let mut body = json!({ "owner": "w", "session": session.id, "count": "fair" });
    let fields = more.as_object().expect("an object").clone();
    body.as_object_mut().expect("an object").extend(fields);
    server.post("/v1/acquire-any", &body).await
}

fn grants(answer: &Value) -> Vec<Grant> {
    answer["grants"].as_array().expect("grants").iter().map(Grant::of).collect()
}

#[tokio::test]
async fn a_fair_call_gets_up_to_the_share_and_never_more() {
    let server = Server::configured(BALANCED);
    let a = server.session("a", 60_000, json!({ "pool": "still" })).await;
    let b = server.session("b", 60_000, json!({ "pool": "still", "weight": 2 })).await;
    let keys = shards("still", 9);
    // What somebody else has is no part of it.
    server.acquire("still/000", "other", 60_000).await;
    let named = json!({ "keys": keys, "owner": "a" });
    let got = grants(&fair(&server, &a, named.clone()).await.ok());
    assert_eq!(got.len(), 3, "of 8, 2⅔ are its quota");
    assert!(got.iter().all(|grant| grant.lease["session"] == a.digest.as_str()));
    let none = fair(&server, &a, named.clone()).await.problem(409, "none-available");
    assert_eq!((&none["share"], &none["held_by_session"]), (&json!(3), &json!(3)), "{none}");
    assert_eq!(none["counts"]["held_by_you"], 3);
    let of_pool = json!({ "pool": "still", "owner": "b" });
    // The pool knows only keys that were seen: two of three are its share, and none is free.
    let none = fair(&server, &b, of_pool.clone()).await.problem(409, "none-available");
    assert_eq!((&none["share"], &none["held_by_session"]), (&json!(2), &json!(0)), "{none}");
    let got = grants(&fair(&server, &b, json!({ "keys": keys, "owner": "b" })).await.ok());
    assert_eq!(got.len(), 5);
    let none = fair(&server, &b, of_pool).await.problem(409, "none-available");
    assert_eq!((&none["share"], &none["held_by_session"]), (&json!(5), &json!(5)), "{none}");
}

#[tokio::test]
async fn a_member_gets_no_more_than_its_capacity_and_the_others_get_the_rest() {
    let server = Server::configured(BALANCED);
    let a = server.session("a", 60_000, json!({ "pool": "still", "capacity": 2 })).await;
    let b = server.session("b", 60_000, json!({ "pool": "still" })).await;
    let keys = shards("still", 12);
    let got = async |session: &Session, owner: &str| {
        let call = json!({ "keys": keys, "owner": owner });
        grants(&fair(&server, session, call).await.ok()).len()
    };
    assert_eq!((got(&a, "a").await, got(&b, "b").await), (2, 10));
    let shown = server.get(&format!("/v1/sessions/{}", a.digest)).await.ok();
    assert_eq!(shown["capacity"], 2);
}

#[tokio::test]
async fn keys_that_only_one_member_names_are_left_to_nobody() {
    let server = Server::configured(BALANCED);
    let _b = server.session("b", 60_000, json!({ "pool": "still" })).await;
    let a = server.session("a", 60_000, json!({ "pool": "still", "capacity": 7 })).await;
    let call = json!({ "keys": shards("still", 8), "owner": "a", "wait_ms": 20_000 });
    let got = async || grants(&fair(&server, &a, call.clone()).await.ok()).len();
    assert_eq!(got().await, 4, "its share");
    // The other one had its time, and does not know them.
    let began = std::time::Instant::now();
    assert_eq!(got().await, 3, "beyond its share, within its capacity");
    assert!(began.elapsed() >= ms(1900), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_plan_says_what_would_move_and_why_and_moves_nothing() {
    let server = Server::configured_in(BALANCED, &[("TENURE_TEST_MIN_AGE_MS", "6000")]);
    let plan = async || server.get("/v1/pools/still/plan").await.ok();
    let empty = plan().await;
    assert_eq!((&empty["imbalance"], &empty["moves"]), (&Value::Null, &json!([])));
    server.get("/v1/pools/none/plan").await.problem(404, "unknown-pool");

    let a = server.session("a", 60_000, json!({ "pool": "still" })).await;
    let call = json!({ "keys": shards("still", 8), "owner": "a" });
    assert_eq!(grants(&fair(&server, &a, call).await.ok()).len(), 8);
    eventually("the keys are counted", async || plan().await["imbalance"] == 0).await;
    let b = server.session("b", 60_000, json!({ "pool": "still" })).await;
    eventually("half of them must move", async || plan().await["imbalance"] == 4).await;
    // The newcomer is given one lease first, and nothing moves that was granted in the last seconds.
    let young = plan().await;
    assert_eq!((&young["moves"], &young["put_off"]), (&json!([]), &json!(1)), "{young}");
    assert_eq!((&young["balance"], &young["members"][0]["share"]), (&json!(false), &json!(4)));
    eventually("one of them would be asked for", async || {
        let plan = plan().await;
        plan["put_off"] == 0 && plan["moves"].as_array().is_some_and(|moves| moves.len() == 1)
    })
    .await;
    let planned = plan().await["moves"][0].clone();
    let detail = "a holds 8 leases, and its share is 4";
    let expected = json!({ "key": planned["key"], "session": a.digest, "owner": "a", "reason": "surplus", "detail": detail });
    assert_eq!(planned, expected);

    server.call("POST", &format!("/v1/sessions/{}/drain", a.id), b"").await.ok();
    eventually("all of them would be asked for", async || {
        plan().await["moves"].as_array().is_some_and(|moves| moves.len() == 8)
    })
    .await;
    let drained = plan().await;
    assert_eq!(drained["moves"][7]["key"], "still/007");
    assert_eq!(drained["moves"][7]["reason"], "drain");
    let held = async |session: &Session| server.beat(session).await.ok()["leases"]["count"].clone();
    assert_eq!((held(&a).await, held(&b).await), (json!(8), json!(0)));
}

#[tokio::test]
async fn calls_at_once_share_the_places_of_their_session() {
    let server = Server::configured(BALANCED);
    let a = server.session("a", 60_000, json!({ "pool": "still" })).await;
    let _b = server.session("b", 60_000, json!({ "pool": "still" })).await;
    let call = || fair(&server, &a, json!({ "keys": shards("still", 40), "owner": "a" }));
    let replies = futures_util::future::join_all((0..8).map(|_| call())).await;
    let granted = replies.iter().filter(|reply| reply.status == 200);
    assert_eq!(granted.map(|reply| grants(&reply.json()).len()).sum::<usize>(), 20);
    eventually("20 are kept", async || server.beat(&a).await.ok()["leases"]["count"] == 20).await;
}

#[tokio::test]
async fn one_call_waits_for_a_key_and_leaves_the_queues_when_its_share_falls() {
    let server = Server::configured(BALANCED);
    let a = server.session("a", 60_000, json!({ "pool": "still" })).await;
    let other = server.acquire("still/000", "other", 60_000).await;
    grants(&fair(&server, &a, json!({ "keys": shards("still", 4), "owner": "a" })).await.ok());
    let body = |session: &Session, owner: &str| {
        json!({ "owner": owner, "session": session.id, "count": "fair", "pool": "still",
            "wait_ms": 20_000 })
    };
    // It has its share of 3: it waits without standing in any queue.
    let mut parked = server.park("/v1/acquire-any", &body(&a, "a")).await;
    tokio::time::sleep(ms(200)).await;
    assert_eq!(server.lease("still/000").await["waiters"], 0);
    // Another key comes free for it, and is its own.
    server.release(&other).await;
    assert_eq!(grants(&parked.receive().await.ok())[0].key, "still/000");

    // A second member waits for its share: nothing moves in this pool by itself. It stands in the queue of the one
    // key that is coming.
    let b = server.session("b", 60_000, json!({ "pool": "still" })).await;
    let mut parked = server.park("/v1/acquire-any", &body(&b, "b")).await;
    server.post("/v1/testing/handover", &json!({ "key": "still/001" })).await.ok();
    server.until_waiters("still/001", 1).await;
    assert_eq!(server.lease("still/002").await["waiters"], 0);
    let drained = server.call("POST", &format!("/v1/sessions/{}/drain", b.id), b"").await.ok();
    assert_eq!(drained["draining"], true);
    server.until_waiters("still/001", 0).await;
    assert_eq!(
        server.get("/v1/pools/still").await.ok()["members"][1]["held"].as_u64().map(|n| n % 4),
        Some(0)
    );
    server.destroy(&b).await.ok();
    parked.receive().await.problem(409, "session-lost");
    assert_eq!(counted(&server.history().await, "handover-requested"), 1);
}

#[tokio::test]
async fn a_wait_that_runs_out_says_what_the_share_is() {
    let server = Server::configured(BALANCED);
    let a = server.session("a", 60_000, json!({ "pool": "still" })).await;
    let more = json!({ "keys": ["still/1"], "owner": "a" });
    fair(&server, &a, more).await.ok();
    let more = json!({ "pool": "still", "owner": "a", "wait_ms": 300 });
    let none = fair(&server, &a, more).await.problem(409, "none-available");
    assert_eq!((&none["share"], &none["held_by_session"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn a_repeated_fair_call_gets_the_same_grants() {
    let server = Server::configured(BALANCED);
    let a = server.session("a", 60_000, json!({ "pool": "still" })).await;
    let call = async |count: Value| {
        let more =
            json!({ "keys": shards("still", 5), "owner": "a", "count": count, "request_id": "r" });
        fair(&server, &a, more).await
    };
    let first = grants(&call(json!("fair")).await.ok());
    assert_eq!(first.len(), 5);
    let again = grants(&call(json!("fair")).await.ok());
    let ids = |grants: &[Grant]| {
        let mut ids: Vec<_> = grants.iter().map(|g| (g.key.clone(), g.lease_id.clone())).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&again), ids(&first));
    call(json!(5)).await.problem(422, "request-id-reused");
    for grant in &first {
        server.release(grant).await;
    }
    call(json!("fair")).await.problem(409, "request-id-spent");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_by_name() {
    let server = Server::configured(BALANCED);
    let member = server.session("a", 60_000, json!({ "pool": "still" })).await;
    let plain = server.session("a", 60_000, json!({})).await;
    let no_session = json!({ "owner": "a", "ttl_ms": 1000, "count": "fair", "pool": "still" });
    server.post("/v1/acquire-any", &no_session).await.bad_field("session");
    let refused = [
        (&plain, json!({ "pool": "still" }), "session"),
        (&member, json!({ "pool": "shards" }), "pool"),
        (&member, json!({ "keys": ["still/1", "shards/1"] }), "keys"),
        (&member, json!({ "prefix": "still/" }), "prefix"),
    ];
    for (session, more, field) in refused {
        fair(&server, session, more).await.bad_field(field);
    }
    for count in [json!("most"), json!(-1), json!(1.5), json!(null), json!([])] {
        let reply = fair(&server, &member, json!({ "pool": "still", "count": count })).await;
        assert_eq!(reply.status, 400, "{}", reply.text());
        assert!(reply.text().contains("count"), "{}", reply.text());
    }
    fair(&server, &member, json!({ "pool": "still", "count": 0 })).await.bad_field("count");
    // A session joins only pools that there are.
    for pool in ["", "none", "Still", "p".repeat(65).as_str()] {
        let body = json!({ "owner": "a", "ttl_ms": 1000, "pool": pool });
        let problem = server.post("/v1/sessions", &body).await.bad_field("pool");
        assert!(
            problem["detail"].as_str().is_some_and(|text| text.contains("shards")),
            "{problem}"
        );
    }
    server.session("a", 60_000, json!({ "pool": "default" })).await;
}

#[tokio::test]
async fn pools_are_listed_and_survive_a_restart() {
    let server = Server::configured(BALANCED);
    let pools = server.get("/v1/pools").await.ok();
    let names: Vec<_> =
        pools["pools"].as_array().expect("pools").iter().map(|p| &p["pool"]).collect();
    assert_eq!(names, ["default", "shards", "still"]);
    let shards_now = json!({
        "pool": "shards", "balance": true, "keys": null, "free": null, "kept": null, "members": [],
        "frozen": null, "cordoned": [], "paused": [], "warming": [], "guard": null, "rebalancing": false,
        "by_load": false, "load_peak": null, "unplaced": null,
    });
    assert_eq!(pools["pools"][1], shards_now);
    server.get("/v1/pools/none").await.problem(404, "unknown-pool");

    let free = server.acquire("still/8", "x", 60_000).await;
    server.release(&free).await;
    let a = server.session("a", 60_000, json!({ "pool": "still", "weight": 3 })).await;
    fair(&server, &a, json!({ "keys": shards("still", 3), "owner": "a" })).await.ok();
    let is_so = async |server: &Server| {
        let pool = server.get("/v1/pools/still").await.ok();
        let member = &pool["members"][0];
        let shown = ["owner", "weight", "held", "share", "draining", "handovers"]
            .map(|f| member[f].clone());
        pool["keys"] == 4
            && pool["free"] == 1
            && member["session"] == a.digest.as_str()
            && shown == [json!("a"), json!(3), json!(3), json!(4), json!(false), json!(0)]
    };
    eventually("it is shown", async || is_so(&server).await).await;
    let server = server.kill().restart();
    eventually("it is shown after a crash", async || is_so(&server).await).await;
}

#[tokio::test]
async fn a_member_that_takes_nothing_gives_way_and_counts_once_it_asks() {
    gives_way(&Server::configured(BALANCED)).await;
}

/// No tenure expires here: nothing keeps a key from being granted.
#[tokio::test]
async fn a_lock_delay_does_not_keep_one_that_takes_nothing() {
    let delayed = BALANCED.replace("balance = true", "balance = true\nlock_delay = \"1m\"");
    gives_way(&Server::configured(&delayed)).await;
}

/// It waits for a key again and again that somebody outside the pool has, and takes none of those that are free.
#[tokio::test]
async fn a_member_that_asks_for_what_it_cannot_have_gives_way() {
    let server = Server::configured(BALANCED);
    let url = url(&server);
    let _workers = twenty_are_served(&server).await;
    server.acquire("shards/alone", "outsider", 120_000).await;
    let heavy = json!({ "pool": "shards", "weight": 1000 });
    let stuck = server.session("stuck", 120_000, heavy).await;
    let ask = json!({ "keys": ["shards/alone"], "count": "fair", "owner": "stuck",
                      "session": stuck.id, "wait_ms": 1000 });
    let asks = async {
        loop {
            server.post("/v1/acquire-any", &ask).await.problem(409, "none-available");
        }
    };
    let gives_way = async {
        eventually("it is set aside, and the others serve all", async || {
            let (seen, members) = pool(&url, "shards").await;
            seen["free"] == 0 && members["stuck"].0 == 0 && members["stuck"].1 == 0
        })
        .await;
        for _ in 0..50 {
            tokio::time::sleep(ms(100)).await;
            assert_eq!(pool(&url, "shards").await.0["free"], 0, "its next call takes no more");
        }
    };
    tokio::select! {
        () = gives_way => {}
        () = asks => {}
    }
}

/// Two members serve a pool of twenty keys.
async fn twenty_are_served(server: &Server) -> Vec<Worker> {
    let mut workers = Vec::new();
    for owner in ["a", "b"] {
        workers.push(Worker::join(&url(server), "shards", owner, 1, 2000).await);
    }
    workers.iter_mut().for_each(|worker| worker.work(shards("shards", 20)));
    settled(server, 20).await;
    workers
}

async fn gives_way(server: &Server) {
    let url = url(server);
    let _workers = twenty_are_served(server).await;
    // All of the pool would be its own, and it asks for nothing.
    let heavy = json!({ "pool": "shards", "weight": 1000 });
    let stuck = server.session("stuck", 60_000, heavy).await;
    let mut unserved = 0;
    eventually("it is set aside, and the others serve all", async || {
        let (seen, members) = pool(&url, "shards").await;
        unserved = unserved.max(seen["free"].as_u64().expect("a number"));
        seen["free"] == 0 && members["stuck"] == (0, 0)
    })
    .await;
    assert_eq!(unserved, 1, "one key waits for it to begin with, and no other before it took that");
    let seen = pool(&url, "shards").await.0;
    let aside = |member: &&Value| member["set_aside"] == true;
    let members = seen["members"].as_array().expect("members");
    assert_eq!(members.iter().filter(aside).map(|m| &m["owner"]).collect::<Vec<_>>(), ["stuck"]);

    let ask = json!({ "pool": "shards", "count": "fair", "owner": "stuck", "session": stuck.id,
                      "wait_ms": 60_000 });
    let mut asking = server.park("/v1/acquire-any", &ask).await;
    asking.receive().await.ok();
    let (_, members) = pool(&url, "shards").await;
    assert_eq!(members["stuck"].1, 20, "it counts again: {members:?}");
}

#[tokio::test]
async fn who_waits_for_its_share_has_no_place_at_keys_that_nobody_gives_up() {
    let server = Server::configured(BALANCED);
    let holder = server.session("holder", 60_000, json!({ "pool": "still" })).await;
    for key in shards("still", 200) {
        server.acquire_under(&key, "holder", &holder).await;
    }
    let mut waiting = Vec::new();
    for n in 0..10 {
        let owner = format!("w{n}");
        let one = json!({ "pool": "still", "capacity": 1 });
        let session = server.session(&owner, 60_000, one).await;
        let ask = json!({ "pool": "still", "count": "fair", "owner": owner, "session": session.id,
                          "wait_ms": 60_000 });
        waiting.push(server.park("/v1/acquire-any", &ask).await);
    }
    tokio::time::sleep(ms(500)).await;
    let places = server.metric("tenure_waiting_places").await;
    assert!(places < 0.5, "{places} places for keys that nobody gives up");
    // What comes free all the same is taken at once, by each of them one.
    for key in shards("still", 10) {
        let body = json!({ "key": key, "reason": "test", "immediately": true });
        server.post("/v1/admin/revoke", &body).await.ok();
    }
    let mut grants = Vec::new();
    for mut waiting in waiting {
        grants.push(waiting.receive().await.ok()["grants"][0]["key"].clone());
    }
    grants.sort_by_key(ToString::to_string);
    grants.dedup();
    assert_eq!(grants.len(), 10);
}

#[tokio::test]
async fn members_that_do_not_keep_their_keys_are_told_of() {
    let server = Server::configured("[[policy]]\nprefix = \"s/\"\npool = \"s\"\n");
    let body = json!({ "owner": "flapping", "ttl_ms": 60_000, "pool": "s" });
    let session = server.post("/v1/sessions", &body).await.json()["id"].clone();
    let churning = async || {
        let status = server.get("/v1/status").await.ok();
        let all = status["attention"].as_array().expect("entries").clone();
        all.into_iter().find(|one| one["kind"] == "pool-churning")
    };
    for times in 0..61 {
        if times < 60 {
            assert_eq!(churning().await, None, "{times}");
        }
        let body = json!({ "key": "s/1", "owner": "flapping", "session": session });
        let grant = Grant::of(&server.post("/v1/acquire", &body).await.ok());
        server.post("/v1/release", &grant.proof()).await.ok();
    }
    eventually("the status tells of it", async || {
        churning().await.is_some_and(|one| one["pool"] == "s" && one["count"] == 1)
    })
    .await;
}

/// The short form of `make abuse`: readers of plans hold up no heartbeat.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_plans_hold_up_no_heartbeat() {
    let [alone, beside] = crate::abuse::plans::beside_readers(5_000, 50, ms(0)).await;
    let most = std::time::Duration::from_millis(80).max(3 * alone);
    assert!(beside < most, "a heartbeat takes {beside:?} beside readers, {alone:?} alone");
}
