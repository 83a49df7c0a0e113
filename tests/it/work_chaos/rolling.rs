//! Three coordinators on a NATS cluster, and agents that are restarted, replaced by a newer version, and killed. The checker
//! of histories judges what their programs wrote.
//!
//! `ROLLING_AGENTS` and `ROLLING_KEYS` say how many there are.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    START_MS, TTL_MS, coordinators,
    fleet::Fleet,
    servers::Servers,
    signs::{self, tokens},
    until_all_held,
};
use crate::history::check;
use crate::support::clock::{ms, now, sleep_ms, within};
use crate::support::node::Node;
use crate::support::seed::from_environment;

/// How long a step may take.
const STEP_MS: u64 = 60_000;
const SETTINGS: &str = "[[policy]]\nprefix = \"chaos/\"\npool = \"rolling\"\nbalance = true\n\
                        rejoin_window = \"1m\"\nhandover_timeout = \"30s\"\n";
/// With a guard against mass failures. The lock-delay is longer than the time between the ends of sessions that died together, also where nodes
/// are late.
const GUARDED: &str = "[[policy]]\nprefix = \"chaos/\"\npool = \"rolling\"\nbalance = true\n\
                       lock_delay = \"10s\"\nmass_failure_within = \"60s\"\nhandover_timeout = \"30s\"\n";

type Owners = BTreeMap<String, String>;

fn owner(number: usize) -> String {
    format!("agent-{number}")
}

/// Coordinators, agents and what they hold.
struct Deploy {
    agents: usize,
    keys: usize,
    nodes: Vec<Node>,
    fleet: Fleet,
    _servers: Servers,
    _place: tempfile::TempDir,
}

impl Deploy {
    /// So many agents, each with a share of the keys.
    async fn start(settings: &str) -> Self {
        let count = |name, usual| from_environment(name).map_or(usual, |count| count as usize);
        let (agents, keys) = (count("ROLLING_AGENTS", 8), count("ROLLING_KEYS", 96));
        let servers = Servers::nats();
        let place = tempfile::tempdir().expect("a directory");
        let file = place.path().join("tenure.toml");
        std::fs::write(&file, settings).expect("a file");
        let (nodes, urls) = coordinators(&servers, place.path(), 3, Some(&file)).await;
        let mut fleet = Fleet::new(urls, 2 * agents, keys, TTL_MS, true).of_pool("rolling");
        (0..agents).for_each(|number| fleet.start_version(number, "1"));
        until_all_held(&nodes[0], keys, START_MS).await;
        Self { agents, keys, nodes, fleet, _servers: servers, _place: place }
    }

    /// The leases that are held, as a node sees them.
    async fn leases(&self, node: usize) -> Vec<Value> {
        let limit = (self.keys + 1).min(1_000);
        let page = self.nodes[node].get(&format!("/v1/leases?state=held&limit={limit}")).await;
        page["leases"].as_array().expect("leases").clone()
    }

    /// The owner of each key that is held, as a node sees it.
    async fn owners(&self, node: usize) -> Owners {
        let text = |lease: &Value, name: &str| lease[name].as_str().expect("text").to_owned();
        let leases = self.leases(node).await;
        leases.iter().map(|lease| (text(lease, "key"), text(lease, "owner"))).collect()
    }

    async fn pool(&self, node: usize) -> Value {
        self.nodes[node].get("/v1/pools/rolling").await
    }

    async fn has_joined(&self, node: usize, owner: &str) -> bool {
        let pool = self.pool(node).await;
        let members = pool["members"].as_array().expect("members").iter();
        members.into_iter().any(|member| member["owner"] == owner)
    }

    /// The agents have even shares, and no key has moved for a while.
    async fn settled(&self) -> Owners {
        let mut seen = BTreeMap::new();
        let share = self.keys / self.agents;
        // What a member may lack without a move.
        let band = share / 20;
        let even = within(ms(START_MS), async || {
            seen = self.owners(1).await;
            let of = |number| seen.values().filter(|it| **it == owner(number)).count();
            if seen.len() < self.keys || !(0..self.agents).all(|at| of(at) + band >= share) {
                return false;
            }
            sleep_ms(3_000).await;
            self.owners(1).await == seen
        });
        assert!(even.await, "{seen:?}");
        seen
    }

    /// Waits until all agents are back at the keys that they had before.
    async fn until_back(&self, node: usize, before: &Owners, what: &str) {
        let mut seen = BTreeMap::new();
        let back = within(ms(STEP_MS), async || {
            seen = self.owners(node).await;
            seen == *before
        });
        let back = back.await;
        seen.retain(|key, owner| before.get(key) != Some(owner));
        assert!(back, "{what} did not come back to its keys; others have {seen:?}");
    }

