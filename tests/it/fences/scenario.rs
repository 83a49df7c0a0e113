//! All fences at once, and death in their middle.

use std::collections::BTreeSet;

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tenure::clock::Chance;

use crate::fences::{
    judge::{Seen, judge},
    plan::{self, LEFT_RUNNING, Planned, Rule},
    stand::Stand,
    waiters::Waiters,
};

use crate::support::clock::{ms, now, within};

/// How long the first tenures last.
const TTL_MS: u64 = 4_000;
/// Calls at a time.
const AT_A_TIME: usize = 64;
/// So long may all of it take, and more is stuck.
const PATIENCE_MS: u64 = 150_000;
/// How long a change may take to be told at another node.
const HISTORY_MS: u64 = 20_000;
/// Keys that an administrator opens in the end.
const SKIPPED: usize = 8;

pub async fn run(mut stand: Stand, count: usize, seed: u64) {
    let mut chance = Chance::of(seed, "fences");
    let began = now();
    let plan = plan::keys(count);
    let urls: Vec<String> = stand.nodes.iter().map(|node| node.url.clone()).collect();
    hold(&stand, &plan).await;
    let mut waiters = Waiters::start(urls.clone());
    let wanted = plan.iter().filter(|planned| planned.wanted).map(|planned| planned.key.clone());
    waiters.wait_for(wanted, &urls);
    all_ended(&stand).await;
    let mut pending = 0.0;
    let most = within(ms(PATIENCE_MS), async || {
        pending = in_flight(&stand).await;
        pending as usize * 2 > count
    });
    assert!(most.await, "{pending} of {count} are in flight");
    println!("{:?}: all ended, {pending} fences are in flight", now().since(began));
    if !stand.is_shared() {
        // Nothing is confirmed yet: everything is asked again.
        stand.nodes[0].kill();
        stand.nodes[0].start().await;
    }
    stand.journal.open_gate();
    let confirmed = count / 20 + (chance.next_u64() as usize) % (count / 4);
    let middle = within(ms(PATIENCE_MS), async || {
        let lines = stand.journal.lines();
        lines.iter().filter(|line| line.outcome == "confirmed").count() >= confirmed
    });
    assert!(middle.await, "fewer than {confirmed} confirmed");
    let left = in_flight(&stand).await;
    stand.nodes[0].kill();
    println!("{:?}: kill -9 after {confirmed} confirmations, {left} left", now().since(began));
    if stand.is_shared() {
        waiters.leave_first();
    } else {
        stand.nodes[0].start().await;
    }
    let node = stand.nodes.len() - 1;
    all_as_planned(&stand, node, &plan, &waiters).await;
    println!("{:?}: every key is as its policy says", now().since(began));
    let skipped = skip(&stand, node, &plan, &waiters).await;
    let events = history(&stand, node, &plan).await;
    let seen = judge(&plan, &events, &stand.journal.lines());
    println!("{:?}: {seen:?}", now().since(began));
    let Seen { ends, failed, late, .. } = seen;
    let deaths = if stand.is_shared() { 1 } else { 2 };
    assert!(late <= deaths * LEFT_RUNNING, "{late} tries came after the confirmation");
    assert_eq!((ends, seen.skipped), (count, skipped));
    assert!(failed > 0 && seen.confirmed > 0);
    assert_eq!(seen.noticed, 2, "the history does not show late confirmations");
}

/// Somebody holds every key, and will not be heard of again.
async fn hold(stand: &Stand, plan: &[Planned]) {
    let acquire = async |(number, planned): (usize, &Planned)| {
        // Two in three at the node that will die.
        let node = usize::from(number % 3 == 2) % stand.nodes.len();
        let request_id = format!("first-{number}");
        let body = json!({
            "key": planned.key, "owner": "first", "ttl_ms": TTL_MS, "request_id": request_id,
        });
        // The store of a busy machine may be late. A repeated call gets the grant of the first one.
        let granted = within(ms(PATIENCE_MS), async || {
            let (status, answer) = stand.nodes[node].post("/v1/acquire", &body).await;
            assert!([200, 503].contains(&status), "{answer}");
            status == 200
        });
        assert!(granted.await, "{} is not granted", planned.key);
    };
    stream::iter(plan.iter().enumerate())
        .map(acquire)
        .buffer_unordered(AT_A_TIME)
        .collect::<Vec<()>>()
        .await;
}

