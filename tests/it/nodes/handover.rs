//! Handing over among several nodes: whoever waits is next wherever it waits, and what was asked outlives the
//! node that asked.

use serde_json::{Value, json};

use crate::nodes::{
    on_both_stores,
    pair::{DEATH_MS, Grant, Pair, acquire},
    sessions::Session,
};

use crate::support::{
    clock::{ms, now, within},
    node::Node,
};

on_both_stores!(
    whoever_waits_is_next_at_any_node,
    what_one_node_asks_is_told_by_the_sessions_home,
    requests_outlive_the_node_that_made_them,
    a_session_that_leaves_at_a_dead_node_still_leaves,
);

/// Hands the key over at `home` while somebody waits at `taker`. Gives the next grant, and how long after the
/// answer to the transfer the waiter heard of it, in milliseconds.
async fn hand_over(home: &Node, taker: &Node, grant: &Grant, round: usize) -> (Grant, u128) {
    let owner = format!("w{round}");
    let body = json!({ "key": grant.key, "owner": owner, "ttl_ms": 30_000, "wait_ms": 20_000 });
    let (there, path) = (taker.remote(), "/v1/acquire");
    let waits = tokio::spawn(async move { (there.post(path, &body).await, now()) });
    let parked = within(ms(5_000), async || {
        let waiting = home.metric("tenure_lease_waiters").await;
        waiting > 0.5
    });
    assert!(parked.await, "it waits");
    let body = json!({ "key": grant.key, "lease_id": grant.lease_id, "value": owner });
    let (status, answer) = home.post("/v1/transfer", &body).await;
    let answered = now();
    assert_eq!(status, 200, "{answer}");
    let ((status, next), heard) = waits.await.expect("the waiter");
    assert_eq!((status, &next["value"]), (200, &json!(owner)), "{next}");
    let next = Grant::of(&next);
    assert!(next.token > grant.token, "tokens rise");
    (next, heard.since(answered).as_millis())
}

async fn whoever_waits_is_next_at_any_node(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    let mut grant = acquire(a, "k", "w", 30_000).await;
    // By the very write that hands over, at whichever node it asked.
    let mut longest = [0, 0];
    for round in 0..10 {
        let (longest, taker) = if round < 5 { (&mut longest[0], a) } else { (&mut longest[1], b) };
        let (next, gap) = hand_over(a, taker, &grant, round).await;
        assert_eq!(next.node, a.url);
        (grant, *longest) = (next, gap.max(*longest));
    }
    let [here, there] = longest;
    println!("from the answer of a transfer to the grant: {here} ms at home, {there} ms elsewhere");
    assert!(here < 250 && there < 250, "{here} {there}");
}

async fn open(node: &Node, pool: &str) -> Session {
    let body = json!({ "owner": "w", "ttl_ms": 20_000, "pool": pool });
    let (status, session) = node.post("/v1/sessions", &body).await;
    assert_eq!(status, 201, "{session}");
    let id = session["id"].as_str().expect("an id").to_owned();
    Session { id, owner: "w".to_owned() }
}

async fn ask(node: &Node, key: &str) {
    let (status, asked) = node.post("/v1/testing/handover", &json!({ "key": key })).await;
    assert_eq!(status, 200, "{asked}");
}

/// The notice of this type, if a heartbeat has it.
fn notice(beat: &Value, kind: &str, key: Option<&str>) -> Option<Value> {
    let all = beat["notices"].as_array().unwrap_or_else(|| panic!("{beat}")).iter();
    let mut fitting = all.filter(|told| told["type"] == kind && told["key"].as_str() == key);
    fitting.next().cloned()
}

async fn what_one_node_asks_is_told_by_the_sessions_home(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    let session = open(a, "allow_stale").await;
    session.acquire(a, "allow_stale/1").await;
    let rest = session.acquire(a, "allow_stale/2").await;
    // It may not have heard of the key yet.
    let known = async || b.get("/v1/leases/allow_stale/1").await["state"] == "held";
    assert!(within(ms(5_000), known).await);
    ask(b, "allow_stale/1").await;
    let told = async || {
        let beat = session.beat(a).await.1;
        notice(&beat, "handover-requested", Some("allow_stale/1")).is_some()
    };
    assert!(within(ms(5_000), told).await, "the home of the session says so");
    let ordered =
        async || notice(&session.beat(a).await.1, "revoked", Some("allow_stale/1")).is_some();
    assert!(within(ms(8_000), ordered).await, "nobody answered in time");
    let check = json!({ "key": rest.key, "token": rest.token });
    assert_eq!(b.post("/v1/check", &check).await.1["current"], true);
}

async fn requests_outlive_the_node_that_made_them(mut pair: Pair) {
    let session = open(&pair.a, "allow_stale").await;
    for key in ["allow_stale/1", "lazy/1"] {
        session.acquire(&pair.a, key).await;
        ask(&pair.a, key).await;
    }
    pair.a.kill();
    let (status, beat) = session.beat_until_answered(&pair.b).await;
    assert_eq!(status, 200, "{beat}");
    // What a node of DynamoDB wrote last, others find a moment after it died.
    let mut left = None;
    let told = async || {
        let beat = session.beat(&pair.b).await.1;
        let told = notice(&beat, "handover-requested", Some("lazy/1"));
        left = told.and_then(|told| told["deadline_ms"].as_u64());
        left.is_some()
    };
    assert!(within(ms(DEATH_MS), told).await);
    assert!(left.is_some_and(|left| left > 50_000), "in full again: {left:?}");
    let ordered = async || {
        let beat = session.beat(&pair.b).await.1;
        notice(&beat, "revoked", Some("allow_stale/1")).is_some()
    };
    assert!(within(ms(DEATH_MS), ordered).await, "its time is counted by the new home");
    let ended = async || {
        session.beat(&pair.b).await;
        pair.b.get("/v1/leases/allow_stale/1").await["state"] == "free"
    };
    assert!(within(ms(40_000), ended).await, "when the last promise of the dead home ran out");
}

async fn a_session_that_leaves_at_a_dead_node_still_leaves(mut pair: Pair) {
    let session = open(&pair.a, "lazy").await;
    session.acquire(&pair.a, "lazy/1").await;
    let drain = format!("/v1/sessions/{}/drain", session.id);
    let (status, left) = pair.b.post(&drain, &json!({})).await;
    assert_eq!((status, &left["draining"]), (200, &json!(true)), "{left}");
    assert!(notice(&session.beat(&pair.b).await.1, "draining", None).is_some());
    pair.a.kill();
    let (status, beat) = session.beat_until_answered(&pair.b).await;
    assert_eq!(status, 200, "{beat}");
    assert!(notice(&beat, "draining", None).is_some(), "{beat}");
}
