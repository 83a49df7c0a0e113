//! `load`: a closed-loop load tool for a tenure coordinator.
//!
//! Guarantees
//! - Every figure is printed together with what it depends on: the disk's regime just before, the
//!   rate of a bare echo handler in the same minutes (`--echo`), connections, rounds, seconds.
//! - What is compared with others takes turns with them, on as many connections (`load/turns.rs`).
//! - Unless `--server` names one, each workload gets a coordinator of its own, with default settings
//!   and an empty store, which is ended afterwards.
//! - An answer that the workload does not expect is counted, shown, and makes the exit code 1.
//! - Everything is bounded in time; load goes to the loopback interface only.
//!
//! Does not guarantee
//! - That a rate is the server's limit when other programs share the cores: hence the echo ratio.
//! - A clean store on a server named by `--server`: leases are given back, keys stay known.
//!
//! Assumes
//! - Enough open files for the connections (two per connection), and free space below `--data-root`.
//!
//! The tool runs on one thread, with one task per connection. It shares its cores with the server:
//! what it does not use, the server can.

mod args;
mod compared;
mod endpoint;
mod http;
mod lab;
mod load;
mod redis;
mod report;
mod server;
mod stopwatch;
mod stream;
mod units;
mod workload;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser as _, ValueEnum as _};
use tokio::signal::unix::{SignalKind, signal};

use args::{Args, Format};
use lab::Lab;
use workload::Workload;

/// The allocator of the `tenure` program: the echo handler has to run under the same conditions.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The exit code of a run that was interrupted: 128 + SIGINT, as shells count.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    run(Args::parse()).unwrap_or_else(|error| {
        eprintln!("load: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(args: Args) -> Result<ExitCode> {
    if let Some(directory) = &args.echo_server {
        return server::serve(directory);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        // Dropping the unfinished future ends the children and removes the scratch directories.
        tokio::select! {
            result = measure_all(args) => result,
            _ = interrupt.recv() => Ok(ExitCode::from(INTERRUPTED)),
            _ = terminate.recv() => Ok(ExitCode::from(INTERRUPTED)),
        }
    })
}

async fn measure_all(args: Args) -> Result<ExitCode> {
    let mut workloads = args.workload.clone();
    if workloads.contains(&Workload::All) {
        workloads = Workload::value_variants().to_vec();
        workloads.retain(|it| *it != Workload::All && !it.has_peers());
    }
    let wants_echo = args.echo || workloads.iter().any(|it| it.needs_echo());
    let lab = Lab::new(args, wants_echo).await?;
    let (mut faults, mut compared) = (0, Vec::new());
    for workload in workloads {
        let connections = match lab.args.connections.as_slice() {
            [] => workload.default_connections().to_vec(),
            given => given.to_vec(),
        };
        for count in connections {
            if std::io::stderr().is_terminal() {
                eprintln!("measuring {workload} with {count} connections");
            }
            let outcome = workload
                .measure(&lab, count.max(1))
                .await
                .with_context(|| format!("{workload} with {count} connections"))?;
            faults += outcome.faults.count;
            outcome.print(lab.args.output)?;
            compared.extend(outcome.compared);
        }
    }
    if lab.args.output == Format::Table && !compared.is_empty() {
        print!("{}", compared::table(&compared));
    }
    Ok(if faults > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
