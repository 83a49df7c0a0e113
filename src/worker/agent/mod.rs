//! The agent of `tenure guard`: does what [`guard`](super::guard) decides.
//!
//! Guarantees: scripts run under a [guardian](super::guardian), which ends them with their time-outs, and
//! which runs the deactivation by itself when this process is killed or stands still while it is due; one
//! script that changes something at a time.
//!
//! Does not guarantee: that the scripts do what they say.
//!
//! Assumes: a tokio runtime; that it is the process's only agent, whose signals it takes.

mod campaign;
mod runner;
mod script_queue;

use std::{path::PathBuf, pin::pin, sync::Arc, time::Duration};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    time::{sleep, timeout},
};

use self::{campaign::Campaign, runner::Runner};
use super::guard::{Effect, Guard, Input, Report, Settings};
use crate::{
    client::{Client, Loss},
    clock::Clock,
    lease::Moment,
};

/// Events that wait; their senders wait for room.
const EVENTS: usize = 256;
/// The longest sleep: timers may stand still while the machine sleeps, and deadlines do not.
const SLICE: Duration = Duration::from_millis(200);
/// How long the guardian may take to end, beside the will that it may have to run.
const PARTING: Duration = Duration::from_secs(5);

/// What is to be guarded.
#[derive(Clone, Debug)]
pub struct Charge {
    /// The key.
    pub key: String,
    /// Who this agent is; no two have the same.
    pub owner: String,
    /// Times and counts.
    pub settings: Settings,
    /// What is run, as lines for `/bin/sh`.
    pub scripts: Scripts,
}

/// Lines for `/bin/sh -c`, with `active` or `standby` as `$1`.
#[derive(Clone, Debug)]
pub struct Scripts {
    /// Exit code 0: in order.
    pub healthcheck: String,
    /// Makes the service active.
    pub activate: String,
    /// Makes it inactive, also when it is already.
    pub deactivate: String,
    /// Keeps the predecessor from doing harm.
    pub fence: Option<String>,
}

/// What is told while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// By the machine.
    Report(Report),
    /// The lease came, with this token.
    Granted(u64),
    /// It is lost.
    Lost(Loss),
    /// The campaign did not lead to a lease.
    Refused(String),
    /// The lease could not be given back: it runs out.
    NotReleased(String),
    /// The will was executed without us.
    WillRan,
    /// The guardian is gone, and another one takes its place for the deactivation.
    GuardianGone,
    /// The agent is alive.
    Pulse,
}

/// What happens.
#[derive(Debug)]
enum Event {
    Input(Input),
    /// Of the tenure with this number.
    Of(u64, campaign::News),
    /// By the guardian, in the activation with this number.
    WillRan(u64),
    Refused(String),
    NotReleased(String),
}

/// Guards until SIGTERM or SIGINT. True when the service is known to be inactive at the end. `program` is the
/// `tenure` that becomes the guardian; by default this one.
///
/// # Errors
/// In words for people: there is no guardian, or it is gone for good.
pub async fn run(
    client: Client,
    charge: Charge,
    program: Option<PathBuf>,
    tell: impl FnMut(Told),
) -> Result<bool, String> {
    // From the first moment on, for whoever ends it while it starts.
    let signals = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let [Ok(terminate), Ok(interrupt)] = signals else {
        return Err("cannot listen to signals".to_owned());
    };
    let (events, inbox) = mpsc::channel(EVENTS);
    let charge = Arc::new(charge);
    let clock = client.clock().clone();
    let runner = Runner::new(charge.clone(), client.environment(), program, events.clone()).await?;
    let campaign = Campaign::new(client, charge.clone(), events);
    let machine = Guard::new(charge.settings.clone());
    let mut agent = Agent { machine, clock, runner, campaign, tell, ended: None, disarmed: false };
    let outcome = agent.serve(inbox, [terminate, interrupt]).await;
    let patience = charge.settings.deactivate_timeout + PARTING;
    let _ = timeout(patience, agent.runner.finish()).await;
    outcome.map(|inactive| inactive && !agent.disarmed)
}

struct Agent<T> {
    machine: Guard,
    clock: Arc<dyn Clock>,
    runner: Runner,
    campaign: Campaign,
    tell: T,
    ended: Option<bool>,
    /// The guardian died under it.
    disarmed: bool,
}

impl<T: FnMut(Told)> Agent<T> {
    async fn serve(
        &mut self,
        mut inbox: mpsc::Receiver<Event>,
        [mut terminate, mut interrupt]: [Signal; 2],
    ) -> Result<bool, String> {
        self.step(Input::Tick);
        while self.ended.is_none() {
            (self.tell)(Told::Pulse);
            let guardian = self.runner.guardian();
            let gone = pin!(guardian.gone());
            tokio::select! {
                biased;
                event = inbox.recv() => if let Some(event) = event { self.hear(event) },
                _ = terminate.recv() => self.step(Input::Terminate),
                _ = interrupt.recv() => self.step(Input::Terminate),
                () = gone => self.without_guardian().await?,
                () = sleep(self.rest()) => self.step(Input::Tick),
            }
        }
        Ok(self.ended.unwrap_or_default())
    }

    fn rest(&self) -> Duration {
        let wake = self.machine.wake_at().unwrap_or(Moment::NEVER);
        // Timers have milliseconds, and must not fire before the moment that they are for.
        wake.since(self.clock.now()).saturating_add(Duration::from_millis(1)).min(SLICE)
    }

    /// Without a guardian the service must not be active: another one is started for its deactivation.
    async fn without_guardian(&mut self) -> Result<(), String> {
        (self.tell)(Told::GuardianGone);
        self.disarmed = true;
        self.runner.renew().await?;
        self.step(Input::Terminate);
        Ok(())
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Input(input) => self.step(input),
            Event::Of(tenure, news) => {
                if let Some(input) = self.campaign.learn(tenure, &news, &mut self.tell) {
                    self.runner.know(self.campaign.lease());
                    self.step(input);
                }
            }
            Event::WillRan(activation) if self.runner.is_activation(activation) => {
                (self.tell)(Told::WillRan);
                self.step(Input::WillRan);
            }
            Event::WillRan(_) => {}
            Event::Refused(why) => {
                (self.tell)(Told::Refused(why));
                self.step(Input::NotGranted);
            }
            Event::NotReleased(why) => {
                (self.tell)(Told::NotReleased(why));
                self.step(Input::Released);
            }
        }
    }

    fn step(&mut self, input: Input) {
        for effect in self.machine.step(input, self.clock.now()) {
            match effect {
                Effect::Run { run, script, timeout } => self.runner.run(run, script, timeout),
                Effect::Kill(run) => self.runner.kill(run),
                Effect::Acquire => self.campaign.acquire(),
                Effect::Withdraw => self.campaign.withdraw(),
                Effect::Release => {
                    self.campaign.release();
                    self.runner.know(None);
                }
                Effect::Abandon => {
                    self.campaign.abandon();
                    self.runner.know(None);
                }
                Effect::ArmWill { deadline } => {
                    let left = deadline.since(self.clock.now()).as_millis();
                    let left = u64::try_from(left).unwrap_or(u64::MAX);
                    self.runner.arm(self.clock.boottime_ms().saturating_add(left));
                }
                Effect::DisarmWill => self.runner.disarm(),
                Effect::Report(report) => (self.tell)(Told::Report(report)),
                Effect::Exit { inactive } => self.ended = Some(inactive),
            }
        }
    }
}
