//! `tenure run` and `tenure lock`: run one program under one lease.

use std::{ffi::OsString, process::ExitCode, time::Duration};

use clap::{ArgGroup, Args};

use super::{Context, Exit, Failure, args, exit::advised, output::log};
use crate::{
    client::Hold,
    worker::{
        fits,
        guardian::RunError,
        outage::warn,
        run::{Run, RunFailure, RunOutcome},
        usual_grace,
    },
};

/// The most programs that run at a time under one lock: an acquire names each key.
const MOST_SLOTS: i64 = 1000;

/// Run a program while a lease is held, and stop it before the guarantee of the lease ends.
///
/// The environment of the program contains TENURE_KEY, TENURE_TOKEN, TENURE_OWNER, TENURE_TTL_MS, TENURE_SERVER and
/// TENURE_LEASE_FILE. TENURE_VALUE is the value that the previous owner left, if any. The next owner gets the content
/// of the file TENURE_VALUE_FILE. This command passes signals on to the program.
///
/// Exits with the program's own exit code (128 + n if signal n ended it), with 73 if the lease was not acquired, and
/// with 74 if it was lost while the program ran.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).args(["key", "any", "pool"])))]
pub struct RunArgs {
    /// Key of the lease
    #[arg(long)]
    key: Option<String>,
    /// Any of these keys, separated by commas; repeatable
    #[arg(long, value_name = "KEYS", value_delimiter = ',', value_parser = args::name)]
    any: Vec<String>,
    /// Any known key of this pool
    #[arg(long)]
    pool: Option<String>,
    /// With --key: value to store with the lease; the next owner can read it
    #[arg(long, conflicts_with_all = ["any", "pool"])]
    value: Option<String>,
    /// With --key: for how long from the grant nobody else is granted the lease, even if the program ends earlier [default: 0s]
    #[arg(long, value_name = "DURATION", value_parser = args::duration, conflicts_with_all = ["any", "pool"])]
    min_hold: Option<Duration>,
    #[command(flatten)]
    terms: Terms,
}

/// Run a program while a lock is held: `tenure run`, with the key in front.
///
/// With --slots N, up to N programs run at a time: each holds one of KEY/1 to KEY/N. See `tenure run` for the
/// environment of the program and the exit codes. Without --wait, the command ends at once if the lock is held.
#[derive(Clone, Debug, Args)]
pub struct LockArgs {
    /// Key of the lock
    key: String,
    /// Hold any of KEY/1 to KEY/N, so that up to N programs run at a time
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_SLOTS))]
    slots: Option<u32>,
    /// Value to store with the lease; the next owner can read it
    #[arg(long, conflicts_with = "slots")]
    value: Option<String>,
    /// For how long from the grant nobody else is granted the lock, even if the program ends earlier [default: 0s]
    #[arg(long, value_name = "DURATION", value_parser = args::duration, conflicts_with = "slots")]
    min_hold: Option<Duration>,
    #[command(flatten)]
    terms: Terms,
}

/// On which terms the program runs.
#[derive(Clone, Debug, Args)]
struct Terms {
    #[command(flatten)]
    held: HeldProgram,
    /// How long to wait for the lease: a duration or `forever` [default: do not wait]
    #[arg(long, value_parser = args::wait)]
    wait: Option<Duration>,
}

/// A program that runs while a lease is held, and that lease.
#[derive(Clone, Debug, Args)]
pub(super) struct HeldProgram {
    /// Owner of the lease [default: HOSTNAME:PID#RANDOM]
    #[arg(long, env = "TENURE_OWNER")]
    owner: Option<String>,
    /// How long the lease lasts without a heartbeat
    #[arg(long, value_parser = args::duration, default_value = "15s")]
    pub(super) ttl: Duration,
    /// Time between SIGTERM and SIGKILL if the lease is lost [default: 5s, or what fits into the ttl]
    #[arg(long, value_parser = args::duration)]
    grace: Option<Duration>,
    /// Program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

impl HeldProgram {
    pub(super) fn owner(&self) -> String {
        self.owner.clone().unwrap_or_else(args::default_owner)
    }

    /// The time between SIGTERM and SIGKILL, which must fit into the ttl.
    pub(super) fn grace(&self) -> Result<Duration, Failure> {
        let grace = self.grace.unwrap_or_else(|| usual_grace(self.ttl));
        fits(self.ttl, grace).map_err(Failure::Usage)?;
        Ok(grace)
    }
}

impl From<LockArgs> for RunArgs {
    fn from(lock: LockArgs) -> Self {
        let LockArgs { key, slots, value, min_hold, terms } = lock;
        let any = (1..=slots.unwrap_or(0)).map(|slot| format!("{key}/{slot}")).collect();
        Self { key: slots.is_none().then_some(key), any, pool: None, value, min_hold, terms }
    }
}

impl RunArgs {
    pub(super) async fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let grace = self.terms.held.grace()?;
        tokio::spawn(warn(context.client.clone(), (self.terms.held.ttl, grace), "--grace", log));
        let run = Run {
            client: context.client.clone(),
            hold: self.hold(),
            inherits: self.value.is_none(),
            grace,
            command: self.terms.held.command,
        };
        match run.run(log).await {
            Ok(RunOutcome::Ended(exit)) => Ok(exit.number().into()),
            Ok(RunOutcome::Lost(_)) => Ok(Exit::Lost.into()),
            Ok(RunOutcome::Signalled(signal)) => Ok(signalled(signal.as_raw())),
            Err(RunFailure::Client(error)) => {
                let advice =
                    "--wait waits for the end of that lease, and another --owner is another holder";
                Err(advised(error, advice).into())
            }
            Err(RunFailure::Start(RunError::TooLate)) => {
                log("the lease was about to end before the program could be started");
                Ok(Exit::Lost.into())
            }
            Err(failure) => Err(anyhow::Error::from(failure).into()),
        }
    }

    fn hold(&self) -> Hold {
        let hold = match (&self.key, &self.pool) {
            (Some(key), _) => Hold::key(key),
            (_, Some(pool)) => Hold::pool(pool),
            _ => Hold::any(self.any.iter()),
        };
        let Terms { held, wait } = &self.terms;
        let hold =
            hold.owner(held.owner()).ttl(held.ttl).wait(wait.unwrap_or_default()).outwait_own(true);
        let hold = hold.min_hold(self.min_hold.unwrap_or_default());
        match &self.value {
            Some(value) => hold.value(value),
            None => hold,
        }
    }
}

/// The exit code that shells report for a process that a signal ended.
pub(super) fn signalled(signal: i32) -> ExitCode {
    u8::try_from(128 + signal).unwrap_or(255).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_a_run_of_its_key_or_of_one_of_its_slots() {
        let (ttl, command) = (Duration::from_secs(15), vec!["true".into()]);
        let held = HeldProgram { owner: None, ttl, grace: None, command };
        let terms = Terms { held, wait: None };
        let run = |slots| {
            let lock = LockArgs {
                key: "k".into(),
                slots,
                value: None,
                min_hold: None,
                terms: terms.clone(),
            };
            let run = RunArgs::from(lock);
            (run.key, run.any)
        };
        assert_eq!(run(None), (Some("k".into()), Vec::new()));
        assert_eq!(run(Some(2)), (None, vec!["k/1".to_owned(), "k/2".to_owned()]));
    }
}
