//! `churn`: how large the store is after very many ownership changes of few keys.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use super::batch::{Batches, cycle};
use crate::lab::Lab;
use crate::load::{Probes, drive};
use crate::report::Outcome;
use crate::server::Server;
use crate::stopwatch::{key_prefix, tick};

/// Ownership changes, unless told otherwise.
const CHANGES: u64 = 5_000_000;
/// Distinct keys, unless told otherwise.
const KEYS: u64 = 100_000;
/// How often the size is looked at during the run.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Rest before the size at the end is read: a compaction may be under way.
const SETTLE: Duration = Duration::from_secs(3);

/// Runs the workload.
pub async fn measure(lab: &Lab, connections: usize) -> Result<Outcome> {
    let server = lab.server().await?;
    let disk = Probes::once(lab.scratch()?.path())?;
    let (prefix, size) = (key_prefix(), lab.args.batch);
    let changes = lab.args.count.unwrap_or(CHANGES);
    let keys = lab.args.keys.unwrap_or(KEYS);
    let batches = (keys / u64::from(size) / connections as u64).max(1);
    // A cycle is two changes: the grant and the release.
    let cycles = changes.div_ceil(2);
    let left = Arc::new(AtomicU64::new(cycles));
    let work = |index, lane| {
        let first = index as u64 * batches;
        let keys = Batches { prefix: prefix.clone(), first, batches, size };
        cycle(lane, keys, Some(Arc::clone(&left)))
    };
    let mut peak = 0.0_f64;
    let watch = async {
        loop {
            peak = peak.max(server.store_bytes().unwrap_or(0.0));
            sleep(LOOK_EVERY).await;
        }
    };
    let begun = tick();
    let span = (Duration::ZERO, lab.time_limit());
    let (_, tally) = tokio::select! {
        ran = drive(&server.target, connections, span, work) => ran?,
        never = watch => never,
    };
    let took = (tick() - begun).as_secs_f64();
    let mut outcome = Outcome::new("churn", connections, &server.version);
    outcome.disk = disk;
    outcome.seconds = took;
    let done = 2 * tally.units;
    outcome.figure("changes", done as f64);
    outcome.figure("changes_per_s", done as f64 / took);
    outcome.figure("keys", (batches * u64::from(size) * connections as u64) as f64);
    outcome.latency("latency", tally.latencies.summary());
    outcome.faults = tally.faults;
    outcome.figure("store_peak_bytes", peak);
    sleep(SETTLE).await;
    sizes(&server, &mut outcome).await?;
    Ok(outcome)
}

/// The store's size by its directory and by the server's own gauges, and what of it is alive.
async fn sizes(server: &Server, outcome: &mut Outcome) -> Result<()> {
    let scrape = server.scrape().await?;
    let live = scrape.sum("tenure_store_live_bytes", "");
    let log = scrape.sum("tenure_store_log_bytes", "");
    let on_disk = server.store_bytes();
    outcome.figure_if("store_bytes", on_disk);
    outcome.figure_if("store_log_bytes", log);
    outcome.figure_if("store_live_bytes", live);
    if let (Some(live), Some(whole)) = (live.filter(|it| *it > 0.0), on_disk.or(log)) {
        outcome.figure("store_to_live_ratio", whole / live);
    }
    Ok(())
}
