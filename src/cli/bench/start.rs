//! `start`: how long a coordinator takes to be ready on a full store, after an orderly end and
//! after a crash.

use anyhow::{Result, ensure};

use super::disk::Probes;
use super::hold::hold;
use super::lab::Lab;
use super::report::Outcome;
use super::server::{Ending, disk_usage};
use super::tick::nonce;

/// Records, unless told otherwise.
const RECORDS: u64 = 1_000_000;

/// Runs the workload.
pub async fn measure(lab: &mut Lab, connections: usize) -> Result<Outcome> {
    ensure!(lab.args.globals.server.is_none(), "start needs a server that bench itself starts");
    let mut server = lab.server().await?;
    let scratch = lab.scratch()?;
    let mut probes = Probes::new();
    probes.probe(scratch.path())?;
    let prefix = format!("bench/{}", nonce());
    let total = lab.args.count.unwrap_or(RECORDS);
    let holding = hold(lab, &server, &prefix, total, false).await?;
    let mut outcome = Outcome::new("start", connections, &server.version);
    outcome.disk = probes.summary();
    outcome.seconds = holding.took.as_secs_f64();
    outcome.figure("records", holding.granted as f64);
    let on_disk = server.data_dir().map(|directory| disk_usage(&directory) as f64);
    outcome.figure_if("store_bytes", on_disk);
    // The crash comes first: an orderly end may leave a store that is easier to open.
    for (ending, names) in [
        (Ending::Killed, ("after_kill_ready_s", "after_kill_resident_bytes")),
        (Ending::Asked, ("after_term_ready_s", "after_term_resident_bytes")),
    ] {
        let (ended_in, ready_in) = server.restart(ending).await?;
        outcome.figure(names.0, ready_in.as_secs_f64());
        outcome.figure(names.1, server.resident_bytes().await?);
        if ending == Ending::Asked {
            outcome.figure("term_to_end_s", ended_in.as_secs_f64());
        }
        let held = server.scrape().await?.sum("tenure_leases_held", &[]);
        if let Some(held) = held.filter(|held| (*held - holding.granted as f64).abs() > 0.5) {
            outcome.faults.add(|| {
                format!(
                    "{held} leases held after a restart that followed {} grants",
                    holding.granted
                )
            });
        }
    }
    outcome.faults.merge(holding.faults);
    Ok(outcome)
}
