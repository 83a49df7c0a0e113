//! Where nodes say that they are reached.

use serde_json::{Value, json};

use crate::nodes::{
    on_both_stores,
    pair::{CREDENTIALS, DEATH_MS, Pair, acquire},
};

use crate::support::{
    clock::{ms, within},
    node::Node,
};

on_both_stores!(
    nodes_that_claim_one_address_are_marked,
    a_node_that_is_not_known_yet_is_not_given_another_ones_address,
);

async fn nodes_that_claim_one_address_are_marked(pair: Pair) {
    let mut sets = pair.sets.clone();
    sets.push(format!("node.advertise_url={}", pair.a.url));
    sets.push("telemetry.log=warn".to_owned());
    let mut c = Node::new("c", &sets, &CREDENTIALS);
    c.start().await;
    let mut nodes = Value::Null;
    let marked = within(ms(DEATH_MS), async || {
        nodes = pair.b.get("/v1/nodes").await;
        let nodes = nodes["nodes"].as_array().expect("nodes");
        let shared = |node: &&Value| node["address_shared"] == true;
        let alive_at = |node: &&Value| node["url"] == pair.a.url && node["state"] == "alive";
        nodes.iter().filter(shared).count() == 2
            && nodes.iter().filter(alive_at).all(|n| shared(&n))
    });
    assert!(marked.await, "{nodes}");
    let said =
        within(ms(DEATH_MS), async || c.said_of("says that it is reached").contains(&pair.a.url));
    assert!(said.await, "{}", c.said_of("reached"));
}

async fn a_node_that_is_not_known_yet_is_not_given_another_ones_address(pair: Pair) {
    let mut c = Node::new("c", &pair.sets, &CREDENTIALS);
    c.start().await;
    let grant = acquire(&c, "new", "w", 30_000).await;
    assert_eq!(grant.node, c.url);
    let known = within(ms(5_000), async || {
        let lease = pair.b.get("/v1/leases/new").await;
        assert!([&json!(c.url), &Value::Null].contains(&&lease["node"]), "{lease}");
        lease["node"] == c.url
    });
    assert!(known.await);
}