    /// How many programs were started for each key, once all that are to run have written that they began.
    async fn programs(&self) -> BTreeMap<String, usize> {
        let mut seen = BTreeMap::new();
        let all = within(ms(STEP_MS), async || {
            seen = tokens(&signs::gather(&self.fleet.log()));
            let runs = |lease: &Value| {
                // A file of signs has no slash in its name.
                let key = lease["key"].as_str().expect("text").replace('/', "-");
                let token = lease["token"].as_u64().expect("a number");
                seen.get(&key).is_some_and(|tokens| tokens.contains(&token))
            };
            self.leases(2).await.iter().all(runs)
        });
        assert!(all.await, "not every program was started");
        seen.into_iter().map(|(key, tokens)| (key, tokens.len())).collect()
    }

    /// All agents leave, and the checker judges what their programs wrote.
    async fn end(mut self) {
        let faults = self.fleet.drain().await;
        let report = check(&signs::gather(&self.fleet.log()));
        assert!(report.violations.is_empty(), "{report}");
        assert!(faults.is_empty(), "{faults:?}");
    }
}

#[tokio::test]
async fn a_rolling_restart_and_a_rolling_upgrade_on_three_nodes() {
    let mut deploy = Deploy::start(SETTINGS).await;
    let Deploy { agents, keys, .. } = deploy;
    let before = deploy.settled().await;
    let start = now();
    for number in 0..agents {
        deploy.fleet.stop(number).await;
        deploy.fleet.start_version(number, "1");
        deploy.until_back(number % 3, &before, &owner(number)).await;
    }
    let restart = now().since(start);

    let restarted = deploy.programs().await;
    let start = now();
    for number in 0..agents {
        let newer = agents + number;
        deploy.fleet.start_version(newer, "2");
        for node in 0..3 {
            let joined = within(ms(STEP_MS), async || deploy.has_joined(node, &owner(newer)).await);
            assert!(joined.await, "agent {newer} does not join");
        }
        let order = json!({ "owner": owner(number) });
        let (status, answer) = deploy.nodes[number % 3].post("/v1/admin/drain", &order).await;
        assert_eq!(status, 200, "{answer}");
        deploy.fleet.leaves(number).await;
    }
    until_all_held(&deploy.nodes[2], keys, STEP_MS).await;
    let upgrade = now().since(start);
    let after = deploy.owners(2).await;
    let newer: Vec<String> = (agents..2 * agents).map(owner).collect();
    assert!(after.values().all(|owner| newer.contains(owner)), "{after:?}");
    let upgraded = deploy.programs().await;
    deploy.end().await;
    let moves = |key: &String| upgraded[key] - restarted.get(key).copied().unwrap_or(0);
    let mut moved: BTreeMap<usize, usize> = BTreeMap::new();
    upgraded.keys().for_each(|key| *moved.entry(moves(key)).or_default() += 1);
    println!(
        "{agents} agents, {keys} keys: a rolling restart moved no key ({restart:.1?}); moves in a rolling upgrade, and of how \
         many keys: {moved:?} ({upgrade:.1?})"
    );
    assert_eq!(moved, BTreeMap::from([(1, keys)]), "each key moves once in an upgrade");
}

#[tokio::test]
async fn after_the_loss_of_two_fifths_nobody_gets_more_than_its_share_on_three_nodes() {
    let mut deploy = Deploy::start(GUARDED).await;
    let Deploy { agents, keys, .. } = deploy;
    let before = deploy.settled().await;
    let lost = agents * 2 / 5;
    deploy.fleet.kill(0..lost);
    let share = keys.div_ceil(agents);
    let most = |seen: &Owners| {
        let of = |number| seen.values().filter(|it| **it == owner(number)).count();
        (lost..agents).map(of).max().unwrap_or(0)
    };
    let mut stood = false;
    // Long enough for the sessions of the lost ones to end, and for a pool without a guard to move their keys.
    let end = now() + ms(2 * TTL_MS + 20_000);
    while now() < end {
        let seen = deploy.owners(2).await;
        assert!(most(&seen) <= share, "{seen:?}");
        let pool = deploy.pool(1).await;
        stood |= pool["guard"] != Value::Null;
        sleep_ms(200).await;
    }
    assert!(stood, "no guard stood");
    let free = keys - deploy.owners(0).await.len();
    let kept = before.values().filter(|it| (lost..agents).any(|at| **it == owner(at))).count();
    assert!(free > 0 && free <= keys - kept, "{free} keys are free, {kept} were kept");

    (0..lost).for_each(|number| deploy.fleet.start_version(number, "1"));
    until_all_held(&deploy.nodes[0], keys, STEP_MS).await;
    let over = within(ms(STEP_MS), async || deploy.pool(0).await["guard"] == Value::Null);
    assert!(over.await, "the guard does not end");
    let moved = deploy.owners(0).await.into_iter().filter(|(key, it)| {
        before[key] != *it && (lost..agents).any(|at| before[key] == owner(at))
    });
    assert_eq!(moved.count(), 0, "those that stayed keep what they had");
    println!("{agents} agents, {keys} keys: {lost} were killed; {free} keys waited for them");
    deploy.end().await;
}
