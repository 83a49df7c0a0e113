//! `heartbeat-stream` and `heartbeat-stream-batch`: leases that are held and kept by streams, 16 calls in flight per
//! connection, with one or many leases each.
//!
//! Also shown: the store's own counter of writes, before and after. It must not grow.

use std::sync::Arc;

use anyhow::{Result, ensure};

use super::heartbeat::LEASES;
use super::hold::{give_back, hold};
use crate::http::{Grant, Leases};
use crate::lab::Lab;
use crate::load::{Lane, interleaved};
use crate::report::Outcome;
use crate::stopwatch::key_prefix;
use crate::stream::{Burst, Kept, Target};

/// Calls in flight per connection. The next ones are sent when all are answered.
const IN_FLIGHT: usize = 16;

/// Runs the workload with `per_call` leases in each call.
pub async fn measure(lab: &Lab, connections: usize, per_call: usize) -> Result<Outcome> {
    let server = lab.server().await?;
    let target = Target::of(&server.target)?;
    // Each connection has leases of its own.
    let least = (connections * IN_FLIGHT * per_call) as u64;
    let total = lab.args.count.unwrap_or(LEASES).max(least);
    let holding = hold(lab, &server, &key_prefix(), total, true).await?;
    // Whole bursts are built beforehand: the loop only copies them.
    let bursts: Vec<Burst> = match per_call {
        1 => {
            let chunks = holding.leases.chunks_exact(IN_FLIGHT);
            chunks.map(|leases| Burst::new("heartbeat", leases, Kept::One)).collect()
        }
        many => {
            let chunks = holding.leases.chunks_exact(many * IN_FLIGHT);
            let burst = |leases: &[Grant]| {
                let bodies: Vec<_> = leases.chunks(many).map(|leases| Leases { leases }).collect();
                Burst::new("heartbeats", &bodies, Kept::Verdicts)
            };
            chunks.map(burst).collect()
        }
    };
    ensure!(bursts.len() >= connections, "--count is less than what is in flight");
    let bursts = Arc::new(bursts);
    let writes_before = server.store_writes().await?;
    let name = if per_call == 1 { "heartbeat-stream" } else { "heartbeat-stream-batch" };
    let units = (IN_FLIGHT * per_call) as u64;
    let work = |index, lane| beat(lane, Arc::clone(&bursts), index, connections, units);
    let mut rounds = interleaved(lab, &target, connections, work).await?;
    let writes_after = server.store_writes().await?;
    rounds.tally.faults.merge(holding.faults);
    rounds.tally.faults.merge(give_back(lab, &server, holding.leases).await?);
    let mut outcome =
        Outcome::new(name, connections, &server.version).of_rounds(rounds, "heartbeats_per_s");
    outcome.figure("batch", per_call as f64);
    outcome.figure("in_flight", IN_FLIGHT as f64);
    outcome.figure("leases", holding.granted as f64);
    let writes = writes_before.zip(writes_after).map(|(before, after)| after - before);
    outcome.figure_if("store_writes", writes);
    if let Some(some) = writes.filter(|it| *it > 0.0) {
        outcome.faults.add(|| format!("heartbeats made the store write {some} times"));
    }
    Ok(outcome)
}

/// One connection: every `stride`-th burst from `turn` on, each of so many `units`.
async fn beat(
    mut lane: Lane<Target>,
    bursts: Arc<Vec<Burst>>,
    mut turn: usize,
    stride: usize,
    units: u64,
) {
    while lane.is_open() {
        let burst = bursts[turn % bursts.len()].clone();
        turn += stride;
        if let Some(kept) = lane.exchange(Ok(burst)).await {
            lane.judge(kept == units, kept, "a held lease was not kept");
        }
    }
}
