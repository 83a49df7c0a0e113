//! `churn`: how large the store is after very many ownership changes of few keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use super::batch::{BatchCycle, Range};
use super::disk::Probes;
use super::drive::drive;
use super::lab::Lab;
use super::report::Outcome;
use super::server::{Server, disk_usage};
use super::tally::Window;
use super::tick::{nonce, tick};

/// Ownership changes, unless told otherwise.
const CHANGES: u64 = 5_000_000;
/// Distinct keys, unless told otherwise.
const KEYS: u64 = 100_000;
/// How often the size is looked at during the run.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Rest before the size at the end is read: a compaction may be under way.
const SETTLE: Duration = Duration::from_secs(3);

/// Runs the workload.
pub async fn measure(lab: &mut Lab, connections: usize) -> Result<Outcome> {
    let server = lab.server().await?;
    let scratch = lab.scratch()?;
    let mut probes = Probes::new();
    probes.probe(scratch.path())?;
    let prefix = format!("bench/{}", nonce());
    let size = u64::from(lab.args.batch);
    let changes = lab.args.count.unwrap_or(CHANGES);
    let batches = (lab.args.keys.unwrap_or(KEYS) / size / connections as u64).max(1);
    // A cycle is two changes: the grant and the release.
    let cycles = changes.div_ceil(2);
    let left = Arc::new(AtomicU64::new(cycles));
    let clients: Vec<BatchCycle> = (0..connections as u64)
        .map(|index| {
            let keys = Range { first: index * batches, batches, size };
            BatchCycle::new(&server.target, prefix.clone(), keys, Some(Arc::clone(&left)))
        })
        .collect();
    let progress = lab.show("churning", changes);
    let peak = AtomicU64::new(0);
    let watch = async {
        loop {
            progress.set_position(2 * (cycles - left.load(Ordering::Relaxed)));
            peak.fetch_max(size_on_disk(&server).unwrap_or(0), Ordering::Relaxed);
            sleep(LOOK_EVERY).await;
        }
    };
    let begun = tick();
    let ran = tokio::select! {
        ran = drive(&server.target, clients, Window::open(begun, lab.time_limit())) => ran?,
        never = watch => never,
    };
    let took = (tick() - begun).as_secs_f64();
    let mut outcome = Outcome::new("churn", connections, &server.version);
    outcome.disk = probes.summary();
    outcome.seconds = took;
    let done = 2 * ran.tally.units;
    outcome.figure("changes", done as f64);
    outcome.figure("changes_per_s", done as f64 / took);
    outcome.figure("keys", (batches * size * connections as u64) as f64);
    outcome.latency("latency", ran.tally.latencies.summary());
    outcome.faults = ran.tally.faults;
    outcome.figure("store_peak_bytes", peak.into_inner() as f64);
    sleep(SETTLE).await;
    sizes(&server, &mut outcome).await?;
    Ok(outcome)
}

fn size_on_disk(server: &Server) -> Option<u64> {
    server.data_dir().map(|directory| disk_usage(&directory))
}

/// The store's size by its directory and by the server's own gauges, and what of it is alive.
async fn sizes(server: &Server, outcome: &mut Outcome) -> Result<()> {
    let scrape = server.scrape().await?;
    let live = scrape.sum("tenure_store_live_bytes", &[]);
    let log = scrape.sum("tenure_store_log_bytes", &[]);
    let on_disk = size_on_disk(server).map(|bytes| bytes as f64);
    outcome.figure_if("store_bytes", on_disk);
    outcome.figure_if("store_log_bytes", log);
    outcome.figure_if("store_live_bytes", live);
    if let (Some(live), Some(whole)) = (live.filter(|it| *it > 0.0), on_disk.or(log)) {
        outcome.figure("store_to_live_ratio", whole / live);
    }
    Ok(())
}
