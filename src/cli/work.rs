//! `tenure work`: runs one program for each lease that this member of a pool holds.

use std::{ffi::OsString, io::Read as _, sync::Arc, time::Duration};

use clap::{ArgGroup, Args, ValueEnum};
use serde::Serialize;

use super::{Context, Exit, Failure, args, output::log};
use crate::{
    client::{LeaseFilter, WorkerPool},
    clock::{Clock as _, SystemClock, rfc3339},
    lease::reports::MAX_LOAD,
    worker::{
        fits,
        outage::warn,
        restart::Restart,
        usual_grace,
        work::{Event, Work, WorkFailure},
    },
};

/// The highest number of keys that can be named: the size of a batch.
const MOST_KEYS: usize = 10_000;

/// Join a pool, and run a program for each lease that this member holds.
///
/// The environment of each program contains TENURE_KEY, TENURE_TOKEN, TENURE_OWNER, TENURE_TTL_MS, TENURE_SERVER and
/// TENURE_LEASE_FILE. TENURE_VALUE is the value that the previous owner left, if any. The next owner, on whatever
/// machine, gets the content of the file TENURE_VALUE_FILE as TENURE_VALUE.
///
/// On SIGTERM or SIGINT, all programs are told to end, each key is handed over as its program ends, and the command
/// exits with 0. A second signal kills the programs that still run. If the pool has a rejoin window and this member has
/// an --owner, the keys are not handed over but kept for that time for the next member with this owner.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("which").args(["prefix", "keys", "keys_from"])))]
pub struct WorkArgs {
    /// Pool to join
    #[arg(long)]
    pool: String,
    /// Only keys with this prefix that are known at the start
    #[arg(long)]
    prefix: Option<String>,
    /// Only these keys, known or not, separated by commas; repeatable
    #[arg(long, value_name = "KEYS", value_delimiter = ',', value_parser = args::name)]
    keys: Vec<String>,
    /// Only the keys in this file, one per line, without empty lines and lines that begin with `#`; `-` is standard input
    #[arg(long, value_name = "FILE")]
    keys_from: Option<String>,
    /// Maximum number of programs at once
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    capacity: Option<u32>,
    /// Owner of the leases [default: HOSTNAME:PID#RANDOM]
    #[arg(long, env = "TENURE_OWNER")]
    owner: Option<String>,
    /// Version of the program: during an upgrade, keys that come free go to the members with the newest version
    #[arg(long, value_name = "VERSION", env = "TENURE_WORK_VERSION")]
    runs_version: Option<String>,
    /// Where this member serves its keys, such as `10.0.0.7:8080`; routers are told it
    #[arg(long, value_name = "ADDRESS", env = "TENURE_WORK_ADDRESS")]
    address: Option<String>,
    /// Label of this member, such as `gpu=true`; repeatable. Policies say by labels which members may have their keys
    #[arg(long, value_name = "NAME=VALUE", value_parser = args::label)]
    label: Vec<(String, String)>,
    /// Where this member runs: the same as `--label zone=ZONE`
    #[arg(long, env = "TENURE_WORK_ZONE")]
    zone: Option<String>,
    /// Load that is reported for each key of a pool with `balance = "load"`
    #[arg(long, value_enum, value_name = "MEASURE")]
    load: Option<Measure>,
    /// Highest load that this member accepts: no key beyond it
    #[arg(long, value_name = "LOAD", value_parser = load)]
    load_limit: Option<f64>,
    /// On SIGTERM or SIGINT, hand the keys to other members even if the pool would keep them for this owner
    #[arg(long)]
    drain: bool,
    /// Weight of this member: its share of the pool's keys, relative to the weights of other members
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    weight: u32,
    /// How long the leases last without a heartbeat
    #[arg(long, value_parser = args::duration, default_value = "15s")]
    ttl: Duration,
    /// Time between SIGTERM and SIGKILL when a program is stopped [default: 5s, or what fits into the ttl]
    #[arg(long, value_parser = args::duration)]
    grace: Option<Duration>,
    /// Which programs are started again after they end
    #[arg(long, value_enum, default_value_t = When::Always)]
    restart: When,
    /// Program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Measure {
    /// CPU time of the program and its descendants, in cores
    Cpu,
}

