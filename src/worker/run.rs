//! `tenure run`: runs one program under one lease.

use std::{convert::Infallible, ffi::OsString, io, sync::Arc, time::Duration};

use rustix::process::Signal;
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

use super::{
    PrivateDir, Tenancy,
    guardian::{Exit, Guardian, RunError, Task, Why},
    signals, terminal,
};
use crate::client::{Client, ClientError, Hold, Lease, LeaseFilter, Loss};

/// When the first message about the wait for the lease is written, and the interval of further messages.
const WORDS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(10)];
/// The longest time to find out who holds the lease.
const LOOK: Duration = Duration::from_secs(2);
/// How long the command tries to release a lease that was granted too late, before it ends.
const LAST_WORD: Duration = Duration::from_secs(2);

/// What to run, and under which lease.
#[derive(Debug)]
pub struct Run {
    /// The client that acquires the lease.
    pub client: Client,
    pub hold: Hold,
    /// Whether the value of the lease is one that the previous owner left.
    pub inherits: bool,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

#[derive(Debug)]
pub enum RunOutcome {
    /// The program ended on its own, or because of a signal that the agent forwarded.
    Ended(Exit),
    /// The lease was lost, and the program was stopped.
    Lost(Option<Loss>),
    /// A signal arrived before the lease was acquired.
    Signalled(Signal),
}

/// Why no program ran, or why it did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunFailure {
    /// The lease was not acquired.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The guardian could not be started.
    #[error("cannot start the guardian: {0}")]
    Guardian(#[from] io::Error),
    /// The program could not be started.
    #[error(transparent)]
    Start(#[from] RunError),
    /// The guardian died, and the program was killed.
    #[error("the guardian died; the program was killed")]
    GuardianGone,
}

impl Run {
    /// Acquires the lease, runs the program, keeps the lease, and gives it back. `talk` gets messages for people.
    ///
    /// # Errors
    /// [`RunFailure`].
    pub async fn run(self, talk: impl Fn(&str)) -> Result<RunOutcome, RunFailure> {
        let mut signals = signals::received()?;
        let dir = Arc::new(PrivateDir::new()?);
        let guardian = Guardian::start(&dir).await?;
        let outcome = self.under(&guardian, &dir, &mut signals, talk).await;
        guardian.finish().await;
        outcome
    }

    async fn under(
        self,
        guardian: &Guardian,
        dir: &Arc<PrivateDir>,
        signals: &mut mpsc::Receiver<Signal>,
        talk: impl Fn(&str),
    ) -> Result<RunOutcome, RunFailure> {
        let acquire = self.client.hold(self.hold.clone());
        let waiting = self.say_why(&talk);
        tokio::pin!(acquire, waiting);
        let lease = loop {
            tokio::select! {
                lease = &mut acquire => match lease {
                    Ok(lease) => break Arc::new(lease),
                    Err(error) => {
                        // A call without an answer may have been granted.
                        let _ = timeout(LAST_WORD, self.client.settled()).await;
                        return Err(error.into());
                    }
                },
                never = &mut waiting => match never {},
                Some(signal) = signals.recv() => if signals::is_ending(signal) {
                    return Ok(RunOutcome::Signalled(signal));
                }
            }
        };
        let tenancy = Tenancy::new(lease.clone(), guardian, dir, self.grace);
        let outcome = self.keep(&tenancy, signals, &talk).await;
        let reason = match &outcome {
            Ok(RunOutcome::Ended(exit)) => exit.failure(),
            Ok(_) => None,
            Err(failure) => Some(failure.to_string()),
        };
        self.give_back(&lease, &tenancy, reason, &talk).await;
        outcome
    }

    /// Says what the command waits for, until the lease is acquired.
    async fn say_why(&self, talk: &impl Fn(&str)) -> Infallible {
        sleep(WORDS[0]).await;
        loop {
            let why = timeout(LOOK, self.why()).await;
            let silent = |_| format!("no answer from {} yet; trying again", self.client.servers());
            talk(&why.unwrap_or_else(silent));
            sleep(WORDS[1]).await;
        }
    }

    async fn why(&self) -> String {
        let (client, hold) = (&self.client, &self.hold);
        let looked = match hold.one_key() {
            Some(key) => client.lease(key).await.map(Some),
            // Any answer shows that the server can be reached.
            None => {
                let first = LeaseFilter { limit: Some(1), ..LeaseFilter::default() };
                client.leases(&first).await.map(|_| None)
            }
        };
        match looked {
            Ok(Some(lease)) => match &lease.owner {
                Some(owner) if hold.is_of(owner) => format!(
                    "waiting for {hold}: held by another process or an earlier one of this owner, {}",
                    owner.escape_debug()
                ),
                Some(owner) => format!("waiting for {hold}: held by {}", owner.escape_debug()),
                None => format!("waiting for {hold}: {}", lease.state.escape_debug()),
            },
            Ok(None) | Err(ClientError::Refused(_)) => format!("waiting for {hold}"),
            Err(error) => format!("{error}; trying again"),
        }
    }

    async fn keep(
        &self,
        tenancy: &Tenancy,
        signals: &mut mpsc::Receiver<Signal>,
        talk: &impl Fn(&str),
    ) -> Result<RunOutcome, RunFailure> {
        let env = tenancy.lease_file.environment(
            &tenancy.lease,
            self.client.environment(),
            self.inherits,
        )?;
        let task =
            Task { argv: self.command.clone(), env, stdin: true, limit_ms: None, leaves: false };
        let supervised = supervise(tenancy, task, signals, talk).await;
        supervised.map(|(outcome, _)| outcome)
    }

    /// Gives the lease back. Nothing of the program is left by then.
    async fn give_back(
        &self,
        lease: &Lease,
        tenancy: &Tenancy,
        reason: Option<String>,
        talk: &impl Fn(&str),
    ) {
        if !lease.valid() {
            return;
        }
        let value = tenancy.lease_file.value().unwrap_or_else(|why| {
            talk(&format!("{}: {why}; the next owner gets the previous value", lease.key()));
            None
        });
        if let Err(error) = lease.give_back(value.as_deref(), reason.as_deref()).await {
            talk(&format!("{}: not released, so it expires with its ttl: {error}", lease.key()));
        }
    }
}

/// Runs the program until it ends, or stops it if the lease is lost. Passes signals on to it, and gives the last one
/// that asked this process to end.
///
/// # Errors
/// [`RunFailure`].
pub(super) async fn supervise(
    tenancy: &Tenancy,
    task: Task,
    signals: &mut mpsc::Receiver<Signal>,
    talk: &impl Fn(&str),
) -> Result<(RunOutcome, Option<Signal>), RunFailure> {
    let takes_input = task.stdin;
    let mut running = tenancy.run(task).await?;
    let _lent = takes_input.then(|| terminal::lend(running.pid)).flatten().inspect(|_| {
        // If the program read from the terminal before this, it was stopped.
        tenancy.slot.signal(Signal::CONT);
    });
    let (mut loss, mut asked) = (None, None);
    let exit = loop {
        tokio::select! {
            biased;
            exit = running.exited() => break exit,
            lost = tenancy.follow(talk), if loss.is_none() => {
                talk(&format!("{}: lost ({lost}); stopping the program", tenancy.lease.key()));
                loss = Some(lost);
                tenancy.stop_within(tenancy.left());
            }
            Some(signal) = signals.recv() => {
                tenancy.slot.signal(signal);
                asked = Some(signal).filter(|signal| signals::is_ending(*signal)).or(asked);
            }
        }
    };
    if let Some(why) = exit.why.filter(|_| loss.is_none()).and_then(Why::unsaid) {
        talk(&format!("{}: the program was {why}", tenancy.lease.key()));
    }
    Ok((verdict(exit, loss)?, asked))
}

/// What the end of the program means for the run.
fn verdict(exit: Exit, loss: Option<Loss>) -> Result<RunOutcome, RunFailure> {
    match exit.why {
        Some(Why::GuardianGone) if loss.is_none() => Err(RunFailure::GuardianGone),
        // Stopped because of the lease: by this process, or by the guardian before this process knew of the loss.
        Some(_) => Ok(RunOutcome::Lost(loss)),
        None => Ok(RunOutcome::Ended(exit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(why: Option<Why>, loss: Option<Loss>) -> String {
        let exit = Exit { code: Some(3), signal: None, why };
        verdict(exit, loss).map_or_else(
            |e| e.to_string(),
            |outcome| match outcome {
                RunOutcome::Ended(exit) => exit.number().to_string(),
                RunOutcome::Lost(_) => "lost".into(),
                RunOutcome::Signalled(_) => "signalled".into(),
            },
        )
    }

    #[test]
    fn a_program_that_was_stopped_was_lost_and_one_that_ended_by_itself_has_its_code() {
        assert_eq!(told(None, None), "3");
        assert_eq!(told(None, Some(Loss::Revoked)), "3", "it was faster");
        assert_eq!(told(Some(Why::Asked), Some(Loss::Revoked)), "lost");
        assert_eq!(told(Some(Why::Deadline), None), "lost", "the guardian knew first");
        assert_eq!(told(Some(Why::GuardianGone), Some(Loss::Expired)), "lost");
        assert!(told(Some(Why::GuardianGone), None).contains("guardian"));
    }
}
