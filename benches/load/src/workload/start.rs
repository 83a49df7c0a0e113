//! `start`: how long a coordinator takes to be ready on a full store, after an orderly end and
//! after a crash.

use anyhow::{Result, ensure};

use super::hold::hold;
use crate::lab::Lab;
use crate::load::Probes;
use crate::report::Outcome;
use crate::server::Ending;
use crate::stopwatch::key_prefix;

/// Records, unless told otherwise.
const RECORDS: u64 = 1_000_000;

/// Runs the workload.
pub async fn measure(lab: &Lab, connections: usize) -> Result<Outcome> {
    ensure!(lab.args.server.is_none(), "start needs a server that the tool itself starts");
    let mut server = lab.server().await?;
    let disk = Probes::once(lab.scratch()?.path())?;
    let total = lab.args.count.unwrap_or(RECORDS);
    let holding = hold(lab, &server, &key_prefix(), total, false).await?;
    let granted = holding.granted as f64;
    let mut outcome = Outcome::new("start", connections, &server.version);
    outcome.disk = disk;
    outcome.seconds = holding.took.as_secs_f64();
    outcome.figure("records", granted);
    outcome.figure_if("store_bytes", server.store_bytes());
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
        let held = server.scrape().await?.sum("tenure_leases_held", "");
        if let Some(held) = held.filter(|held| (*held - granted).abs() > 0.5) {
            let told = format!("{held} leases held after a restart that followed {granted} grants");
            outcome.faults.add(|| told);
        }
    }
    outcome.faults.merge(holding.faults);
    Ok(outcome)
}
