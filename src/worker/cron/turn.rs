//! One turn of one host: it takes the lease of the key, and runs the program of the slot that is due.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use rustix::process::Signal;
use tokio::{sync::mpsc, time::sleep};

use super::{
    due::Due,
    job::{CronFailure, Job},
    record::Record,
    wall::Wall,
};
use crate::{
    client::{ClientError, Hold, Lease},
    worker::{
        PrivateDir, Tenancy,
        guardian::{Guardian, RunError, Task},
        run::{RunFailure, RunOutcome, supervise},
        signals,
    },
};

/// The exit code that shells report for a program that was killed.
const KILLED: u8 = 128 + 9;

/// The pause before a write is sent again.
const AGAIN: Duration = Duration::from_millis(250);

/// What a host knows of the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Every slot up to this one is over.
    pub last: Option<u64>,
    /// Whether a program runs.
    pub runs: bool,
}

/// What came of a turn.
#[derive(Debug)]
pub enum Turned {
    /// This host had the lease, and knows this now.
    Known(Looked),
    /// Another host has the lease.
    Taken(Looked),
    /// A signal asked this process to end.
    Signalled(Signal),
}

impl Job {
    /// Takes the lease if nobody has it, and runs what is due then. This host believes that `slot` is.
    pub(super) async fn turn(
        &self,
        slot: u64,
        wall: &mut Wall,
        signals: &mut mpsc::Receiver<Signal>,
        talk: &impl Fn(&str),
    ) -> Result<Turned, CronFailure> {
        // Most hosts find that another one was faster. A look costs the store nothing.
        let looked = tokio::select! {
            looked = self.look() => looked?,
            Some(signal) = ending(signals) => return Ok(Turned::Signalled(signal)),
        };
        let is_over = |looked: Looked| looked.last.is_some_and(|last| last >= slot);
        // Only a grant says what the coordinator's clock reads.
        let hears = wall.is_old();
        if is_over(looked) && !hears {
            return Ok(Turned::Known(looked));
        }
        if looked.runs {
            return Ok(Turned::Taken(looked));
        }
        let hold = Hold::key(&self.key).owner(&self.owner).ttl(self.ttl);
        let lease = tokio::select! {
            lease = self.client.hold(hold) => lease,
            Some(signal) = ending(signals) => return Ok(Turned::Signalled(signal)),
        };
        let lease = match lease {
            Ok(lease) => Arc::new(lease),
            // Held, offered, cooling or being fenced.
            Err(ClientError::Refused(problem)) if matches!(problem.status, 409 | 423) => {
                let looked = self.look().await?;
                let is_known = is_over(looked) && !hears;
                return Ok(if is_known { Turned::Known(looked) } else { Turned::Taken(looked) });
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(there_ms) = granted_at(&lease) {
            wall.hear(there_ms);
        }
        let record = match Record::read(lease.value()) {
            Ok(record) => record,
            Err(why) => {
                self.give_back(&lease, None, None, talk).await;
                return Err(CronFailure::Foreign(why));
            }
        };
        let now_ms = wall.now_ms();
        let Some(record) = record else {
            // Whoever comes first begins to count.
            self.give_back(&lease, Some(&Record::from(now_ms)), None, talk).await;
            return Ok(Turned::Known(Looked { last: Some(now_ms), runs: false }));
        };
        match self.rule().due(Some(record.slot_ms), now_ms) {
            Due::Now(slot) => self.run_slot(&lease, record, slot, signals, talk).await,
            Due::At(_) | Due::Never => {
                self.give_back(&lease, None, None, talk).await;
                Ok(Turned::Known(Looked { last: Some(record.slot_ms), runs: false }))
            }
        }
    }

    async fn look(&self) -> Result<Looked, CronFailure> {
        let view = match self.client.lease(&self.key).await {
            Ok(view) => view,
            Err(ClientError::Refused(problem)) if problem.status == 404 => {
                return Ok(Looked::default());
            }
            Err(error) => return Err(error.into()),
        };
        if view.other.contains_key("permits") {
            let key = &self.key;
            let why = format!("{key} has permits: name one of them, such as {key}#1");
            return Err(CronFailure::Foreign(why));
        }
        let record = Record::read(view.value.as_deref()).map_err(CronFailure::Foreign)?;
        let runs = view.state == "held" && record.as_ref().is_some_and(Record::is_running);
        Ok(Looked { last: record.map(|record| record.slot_ms), runs })
    }

    /// Writes that the slot has begun, runs its program, and writes what became of it.
    async fn run_slot(
        &self,
        lease: &Arc<Lease>,
        before: Record,
        slot: u64,
        signals: &mut mpsc::Receiver<Signal>,
        talk: &impl Fn(&str),
    ) -> Result<Turned, CronFailure> {
        let dir = Arc::new(PrivateDir::new()?);
        let guardian = Guardian::start(&dir).await?;
        let began = before.begins(slot, &self.owner, lease.token());
        let stopped = tokio::select! {
            written = self.write(lease, &began) => written.err().map(|error| Err(error.into())),
            Some(signal) = ending(signals) => Some(Ok(Turned::Signalled(signal))),
        };
        if let Some(stopped) = stopped {
            // It may have been written all the same. No program was started, so the slot is not over.
            self.give_back(lease, Some(&before), None, talk).await;
            guardian.finish().await;
            return stopped;
        }
        let tenancy = Tenancy::new(lease.clone(), &guardian, &dir, self.grace);
        let ran = self.supervised(&tenancy, &before, &began, signals, talk).await;
        let (exit, signal) = match ran {
            Ok((RunOutcome::Ended(exit), signal)) => {
                (Some((exit.number(), exit.failure())), signal)
            }
            Ok((RunOutcome::Lost(_), signal)) => (None, signal),
            Ok((RunOutcome::Signalled(signal), _)) => (None, Some(signal)),
            Err(RunFailure::Start(error)) => {
                talk(&format!("{}: {error}", self.key));
                (Some((shell_code(&error), Some(error.to_string()))), None)
            }
            Err(failure @ RunFailure::GuardianGone) => {
                talk(&format!("{}: {failure}", self.key));
                (Some((KILLED, Some(failure.to_string()))), None)
            }
            Err(failure) => {
                guardian.finish().await;
                return Err(failure.into());
            }
        };
        if let Some((exit, reason)) = exit {
            let ended = self.ended(began, exit, &tenancy, talk);
            talk(&format!("{}: the run of {} ended with {exit}", self.key, ended.slot()));
            self.give_back(lease, Some(&ended), reason.as_deref(), talk).await;
        }
        guardian.finish().await;
        let known = Looked { last: Some(slot), runs: false };
        Ok(signal.map_or(Turned::Known(known), Turned::Signalled))
    }

    /// Writes that the slot has begun. Tries again as long as the lease is valid: the same write has the same effect.
    async fn write(&self, lease: &Lease, began: &Record) -> Result<(), ClientError> {
        let value = began.to_value();
        loop {
            let sent = self.client.heartbeat_with(&self.key, lease.lease_id(), Some(&value), None);
            match sent.await {
                Ok(_) => return Ok(()),
                Err(error) if !lease.valid() || error.problem().is_some_and(|it| !it.retryable) => {
                    return Err(error);
                }
                Err(_) => sleep(AGAIN).await,
            }
        }
    }

    /// What to write of a run that has ended.
    fn ended(&self, began: Record, exit: u8, tenancy: &Tenancy, talk: &impl Fn(&str)) -> Record {
        let left = tenancy.lease_file.value().unwrap_or_else(|why| {
            talk(&format!("{}: {why}; the next run gets what the run before left", self.key));
            None
        });
        let ended = began.clone().ended(exit, left);
        if ended.fits() {
            return ended;
        }
        talk(&format!(
            "{}: what the program left is too long; the next run gets what the run before left",
            self.key
        ));
        began.ended(exit, None)
    }

    async fn supervised(
        &self,
        tenancy: &Tenancy,
        before: &Record,
        began: &Record,
        signals: &mut mpsc::Receiver<Signal>,
        talk: &impl Fn(&str),
    ) -> Result<(RunOutcome, Option<Signal>), RunFailure> {
        let servers = self.client.environment();
        let mut env = tenancy.lease_file.environment(&tenancy.lease, servers, false)?;
        env.push(("TENURE_SLOT".to_owned(), began.slot().into()));
        // Empty, rather than what the environment of this command contains.
        let last = before.outcome.map(|_| before.to_value()).unwrap_or_default();
        env.push(("TENURE_LAST_RUN".to_owned(), last.into()));
        let left = before.result.as_deref().filter(|left| !left.contains('\0'));
        env.push(("TENURE_VALUE".to_owned(), left.unwrap_or_default().into()));
        let argv = self.command.clone();
        let task = Task { argv, env, stdin: false, limit_ms: None, leaves: false };
        supervise(tenancy, task, signals, talk).await
    }

    /// Gives the lease back, with a new value or without.
    async fn give_back(
        &self,
        lease: &Lease,
        record: Option<&Record>,
        reason: Option<&str>,
        talk: &impl Fn(&str),
    ) {
        if !lease.valid() {
            return;
        }
        let value = record.map(Record::to_value);
        if let Err(error) = lease.give_back(value.as_deref(), reason).await {
            talk(&format!("{}: not released, so it expires with its ttl: {error}", self.key));
        }
    }
}

/// The next signal that asks this process to end.
async fn ending(signals: &mut mpsc::Receiver<Signal>) -> Option<Signal> {
    loop {
        let signal = signals.recv().await?;
        if signals::is_ending(signal) {
            return Some(signal);
        }
    }
}

/// The coordinator's clock when it granted the lease, in milliseconds since 1970.
fn granted_at(lease: &Lease) -> Option<u64> {
    let at = humantime::parse_rfc3339(lease.view().acquired_at.as_deref()?).ok()?;
    let since = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}

/// The exit code of a shell that cannot start the program.
fn shell_code(error: &RunError) -> u8 {
    match error {
        RunError::Unable { missing: true, .. } => 127,
        _ => 126,
    }
}
