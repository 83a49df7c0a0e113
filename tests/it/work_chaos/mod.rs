//! Workers by `tenure work` that are killed, paused and started again at random: no two programs ever run
//! for one key, every key is held again soon after the faults stop, and nobody is left behind.
//!
//! `SEED` replays the choices, not the timing. `WORK_CHAOS_SECONDS` is how long faults go on.

mod fleet;
mod rolling;
mod servers;
mod signs;

use std::path::Path;

use crate::history::check;
use crate::support::clock::{ms, now, within};
use crate::support::http;
use crate::support::node::Node;
use crate::support::seed::{from_environment, seed};
use fleet::Fleet;
use servers::Servers;
use tenure::clock::{Chance, boottime_ms};

const AGENTS: usize = 30;
const KEYS: usize = 300;
/// How long the sessions of the agents last. A coordinator that is not optimised, on cores that it shares
/// with 300 programs, answers too late for a short one.
const TTL_MS: u64 = if cfg!(debug_assertions) { 6_000 } else { 3_000 };
/// How long faults go on where nobody said.
const SECONDS: u64 = 30;
/// How long it may take until everything is held for the first time: everybody starts at once.
const START_MS: u64 = 90_000;
/// What is allowed beyond the ttl until every key is held again.
const SLACK_MS: u64 = 1_000;
/// How long until a program under a new lease has been started, and has given its first sign.
const BEAT_MS: u64 = if cfg!(debug_assertions) { 4_000 } else { 1_500 };

fn chance() -> Chance {
    Chance::new(seed("faults"))
}

/// Coordinators on these servers, and their addresses as a client takes them.
async fn nodes(servers: &Servers, witnesses: &Path, count: usize) -> (Vec<Node>, String) {
    coordinators(servers, witnesses, count, None).await
}

/// The same, which read a file of settings.
async fn coordinators(
    servers: &Servers,
    witnesses: &Path,
    count: usize,
    file: Option<&Path>,
) -> (Vec<Node>, String) {
    let mut nodes = Vec::new();
    for n in 0..count {
        let mut sets = servers.settings();
        if count > 1 {
            sets.push("node.ttl=3000ms".to_owned());
            sets.push(format!(
                "node.witness={}",
                witnesses.join(format!("node-{n}.json")).display()
            ));
        }
        sets.push("telemetry.log=warn,tenure=info".to_owned());
        let node = Node::new(&format!("node {n}"), &sets, &[]);
        nodes.push(match file {
            Some(file) => node.configured(file),
            None => node,
        });
    }
    nodes.iter_mut().for_each(Node::launch);
    for node in &mut nodes {
        node.ready().await;
    }
    let urls: Vec<&str> = nodes.iter().map(|node| node.url.as_str()).collect();
    let urls = urls.join(",");
    (nodes, urls)
}

async fn held(node: &Node, keys: usize) -> usize {
    // A busy machine may answer late; what counts is what it answers in time.
    let url = format!("{}/v1/leases?state=held&limit={}", node.url, (keys + 1).min(1_000));
    let Ok(answer) = http::client().get(url).send().await else { return 0 };
    let page: serde_json::Value = answer.json().await.unwrap_or_default();
    page["leases"].as_array().map_or(0, Vec::len)
}

/// How long until every key is held, in milliseconds.
async fn until_all_held(node: &Node, keys: usize, patience_ms: u64) -> u64 {
    let from = now();
    let all = within(ms(patience_ms), async || held(node, keys).await == keys).await;
    let found = held(node, keys).await;
    assert!(all, "{found} of {keys} keys are held after {patience_ms} ms");
    u64::try_from(now().since(from).as_millis()).expect("short")
}

async fn run(servers: Servers, count: usize) {
    let mut chance = chance();
    let seconds = from_environment("WORK_CHAOS_SECONDS").unwrap_or(SECONDS);
    let witnesses = tempfile::tempdir().expect("a directory");
    let (nodes, urls) = nodes(&servers, witnesses.path(), count).await;
    let mut fleet = Fleet::new(urls, AGENTS, KEYS, TTL_MS, true);
    fleet.start_all();
    let first = until_all_held(&nodes[0], KEYS, START_MS).await;
    let done = fleet.suffer(seconds * 1000, &mut chance).await;
    let (stopped, log) = (boottime_ms(), fleet.log());
    let lives = |key: &usize| signs::last_sign(&log, &format!("chaos-{key}")) >= stopped;
    // A dead agent's key counts as held until its session ends: what counts is a program that runs.
    let all = async || (0..KEYS).all(|key| lives(&key));
    let in_time = within(ms(TTL_MS + SLACK_MS + BEAT_MS), all).await;
    let again = boottime_ms() - stopped;
    let mut faults = Vec::new();
    if !in_time {
        let dead: Vec<usize> = (0..KEYS).filter(|key| !lives(key)).collect();
        let stories: String = dead.iter().take(3).map(|&key| fleet.story(key)).collect();
        faults.push(format!(
            "no program runs {again} ms after {stopped} for the keys {dead:?}, such as\n{stories}"
        ));
    }
    faults.extend(fleet.drain().await);
    let lines = signs::gather(&log);
    let (report, (tenures, moved)) = (check(&lines), signs::tenures(&lines));
    let mut left = Vec::new();
    within(ms(TTL_MS), async || {
        left = fleet.living();
        left.is_empty()
    })
    .await;
    if !left.is_empty() {
        faults.push(format!("left behind: {left:?}"));
    }
    println!(
        "{AGENTS} agents, {KEYS} keys, {seconds} s: {done:?}; {tenures} tenures, {moved} keys moved; all \
         held at first after {first} ms, and worked on again {again} ms after the faults stopped"
    );
    assert!(report.violations.is_empty(), "{report}");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert!(moved > KEYS / 4, "too little happened: {moved} of {KEYS} keys moved");
}

#[tokio::test]
async fn on_the_embedded_store() {
    run(Servers::embedded(), 1).await;
}

#[tokio::test]
async fn on_nats_with_three_nodes() {
    run(Servers::nats(), 3).await;
}

#[tokio::test]
async fn without_the_guardian_two_programs_run_for_one_key_and_the_checker_sees_it() {
    let mut chance = chance();
    let servers = Servers::embedded();
    let witnesses = tempfile::tempdir().expect("a directory");
    let (nodes, urls) = nodes(&servers, witnesses.path(), 1).await;
    let (agents, keys, ttl_ms) = (6, 30, 1_500);
    let mut fleet = Fleet::new(urls, agents, keys, ttl_ms, false);
    fleet.start_all();
    until_all_held(&nodes[0], keys, START_MS).await;
    let seen = within(ms(60_000), async || {
        fleet.suffer(3 * ttl_ms, &mut chance).await;
        check(&signs::gather(&fleet.log())).broken().contains("I1")
    })
    .await;
    assert!(seen, "nobody noticed");
}
