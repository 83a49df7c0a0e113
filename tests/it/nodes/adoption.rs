//! Nodes that die, sleep or leave.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::nodes::{
    on_both_stores,
    pair::{DEATH_MS, Grant, Pair, acquire, heartbeat_until_answered},
};

use crate::support::clock::{ms, sleep_ms, within};

on_both_stores!(
    leases_of_a_dead_node_are_kept,
    leases_of_a_dead_node_that_nobody_keeps_end,
    a_node_that_slept_calls_no_old_token_current,
    a_node_that_leaves_hands_its_leases_over_at_once,
    a_node_that_slept_keeps_no_lease_that_others_adopted,
    a_release_needs_no_home,
);

async fn state_of(pair: &Pair, url: &str) -> Value {
    let nodes = pair.b.get("/v1/nodes").await;
    let nodes = nodes["nodes"].as_array().expect("nodes").clone();
    nodes.into_iter().find(|node| node["url"] == url).map_or(Value::Null, |n| n["state"].clone())
}

async fn leases_of_a_dead_node_are_kept(mut pair: Pair) {
    let grant = acquire(&pair.a, "kept", "w1", 20_000).await;
    pair.a.kill();
    let (status, problem) = pair.b.post("/v1/heartbeat", &grant.proof()).await;
    assert_eq!((status, &problem["code"]), (503, &json!("home-unreachable")), "{problem}");
    assert_eq!((&problem["node"], &problem["retryable"]), (&json!(grant.node), &json!(true)));

    let (status, alive) = heartbeat_until_answered(&pair.b, &grant).await;
    assert_eq!((status, &alive["token"]), (200, &json!(grant.token)), "{alive}");
    assert_eq!(state_of(&pair, &grant.node).await, "dead");
    let lease = pair.b.get("/v1/leases/kept").await;
    assert_eq!((&lease["owner"], &lease["node"]), (&json!("w1"), &json!(pair.b.url)));
    assert!(pair.b.metric("tenure_lease_adoptions_total").await >= 1.0);
    let mut events = Value::Null;
    let told = within(ms(DEATH_MS), async || {
        events = pair.b.get("/v1/events?format=json&after=0").await["events"].clone();
        events.as_array().is_some_and(|events| !events.is_empty())
    });
    assert!(told.await, "what the dead node did not come to say is said");
    assert_eq!(events.as_array().expect("events").len(), 1, "nobody's ownership changed");

    // It comes back at the same address, and finds its predecessor dead.
    pair.a.start().await;
    let (status, _) = pair.a.post("/v1/heartbeat", &grant.proof()).await;
    assert_eq!(status, 200);
}

async fn leases_of_a_dead_node_that_nobody_keeps_end(mut pair: Pair) {
    let grant = acquire(&pair.a, "left", "w1", 3_000).await;
    pair.a.kill();
    let wait = json!({ "key": "left", "owner": "w2", "ttl_ms": 3_000, "wait_ms": 4_500 });
    let mut taken = Value::Null;
    let served = within(ms(DEATH_MS), async || {
        let (status, answer) = pair.b.post("/v1/acquire", &wait).await;
        taken = answer;
        status == 200
    });
    assert!(served.await, "{taken}");
    let taken = Grant::of(&taken);
    assert!(taken.token > grant.token);
    let (status, lost) = pair.b.post("/v1/heartbeat", &grant.proof()).await;
    assert_eq!((status, &lost["reason"]), (409, &json!("expired")));
}

async fn a_node_that_leaves_hands_its_leases_over_at_once(mut pair: Pair) {
    let grant = acquire(&pair.a, "rolled", "w1", 5_000).await;
    pair.a.stop().await;
    assert!(within(ms(3_000), async || state_of(&pair, &grant.node).await == "drained").await);
    let (status, alive) = pair.b.post("/v1/heartbeat", &grant.proof()).await;
    assert_eq!((status, &alive["token"]), (200, &json!(grant.token)), "{alive}");
}

async fn a_node_that_slept_keeps_no_lease_that_others_adopted(pair: Pair) {
    let grant = acquire(&pair.a, "slept", "w1", 20_000).await;
    pair.a.signal(Signal::STOP);
    let (status, _) = heartbeat_until_answered(&pair.b, &grant).await;
    assert_eq!(status, 200, "the lease was adopted");
    pair.a.signal(Signal::CONT);
    // Whatever it answers now, it passes on or refuses: the lease is at home at the other node.
    let (status, alive) = heartbeat_until_answered(&pair.a, &grant).await;
    assert_eq!((status, &alive["token"]), (200, &json!(grant.token)), "{alive}");
    assert_eq!(pair.a.get("/v1/leases/slept").await["node"], pair.b.url);
    assert!(within(ms(DEATH_MS), async || state_of(&pair, &pair.a.url).await == "alive").await);
    assert!(pair.a.metric("tenure_node_lapses_total").await >= 1.0);
}

async fn a_release_needs_no_home(mut pair: Pair) {
    let grant = acquire(&pair.a, "given", "w1", 60_000).await;
    pair.a.kill();
    sleep_ms(50).await;
    let (status, released) = pair.b.post("/v1/release", &grant.proof()).await;
    assert_eq!((status, &released["released"]), (200, &json!(true)), "{released}");
    let next = acquire(&pair.b, "given", "w2", 5_000).await;
    assert!(next.token > grant.token, "the key is free though its home was not found dead yet");
}

async fn a_node_that_slept_calls_no_old_token_current(pair: Pair) {
    let grant = acquire(&pair.a, "judged", "w1", 1_500).await;
    pair.a.signal(Signal::STOP);
    let rival = json!({ "key": "judged", "owner": "w2", "ttl_ms": 30_000, "wait_ms": 4_500 });
    let taken = within(ms(DEATH_MS), async || pair.b.post("/v1/acquire", &rival).await.0 == 200);
    assert!(taken.await);
    pair.a.signal(Signal::CONT);
    for _ in 0..30 {
        let check = json!({ "key": "judged", "token": grant.token });
        let (status, answer) = pair.a.post("/v1/check", &check).await;
        assert!(status == 503 || answer["current"] == false, "{status} {answer}");
        assert_ne!(pair.a.get("/v1/leases/judged").await["owner"], "w1");
        sleep_ms(10).await;
    }
}
