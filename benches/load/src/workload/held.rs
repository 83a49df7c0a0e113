//! `held`: what a million held leases cost in resident memory.

use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use super::hold::{give_back, hold};
use crate::lab::Lab;
use crate::load::Probes;
use crate::report::Outcome;
use crate::stopwatch::key_prefix;

/// Leases, unless told otherwise.
pub const LEASES: u64 = 1_000_000;
/// Rest before memory is read: buffers of the last requests are given back.
const SETTLE: Duration = Duration::from_secs(2);

/// Runs the workload.
pub async fn measure(lab: &Lab, connections: usize) -> Result<Outcome> {
    let server = lab.server().await?;
    let disk = Probes::once(lab.scratch()?.path())?;
    let total = lab.args.count.unwrap_or(LEASES);
    let before = server.resident_bytes().await?;
    let holding = hold(lab, &server, &key_prefix(), total, !server.is_own()).await?;
    let at_once = server.resident_bytes().await?;
    sleep(SETTLE).await;
    let after = server.resident_bytes().await?;
    let mut outcome = Outcome::new("held", connections, &server.version);
    outcome.disk = disk;
    outcome.seconds = holding.took.as_secs_f64();
    let granted = holding.granted as f64;
    outcome.figure("leases", granted);
    outcome.figure("acquisitions_per_s", granted / holding.took.as_secs_f64());
    outcome.figure("resident_before_bytes", before);
    outcome.figure("resident_at_end_of_load_bytes", at_once);
    outcome.figure("resident_bytes", after);
    outcome.figure("resident_per_lease_bytes", ((after - before) / granted).round());
    outcome.figure_if("store_bytes", server.store_bytes());
    outcome.figure_if("leases_held", server.scrape().await?.sum("tenure_leases_held", ""));
    outcome.faults = holding.faults;
    outcome.faults.merge(give_back(lab, &server, holding.leases).await?);
    Ok(outcome)
}
