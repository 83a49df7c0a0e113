//! Three coordinators on a NATS cluster, and agents that are restarted and then replaced by a newer version, one after the
//! other. The checker of histories judges what their programs wrote.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    BEAT_MS, START_MS, TTL_MS, coordinators,
    fleet::Fleet,
    servers::Servers,
    signs::{self, tokens},
    until_all_held,
};
use crate::history::check;
use crate::support::clock::{ms, sleep_ms, within};
use crate::support::node::Node;

const AGENTS: usize = 8;
const KEYS: usize = 96;
const SHARE: usize = KEYS / AGENTS;
/// How long a step may take.
const STEP_MS: u64 = 60_000;
const SETTINGS: &str = "[[policy]]\nprefix = \"chaos/\"\npool = \"rolling\"\nbalance = true\n\
                        rejoin_window = \"1m\"\nhandover_timeout = \"30s\"\n";

/// The owner of each key that is held, as a node sees it.
async fn owners(node: &Node) -> BTreeMap<String, String> {
    let page = node.get(&format!("/v1/leases?state=held&limit={}", KEYS + 1)).await;
    let text = |lease: &Value, name: &str| lease[name].as_str().expect("text").to_owned();
    let leases = page["leases"].as_array().expect("leases").iter();
    leases.map(|lease| (text(lease, "key"), text(lease, "owner"))).collect()
}

async fn has_joined(node: &Node, owner: &str) -> bool {
    let pool = node.get("/v1/pools/rolling").await;
    let members = pool["members"].as_array().expect("members").iter();
    members.into_iter().any(|member| member["owner"] == owner)
}

fn owner(number: usize) -> String {
    format!("agent-{number}")
}

/// The agents have even shares, and no key has moved for a while.
async fn settled(node: &Node) -> BTreeMap<String, String> {
    let mut seen = BTreeMap::new();
    let even = within(ms(START_MS), async || {
        seen = owners(node).await;
        let share = |number| seen.values().filter(|it| **it == owner(number)).count();
        if seen.len() < KEYS || !(0..AGENTS).all(|number| share(number).abs_diff(SHARE) <= 1) {
            return false;
        }
        sleep_ms(3_000).await;
        owners(node).await == seen
    });
    assert!(even.await, "{seen:?}");
    seen
}

#[tokio::test]
async fn a_rolling_restart_and_a_rolling_upgrade_on_three_nodes() {
    let servers = Servers::nats();
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("tenure.toml");
    std::fs::write(&file, SETTINGS).expect("a file");
    let (nodes, urls) = coordinators(&servers, place.path(), 3, Some(&file)).await;
    let mut fleet = Fleet::new(urls, 2 * AGENTS, KEYS, TTL_MS, true).of_pool("rolling");
    (0..AGENTS).for_each(|number| fleet.start_version(number, "1"));
    until_all_held(&nodes[0], KEYS, START_MS).await;
    let before = settled(&nodes[1]).await;

    for number in 0..AGENTS {
        fleet.stop(number).await;
        fleet.start_version(number, "1");
        let mut seen = BTreeMap::new();
        let back = within(ms(STEP_MS), async || {
            seen = owners(&nodes[number % 3]).await;
            seen == before
        });
        let back = back.await;
        seen.retain(|key, owner| before.get(key) != Some(owner));
        assert!(back, "agent {number} did not come back to its keys; others have {seen:?}");
    }

    // Each program has written that it began.
    sleep_ms(BEAT_MS).await;
    let restarted = tokens(&signs::gather(&fleet.log()));
    for number in 0..AGENTS {
        let newer = AGENTS + number;
        fleet.start_version(newer, "2");
        for node in &nodes {
            let joined = within(ms(STEP_MS), async || has_joined(node, &owner(newer)).await);
            assert!(joined.await, "agent {newer} does not join");
        }
        let order = json!({ "owner": owner(number) });
        let (status, answer) = nodes[number % 3].post("/v1/admin/drain", &order).await;
        assert_eq!(status, 200, "{answer}");
        fleet.leaves(number).await;
    }
    until_all_held(&nodes[2], KEYS, STEP_MS).await;
    let after = owners(&nodes[2]).await;
    let newer: Vec<String> = (AGENTS..2 * AGENTS).map(owner).collect();
    assert!(after.values().all(|owner| newer.contains(owner)), "{after:?}");
    sleep_ms(BEAT_MS).await;
    let upgraded = tokens(&signs::gather(&fleet.log()));
    let faults = fleet.drain().await;
    let lines = signs::gather(&fleet.log());
    let report = check(&lines);
    assert!(report.violations.is_empty(), "{report}");
    assert!(faults.is_empty(), "{faults:?}");
    let moves = |key: &String| upgraded[key].len() - restarted.get(key).map_or(0, |it| it.len());
    let moved: BTreeMap<usize, usize> = upgraded.keys().fold(BTreeMap::new(), |mut moved, key| {
        *moved.entry(moves(key)).or_default() += 1;
        moved
    });
    println!(
        "{AGENTS} agents, {KEYS} keys: a rolling restart moved no key; moves in a rolling upgrade, and of how many keys: {moved:?}"
    );
    assert_eq!(moved, BTreeMap::from([(1, KEYS)]), "each key moves once in an upgrade");
}
