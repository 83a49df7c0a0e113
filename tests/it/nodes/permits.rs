//! Permits, and lists that are taken as a whole, by callers at two nodes.

use std::{cell::Cell, collections::BTreeMap, time::Duration};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::nodes::{
    on_both_stores,
    pair::{Grant, Pair, acquire},
};
use crate::support::clock::{ms, sleep_ms};

on_both_stores!(
    callers_at_two_nodes_share_permits_and_never_block_each_other,
    a_permit_waits_for_a_holder_at_the_other_node,
    the_home_shows_a_lease_from_before_permits,
);

const PERMITS: usize = 4;
const ROUNDS: usize = 4;

/// How many permits of each key are in use, as the callers know it.
#[derive(Default)]
struct InUse {
    x: Cell<usize>,
    y: Cell<usize>,
    whole: Cell<usize>,
}

impl InUse {
    fn of(&self, key: &str) -> &Cell<usize> {
        match key {
            _ if key.starts_with("permits/x#") => &self.x,
            _ if key.starts_with("permits/y#") => &self.y,
            _ => &self.whole,
        }
    }

    fn begin(&self, leases: &[Grant]) {
        for lease in leases {
            let cell = self.of(&lease.key);
            cell.set(cell.get() + 1);
        }
        assert!(self.x.get() <= PERMITS && self.y.get() <= PERMITS && self.whole.get() <= 1);
    }

    fn end(&self, leases: &[Grant]) {
        for lease in leases {
            let cell = self.of(&lease.key);
            cell.set(cell.get() - 1);
        }
    }
}

async fn callers_at_two_nodes_share_permits_and_never_block_each_other(pair: Pair) {
    let in_use = InUse::default();
    let worker = async |n: usize| {
        let node = if n.is_multiple_of(2) { &pair.a } else { &pair.b };
        for round in 0..ROUNDS {
            let permits = 1 + (n + round) % PERMITS;
            let keys = match (n + round) % 3 {
                0 => json!([{ "key": "permits/x", "permits": permits }]),
                1 => json!([{ "key": "permits/y", "permits": permits }, { "key": "whole" }]),
                _ => json!([{ "key": "permits/y" }, { "key": "permits/x", "mode": "exclusive" }]),
            };
            let call = json!({ "keys": keys, "owner": format!("w{n}"), "ttl_ms": 10_000,
                               "wait_ms": 60_000 });
            let (status, answer) = node.post_patiently("/v1/acquire-all", &call, ms(90_000)).await;
            assert_eq!(status, 200, "w{n} {round}: {answer}");
            let leases = answer["grants"].as_array().expect("grants").iter();
            let leases: Vec<Grant> = leases.map(Grant::of).collect();
            in_use.begin(&leases);
            sleep_ms(5).await;
            in_use.end(&leases);
            for lease in &leases {
                let (status, answer) = node.post("/v1/release", &lease.proof()).await;
                assert_eq!((status, &answer["released"]), (200, &json!(true)), "{answer}");
            }
        }
    };
    let all = join_all((0..8).map(worker));
    tokio::time::timeout(Duration::from_secs(150), all).await.expect("no call waits for another");
}

async fn a_permit_waits_for_a_holder_at_the_other_node(pair: Pair) {
    let call = |owner: &str, wait_ms: u64| json!({ "key": "permits/x", "owner": owner, "ttl_ms": 30_000, "wait_ms": wait_ms });
    let mut held = BTreeMap::new();
    for n in 0..PERMITS {
        let (status, answer) = pair.a.post("/v1/acquire", &call(&format!("w{n}"), 0)).await;
        assert_eq!(status, 200, "{answer}");
        held.insert(n, Grant::of(&answer));
    }
    let (status, answer) = pair.b.post("/v1/acquire", &call("late", 0)).await;
    assert_eq!((status, &answer["code"]), (409, &json!("none-available")), "{answer}");
    let late = call("late", 30_000);
    let waits = pair.b.post("/v1/acquire", &late);
    let frees = async {
        sleep_ms(500).await;
        pair.a.post("/v1/release", &held[&2].proof()).await
    };
    let ((status, answer), _): ((u16, Value), _) = tokio::join!(waits, frees);
    assert_eq!((status, &answer["key"]), (200, &json!(held[&2].key)), "{answer}");
    assert!(answer["token"].as_u64() > Some(held[&2].token));
}

/// The other node asks the home, which alone knows when the lease ends.
async fn the_home_shows_a_lease_from_before_permits(pair: Pair) {
    acquire(&pair.a, "later/v", "w", 60_000).await;
    pair.reload("[[policy]]\nprefix = \"later/\"\npermits = 3\n").await;
    let shown = pair.b.get("/v1/leases/later/v").await;
    let ends = shown["expires_in_ms"].as_u64().expect("a time");
    assert!((1..=60_000).contains(&ends) && shown["owner"] == "w", "{shown}");
}
