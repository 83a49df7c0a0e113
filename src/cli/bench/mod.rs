//! `tenure bench`: a closed-loop load tool.
//!
//! Guarantees
//! - Every figure is printed together with what it depends on: the disk's regime just before, the
//!   rate of a bare echo handler in the same minutes (`--echo`), connections, rounds, seconds.
//! - Unless `--server` names one, each workload gets a coordinator of its own, with default settings
//!   and an empty store, started from this very binary and ended afterwards.
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
//! One current-thread runtime, one task per connection, a hand-written HTTP client ([`wire`]): the
//! tool shares its cores with the server, so what it does not use, the server can.

mod acquire_release;
mod batch;
mod child;
mod churn;
mod contended;
mod disk;
mod drive;
mod echo;
mod expiry;
mod fanout;
mod heartbeat;
mod held;
mod hold;
mod json;
mod lab;
#[cfg(feature = "nats")]
mod raw_nats;
#[cfg(not(feature = "nats"))]
mod raw_nats {
    pub async fn rate(_: &str, _: usize, _: std::time::Duration) -> anyhow::Result<f64> {
        anyhow::bail!("--raw-nats needs a build with the Cargo feature `nats`")
    }
}
mod report;
mod rounds;
mod scrape;
mod server;
mod sessions;
mod sse;
mod start;
mod tally;
mod tick;
mod wire;
#[cfg(test)]
mod wire_test;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use super::Format;
use lab::Lab;

/// The exit code of a run that was interrupted: 128 + SIGINT, as shells count.
const INTERRUPTED: u8 = 130;

/// Measure a coordinator under load
#[derive(Args, Clone, Debug)]
#[command(after_help = "Bench starts a coordinator of its own unless --server is written on this \
    command line: neither its default nor TENURE_SERVER counts here.")]
pub struct BenchArgs {
    /// What to measure; `all` includes the long ones (held, start, churn)
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        default_values = ["acquire-release", "acquire-release-batch", "heartbeat", "heartbeat-batch", "contended"]
    )]
    pub workload: Vec<Workload>,
    /// The global options that matter here
    #[command(flatten)]
    pub globals: Globals,
    /// Where the temporary stores live: disks differ. Default: ./target if it exists, else the
    /// system's temporary directory
    #[arg(long, value_name = "DIR")]
    pub data_root: Option<PathBuf>,
    /// Interleave each workload with a bare echo handler, and report the share of its rate
    #[arg(long)]
    pub echo: bool,
    /// Interleave each timed workload with bare compare-and-set publishes to this NATS server, and report
    /// the share of their rate
    #[arg(long, value_name = "URL")]
    pub raw_nats: Option<String>,
    /// How often a timed workload is measured; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// How long each round of a timed workload lasts
    #[arg(long, default_value_t = 4.0, value_parser = seconds)]
    pub seconds: f64,
    /// Connections (for fanout: subscribers), one run for each number given
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub connections: Vec<usize>,
    /// How many leases (heartbeat, held, expiry, start; sessions: of the one that ends) or ownership
    /// changes (fanout, churn)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub count: Option<u64>,
    /// How many distinct keys (acquire-release, contended, churn), or sessions (sessions)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub keys: Option<u64>,
    /// Leases per request where a workload works in batches, or per session (sessions)
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub batch: u32,
    /// The longest time that one counted phase may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 900.0, value_parser = seconds)]
    pub time_limit: f64,
    /// A setting for the coordinator that is started, as in `serve --set`
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    pub set: Vec<String>,
    /// Serve the yardstick itself (what `--echo` starts)
    #[arg(long, hide = true)]
    pub echo_server: bool,
}

/// What bench takes from the global options.
///
/// `--server` counts only when it is written on the command line: neither its default nor
/// `TENURE_SERVER` may bring load onto a coordinator that others work with.
#[derive(Clone, Debug)]
pub struct Globals {
    /// The coordinator to measure; `None`: start one.
    pub server: Option<String>,
    /// A block for people per workload, or one JSON object per workload and line.
    pub format: Format,
}

