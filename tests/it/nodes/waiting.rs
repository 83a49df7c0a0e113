//! One queue for a key, wherever its callers wait: first in, first out, also when its home moves or dies.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use serde_json::{Value, json};

use crate::nodes::{
    on_both_stores,
    pair::{Grant, Pair, acquire},
    sessions::Session,
};

use crate::support::{
    clock::{ms, sleep_ms, within},
    node::Node,
};

on_both_stores!(
    a_waiter_at_another_node_has_its_turn,
    the_first_to_ask_is_the_first_to_have_it,
    who_waits_at_a_home_that_dies_is_served,
);

/// How long a caller waits, in milliseconds: a death is noticed meanwhile.
const WAIT_MS: u64 = 40_000;

fn waits(owner: &str) -> Value {
    json!({ "key": "k", "owner": owner, "ttl_ms": 5_000, "wait_ms": WAIT_MS })
}

fn waits_under(session: &Session) -> Value {
    let mut body = session.asks("k");
    body["wait_ms"] = WAIT_MS.into();
    body
}

/// Acquires, waiting, and gives the key back at once. A home that dies may have granted it, for all that the node
/// knows: it says so, and the caller comes again.
async fn in_and_out(node: &Node, body: &Value) -> Grant {
    let ask = async || node.post_patiently("/v1/acquire", body, ms(WAIT_MS + 5_000)).await;
    let (mut status, mut grant) = ask().await;
    for _ in 0..20 {
        if grant["code"] != "home-unreachable" {
            break;
        }
        sleep_ms(500).await;
        (status, grant) = ask().await;
    }
    assert_eq!(status, 200, "{body}: {grant}");
    let grant = Grant::of(&grant);
    let (status, released) = node.post("/v1/release", &grant.proof()).await;
    assert_eq!(status, 200, "{released}");
    grant
}

async fn a_waiter_at_another_node_has_its_turn(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    let held = acquire(a, "k", "first", 5_000).await;
    let (over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut others = Vec::new();
    for n in 0..3 {
        let (node, over, count) = (a.remote(), over.clone(), count.clone());
        others.push(tokio::spawn(async move {
            while !over.load(Ordering::Relaxed) {
                in_and_out(&node, &waits(&format!("a{n}"))).await;
                count.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    a.post("/v1/release", &held.proof()).await;
    let busy = within(ms(5_000), async || count.load(Ordering::Relaxed) > 10);
    assert!(busy.await, "those at the home have it in turn");
    let session = Session::open(b, "under", 20_000, 0).await;
    for body in [waits("plain"), waits_under(&session)] {
        for _ in 0..3 {
            let before = count.load(Ordering::Relaxed);
            in_and_out(b, &body).await;
            let overtaken = count.load(Ordering::Relaxed) - before;
            // The three that wait already; and those that come while the call is on its way.
            assert!(overtaken < 40, "{overtaken} were granted it before {body}");
        }
    }
    over.store(true, Ordering::Relaxed);
    for other in others {
        other.await.expect("it had its turn, too");
    }
}

async fn the_first_to_ask_is_the_first_to_have_it(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    let held = acquire(a, "k", "first", 30_000).await;
    let (here, there) =
        (Session::open(a, "sa", 30_000, 0).await, Session::open(b, "sb", 30_000, 0).await);
    // The grant under the last one's session moves the key, and its queue, to another home.
    let asked = [
        (b, waits("b1")),
        (a, waits("a1")),
        (b, waits("b2")),
        (a, waits_under(&here)),
        (b, waits("b3")),
        (b, waits_under(&there)),
    ];
    let mut callers = Vec::new();
    for (place, (node, body)) in asked.into_iter().enumerate() {
        let node = node.remote();
        callers.push(tokio::spawn(async move { in_and_out(&node, &body).await.token }));
        let parked = within(ms(5_000), async || {
            let waiting = a.metric("tenure_lease_waiters").await;
            (waiting - (place + 1) as f64).abs() < 0.1
        });
        assert!(parked.await, "number {place} waits at the key's home");
    }
    a.post("/v1/release", &held.proof()).await;
    let mut tokens = vec![held.token];
    for caller in callers {
        tokens.push(caller.await.expect("it is granted the key"));
    }
    assert!(tokens.is_sorted(), "{tokens:?}");
}

async fn who_waits_at_a_home_that_dies_is_served(mut pair: Pair) {
    acquire(&pair.a, "k", "first", 3_000).await;
    let session = Session::open(&pair.b, "under", 40_000, 0).await;
    let mut callers = Vec::new();
    for body in [waits("plain"), waits_under(&session)] {
        let node = pair.b.remote();
        callers.push(tokio::spawn(async move { in_and_out(&node, &body).await }));
    }
    let parked = within(ms(5_000), async || pair.a.metric("tenure_lease_waiters").await > 1.5);
    assert!(parked.await, "both wait at the key's home");
    pair.a.kill();
    for caller in callers {
        let grant = caller.await.expect("it is granted the key");
        assert_eq!(grant.node, pair.b.url);
    }
}
