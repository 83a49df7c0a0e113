//! Calls about a lease that another living node answers for.

use serde_json::json;

use crate::nodes::{
    on_both_stores,
    pair::{Grant, Pair, acquire},
};

use crate::support::{
    clock::{ms, within},
    harness::Connection,
};

on_both_stores!(
    holders_calls_reach_the_home_from_any_node,
    a_key_with_dots_is_not_taken_for_another,
    a_batch_is_answered_by_each_leases_home,
    a_repeated_request_finds_its_grant_at_any_node,
    a_release_at_one_node_frees_the_key_for_all_at_once,
    who_waits_at_one_node_is_served_when_another_frees_the_key,
    administrators_may_ask_any_node,
    an_owner_is_drained_at_every_node,
    nobody_is_turned_away_by_what_a_node_has_not_heard,
    a_forwarded_call_is_counted_where_it_is_answered,
);

async fn a_forwarded_call_is_counted_where_it_is_answered(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    let grant = acquire(a, "counted", "w1", 30_000).await;
    let reclaim = json!({ "key": grant.key, "owner": "w1", "ttl_ms": 30_000, "reclaim": true });
    let (status, reclaimed) = b.post("/v1/acquire", &reclaim).await;
    assert_eq!((status, &reclaimed["node"]), (200, &json!(a.url)), "{reclaimed}");
    let grant = Grant::of(&reclaimed);
    assert_eq!(b.post("/v1/heartbeat", &grant.proof()).await.0, 200);
    let batch = json!({ "leases": [grant.proof()] });
    assert_eq!(b.post("/v1/heartbeats", &batch).await.1["results"][0]["status"], 200);
    assert_eq!(b.post("/v1/release", &grant.proof()).await.1["released"], true);
    let counted = async |metric: &str, outcome: &str| {
        let series = format!("{metric}{{pool=\"default\",outcome=\"{outcome}\"}}");
        (a.metric(&series).await, b.metric(&series).await)
    };
    let acquires = "tenure_lease_acquisitions_total";
    assert_eq!(counted(acquires, "granted").await, (2.0, 0.0));
    assert_eq!(counted(acquires, "error").await, (0.0, 0.0));
    let heartbeats = "tenure_lease_heartbeats_total";
    assert_eq!(counted(heartbeats, "alive").await, (2.0, 0.0));
    assert_eq!(counted(heartbeats, "error").await, (0.0, 0.0));
}

async fn holders_calls_reach_the_home_from_any_node(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    let grant = acquire(a, "orders/1", "w1", 30_000).await;
    assert_eq!(grant.node, a.url, "the holder is told where its lease is at home");

    let (status, alive) = b.post("/v1/heartbeat", &grant.proof()).await;
    assert_eq!((status, &alive["token"]), (200, &json!(grant.token)));
    assert!(alive["valid_for_ms"].as_u64().expect("a window") > 25_000);
    let lease = b.get("/v1/leases/orders/1").await;
    assert_eq!((&lease["owner"], &lease["node"]), (&json!("w1"), &json!(a.url)));
    assert!(lease["expires_in_ms"].as_u64().is_some(), "the home knows until when: {lease}");
    let check = json!({ "key": grant.key, "token": grant.token });
    assert_eq!(b.post("/v1/check", &check).await.1["current"], true);

    let rival = json!({ "key": grant.key, "owner": "w2", "ttl_ms": 30_000 });
    let (status, problem) = b.post("/v1/acquire", &rival).await;
    assert_eq!((status, &problem["code"]), (409, &json!("held")));
    let again = json!({ "key": grant.key, "owner": "w1", "ttl_ms": 30_000 });
    assert_eq!(b.post("/v1/acquire", &again).await.1["code"], "held-by-you");
    let reclaim = json!({ "key": grant.key, "owner": "w1", "ttl_ms": 30_000, "reclaim": true });
    let (status, reclaimed) = b.post("/v1/acquire", &reclaim).await;
    assert_eq!(status, 200, "{reclaimed}");
    let reclaimed = Grant::of(&reclaimed);
    assert!(reclaimed.token > grant.token);
    let (status, lost) = b.post("/v1/heartbeat", &grant.proof()).await;
    assert_eq!((status, &lost["reason"]), (409, &json!("reclaimed")));

    let offer =
        json!({ "key": grant.key, "lease_id": reclaimed.lease_id, "to": "w2", "value": "at 7" });
    let (status, offered) = b.post("/v1/transfer", &offer).await;
    assert_eq!((status, &offered["lease"]["state"]), (200, &json!("offered")), "{offered}");
    let (status, taken) = b.post("/v1/acquire", &rival).await;
    assert_eq!((status, &taken["value"]), (200, &json!("at 7")), "{taken}");
    assert_eq!(taken["node"], b.url, "who takes an offer is at home where it took it");
    assert!(a.metric("tenure_leases_held").await + b.metric("tenure_leases_held").await == 1.0);
}

