//! `tenure work`: a member of a pool that runs one program for each lease that it holds.

use std::{
    ffi::OsString,
    fmt::Display,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::process::Signal;
use serde::Serialize;
use tokio::{sync::watch, time::sleep};

use super::{
    Group, PrivateDir, Tenancy,
    cpu::cpu_time,
    guardian::{Exit, Guardian, RunError, Running, Task, Why},
    restart::{Next, Restart, Tries},
    signals,
};
use crate::{
    client::{ClientError, DrainHandle, Ended, Lease, Waiting, WorkerPool},
    clock::{Chance, Entropy, SystemEntropy, boottime_ms},
};

/// How long to wait for a renewal if the guarantee is too short for a start.
const RENEWAL: Duration = Duration::from_millis(100);

/// How often the CPU time of a program is looked at.
const LOOK: Duration = Duration::from_secs(5);

/// The shortest time between two messages of the same kind about waiting, in milliseconds.
const WORDS_MS: u64 = 9_500;

/// An event, for people and for programs.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// The key. `None` if the event concerns the whole agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// The process id of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// What happened, in one or two words.
    pub what: &'static str,
    /// Why it happened, for people; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(key) = &self.key {
            write!(f, "{}: ", key.escape_debug())?;
        }
        f.write_str(self.what)?;
        if let Some(token) = self.token {
            write!(f, " token={token}")?;
        }
        if let Some(pid) = self.pid {
            write!(f, " pid={pid}")?;
        }
        if self.why.is_empty() { Ok(()) } else { write!(f, ": {}", self.why) }
    }
}

pub type Talk = Arc<dyn Fn(&Event) + Send + Sync>;

/// What to run, and for which pool.
pub struct Work {
    pub pool: WorkerPool,
    /// Variables that let programs call the same servers ([`crate::client::Client::environment`]).
    pub servers: Vec<(&'static str, OsString)>,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// Which programs are started again.
    pub restart: Restart,
    /// Whether this worker comes back under the same owner after a signal.
    pub returns: bool,
    /// Whether the CPU time of each program is reported as the load of its key.
    pub reports_cpu: bool,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The receiver of all events.
    pub talk: Talk,
}

/// Why the agent ended, other than by a drain.
#[derive(Debug, thiserror::Error)]
pub enum WorkFailure {
    /// The server refused the member permanently.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The guardian could not be started.
    #[error("cannot start the guardian: {0}")]
    Guardian(#[from] io::Error),
    /// The guardian died, and the programs were killed.
    #[error("the guardian died; the programs were killed and their keys given back")]
    GuardianGone,
}

/// Whether and how fast the agent is leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Leaving {
    No,
    /// Programs are told to end.
    Drain,
    /// Programs are killed at once.
    Hasten,
}

/// The state that all tenures share.
struct Agent {
    guardian: Guardian,
    dir: Arc<PrivateDir>,
    servers: Vec<(&'static str, OsString)>,
    grace: Duration,
    restart: Restart,
    returns: bool,
    reports_cpu: bool,
    command: Vec<OsString>,
    talk: Talk,
    leaving: watch::Sender<Leaving>,
}

impl Work {
    /// Works until SIGTERM or SIGINT. A second signal kills the programs that still run.
    ///
    /// # Errors
    /// [`WorkFailure`].
    pub async fn run(self) -> Result<(), WorkFailure> {
        let Self { pool, servers, grace, restart, returns, reports_cpu, command, talk } = self;
        let mut signals = signals::received()?;
        let dir = Arc::new(PrivateDir::new()?);
        let guardian = Guardian::start(&dir).await?;
        let (leaving, drain) = (watch::Sender::new(Leaving::No), pool.drain_handle());
        let agent = Arc::new(Agent {
            guardian: guardian.clone(),
            dir,
            servers,
            grace,
            restart,
            returns,
            reports_cpu,
            command,
            talk: talk.clone(),
            leaving,
        });
        let ended = talk.clone();
        let pool = pool.on_end(move |key, how| ended(&of_end(key, how)));
        let (waits, pace) = (talk.clone(), Mutex::new(Pace::default()));
        let pool = pool.on_wait(move |why| {
            let mut pace = pace.lock().unwrap_or_else(PoisonError::into_inner);
            if pace.is_due(&why, boottime_ms()) {
                waits(&of_wait(&why));
            }
        });
        let tended = agent.clone();
        let working = pool.run(move |lease| tend(tended.clone(), lease));
        tokio::pin!(working);
        let worked = loop {
            tokio::select! {
                worked = &mut working => break worked,
                Some(signal) = signals.recv() => agent.hear(signal, &drain),
                () = guardian.gone(), if !agent.is_leaving() => agent.leave(Leaving::Drain, &drain),
            }
        };
        let is_guarded = !guardian.is_gone();
        guardian.finish().await;
        worked?;
        if is_guarded { Ok(()) } else { Err(WorkFailure::GuardianGone) }
    }
}

fn of_end(key: &str, how: &Ended) -> Event {
    let (what, why) = match how {
        Ended::Done => ("handed over", String::new()),
        Ended::Kept => ("kept", "for the return of this worker".to_owned()),
        Ended::Failed(why) => ("given back", why.clone()),
        Ended::Lost(loss) => ("lost", loss.to_string()),
    };
    Event { key: Some(key.to_owned()), token: None, pid: None, what, why }
}

fn of_wait(waiting: &Waiting<'_>) -> Event {
    let why = match waiting {
        Waiting::Failed(error) => format!("{error}; trying again"),
        Waiting::NoLease => "no key of the pool is available yet".to_owned(),
        Waiting::NoKeys => {
            "the pool has no keys yet: name them once with --keys or --keys-from".to_owned()
        }
    };
    Event { key: None, token: None, pid: None, what: "waiting", why }
}

/// When the last message about no lease was written, and when the last one about a failure.
#[derive(Default)]
struct Pace([Option<u64>; 2]);

impl Pace {
    /// Whether a message of this kind is due. If so, it counts as written.
    fn is_due(&mut self, waiting: &Waiting<'_>, now_ms: u64) -> bool {
        let said = &mut self.0[usize::from(matches!(waiting, Waiting::Failed(_)))];
        let is_due = said.is_none_or(|at| now_ms >= at + WORDS_MS);
        if is_due {
            *said = Some(now_ms);
        }
        is_due
    }
}

impl Agent {
    fn is_leaving(&self) -> bool {
        *self.leaving.borrow() > Leaving::No
    }

