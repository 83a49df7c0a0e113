//! The agent of `tenure guard`: performs what [`guard`](super::guard) decides.
//!
//! Guarantees: scripts run under a [guardian](super::guardian). It kills them at their time-outs, and runs the
//! deactivation by itself if this process is killed, or stands still when the deactivation is due. At most one script
//! that changes something runs at a time.
//!
//! Does not guarantee: that the scripts do what they report.
//!
//! Assumes: a tokio runtime; that this is the only agent of the process, because it handles the process's signals.

mod campaign;
mod charge;
mod event;
mod message;
mod runner;
mod script_queue;

use std::{path::PathBuf, pin::pin, sync::Arc, time::Duration};

use rustix::process::Signal;
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

use self::{campaign::Campaign, event::Event, runner::Runner};
pub use self::{
    charge::{Charge, Scripts},
    message::AgentMessage,
};
use super::{
    guard::{Effect, Guard, Input},
    signals::{self, Listener},
};
use crate::{client::Client, clock::Clock, lease::Moment};

/// The number of events that may wait. Their senders wait for room.
const EVENTS: usize = 256;
/// The longest sleep. Timers may stand still while the machine is suspended, but deadlines do not.
const SLICE: Duration = Duration::from_millis(200);
/// The longest time for the guardian's end, in addition to the will that it may have to run.
const PARTING: Duration = Duration::from_secs(5);

/// Guards the service until SIGTERM or SIGINT. Returns whether the service is known to be inactive at the end.
/// `program` is the `tenure` program that becomes the guardian, by default this one.
///
/// # Errors
/// A message for people, if no guardian can be started.
pub async fn run(
    client: Client,
    charge: Charge,
    program: Option<PathBuf>,
    tell: impl FnMut(AgentMessage),
) -> Result<bool, String> {
    // Signals are handled from the first moment on, because one may arrive during the start.
    let [Ok(terminate), Ok(interrupt)] = [Signal::TERM, Signal::INT].map(signals::listen) else {
        return Err("cannot listen for SIGTERM and SIGINT".to_owned());
    };
    let (events, inbox) = mpsc::channel(EVENTS);
    let charge = Arc::new(charge);
    let clock = client.clock().clone();
    let runner = Runner::new(charge.clone(), &client, program, events.clone()).await?;
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
    /// Whether the guardian died while the agent ran.
    disarmed: bool,
}

impl<T: FnMut(AgentMessage)> Agent<T> {
    async fn serve(
        &mut self,
        mut inbox: mpsc::Receiver<Event>,
        [mut terminate, mut interrupt]: [Listener; 2],
    ) -> Result<bool, String> {
        self.step(Input::Tick);
        while self.ended.is_none() {
            (self.tell)(AgentMessage::Pulse);
            let guardian = self.runner.guardian();
            let gone = pin!(guardian.gone());
            tokio::select! {
                biased;
                event = inbox.recv() => if let Some(event) = event { self.hear(event) },
                () = terminate.recv() => self.step(Input::Terminate),
                () = interrupt.recv() => self.step(Input::Terminate),
                () = gone => self.without_guardian().await?,
                () = sleep(self.rest()) => self.step(Input::Tick),
            }
        }
        Ok(self.ended.unwrap_or_default())
    }

    fn rest(&self) -> Duration {
        let wake = self.machine.wake_at().unwrap_or(Moment::NEVER);
        // Timers count whole milliseconds, and must not fire before `wake`.
        wake.since(self.clock.now()).saturating_add(Duration::from_millis(1)).min(SLICE)
    }

    /// Ends the activation, because the service must not be active without a guardian. Another guardian is started for
    /// the deactivation.
    async fn without_guardian(&mut self) -> Result<(), String> {
        (self.tell)(AgentMessage::GuardianGone);
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
                (self.tell)(AgentMessage::WillRan);
                self.step(Input::WillRan);
            }
            Event::WillRan(_) => {}
            Event::Refused(why) => {
                (self.tell)(AgentMessage::Refused(why));
                self.step(Input::NotGranted);
            }
            Event::NotReleased(why) => {
                (self.tell)(AgentMessage::NotReleased(why));
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
                    self.campaign.release(self.machine.parted());
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
                Effect::Report(report) => (self.tell)(AgentMessage::Report(report)),
                Effect::Exit { inactive } => self.ended = Some(inactive),
            }
        }
    }
}