/// A URL would resolve `..`; a client that sends the path as it is does not.
async fn a_key_with_dots_is_not_taken_for_another(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    let address = b.url.trim_start_matches("http://").parse().expect("an address");
    let look = async |key: &str| {
        let path = format!("/v1/leases/{key}");
        Connection::open(address).await.call("GET", &path, &[], b"").await
    };
    for key in [".", ".."] {
        acquire(a, key, "w1", 30_000).await;
        // No URL can name it to its home.
        let reply = look(key).await;
        assert!(reply.status == 503 || reply.ok()["key"] == key, "{reply:?}");
    }
    for key in ["dots/../orders", "orders", "./orders", "dots/orders/.."] {
        let grant = acquire(a, key, "w1", 30_000).await;
        let reply = look(key).await.ok();
        assert_eq!((&reply["key"], &reply["token"]), (&json!(key), &json!(grant.token)), "{reply}");
        assert!(reply["expires_in_ms"].is_u64(), "its home answered: {reply}");
    }
}

async fn a_batch_is_answered_by_each_leases_home(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    let mut grants = Vec::new();
    for n in 0..6 {
        let node = if n % 2 == 0 { a } else { b };
        grants.push(acquire(node, &format!("shard/{n}"), "w", 30_000).await);
    }
    let mut leases: Vec<_> = grants.iter().map(Grant::proof).collect();
    leases.push(json!({ "key": "shard/never", "lease_id": grants[0].lease_id }));
    let (status, beats) = b.post("/v1/heartbeats", &json!({ "leases": leases })).await;
    assert_eq!(status, 200);
    let results = beats["results"].as_array().expect("results");
    for (grant, result) in grants.iter().zip(results) {
        assert_eq!(
            (&result["key"], &result["status"], &result["token"]),
            (&json!(grant.key), &json!(200), &json!(grant.token))
        );
        let told = if grant.node == b.url { json!(null) } else { json!(a.url) };
        assert_eq!(result["node"], told, "who asked is told where to ask next time");
    }
    assert_eq!(
        (&results[6]["status"], &results[6]["reason"]),
        (&json!(409), &json!("unknown-lease"))
    );
    leases.pop();
    let (_, released) = a.post("/v1/releases", &json!({ "leases": leases })).await;
    let results = released["results"].as_array().expect("results");
    assert!(results.iter().all(|result| result["released"] == true), "{released}");
}

async fn a_repeated_request_finds_its_grant_at_any_node(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    let one = json!({ "key": "job/1", "owner": "w", "ttl_ms": 30_000, "request_id": "r-1" });
    let first = Grant::of(&a.post("/v1/acquire", &one).await.1);
    let second = Grant::of(&b.post("/v1/acquire", &one).await.1);
    assert_eq!((first.token, &first.lease_id), (second.token, &second.lease_id));

    let keys: Vec<String> = (0..20).map(|n| format!("pool/{n}")).collect();
    let any =
        json!({ "keys": keys, "owner": "w", "ttl_ms": 30_000, "count": 2, "request_id": "r-2" });
    let (status, first) = a.post("/v1/acquire-any", &any).await;
    assert_eq!(status, 200, "{first}");
    let (status, second) = b.post("/v1/acquire-any", &any).await;
    assert_eq!(status, 200, "{second}");
    let sorted = |answer: &serde_json::Value| {
        let grants = answer["grants"].as_array().expect("grants");
        let mut ids: Vec<_> = grants.iter().map(|grant| Grant::of(grant).lease_id).collect();
        ids.sort();
        ids
    };
    assert_eq!(sorted(&first), sorted(&second));
    let listed = async || {
        let listed = b.get("/v1/leases?prefix=pool/&state=held").await;
        listed["leases"].as_array().expect("leases").len()
    };
    assert!(within(ms(5_000), async || listed().await >= 2).await, "a list follows the store");
    assert_eq!(listed().await, 2, "never more than asked for");
}