    fn leave(&self, how: Leaving, drain: &DrainHandle) {
        self.leaving.send_replace(how);
        if self.returns && !self.guardian.is_gone() {
            drain.stop();
        } else {
            drain.drain();
        }
    }

    /// The first ending signal stops this worker in good order. Every further one kills.
    fn hear(&self, signal: Signal, drain: &DrainHandle) {
        if !signals::is_ending(signal) {
            return;
        }
        let (how, what) = match self.is_leaving() {
            false if self.returns => (Leaving::Drain, "stopping"),
            false => (Leaving::Drain, "draining"),
            true => (Leaving::Hasten, "killing"),
        };
        (self.talk)(&Event { key: None, token: None, pid: None, what, why: String::new() });
        self.leave(how, drain);
    }
}

/// A lease, and its program if one runs.
struct Tended {
    agent: Arc<Agent>,
    tenancy: Tenancy,
    tries: Tries,
    chance: Chance,
    child: Option<Child>,
}

/// A running program. It is killed at once when this is dropped, because the lease is then given back.
struct Child {
    running: Running,
    group: Group,
    since: u64,
    /// Its CPU time when that was last looked at, and when that was.
    used: (Duration, u64),
}

/// Runs the program for a lease, as often as needed. Returns the value for the next owner.
async fn tend(agent: Arc<Agent>, lease: Arc<Lease>) -> Result<Option<String>, String> {
    let tenancy = Tenancy::new(lease, &agent.guardian, &agent.dir, agent.grace);
    let (tries, chance) = (Tries::new(agent.restart), SystemEntropy::new().chance());
    let mut tended = Tended { agent, tenancy, tries, chance, child: None };
    let lives = tended.live().await;
    let value = tended.value();
    lives.map(|()| value)
}

impl Tended {
    /// Runs until the lease is lost, handed over or given back, and no program is left.
    async fn live(&mut self) -> Result<(), String> {
        let (mut leaving, mut hurry) =
            (self.agent.leaving.subscribe(), self.agent.leaving.subscribe());
        let (mut ending, mut lost, mut pause) = (false, false, Some(Duration::ZERO));
        while !ending || self.child.is_some() {
            let lease = self.tenancy.lease.clone();
            let look = self.until_look().filter(|_| !ending);
            let talk = {
                let (agent, key, token) = (self.agent.clone(), lease.key(), lease.token());
                move |why: &str| {
                    let (key, token) = (Some(key.to_owned()), Some(token));
                    let why = why.to_owned();
                    (agent.talk)(&Event { key, token, pid: None, what: "trouble", why });
                }
            };
            tokio::select! {
                biased;
                exit = exited(&mut self.child) => pause = self.ended(exit, ending)?,
                loss = self.tenancy.follow(&talk), if !lost => {
                    (ending, lost) = (true, true);
                    self.stop(self.tenancy.left(), format!("lost, {loss}"));
                }
                left = lease.handover_requested(), if !ending => {
                    ending = true;
                    self.stop(left, "the key is handed over".into());
                }
                () = reached(&mut leaving, Leaving::Drain), if !ending => {
                    ending = true;
                    self.stop(Duration::MAX, "this worker is leaving".into());
                }
                () = reached(&mut hurry, Leaving::Hasten), if ending => {
                    self.tenancy.slot.stop(Duration::ZERO);
                    // Only the end of the program is left to wait for.
                    if let Some(child) = self.child.as_mut() {
                        let exit = child.running.exited().await;
                        pause = self.ended(exit, true)?;
                    }
                }
                () = rest(look), if look.is_some() => self.report_cpu(),
                () = rest(pause), if self.child.is_none() && !ending => pause = self.start().await?,
            }
        }
        Ok(())
    }