/// Reads a load.
fn load(text: &str) -> Result<f64, String> {
    let load = text.parse().ok().filter(|load| (0.0..=MAX_LOAD).contains(load));
    load.ok_or_else(|| format!("must be a number from 0 to {MAX_LOAD}"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum When {
    /// All programs
    Always,
    /// Programs that failed; the key of one that succeeded stays held and idle
    OnFailure,
    /// None; the key of a program that failed is given back, the key of one that succeeded stays held and idle
    Never,
}

impl From<When> for Restart {
    fn from(when: When) -> Self {
        match when {
            When::Always => Self::Always,
            When::OnFailure => Self::OnFailure,
            When::Never => Self::Never,
        }
    }
}

impl WorkArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let grace = self.grace.unwrap_or_else(|| usual_grace(self.ttl));
        fits(self.ttl, grace).map_err(Failure::Usage)?;
        let keys = self.keys(context).await?;
        tokio::spawn(warn(context.client.clone(), (self.ttl, grace), "--grace", log));
        let pool = WorkerPool::new(context.client.clone(), self.pool.as_str())
            .owner(self.owner.clone().unwrap_or_else(args::default_owner))
            .weight(self.weight)
            .ttl(self.ttl)
            .keys(keys);
        let pool = match self.capacity {
            Some(capacity) => pool.capacity(usize::try_from(capacity).unwrap_or(usize::MAX)),
            None => pool,
        };
        let pool = self.runs_version.iter().fold(pool, WorkerPool::version);
        let pool = self.address.iter().fold(pool, WorkerPool::address);
        let labels = self.label.into_iter();
        let pool = labels.fold(pool, |pool, (name, value)| pool.label(name, value));
        let pool = self.zone.into_iter().fold(pool, WorkerPool::zone);
        let pool = self.load_limit.into_iter().fold(pool, WorkerPool::load_limit);
        let as_json = context.output.format.is_json();
        let work = Work {
            pool,
            servers: context.client.environment().to_vec(),
            grace,
            restart: self.restart.into(),
            // A name that another process would not have says nothing about who comes back.
            returns: self.owner.is_some() && !self.drain,
            reports_cpu: self.load == Some(Measure::Cpu),
            command: self.command,
            talk: Arc::new(move |event| say(event, as_json)),
        };
        match work.run().await {
            Ok(()) => Ok(Exit::Done),
            Err(WorkFailure::Client(error)) => Err(error.into()),
            Err(failure) => Err(anyhow::Error::from(failure).into()),
        }
    }

    async fn keys(&self, context: &Context) -> Result<Vec<String>, Failure> {
        let keys = match (&self.prefix, &self.keys_from) {
            (Some(prefix), _) => known(context, prefix).await?,
            (_, Some(file)) => lines(file)?,
            _ => return Ok(self.keys.clone()),
        };
        if keys.is_empty() || keys.len() > MOST_KEYS {
            let found = keys.len();
            return Err(Failure::Usage(format!("name 1 to {MOST_KEYS} keys, not {found}")));
        }
        Ok(keys)
    }
}

/// The keys with this prefix that the server knows.
async fn known(context: &Context, prefix: &str) -> Result<Vec<String>, Failure> {
    let mut filter = LeaseFilter { prefix: Some(prefix.to_owned()), ..LeaseFilter::default() };
    let mut keys = Vec::new();
    loop {
        let page = context.client.leases(&filter).await?;
        keys.extend(page.leases.into_iter().map(|lease| lease.key));
        filter.after = page.next;
        if filter.after.is_none() || keys.len() > MOST_KEYS {
            return Ok(keys);
        }
    }
}

/// The names in a file.
fn lines(file: &str) -> Result<Vec<String>, Failure> {
    let mut text = String::new();
    let read = match file {
        "-" => std::io::stdin().read_to_string(&mut text),
        file => std::fs::File::open(file).and_then(|mut file| file.read_to_string(&mut text)),
    };
    read.map_err(|error| Failure::Usage(format!("cannot read the keys from {file}: {error}")))?;
    Ok(args::names(&text))
}

/// An event as `--output json` writes it.
#[derive(Serialize)]
struct Timed<'a> {
    time: String,
    #[serde(flatten)]
    event: &'a Event,
}

/// Writes an event to standard error: standard output belongs to the programs.
fn say(event: &Event, as_json: bool) {
    let time = rfc3339(SystemClock::new().wall_ms());
    match serde_json::to_string(&Timed { time, event }) {
        Ok(line) if as_json => {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr().lock(), "{line}");
        }
        _ => log(&event.to_string()),
    }
}
