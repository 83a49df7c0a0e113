//! `permits`: many clients wait for the permits of one key; each releases at once what it got. In turns with clients that
//! wait for one plain key, and for as many plain keys as there are permits.
//!
//! A hand-off is a grant to the next in the queue. Checked on the way: tokens of a permit strictly increase in the order of
//! its grants.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, ensure};
use serde::de::IgnoredAny;
use tenure::client::Acquire;

use super::acquire;
use super::contended::{Queues, TTL_MS, WAIT_MS};
use crate::http::Grant;
use crate::lab::Lab;
use crate::load::{Lane, Turns, median, order, ratios};
use crate::report::Outcome;
use crate::server::Posture;

/// How many permits the key has.
const PERMITS: u64 = 8;
const SETTINGS: &str = "[[policy]]\nprefix = \"permits/\"\npermits = 8\n";

/// What the clients wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    OneKey,
    Keys,
    Permits,
}

const ALL: [(&str, What); 3] =
    [("one_key", What::OneKey), ("keys", What::Keys), ("permits", What::Permits)];

/// Runs the workload.
pub async fn measure(lab: &Lab, connections: usize) -> Result<Outcome> {
    ensure!(lab.args.server.is_none(), "permits needs a server that the tool itself starts");
    let server = lab.own_server_with(Posture::default(), Some(SETTINGS)).await?;
    let (one, keys) = (Queues::new("one", 1), Queues::new("keys", PERMITS));
    let tokens: Arc<Vec<AtomicU64>> = Arc::new((0..PERMITS).map(|_| AtomicU64::new(0)).collect());
    let mut turns = ALL.map(|_| Turns::new());
    for round in 0..lab.args.rounds as usize {
        for turn in order(round, ALL.len()) {
            let work = |index, lane| -> Pin<Box<dyn Future<Output = ()> + Send>> {
                match ALL[turn].1 {
                    What::OneKey => Box::pin(one.join(index, lane)),
                    What::Keys => Box::pin(keys.join(index, lane)),
                    What::Permits => Box::pin(contend(lane, index, Arc::clone(&tokens))),
                }
            };
            turns[turn].take(lab, &server.target, connections, || server.cpu(), work).await?;
        }
    }
    let mut outcome = Outcome::new("permits", connections, &server.version);
    (outcome.rounds, outcome.seconds) = (lab.args.rounds, lab.args.seconds);
    outcome.requests_per_s = Some(median(&turns[2].requests_per_s));
    for ((name, _), turns) in ALL.iter().zip(&turns) {
        outcome.figure(format!("{name}_hand_offs_per_s"), median(&turns.units_per_s));
        outcome.figure(format!("{name}_server_cpu_us"), median(&turns.server_cpu_us));
    }
    for ((name, _), plain) in ALL.iter().zip(&turns).take(2) {
        let rates = ratios(&turns[2].units_per_s, &plain.units_per_s);
        outcome.ratio(&format!("permits_to_{name}"), rates);
    }
    for ((name, _), turns) in ALL.iter().zip(turns) {
        outcome.latency(format!("latency_{name}"), turns.tally.latencies.summary());
        outcome.faults.merge(turns.tally.faults);
    }
    Ok(outcome)
}

async fn contend(mut lane: Lane, index: usize, tokens: Arc<Vec<AtomicU64>>) {
    let body = acquire("permits/x".to_owned(), &format!("bench-{index}"), TTL_MS);
    let body = Acquire { wait_ms: Some(WAIT_MS), ..body };
    while lane.is_open() {
        let Some(grant) = lane.post::<Grant>("/v1/acquire", &body).await else { continue };
        let permit = number(&grant.key).ok().and_then(|number| tokens.get(number - 1));
        let rises =
            permit.is_some_and(|last| last.swap(grant.token, Ordering::Relaxed) < grant.token);
        lane.judge(rises, 1, "token not above the permit's last one");
        if lane.post::<IgnoredAny>("/v1/release", &grant).await.is_some() {
            lane.untimed(0);
        }
    }
}

/// The number of a permit.
fn number(key: &str) -> Result<usize> {
    let (_, number) = key.split_once('#').context("no permit")?;
    Ok(number.parse::<usize>()?.max(1))
}
