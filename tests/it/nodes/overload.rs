//! A home node that has too much to do, and the callers of the other nodes.

use serde_json::json;

use crate::nodes::{
    on_both_stores,
    pair::{ENVIRONMENT, Pair, acquire},
};

use crate::support::{
    clock::{ms, within},
    node::Node,
};

on_both_stores!(a_home_that_is_overloaded_refuses_what_is_forwarded_and_keeps_leases);

async fn a_home_that_is_overloaded_refuses_what_is_forwarded_and_keeps_leases(pair: Pair) {
    let mut sets = pair.sets.clone();
    sets.extend(["server.workers=1".to_owned(), "limits.shed_lag=10ms".to_owned()]);
    let mut home = Node::new("c", &sets, &ENVIRONMENT);
    home.start().await;
    let held = acquire(&home, "k", "first", 60_000).await;
    let begun =
        within(ms(5_000), async || pair.a.post("/v1/heartbeat", &held.proof()).await.0 == 200);
    assert!(begun.await, "the others know the home");
    home.post("/v1/testing/busy", &json!({ "for_ms": 60_000 })).await;
    // A call that would wait is forwarded. What the home node says reaches the caller: it is not unreachable.
    let other = json!({ "key": "k", "owner": "late", "ttl_ms": 5_000, "wait_ms": 2_000 });
    let refused = within(ms(20_000), async || {
        let (status, problem) = pair.a.post("/v1/acquire", &other).await;
        assert_ne!(problem["code"], "home-unreachable", "{problem}");
        status == 503 && problem["code"] == "overloaded"
    });
    assert!(refused.await, "the home node sheds it");
    let (status, alive) = pair.a.post("/v1/heartbeat", &held.proof()).await;
    assert_eq!(status, 200, "{alive}");
    let (status, released) = pair.a.post("/v1/release", &held.proof()).await;
    assert_eq!((status, &released["released"]), (200, &json!(true)));
}
