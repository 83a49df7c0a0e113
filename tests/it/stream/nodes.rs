//! Streams to several nodes of one store.

use serde_json::{Value, json};

use crate::{
    nodes::{
        on_both_stores,
        pair::{Grant, Pair, acquire},
    },
    support::{
        clock::{ms, soon, within},
        harness::Talk,
        node::Node,
    },
};

on_both_stores!(
    a_call_by_a_stream_reaches_the_home_of_its_lease,
    a_holder_hears_of_the_end_by_any_node,
    a_lease_goes_on_at_another_node_when_that_of_its_stream_is_gone,
);

async fn open(node: &Node) -> Talk {
    let address = node.url.trim_start_matches("http://").parse().expect("an address");
    Talk::open(address).await
}

async fn a_call_by_a_stream_reaches_the_home_of_its_lease(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    let grant = acquire(a, "orders/1", "w1", 30_000).await;
    let mut talk = open(b).await;
    let beat = talk.call("heartbeat", &grant.proof()).await;
    assert_eq!((&beat["status"], &beat["body"]["token"]), (&json!(200), &json!(grant.token)));
    assert_eq!(beat["node"], a.url, "{beat}");
    let own = acquire(b, "orders/2", "w1", 30_000).await;
    let beat = talk.call("heartbeat", &own.proof()).await;
    assert_eq!((&beat["status"], beat.get("node")), (&json!(200), None), "{beat}");
    let batch = json!({ "leases": [grant.proof(), own.proof()] });
    let beats = talk.ok("heartbeats", &batch).await;
    assert_eq!(
        (&beats["results"][0]["node"], &beats["results"][0]["status"]),
        (&json!(a.url), &json!(200))
    );
    assert_eq!(beats["results"][1]["status"], 200);
    // A caller that waits at the other node is served in its turn.
    let wait = json!({ "key": "orders/1", "owner": "w2", "ttl_ms": 30_000, "wait_ms": 30_000 });
    let waiting = talk.begin("acquire", &wait).await;
    let waits = within(ms(10_000), async || a.get("/v1/leases/orders/1").await["waiters"] == 1);
    assert!(waits.await, "it waits at the home node");
    assert_eq!(talk.ok("release", &grant.proof()).await["released"], true);
    assert_eq!(talk.answer(waiting).await["body"]["owner"], "w2");
}

async fn a_holder_hears_of_the_end_by_any_node(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    let mut talk = open(a).await;
    let body = json!({ "key": "jobs/1", "owner": "w1", "ttl_ms": 30_000 });
    let grant = Grant::of(&talk.ok("acquire", &body).await);
    let revoke = json!({ "key": "jobs/1", "reason": "r", "immediately": true });
    assert_eq!(b.post("/v1/admin/revoke", &revoke).await.0, 200);
    let told = soon("a notice", talk.pushed("notice")).await;
    let ended =
        json!({ "type": "ended", "key": "jobs/1", "token": grant.token, "reason": "revoked" });
    assert_eq!(told, ended);
}

async fn a_lease_goes_on_at_another_node_when_that_of_its_stream_is_gone(mut pair: Pair) {
    let grant = acquire(&pair.a, "orders/1", "w1", 30_000).await;
    let mut talk = open(&pair.a).await;
    talk.ok("heartbeat", &grant.proof()).await;
    pair.a.kill();
    assert_eq!(talk.end().await, None);
    let mut talk = open(&pair.b).await;
    let mut last = Value::Null;
    let kept = within(ms(20_000), async || {
        last = talk.call("heartbeat", &grant.proof()).await;
        last["status"] == 200
    });
    assert!(kept.await, "{last}");
    assert_eq!(last["body"]["token"], grant.token);
}
