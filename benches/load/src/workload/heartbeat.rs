//! `heartbeat` and `heartbeat-batch`: leases that are held and kept, one or many per request.
//!
//! Also shown: the store's own counter of writes, before and after. It must not grow.

use std::sync::Arc;

use anyhow::{Result, ensure};

use super::hold::{give_back, heartbeat_request, hold};
use crate::http::{Alive, Leases, Request, Results, json};
use crate::lab::Lab;
use crate::load::{Lane, interleaved};
use crate::report::Outcome;
use crate::stopwatch::key_prefix;

/// Leases over all connections, unless told otherwise.
pub const LEASES: u64 = 1_000;

/// Runs the workload with `per_request` leases in each request.
pub async fn measure(lab: &Lab, connections: usize, per_request: usize) -> Result<Outcome> {
    let server = lab.server().await?;
    let target = server.target.clone();
    let total = lab.args.count.unwrap_or(LEASES);
    let holding = hold(lab, &server, &key_prefix(), total, true).await?;
    // Whole requests are built beforehand: the loop only copies them.
    let requests: Result<Vec<Request>> = match per_request {
        1 => holding.leases.iter().map(|it| heartbeat_request(&target, it)).collect(),
        many => {
            let chunks = holding.leases.chunks_exact(many);
            let body = |leases| json(&Leases { leases });
            chunks.map(|leases| target.post("/v1/heartbeats", body(leases))).collect()
        }
    };
    let requests = Arc::new(requests?);
    ensure!(!requests.is_empty(), "--count is less than --batch");
    let writes_before = server.store_writes().await?;
    let name = if per_request == 1 { "heartbeat" } else { "heartbeat-batch" };
    let work = |index, lane| beat(lane, Arc::clone(&requests), index, connections, per_request);
    let mut rounds = interleaved(lab, &target, connections, work).await?;
    let writes_after = server.store_writes().await?;
    rounds.tally.faults.merge(holding.faults);
    rounds.tally.faults.merge(give_back(lab, &server, holding.leases).await?);
    let mut outcome =
        Outcome::new(name, connections, &server.version).of_rounds(rounds, "heartbeats_per_s");
    outcome.figure("batch", per_request as f64);
    outcome.figure("leases", holding.granted as f64);
    let writes = writes_before.zip(writes_after).map(|(before, after)| after - before);
    outcome.figure_if("store_writes", writes);
    if let Some(some) = writes.filter(|it| *it > 0.0) {
        outcome.faults.add(|| format!("heartbeats made the store write {some} times"));
    }
    Ok(outcome)
}

/// One connection: every `stride`-th request from `turn` on.
pub async fn beat(
    mut lane: Lane,
    requests: Arc<Vec<Request>>,
    mut turn: usize,
    stride: usize,
    per_request: usize,
) {
    while lane.is_open() {
        let request = requests[turn % requests.len()].clone();
        turn += stride;
        let verdicts = match per_request {
            1 => lane.send(Ok(request)).await.map(|it| vec![it]),
            _ => lane.send::<Results<Alive>>(Ok(request)).await.map(|it| it.results),
        };
        if let Some(verdicts) = verdicts {
            let kept = verdicts.iter().filter(|it| it.valid_for_ms.is_some()).count();
            lane.judge(kept == per_request, kept as u64, "a held lease was not kept");
        }
    }
}
