//! Acquire-any with a request id, asked of several nodes.

use std::{collections::BTreeSet, mem};

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use crate::nodes::{
    on_both_stores,
    pair::{DEATH_MS, Grant, Pair, Store, heartbeat_until_answered},
};

use crate::support::{
    clock::{ms, within},
    node::Node,
};

on_both_stores!(
    calls_of_one_id_that_overlap_at_two_nodes_are_granted_once,
    a_repeated_call_gets_what_is_at_home_at_several_nodes,
    a_call_that_waits_is_passed_on_with_its_patience,
    a_thousand_workers_take_a_thousand_keys_with_few_writes,
);

/// Asks until it is neither being served nor out of reach, nor its node lapsed; the tokens and secrets of the grants.
async fn granted(node: &Node, any: &Value) -> BTreeSet<(String, u64, String)> {
    let mut answer = (0, Value::Null);
    let answered = within(ms(DEATH_MS), async || {
        answer = node.post("/v1/acquire-any", any).await;
        let again = ["request-in-flight", "home-unreachable", "node-lapsed"];
        let code = answer.1["code"].as_str().unwrap_or_default();
        answer.0 == 200 || !again.contains(&code)
    });
    assert!(answered.await && answer.0 == 200, "{answer:?}");
    let grants = answer.1["grants"].as_array().expect("grants").iter().map(Grant::of);
    grants.map(|grant| (grant.key, grant.token, grant.lease_id)).collect()
}

async fn calls_of_one_id_that_overlap_at_two_nodes_are_granted_once(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    let keys: Vec<String> = (0..60).map(|n| format!("pool/{n}")).collect();
    for round in 0..20 {
        let owner = format!("w{round}");
        let any = json!({ "keys": keys, "owner": owner, "ttl_ms": 30_000, "count": 2,
                          "request_id": format!("r-{round}") });
        let (one, two, three) = tokio::join!(granted(a, &any), granted(b, &any), granted(a, &any));
        assert_eq!(one.len(), 2);
        assert!(one == two && two == three, "{one:?} {two:?} {three:?}");
        // What both hear of in the end.
        let held = async |node: &Node| {
            let held = node.get(&format!("/v1/leases?owner={owner}&state=held")).await;
            held["leases"].as_array().expect("leases").len()
        };
        assert!(within(ms(5_000), async || held(a).await >= 2 && held(b).await >= 2).await);
        assert_eq!((held(a).await, held(b).await), (2, 2), "round {round}");
    }
}

async fn a_repeated_call_gets_what_is_at_home_at_several_nodes(mut pair: Pair) {
    let keys: Vec<String> = (0..12).map(|n| format!("part/{n}")).collect();
    let any =
        json!({ "keys": keys, "owner": "w", "ttl_ms": 60_000, "count": 6, "request_id": "r" });
    let (status, first) = pair.a.post("/v1/acquire-any", &any).await;
    assert_eq!(status, 200, "{first}");
    let grants: Vec<Grant> =
        first["grants"].as_array().expect("grants").iter().map(Grant::of).collect();
    // Whichever served it: `a` from here on.
    if grants[0].node != pair.a.url {
        mem::swap(&mut pair.a, &mut pair.b);
    }
    pair.a.kill();
    for grant in &grants[..3] {
        assert_eq!(heartbeat_until_answered(&pair.b, grant).await.0, 200);
    }
    pair.a.start().await;
    for grant in &grants[3..] {
        assert_eq!(heartbeat_until_answered(&pair.a, grant).await.0, 200);
    }
    let mut seen = Value::Null;
    let mut homes = async || {
        let held = pair.b.get("/v1/leases?prefix=part/&state=held").await;
        seen = held.clone();
        let held = held["leases"].as_array().expect("leases").clone();
        held.iter().map(|lease| lease["node"].to_string()).collect::<BTreeSet<_>>().len()
    };
    let both = within(ms(5_000), async || homes().await == 2).await;
    assert!(both, "each node adopted some: {seen}");
    let all: BTreeSet<_> =
        grants.iter().map(|g| (g.key.clone(), g.token, g.lease_id.clone())).collect();
    assert_eq!(granted(&pair.a, &any).await, all);
    assert_eq!(granted(&pair.b, &any).await, all);

    // Of a part that nobody can tell, nothing is told: less would be taken for all.
    pair.a.kill();
    let (status, problem) = pair.b.post("/v1/acquire-any", &any).await;
    assert_eq!((status, &problem["code"]), (503, &json!("home-unreachable")), "{problem}");
    assert_eq!(granted(&pair.b, &any).await, all, "found dead, its leases are adopted");
}

async fn a_call_that_waits_is_passed_on_with_its_patience(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    let held = crate::nodes::pair::acquire(a, "slow", "w1", 60_000).await;
    let release = async {
        crate::support::clock::sleep_ms(2_500).await;
        a.post("/v1/release", &held.proof()).await
    };
    let any = |id: &str| {
        json!({ "keys": ["slow"], "owner": "w2", "ttl_ms": 500, "wait_ms": 4_700,
                "request_id": id })
    };
    // One of the two ids is another node's, most likely; each is served when the key is free.
    let wait = async |id: &str| b.post("/v1/acquire-any", &any(id)).await.0;
    let (one, two, _) = tokio::join!(wait("r-1"), wait("r-2"), release);
    assert_eq!((one, two), (200, 200));
}

/// In the order of the list every worker would try the same keys: 500 compare-and-sets each in the mean. In
/// random order, and with what the nodes know of each other's keys, nearly every first try is the last.
async fn a_thousand_workers_take_a_thousand_keys_with_few_writes(pair: Pair) {
    const MEAN: f64 = 1.6;
    let (store, workers, at_once) = match pair.store {
        Store::Nats(_) if cfg!(debug_assertions) => ("store=\"nats\"", 1_000, 100),
        Store::Nats(_) => ("store=\"nats\"", 1_000, 1_000),
        // It serves one request after the other: with more of them a node's own record would come too late.
        Store::DynamoDb(_) => ("store=\"dynamodb\"", 300, 30),
    };
    let nodes = [&pair.a, &pair.b];
    let keys: Vec<String> = (0..workers).map(|n: u32| format!("work/{n:04}")).collect();
    let writes = async || {
        let mut writes = 0.0;
        for node in nodes {
            let op = "op=\"lease\"";
            for labels in [format!("{store},{op}"), format!("{op},{store}")] {
                writes += node.metric(&format!("tenure_store_writes_total{{{labels}}}")).await;
            }
        }
        writes
    };
    let before = writes().await;
    let take = async |worker: u32| {
        let any = json!({ "keys": keys, "owner": format!("w{worker}"), "ttl_ms": 120_000,
                          "wait_ms": 60_000 });
        let (status, answer) =
            nodes[worker as usize % 2].post_patiently("/v1/acquire-any", &any, ms(90_000)).await;
        assert_eq!(status, 200, "{worker}: {answer}");
        let grants = answer["grants"].as_array().expect("grants");
        assert_eq!(grants.len(), 1, "{answer}");
        Grant::of(&grants[0]).key
    };
    let taken: Vec<_> =
        stream::iter((0..workers).map(take)).buffer_unordered(at_once).collect().await;
    let each = (writes().await - before) / f64::from(workers);
    println!("{each} compare-and-sets a worker");
    assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), taken.len(), "each has its own");
    assert!((1.0..=MEAN).contains(&each), "{each} compare-and-sets a worker");
}