    async fn start(&mut self) -> Result<Option<Duration>, String> {
        let lease = &self.tenancy.lease;
        let env = self.tenancy.lease_file.environment(lease, &self.agent.servers, true);
        let env = env.map_err(|error| error.to_string())?;
        let argv = self.agent.command.clone();
        match self.tenancy.run(Task { argv, env, stdin: false, ..Task::default() }).await {
            Ok(running) => {
                let group = Group::of(Some(running.pid));
                self.say("started", Some(running.pid), String::new());
                let since = boottime_ms();
                self.child = Some(Child { running, group, since, used: (Duration::ZERO, since) });
                Ok(None)
            }
            Err(RunError::TooLate) => Ok(Some(RENEWAL)),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The time until the CPU time of the program is looked at, if it is.
    fn until_look(&self) -> Option<Duration> {
        let child = self.child.as_ref().filter(|_| self.agent.reports_cpu)?;
        let past = boottime_ms().saturating_sub(child.used.1);
        Some(LOOK.saturating_sub(Duration::from_millis(past)))
    }

    /// Reports how many cores the program used since the last time.
    fn report_cpu(&mut self) {
        let Some(child) = &mut self.child else { return };
        let (used, now) = (cpu_time(child.running.pid), boottime_ms());
        let (before, at) = std::mem::replace(&mut child.used, (used, now));
        let past = Duration::from_millis(now.saturating_sub(at).max(1));
        // A process that left the tree of processes takes its time with it.
        let used = used.saturating_sub(before);
        self.tenancy.lease.report_load(used.as_secs_f64() / past.as_secs_f64());
    }

    fn stop(&self, left: Duration, why: String) {
        let pid = self.child.as_ref().map(|child| child.running.pid);
        self.say("stopping", pid, why);
        self.tenancy.stop_within(left);
    }

    /// Handles the end of the program. Returns the pause before the next start, or `None` for no start.
    fn ended(&mut self, exit: Exit, ending: bool) -> Result<Option<Duration>, String> {
        let Some(mut child) = self.child.take() else { return Ok(None) };
        child.group.forget();
        let pid = Some(child.running.pid);
        self.say("ended", pid, exit.in_full());
        match exit.why {
            _ if ending => return Ok(None),
            Some(Why::GuardianGone) => return Err("the guardian is gone".into()),
            // The guardian stopped it, because this process stood still. The lease may still be held.
            Some(_) => return Ok(Some(Duration::ZERO)),
            None => {}
        }
        let ran = Duration::from_millis(boottime_ms().saturating_sub(child.since));
        match self.tries.ended(exit.success(), ran, &mut self.chance) {
            Next::Again(pause) => Ok(Some(pause)),
            Next::Idle => Ok(None),
            Next::GiveBack => Err(exit.failure().unwrap_or_default()),
        }
    }

    fn value(&self) -> Option<String> {
        self.tenancy.lease_file.value().unwrap_or_else(|why| {
            self.say("no value", None, why);
            None
        })
    }

    fn say(&self, what: &'static str, pid: Option<u32>, why: String) {
        let lease = &self.tenancy.lease;
        let (key, token) = (Some(lease.key().to_owned()), Some(lease.token()));
        (self.agent.talk)(&Event { key, token, pid, what, why });
    }
}

async fn exited(child: &mut Option<Child>) -> Exit {
    match child {
        Some(child) => child.running.exited().await,
        None => std::future::pending().await,
    }
}

async fn reached(leaving: &mut watch::Receiver<Leaving>, how: Leaving) {
    let _ = leaving.wait_for(|&is| is >= how).await;
}

async fn rest(pause: Option<Duration>) {
    match pause {
        Some(pause) => sleep(pause).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_each_kind_are_ten_seconds_apart_however_they_alternate() {
        let (mut pace, failed) = (Pace::default(), ClientError::Proxy { problem: "no URL".into() });
        let mut said = [0, 0];
        for at in 0..300 {
            let kinds = [Waiting::NoLease, Waiting::Failed(&failed)];
            for (count, waiting) in said.iter_mut().zip(kinds) {
                *count += u64::from(pace.is_due(&waiting, at * 100));
            }
        }
        assert_eq!(said, [4, 4], "in 30 s");
    }
}