async fn a_release_at_one_node_frees_the_key_for_all_at_once(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    let mut last = 0;
    for round in 0..20 {
        let (one, other) = if round % 2 == 0 { (a, b) } else { (b, a) };
        let grant = acquire(one, "hot", "w", 30_000).await;
        assert!(grant.token > last);
        last = grant.token;
        let (status, released) = other.post("/v1/release", &grant.proof()).await;
        assert_eq!((status, &released["released"]), (200, &json!(true)));
        let (_, again) = one.post("/v1/release", &grant.proof()).await;
        assert_eq!(again["released"], false);
    }
}

async fn who_waits_at_one_node_is_served_when_another_frees_the_key(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    let grant = acquire(a, "queue", "w1", 30_000).await;
    let wait = json!({ "key": "queue", "owner": "w2", "ttl_ms": 30_000, "wait_ms": 4_000 });
    let any =
        json!({ "keys": ["queue", "other"], "owner": "w3", "ttl_ms": 30_000, "wait_ms": 4_000 });
    let other = acquire(a, "other", "w1", 30_000).await;
    let release = async {
        crate::support::clock::sleep_ms(500).await;
        a.post("/v1/release", &grant.proof()).await;
        a.post("/v1/release", &other.proof()).await
    };
    let (one, two, _) =
        tokio::join!(b.post("/v1/acquire", &wait), b.post("/v1/acquire-any", &any), release);
    assert_eq!((one.0, two.0), (200, 200), "{one:?} {two:?}");
}

async fn administrators_may_ask_any_node(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    let grant = acquire(a, "pinned", "w1", 500).await;
    let pin = json!({ "key": "pinned", "by": "ops" });
    assert_eq!(b.post("/v1/admin/pin", &pin).await.0, 200);
    crate::support::clock::sleep_ms(1_500).await;
    let check = json!({ "key": "pinned", "token": grant.token });
    assert_eq!(b.post("/v1/check", &check).await.1["current"], true);
    assert_eq!(b.post("/v1/admin/unpin", &pin).await.0, 200);
    let revoke = json!({ "key": "pinned", "reason": "test", "immediately": true });
    let freed = within(ms(5_000), async || {
        let (status, answer) = b.post("/v1/admin/revoke", &revoke).await;
        assert!(status == 200 || answer["code"] == "not-held", "{answer}");
        a.get("/v1/leases/pinned").await["state"] == "free"
    });
    assert!(freed.await);
}

async fn an_owner_is_drained_at_every_node(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    for n in 0..4 {
        acquire(if n % 2 == 0 { a } else { b }, &format!("d/{n}"), "leaver", 4_000).await;
    }
    acquire(a, "stays", "other", 30_000).await;
    let (status, drained) = b.post("/v1/admin/drain", &json!({ "owner": "leaver" })).await;
    assert_eq!((status, &drained["revoked"]), (200, &json!(4)), "{drained}");
    let ended = within(ms(15_000), async || {
        let held = a.get("/v1/leases?prefix=d/&state=held").await;
        held["leases"].as_array().is_some_and(Vec::is_empty)
    });
    assert!(ended.await);
    assert_eq!(b.get("/v1/leases/stays").await["state"], "held");
}

async fn nobody_is_turned_away_by_what_a_node_has_not_heard(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    for round in 0..10 {
        let (one, other) = if round % 2 == 0 { (a, b) } else { (b, a) };
        let any = json!({ "keys": ["only"], "owner": "w", "ttl_ms": 30_000 });
        let (status, grants) = one.post("/v1/acquire-any", &any).await;
        assert_eq!(status, 200, "{grants}");
        let grant = Grant::of(&grants["grants"][0]);
        assert_eq!(other.post("/v1/release", &grant.proof()).await.0, 200);
    }
}
