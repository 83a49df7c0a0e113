//! Nodes that go by different policies and plugins, as in the middle of a roll-out.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::nodes::{
    on_both_stores,
    pair::{CREDENTIALS, DEATH_MS, Pair, acquire},
};

use crate::support::{
    clock::{ms, sleep_ms, within},
    node::Node,
};

on_both_stores!(
    a_fence_waits_for_a_plugin_that_its_heir_does_not_have,
    a_key_that_may_go_on_with_an_alarm_waits_too,
    nodes_say_whose_rules_differ,
);

/// The policy and its plugin, which the first node alone has, and later all.
fn settings(on_failure: &str, program: &str) -> String {
    format!(
        "[[policy]]\nprefix = \"disks/\"\nfence = [\"power\"]\n\
         fence_when = \"before-grant\"\non_fence_failure = \"{on_failure}\"\nfence_timeout = \"1m\"\n\n\
         [[plugin]]\nname = \"power\"\nkind = \"exec\"\ncommand = [{program}]\ntimeout = \"50s\"\nretries = 0\n"
    )
}

async fn lease(node: &Node) -> Value {
    node.get("/v1/leases/disks/1").await
}

async fn a_fence_waits_for_a_plugin_that_its_heir_does_not_have(pair: Pair) {
    the_heir_waits(pair, "block").await;
}

async fn a_key_that_may_go_on_with_an_alarm_waits_too(pair: Pair) {
    the_heir_waits(pair, "grant-with-alarm").await;
}

/// The node whose plugin is at work dies. Its heir waits until it has the plugin as well.
async fn the_heir_waits(pair: Pair, on_failure: &str) {
    let file = pair.settings().with_file_name("first.toml");
    fs::write(&file, settings(on_failure, "\"sleep\", \"40\"")).expect("settings");
    let mut first = Node::new("c", &pair.sets, &CREDENTIALS).configured(&file);
    first.start().await;
    acquire(&first, "disks/1", "w", 1_000).await;
    let fencing = within(ms(10_000), async || lease(&first).await["state"] == "fencing");
    assert!(fencing.await, "{}", lease(&first).await);
    first.kill();

    let waits = within(ms(2 * DEATH_MS), async || {
        let without = async |node: &Node| node.metric("tenure_fences_without_plugin_total").await;
        without(&pair.a).await + without(&pair.b).await > 1.0
    });
    assert!(waits.await, "nobody asked for the plugin: {}", lease(&pair.a).await);
    for _ in 0..10 {
        let found = lease(&pair.a).await;
        assert!(found["state"] == "fencing" && found["fence_failed"] != true, "{found}");
        sleep_ms(200).await;
    }
    let said =
        [&pair.a, &pair.b].map(|node| node.said().contains("plugin that this node does not have"));
    assert_ne!(said, [false, false]);

    let known = fs::read_to_string(pair.settings()).expect("the settings of the pair");
    fs::write(pair.settings(), settings(on_failure, "\"true\"") + &known).expect("settings");
    for node in [&pair.a, &pair.b] {
        node.signal(Signal::HUP);
    }
    let free = within(ms(10_000), async || lease(&pair.a).await["state"] == "free");
    assert!(free.await, "{}", lease(&pair.a).await);
}

async fn nodes_say_whose_rules_differ(pair: Pair) {
    let differing = async |asked: &Node| {
        let nodes = asked.get("/v1/nodes").await;
        let nodes = nodes["nodes"].as_array().expect("nodes").clone();
        let odd = nodes.iter().filter(|node| node["rules_differ"] == true);
        odd.map(|node| node["url"].as_str().expect("an address").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(differing(&pair.a).await, Vec::<String>::new(), "they have one file");
    let file = pair.settings().with_file_name("other.toml");
    fs::write(&file, settings("block", "\"true\"")).expect("settings");
    let mut odd = Node::new("c", &pair.sets, &CREDENTIALS).configured(&file);
    odd.start().await;
    let told = within(ms(DEATH_MS), async || differing(&pair.a).await == [odd.url.clone()]);
    assert!(told.await, "{}", pair.a.get("/v1/nodes").await);
    assert_eq!(differing(&odd).await.len(), 2, "both others, as it sees them");
    let said = within(ms(DEATH_MS), async || pair.b.said().contains("other policies or plugins"));
    assert!(said.await);

    fs::copy(pair.settings(), &file).expect("a copy");
    odd.signal(Signal::HUP);
    let agreed = within(ms(DEATH_MS), async || differing(&pair.a).await.is_empty());
    assert!(agreed.await, "{}", pair.a.get("/v1/nodes").await);
}
