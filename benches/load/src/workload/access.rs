//! `heartbeat-access`: what a token and TLS cost on the path of a heartbeat.
//!
//! Three coordinators run side by side. One asks its callers for nothing, one for a token, and one for a token and TLS.
//! Rounds of the three alternate, and each round begins with another of them, so that a machine that changes does it to
//! all. The tool shares the cores with the server and pays for TLS as well. Therefore the server's own processor time
//! per call is measured beside the rate.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::time::sleep_until;

use super::heartbeat::{LEASES, beat};
use super::hold::{heartbeat_request, hold};
use crate::http::Request;
use crate::lab::Lab;
use crate::load::{Faults, Latencies, drive_beside, median};
use crate::report::Outcome;
use crate::server::{Posture, Server};
use crate::stopwatch::{key_prefix, own_cpu};

/// What is not counted at the start of a round. Connections are made, and TLS sessions begun, before that.
const WARM_UP: Duration = Duration::from_millis(500);

/// What is compared with the first of them.
const POSTURES: [Posture; 3] = [
    Posture { token: false, tls: false },
    Posture { token: true, tls: false },
    Posture { token: true, tls: true },
];
/// The figures of each: calls per second, and processor time per call of the server and of this tool.
const FIGURES: [[&str; 3]; 3] = [
    ["plain_per_s", "plain_server_cpu_us", "plain_tool_cpu_us"],
    ["token_per_s", "token_server_cpu_us", "token_tool_cpu_us"],
    ["tls_token_per_s", "tls_token_server_cpu_us", "tls_token_tool_cpu_us"],
];
/// The latencies of each.
const LATENCIES: [&str; 3] = ["latency_plain", "latency_token", "latency_tls_token"];
/// The ratios of the second and the third to the first: of the medians, and the least and the largest of a round.
const RATIOS: [[[&str; 3]; 2]; 2] = [
    [
        ["token_rate_ratio", "token_rate_ratio_least", "token_rate_ratio_most"],
        ["token_server_cpu_ratio", "token_server_cpu_ratio_least", "token_server_cpu_ratio_most"],
    ],
    [
        ["tls_token_rate_ratio", "tls_token_rate_ratio_least", "tls_token_rate_ratio_most"],
        [
            "tls_token_server_cpu_ratio",
            "tls_token_server_cpu_ratio_least",
            "tls_token_server_cpu_ratio_most",
        ],
    ],
];

/// A coordinator, and what its rounds showed.
struct Subject {
    server: Server,
    requests: Arc<Vec<Request>>,
    /// Of each round: calls per second, and microseconds of processor time per call of the server and of this tool.
    rounds: [Vec<f64>; 3],
    latencies: Latencies,
    faults: Faults,
}

/// Runs the workload.
pub async fn measure(lab: &Lab, connections: usize) -> Result<Outcome> {
    ensure!(
        lab.args.server.is_none(),
        "heartbeat-access needs servers that the tool itself starts"
    );
    let mut subjects = Vec::new();
    for posture in POSTURES {
        subjects.push(Subject::start(lab, posture).await?);
    }
    let count = subjects.len();
    for round in 0..lab.args.rounds as usize {
        for turn in 0..count {
            subjects[(round + turn) % count].measure(lab, connections).await?;
        }
    }
    let mut outcome = Outcome::new("heartbeat-access", connections, &subjects[0].server.version);
    (outcome.rounds, outcome.seconds) = (lab.args.rounds, lab.args.seconds);
    outcome.requests_per_s = Some(median(&subjects[0].rounds[0]));
    for (subject, names) in subjects.iter().zip(FIGURES) {
        for (name, values) in names.into_iter().zip(&subject.rounds) {
            outcome.figure(name, median(values));
        }
    }
    for (subject, of) in subjects[1..].iter().zip(RATIOS) {
        for (at, names) in of.into_iter().enumerate() {
            let ratios = ratios(&subject.rounds[at], &subjects[0].rounds[at]);
            names.into_iter().zip(ratios).for_each(|(name, ratio)| outcome.figure(name, ratio));
        }
    }
    for (subject, name) in subjects.into_iter().zip(LATENCIES) {
        outcome.latency(name, subject.latencies.summary());
        outcome.faults.merge(subject.faults);
    }
    Ok(outcome)
}

impl Subject {
    /// One with leases that are held for longer than any run.
    async fn start(lab: &Lab, posture: Posture) -> Result<Self> {
        let server = lab.own_server(posture).await?;
        let total = lab.args.count.unwrap_or(LEASES);
        let holding = hold(lab, &server, &key_prefix(), total, true).await?;
        let request = |lease| heartbeat_request(&server.target, lease);
        let requests: Result<Vec<Request>> = holding.leases.iter().map(request).collect();
        let (requests, rounds) = (Arc::new(requests?), Default::default());
        Ok(Self { server, requests, rounds, latencies: Latencies::new(), faults: holding.faults })
    }

    /// One more round.
    async fn measure(&mut self, lab: &Lab, connections: usize) -> Result<()> {
        let (server, requests) = (&self.server, &self.requests);
        let work = |index, lane| beat(lane, Arc::clone(requests), index, connections, 1);
        let watch = |opens: Instant, closes: Instant| async move {
            sleep_until(opens.into()).await;
            let (theirs, ours) = (server.cpu()?, own_cpu());
            sleep_until(closes.into()).await;
            anyhow::Ok((server.cpu()? - theirs, own_cpu() - ours))
        };
        let span = (WARM_UP, lab.round());
        let (_, tally, used) = drive_beside(&server.target, connections, span, work, watch).await?;
        let (theirs, ours) = used?;
        let calls = tally.requests.max(1) as f64;
        let per_call = |used: Duration| used.as_secs_f64() * 1e6 / calls;
        let figures = [tally.requests as f64 / lab.args.seconds, per_call(theirs), per_call(ours)];
        self.rounds.iter_mut().zip(figures).for_each(|(round, figure)| round.push(figure));
        self.latencies.merge(&tally.latencies);
        self.faults.merge(tally.faults);
        Ok(())
    }
}

/// The ratio of the medians, and the least and the largest ratio of two values of the same round.
fn ratios(of: &[f64], to: &[f64]) -> [f64; 3] {
    let mut each: Vec<f64> = of.iter().zip(to).map(|(of, to)| of / to).collect();
    each.sort_by(f64::total_cmp);
    let least = each.first().copied().unwrap_or(f64::NAN);
    let largest = each.last().copied().unwrap_or(f64::NAN);
    [median(of) / median(to), least, largest]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_of_medians_and_its_spread_is_of_rounds() {
        let found = ratios(&[90.0, 110.0, 50.0], &[100.0, 100.0, 100.0]);
        assert_eq!(found, [0.9, 0.5, 1.1]);
    }
}