async fn all_ended(stand: &Stand) {
    let ended = within(ms(PATIENCE_MS), async || {
        let page = stand.get(0, "/v1/leases?owner=first&limit=1").await;
        page["leases"].as_array().is_some_and(Vec::is_empty)
    });
    assert!(ended.await, "somebody holds a lease and sends no heartbeat");
}

async fn in_flight(stand: &Stand) -> f64 {
    let mut sum = 0.0;
    for node in &stand.nodes {
        sum += node.metric("tenure_fences_in_flight").await;
    }
    sum
}

/// What is not as planned.
fn wrong(planned: &Planned, lease: Option<&Value>, told: Option<u64>) -> Option<String> {
    let Some(lease) = lease else { return Some(format!("{} is unknown", planned.key)) };
    let ending = planned.ending();
    let pending = lease["fences"].as_array().is_some_and(|fences| !fences.is_empty());
    let failed = lease["fence_failed"] == true;
    let held = ending.state != "held"
        || (lease["owner"] == "next" && lease["token"].as_u64() == told && told.is_some());
    let fits = lease["state"] == ending.state
        && pending == ending.pending
        && failed == ending.failed
        && held;
    (!fits).then(|| format!("{ending:?}, and it is {lease}; its waiter was told {told:?}"))
}

async fn all_as_planned(stand: &Stand, node: usize, plan: &[Planned], waiters: &Waiters) {
    let mut left = Vec::new();
    let done = within(ms(PATIENCE_MS), async || {
        let leases = stand.leases(node).await;
        let told = waiters.told();
        let find = |key: &str| leases.iter().find(|lease| lease["key"] == key);
        left = plan
            .iter()
            .filter_map(|planned| {
                let told = told.get(&planned.key).map(|told| told.token);
                wrong(planned, find(&planned.key), told)
            })
            .collect();
        left.is_empty()
    });
    let done = done.await;
    left.truncate(10);
    assert!(done, "{left:#?}");
}

/// The events, once there is one of every fence that was due: what a dead node wrote last is told a moment
/// later. What is missing then is the judge's to say.
async fn history(stand: &Stand, node: usize, plan: &[Planned]) -> Vec<Value> {
    let due = plan.iter().filter(|planned| planned.is_due());
    let due: BTreeSet<&str> = due.map(|planned| planned.key.as_str()).collect();
    let (mut events, began) = (Vec::new(), now());
    let whole = within(ms(HISTORY_MS), async || {
        events = stand.events(node).await;
        let of_fences = events.iter().filter(|event| {
            let kind = event["type"].as_str().unwrap_or_default();
            kind.ends_with(".fenced") || kind.ends_with(".fence-failed")
        });
        let told: BTreeSet<_> = of_fences.filter_map(|event| event["subject"].as_str()).collect();
        due.is_subset(&told)
    });
    let whole = whole.await;
    println!("the history is whole: {whole}, after {:?}", now().since(began));
    events
}

/// An administrator opens some of the keys that are shut, and their waiters are granted them.
async fn skip(stand: &Stand, node: usize, plan: &[Planned], waiters: &Waiters) -> usize {
    let shut = plan.iter().filter(|p| p.rule == Rule::Before && !p.confirms() && p.wanted);
    let shut: Vec<_> = shut.take(SKIPPED).collect();
    for planned in &shut {
        assert!(!waiters.told().contains_key(&planned.key), "{} is shut", planned.key);
        let body = json!({ "key": planned.key, "reason": "looked at" });
        let (status, answer) = stand.nodes[node].post("/v1/admin/fence-skip", &body).await;
        assert_eq!(status, 200, "{answer}");
    }
    let granted = within(ms(PATIENCE_MS), async || {
        let told = waiters.told();
        shut.iter().all(|planned| told.contains_key(&planned.key))
    });
    assert!(granted.await, "{shut:?}");
    shut.len()
}
