//! The state machine: its state, and its only entry point.

use super::{
    Effect, Input, Mutant, Outcome, Report, Rest, RunId, Script, Settings, State, checks::Checks,
    hold::Hold,
};
use crate::lease::Moment;

/// A running script that changes something. There is never more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Running {
    pub(super) run: RunId,
    pub(super) script: Script,
}

/// The agent for one key.
#[derive(Clone, Debug)]
pub struct Guard {
    pub(super) settings: Settings,
    pub(super) state: State,
    pub(super) hold: Hold,
    pub(super) checks: Checks,
    pub(super) running: Option<Running>,
    /// Whether the fence script succeeded under the present lease.
    pub(super) fenced: bool,
    /// The end of the guarantee under which the service was activated. `None` if the service is inactive.
    pub(super) obliged: Option<Moment>,
    /// Why the activation ended.
    pub(super) why: Option<Rest>,
    /// Consecutive failed deactivations.
    pub(super) tries: u32,
    /// When the deactivation is tried again.
    pub(super) retry_at: Moment,
    pub(super) alarmed: bool,
    pub(super) overran: bool,
    /// Consecutive failed checks of the active service.
    pub(super) failures: u32,
    /// Consecutive activations that ended in failure.
    pub(super) failed_offices: u32,
    pub(super) rest_until: Moment,
    pub(super) ask_at: Moment,
    pub(super) terminating: bool,
    runs: u64,
    told: Option<State>,
    out: Vec<Effect>,
    #[cfg(any(test, feature = "testing"))]
    broken: Option<Mutant>,
}

impl Guard {
    /// A guard that knows nothing of its service yet. Its first step deactivates the service.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            state: State::Deactivating,
            hold: Hold::Nothing,
            checks: Checks::default(),
            running: None,
            fenced: false,
            obliged: None,
            why: None,
            tries: 0,
            retry_at: Moment::ZERO,
            alarmed: false,
            overran: false,
            failures: 0,
            failed_offices: 0,
            rest_until: Moment::ZERO,
            ask_at: Moment::ZERO,
            terminating: false,
            runs: 0,
            told: None,
            out: Vec::new(),
            #[cfg(any(test, feature = "testing"))]
            broken: None,
        }
    }

    /// The same guard, with one rule broken on purpose.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn breaking(mut self, mutant: Option<Mutant>) -> Self {
        self.broken = mutant;
        self
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn breaks(&self, mutant: Mutant) -> bool {
        self.broken == Some(mutant)
    }

    #[cfg(not(any(test, feature = "testing")))]
    #[inline]
    pub(super) const fn breaks(&self, _: Mutant) -> bool {
        false
    }

    /// The current state.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Applies an input at time `now`, and returns the effects to perform.
    #[must_use]
    pub fn step(&mut self, input: Input, now: Moment) -> Vec<Effect> {
        if self.state != State::Gone {
            self.take(input, now);
            self.settle(now);
            if self.told != Some(self.state) {
                self.told = Some(self.state);
                self.order(Effect::Report(Report::State(self.state)));
            }
        }
        std::mem::take(&mut self.out)
    }

    /// When the next step is due at the latest, if no other input arrives.
    #[must_use]
    pub fn wake_at(&self) -> Option<Moment> {
        if self.state == State::Gone {
            return None;
        }
        let due = [self.check_due(), self.campaign_due(), self.guarantee_due(), self.retry_due()];
        due.into_iter().flatten().min()
    }

    fn take(&mut self, input: Input, now: Moment) {
        match input {
            Input::Tick => {}
            Input::Ended(run, outcome) if self.checks.ends(run) => self.checked(outcome, now),
            Input::Ended(run, outcome) => {
                if let Some(done) = self.running.take_if(|running| running.run == run) {
                    self.ended(done.script, outcome, now);
                }
            }
            Input::Granted { deadline } => self.granted(deadline, now),
            Input::NotGranted => self.not_granted(now),
            Input::Renewed { deadline } => self.renewed(deadline),
            Input::Lost => self.lost(now),
            Input::Released => self.hold.released(),
            Input::WillRan if self.breaks(Mutant::WillRanIgnored) => {}
            Input::WillRan if self.state.is_active() => self.leave(Rest::WillRan, now),
            Input::WillRan => {}
            Input::Terminate => self.terminate(now),
        }
    }

    fn ended(&mut self, script: Script, outcome: Outcome, now: Moment) {
        match (script, outcome) {
            (Script::Healthcheck { .. }, _) => {}
            (Script::Fence, Outcome::Ok) => {
                self.fenced = true;
                self.state = State::Confirming(self.settings.confirmations);
            }
            (Script::Fence, _) if self.breaks(Mutant::ActivateDespiteFence) => {
                self.fenced = true;
                self.state = State::Confirming(self.settings.confirmations);
            }
            (Script::Fence, _) => self.stand_down(Rest::FenceFailed(outcome), now),
            (Script::Activate, _) => self.activated(outcome, now),
            (Script::Deactivate, _) => self.deactivated(outcome, now),
        }
    }

    fn terminate(&mut self, now: Moment) {
        self.terminating = true;
        match self.state {
            State::Activating | State::Active if self.breaks(Mutant::ExitWithoutDeactivation) => {
                self.go();
            }
            State::Activating | State::Active => self.leave(Rest::Terminated, now),
            State::Confirming(_) | State::Fencing => {
                self.stand_down(Rest::Terminated, now);
                self.state = State::Leaving;
            }
            State::Standby => self.state = State::Leaving,
            State::Deactivating | State::Leaving | State::Gone => {}
        }
    }

    /// Performs what is due.
    fn settle(&mut self, now: Moment) {
        self.watch_guarantee(now);
        self.press_deactivation(now);
        self.campaign(now);
        self.advance(now);
        self.start_check(now);
        if self.state == State::Leaving && self.running.is_none() {
            self.stop_check();
            let unsettled = !self.breaks(Mutant::ExitWithoutRelease);
            if self.hold == Hold::Nothing || (self.hold == Hold::Releasing && !unsettled) {
                self.go();
            }
        }
    }

    /// Ends the guard. The service is inactive.
    fn go(&mut self) {
        self.state = State::Gone;
        self.order(Effect::Exit { inactive: true });
    }

    pub(super) fn order(&mut self, effect: Effect) {
        self.out.push(effect);
    }

    pub(super) fn report(&mut self, report: Report) {
        self.order(Effect::Report(report));
    }

    pub(super) fn new_run(&mut self) -> RunId {
        self.runs += 1;
        RunId(self.runs)
    }

    /// Starts a script that changes something.
    pub(super) fn run(&mut self, script: Script) {
        let run = self.new_run();
        let timeout = match script {
            Script::Healthcheck { .. } => self.settings.check_timeout,
            Script::Fence => self.settings.fence_timeout,
            Script::Activate => self.settings.activate_timeout,
            Script::Deactivate => self.settings.deactivate_timeout,
        };
        self.running = Some(Running { run, script });
        self.order(Effect::Run { run, script, timeout });
    }

    /// Kills the running script and forgets it, because its result no longer matters.
    pub(super) fn kill_running(&mut self) {
        if let Some(running) = self.running.take() {
            self.order(Effect::Kill(running.run));
        }
    }
}
