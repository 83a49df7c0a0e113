//! `heartbeat-access`: what a token and TLS cost on the path of a heartbeat.
//!
//! Three coordinators run side by side and take turns. One asks its callers for nothing, one for a token, and one for a
//! token and TLS.

use std::sync::Arc;

use anyhow::{Result, ensure};

use super::heartbeat::{LEASES, beat};
use super::hold::{heartbeat_request, hold};
use crate::http::Request;
use crate::lab::Lab;
use crate::load::{Turns, median, order, ratios};
use crate::report::Outcome;
use crate::server::{Posture, Server};
use crate::stopwatch::key_prefix;

/// What is compared with the first of them, and how the figures of each are called.
const POSTURES: [(&str, Posture); 3] = [
    ("plain", Posture { token: false, tls: false }),
    ("token", Posture { token: true, tls: false }),
    ("tls_token", Posture { token: true, tls: true }),
];

/// A coordinator, and what its turns showed.
struct Subject {
    name: &'static str,
    server: Server,
    requests: Arc<Vec<Request>>,
    turns: Turns,
}

/// Runs the workload.
pub async fn measure(lab: &Lab, connections: usize) -> Result<Outcome> {
    ensure!(
        lab.args.server.is_none(),
        "heartbeat-access needs servers that the tool itself starts"
    );
    let mut subjects = Vec::new();
    for (name, posture) in POSTURES {
        subjects.push(Subject::start(lab, name, posture).await?);
    }
    let count = subjects.len();
    for round in 0..lab.args.rounds as usize {
        for turn in order(round, count) {
            subjects[turn].measure(lab, connections).await?;
        }
    }
    let first = &subjects[0];
    let mut outcome = Outcome::new("heartbeat-access", connections, &first.server.version);
    (outcome.rounds, outcome.seconds) = (lab.args.rounds, lab.args.seconds);
    outcome.requests_per_s = Some(median(&first.turns.requests_per_s));
    for Subject { name, turns, .. } in &subjects {
        outcome.figure(format!("{name}_per_s"), median(&turns.units_per_s));
        outcome.figure(format!("{name}_server_cpu_us"), median(&turns.server_cpu_us));
        outcome.figure(format!("{name}_tool_cpu_us"), median(&turns.tool_cpu_us));
    }
    for Subject { name, turns, .. } in &subjects[1..] {
        let rates = ratios(&turns.units_per_s, &first.turns.units_per_s);
        outcome.ratio(&format!("{name}_rate_ratio"), rates);
        let times = ratios(&turns.server_cpu_us, &first.turns.server_cpu_us);
        outcome.ratio(&format!("{name}_server_cpu_ratio"), times);
    }
    for Subject { name, turns, .. } in subjects {
        outcome.latency(format!("latency_{name}"), turns.tally.latencies.summary());
        outcome.faults.merge(turns.tally.faults);
    }
    Ok(outcome)
}

impl Subject {
    /// One with leases that are held for longer than any run.
    async fn start(lab: &Lab, name: &'static str, posture: Posture) -> Result<Self> {
        let server = lab.own_server(posture).await?;
        let total = lab.args.count.unwrap_or(LEASES);
        let holding = hold(lab, &server, &key_prefix(), total, true).await?;
        let request = |lease| heartbeat_request(&server.target, lease);
        let requests: Result<Vec<Request>> = holding.leases.iter().map(request).collect();
        let mut turns = Turns::new();
        turns.tally.faults = holding.faults;
        Ok(Self { name, requests: Arc::new(requests?), server, turns })
    }

    /// One more turn.
    async fn measure(&mut self, lab: &Lab, connections: usize) -> Result<()> {
        let Self { server, requests, turns, .. } = self;
        let work = |index, lane| beat(lane, Arc::clone(requests), index, connections, 1);
        turns.take(lab, &server.target, connections, || server.cpu(), work).await
    }
}
