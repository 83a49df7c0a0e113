//! `tenure cron`: run a program once for each slot of a schedule.

use std::{process::ExitCode, time::Duration};

use clap::{ArgGroup, Args, ValueEnum};

use super::{
    Context, Failure, args,
    output::log,
    run::{HeldProgram, signalled},
};
use crate::worker::{
    cron::{self, CronFailure, Job, Missed, Schedule},
    outage::warn,
};

/// Run a program once for each slot of a schedule, on one of several hosts.
///
/// Start the same command on several hosts: at each slot, one of them runs the program while it holds the lease of the
/// key. A slot is never begun twice, and two runs never overlap. The coordinator's clock decides when a slot begins.
///
/// The environment of the program contains TENURE_SLOT (the slot, in UTC), TENURE_LAST_RUN (the last run, as JSON), and
/// what `tenure run` gives: TENURE_VALUE is what the last run wrote into the file TENURE_VALUE_FILE. The value of the
/// key says which slot began last and how it ended: `tenure get KEY`.
///
/// A pattern has five fields: minute, hour, day of the month, month, day of the week. When clocks are set forward, a
/// time that is left out comes at that moment. When they are set back, a time that comes twice is a slot once, unless
/// the hour field begins with `*`.
///
/// Runs until SIGTERM, SIGINT, SIGHUP or SIGQUIT, and passes signals on to the program.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("slots").required(true).args(["schedule", "every"])))]
pub struct CronArgs {
    /// Key of the lease that stands for the schedule, the same on all hosts
    #[arg(long)]
    key: String,
    /// Minutes at which to run the program, such as '30 2 * * mon-fri'
    #[arg(long, value_name = "PATTERN")]
    schedule: Option<String>,
    /// Run the program at every multiple of this duration since 1970, in UTC
    #[arg(long, value_parser = args::duration)]
    every: Option<Duration>,
    /// With --schedule: time zone of the pattern, such as Europe/Berlin
    #[arg(long, value_name = "ZONE", default_value = "UTC", conflicts_with = "every")]
    timezone: String,
    /// What to do about slots at which no host could run the program
    #[arg(long, value_enum, value_name = "RULE", default_value = "last")]
    missed: MissedArg,
    /// With --missed skip: how late a run may begin
    #[arg(long, value_parser = args::duration, default_value = "1m")]
    late: Duration,
    #[command(flatten)]
    held: HeldProgram,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum MissedArg {
    /// Run the latest missed slot, and none before it
    Last,
    /// Run no slot that is over
    Skip,
    /// Run each missed slot, in order
    All,
}

impl CronArgs {
    pub(super) async fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let grace = self.held.grace()?;
        tokio::spawn(warn(context.client.clone(), (self.held.ttl, grace), "--grace", log));
        let job = Job {
            client: context.client.clone(),
            schedule: self.slots()?,
            key: self.key,
            owner: self.held.owner(),
            ttl: self.held.ttl,
            grace,
            missed: match self.missed {
                MissedArg::Last => Missed::Last,
                MissedArg::Skip => Missed::Skip,
                MissedArg::All => Missed::All,
            },
            late: self.late,
            command: self.held.command,
        };
        match cron::run(job, log).await {
            Ok(signal) => Ok(signalled(signal.as_raw())),
            Err(CronFailure::Client(error)) => Err(error.into()),
            Err(CronFailure::Foreign(why)) => Err(Failure::Usage(why)),
            Err(failure) => Err(anyhow::Error::from(failure).into()),
        }
    }

    fn slots(&self) -> Result<Schedule, Failure> {
        let (name, slots) = match (&self.schedule, self.every) {
            (_, Some(span)) => ("every", Schedule::every(span)),
            (pattern, None) => {
                ("schedule", Schedule::cron(pattern.as_deref().unwrap_or_default(), &self.timezone))
            }
        };
        slots.map_err(|why| Failure::Usage(format!("--{name} {why}")))
    }
}
