//! `heartbeat` and `heartbeat-batch`: leases that are held and kept, one or many per request.
//!
//! Also shown: the store's own counter of writes, before and after. It must not grow.

use std::sync::Arc;

use anyhow::Result;

use super::drive::{Client, Verdict};
use super::hold::{give_back, heartbeat_request, heartbeats_request, hold};
use super::json::{count, member};
use super::lab::Lab;
use super::report::Outcome;
use super::rounds::interleaved;
use super::server::Server;
use super::tick::nonce;
use super::wire::Answer;

/// Leases over all connections, unless told otherwise.
const LEASES: u64 = 1_000;

/// Runs the workload with `per_request` leases in each request.
pub async fn measure(lab: &mut Lab, connections: usize, per_request: usize) -> Result<Outcome> {
    let server = lab.server().await?;
    let target = server.target.clone();
    let prefix = format!("bench/{}", nonce());
    let total = lab.args.count.unwrap_or(LEASES);
    let holding = hold(lab, &server, &prefix, total, true).await?;
    // Whole requests are built beforehand: the loop only copies them.
    let requests: Arc<Vec<Vec<u8>>> = Arc::new(match per_request {
        1 => holding.leases.iter().map(|it| heartbeat_request(&target, it)).collect(),
        many => {
            holding.leases.chunks_exact(many).map(|it| heartbeats_request(&target, it)).collect()
        }
    });
    anyhow::ensure!(!requests.is_empty(), "--count is less than --batch");
    let writes_before = store_writes(&server).await?;
    let name = if per_request == 1 { "heartbeat" } else { "heartbeat-batch" };
    let make = |_, index| Beat {
        requests: Arc::clone(&requests),
        turn: index,
        stride: connections,
        per_request,
    };
    let mut rounds = interleaved(lab, &target, connections, name, make).await?;
    let writes_after = store_writes(&server).await?;
    rounds.tally.faults.merge(holding.faults);
    rounds.tally.faults.merge(give_back(lab, &server, holding.leases).await?);
    let mut outcome = Outcome::new(name, connections, &server.version).of_rounds(
        rounds,
        lab.args.rounds,
        lab.args.seconds,
        "heartbeats_per_s",
    );
    outcome.figure("batch", per_request as f64);
    outcome.figure("leases", holding.granted as f64);
    let writes = writes_before.zip(writes_after).map(|(before, after)| after - before);
    outcome.figure_if("store_writes", writes);
    if let Some(some) = writes.filter(|it| *it > 0.0) {
        outcome.faults.add(|| format!("heartbeats made the store write {some} times"));
    }
    Ok(outcome)
}

/// How many compare-and-sets the store has done; `None` when the server does not tell.
async fn store_writes(server: &Server) -> Result<Option<f64>> {
    let name = "tenure_store_request_duration_seconds_count";
    Ok(server.scrape().await?.sum(name, &["op=\"compare_and_set\""]))
}

struct Beat {
    requests: Arc<Vec<Vec<u8>>>,
    turn: usize,
    stride: usize,
    per_request: usize,
}

impl Client for Beat {
    fn request(&mut self, out: &mut Vec<u8>) -> bool {
        out.clear();
        out.extend_from_slice(&self.requests[self.turn % self.requests.len()]);
        self.turn += self.stride;
        true
    }

    fn answer(&mut self, answer: Answer<'_>) -> Verdict {
        let kept = match answer.status {
            200 => count(answer.text(), member::VALID_FOR_MS),
            _ => 0,
        };
        match kept == self.per_request {
            true => Verdict::Done(kept as u64),
            false if self.per_request == 1 => Verdict::Unexpected("POST /v1/heartbeat"),
            false => Verdict::Unexpected("POST /v1/heartbeats"),
        }
    }
}
