//! `stream-notice`: a lease is revoked by HTTP, and its holder is told by its stream. How long after? Every other
//! revocation is immediate, and the others wait for the lease's last promise.
//!
//! The revocation is decided between the request's sending and its answer. So the true latency lies between two
//! figures, and both are told: `notice` counts from sending, `notice_after_answer` from the arrival of the answer, and
//! is 0 where the notice came first.

use anyhow::{Context as _, Result};
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::task::JoinSet;

use super::acquire;
use super::hold::LONG_TTL_MS;
use crate::endpoint::Endpoint as _;
use crate::http::{self, Connection};
use crate::lab::Lab;
use crate::load::{Latencies, Probes};
use crate::report::Outcome;
use crate::stopwatch::{key_prefix, tick};
use crate::stream::Target;

/// Revocations, unless told otherwise.
const COUNT: u64 = 4_000;

/// Runs the workload: as many holders as connections.
pub async fn measure(lab: &Lab, connections: usize) -> Result<Outcome> {
    let server = lab.server().await?;
    let streams = Target::of(&server.target)?;
    let disk = Probes::once(lab.scratch()?.path())?;
    let each = lab.args.count.unwrap_or(COUNT).div_ceil(connections.max(1) as u64);
    let run = key_prefix();
    let begun = tick();
    let mut holders = JoinSet::new();
    for index in 0..connections {
        let holder = Holder {
            target: server.target.clone(),
            streams: streams.clone(),
            prefix: format!("{run}/{index}"),
            count: each,
        };
        holders.spawn(holder.run());
    }
    let (mut sent, mut answered) = (Latencies::new(), Latencies::new());
    while let Some(told) = holders.join_next().await {
        let (from_sending, from_answer) = told??;
        sent.merge(&from_sending);
        answered.merge(&from_answer);
    }
    let mut outcome = Outcome::new("stream-notice", connections, &server.version);
    outcome.seconds = (tick() - begun).as_secs_f64();
    outcome.disk = disk;
    outcome.latency("notice", sent.summary());
    outcome.latency("notice_after_answer", answered.summary());
    outcome.figure("revocations", (each * connections as u64) as f64);
    Ok(outcome)
}

/// Who holds leases, and loses one after the other.
struct Holder {
    target: http::Target,
    streams: Target,
    prefix: String,
    count: u64,
}

impl Holder {
    async fn run(self) -> Result<(Latencies, Latencies)> {
        let mut admin = Connection::open(&self.target).await?;
        let mut stream = self.streams.open().await?;
        let (mut sent, mut answered) = (Latencies::new(), Latencies::new());
        for n in 0..self.count {
            let key = format!("{}/{n:08}", self.prefix);
            let body = acquire(key.clone(), "bench", LONG_TTL_MS);
            stream.ask::<IgnoredAny>("acquire", &body).await?;
            let immediately = n % 2 == 0;
            let order = json!({ "key": key, "reason": "bench", "immediately": immediately });
            let request = self.target.post("/v1/admin/revoke", http::json(&order))?;
            let begun = tick();
            let revoke = async {
                let answer = admin.call(request).await?;
                answer.json::<IgnoredAny>().context("a lease was not revoked")?;
                anyhow::Ok(tick())
            };
            let told = async {
                stream.notice(&key).await?;
                anyhow::Ok(tick())
            };
            let (answer, notice) = tokio::try_join!(revoke, told)?;
            sent.record(notice - begun);
            answered.record(notice.saturating_duration_since(answer));
        }
        Ok((sent, answered))
    }
}
