//! Routers that follow a pool whose members are at home at two nodes.

use serde_json::json;
use tenure::client::{Acquire, Client, Grant, Owner, Router};

use crate::nodes::{on_both_stores, pair::Pair};
use crate::support::{
    clock::{ms, within},
    pool_worker::Worker,
};

on_both_stores!(a_router_misses_nothing_when_its_coordinator_dies,);

/// How long routes may need, on a machine that is busy with other tests.
const SETTLE_MS: u64 = 40_000;

fn acquire(key: &str) -> Acquire {
    let owner = Owner { owner: "y".into(), ttl_ms: Some(600_000), session: None };
    Acquire { key: key.into(), owner, ..Acquire::default() }
}

async fn a_router_misses_nothing_when_its_coordinator_dies(mut pair: Pair) {
    let at_b = Client::new(&pair.b.url).expect("a client");
    let held: Grant = at_b.acquire(&acquire("lazy/free")).await.expect("a grant");
    let both = format!("{},{}", pair.a.url, pair.b.url);
    let client = Client::new(&both).expect("a client");
    let router = Router::follow(client, "lazy").await.expect("the assignment");
    assert!(within(ms(SETTLE_MS), async || router.is_current()).await, "it follows");
    let first = async || router.lookup("lazy/free").map(|route| route.token()) == held.lease.token;
    assert!(within(ms(SETTLE_MS), first).await, "it knows who has the key");

    // The member is at home at another node than the one that the router asks.
    let body = json!({ "owner": "w", "ttl_ms": 4_000, "pool": "lazy", "address": "w:80" });
    let mut worker = Worker::join_with(&pair.b.url, "w", &body).await;
    worker.work((0..20).map(|n| format!("lazy/{n:02}")).collect());
    let all_known = async || {
        let of_w = router.routes().into_iter().filter(|(_, route)| route.address() == Some("w:80"));
        of_w.count() == 20
    };
    assert!(within(ms(SETTLE_MS), all_known).await, "{router:?}");

    pair.a.kill();
    at_b.release("lazy/free", &held.lease_id, None).await.expect("an answer");
    let again = at_b.acquire(&acquire("lazy/free")).await.expect("a grant");
    let new = at_b.acquire(&acquire("lazy/new")).await.expect("a grant");
    let known = async || {
        let token = |key: &str| router.lookup(key).map(|route| route.token());
        (token("lazy/free"), token("lazy/new")) == (again.lease.token, new.lease.token)
    };
    assert!(within(ms(SETTLE_MS), known).await, "{:?}", router.lookup("lazy/free"));
    assert!(router.is_current());
    assert!(within(ms(SETTLE_MS), all_known).await, "{router:?}");
}