impl FromArgMatches for Globals {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let written = matches.try_contains_id("server").unwrap_or(false)
            && matches.value_source("server") == Some(ValueSource::CommandLine);
        let server = matches.try_get_one::<String>("server").unwrap_or(None);
        let format = matches.try_get_one::<Format>("output").unwrap_or(None);
        Ok(Self {
            server: server.filter(|_| written).cloned(),
            format: format.copied().unwrap_or(Format::Table),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Globals {
    fn augment_args(command: clap::Command) -> clap::Command {
        command
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command
    }
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Acquire and release distinct keys, one per request.
    AcquireRelease,
    /// Acquire and release distinct keys, a batch per request.
    AcquireReleaseBatch,
    /// Heartbeats of held leases, one per request.
    Heartbeat,
    /// Heartbeats of held leases, a batch per request.
    HeartbeatBatch,
    /// Many clients queue for few keys.
    Contended,
    /// Memory of very many held leases.
    Held,
    /// Many leases under few sessions: heartbeats, memory, and a session that ends.
    Sessions,
    /// Leases that expire at one instant.
    Expiry,
    /// Leases whose ends are spread over one second.
    ExpirySpread,
    /// Ownership changes to many event subscribers.
    Fanout,
    /// Time from start to ready with a full store.
    Start,
    /// Size of the store after very many changes.
    Churn,
    /// The bare echo handler alone.
    Echo,
    /// All of these.
    All,
}

impl Workload {
    /// The name on the command line and in the results.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// The connections that it is measured with unless told otherwise.
    fn default_connections(self) -> &'static [usize] {
        match self {
            Self::AcquireRelease => &[64, 512],
            Self::Heartbeat | Self::Contended | Self::Echo | Self::Sessions => &[64],
            Self::Fanout => &[100],
            _ => &[4],
        }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.1..=86_400.0).contains(&value) => Ok(value),
        _ => Err("a number of seconds between 0.1 and 86400".to_owned()),
    }
}

/// Runs the load tool.
///
/// # Errors
/// When a server cannot be started or reached, or a phase does not end in its time.
pub fn run(args: BenchArgs) -> Result<ExitCode> {
    if args.echo_server {
        return echo::serve();
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

async fn measure_all(args: BenchArgs) -> Result<ExitCode> {
    let workloads = match args.workload.contains(&Workload::All) {
        true => {
            Workload::value_variants().iter().copied().filter(|it| *it != Workload::All).collect()
        }
        false => args.workload.clone(),
    };
    let wants_echo = args.echo || workloads.contains(&Workload::Echo);
    let mut lab = Lab::new(args, wants_echo).await?;
    let mut faults = 0;
    for workload in workloads {
        let connections = match lab.args.connections.as_slice() {
            [] => workload.default_connections().to_vec(),
            given => given.to_vec(),
        };
        for count in connections {
            let outcome = measure(&mut lab, workload, count.max(1))
                .await
                .with_context(|| format!("{} with {count} connections", workload.name()))?;
            faults += outcome.faults.count;
            lab.quiet();
            outcome.print(lab.args.globals.format)?;
        }
    }
    Ok(if faults > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn measure(lab: &mut Lab, workload: Workload, connections: usize) -> Result<report::Outcome> {
    match workload {
        Workload::AcquireRelease => acquire_release::measure(lab, connections).await,
        Workload::AcquireReleaseBatch => batch::measure(lab, connections).await,
        Workload::Heartbeat => heartbeat::measure(lab, connections, 1).await,
        Workload::HeartbeatBatch => {
            let leases = lab.args.batch as usize;
            heartbeat::measure(lab, connections, leases).await
        }
        Workload::Contended => contended::measure(lab, connections).await,
        Workload::Sessions => sessions::measure(lab, connections).await,
        Workload::Held => held::measure(lab, connections).await,
        Workload::Expiry => expiry::measure(lab, connections, expiry::Ends::AtOnce).await,
        Workload::ExpirySpread => expiry::measure(lab, connections, expiry::Ends::Spread).await,
        Workload::Fanout => fanout::measure(lab, connections).await,
        Workload::Start => start::measure(lab, connections).await,
        Workload::Echo => echo::measure(lab, connections).await,
        Workload::Churn | Workload::All => churn::measure(lab, connections).await,
    }
}
