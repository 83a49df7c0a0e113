//! `echo` and `durable-echo`: the yardsticks alone.

use anyhow::{Context as _, Result};

use super::acquire;
use crate::lab::Lab;
use crate::load::{Lane, interleaved};
use crate::report::Outcome;
use crate::server::{Echo, Told};

/// Runs a yardstick as a workload of its own.
pub async fn measure(lab: &Lab, connections: usize, echo: Echo) -> Result<Outcome> {
    let target = lab.yardstick().context("the echo server was not started")?;
    let work = |index, lane| ask(index, lane, echo);
    let rounds = interleaved(lab, target, connections, work).await?;
    let name = match echo {
        Echo::Plain => "echo",
        Echo::Durable => "durable-echo",
    };
    let outcome = Outcome::new(name, connections, env!("CARGO_PKG_VERSION"));
    Ok(outcome.of_rounds(rounds, "echoes_per_s"))
}

/// The connection `index` that asks an echo handler.
pub async fn ask(index: usize, mut lane: Lane, echo: Echo) {
    let owner = format!("bench-{index}");
    let mut count = 0;
    while lane.is_open() {
        count += 1;
        let body = acquire(format!("bench/{index}/{}", count % 16), &owner, 60_000);
        if let Some(told) = lane.post::<Told>(echo.path(), &body).await {
            lane.judge(told.token == 1, 1, "an echo of another form");
        }
    }
}
