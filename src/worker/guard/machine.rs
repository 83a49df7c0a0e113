//! The state machine: what it knows, and how it gives orders.

use super::{
    checks::Checks,
    hold::Hold,
    interface::{Effect, GuardState, Report, Rest, RunId, Script},
    rules::GuardRules,
    settings::Settings,
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
    pub(super) state: GuardState,
    pub(super) hold: Hold,
    pub(super) checks: Checks,
    pub(super) running: Option<Running>,
    /// Whether the fence script succeeded under the present lease.
    pub(super) fenced: bool,
    /// When the activation must have ended: the end of the guarantee under which the service was activated. `None` if
    /// the service is inactive.
    pub(super) must_end_by: Option<Moment>,
    pub(super) why: Option<Rest>,
    /// Why the lease of the latest campaign was given up.
    pub(super) parted: Option<Rest>,
    /// The number of consecutive failed deactivations.
    pub(super) tries: u32,
    /// When the deactivation is retried.
    pub(super) retry_at: Moment,
    pub(super) alarmed: bool,
    pub(super) overran: bool,
    /// Consecutive failed checks of the active service.
    pub(super) failures: u32,
    /// Consecutive activations that ended in failure.
    pub(super) failed_activations: u32,
    pub(super) rest_until: Moment,
    pub(super) ask_at: Moment,
    pub(super) terminating: bool,
    runs: u64,
    /// The state that was reported last.
    pub(super) told: Option<GuardState>,
    /// The effects of the step so far.
    pub(super) out: Vec<Effect>,
    pub(super) rules: GuardRules,
}

impl Guard {
    /// Why the lease of the latest campaign was given up, if it was.
    #[must_use]
    pub fn parted(&self) -> Option<Rest> {
        self.parted
    }

    /// A guard that knows nothing of its service yet. Its first step deactivates the service.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            state: GuardState::Deactivating,
            hold: Hold::Nothing,
            checks: Checks::default(),
            running: None,
            fenced: false,
            must_end_by: None,
            why: None,
            parted: None,
            tries: 0,
            retry_at: Moment::ZERO,
            alarmed: false,
            overran: false,
            failures: 0,
            failed_activations: 0,
            rest_until: Moment::ZERO,
            ask_at: Moment::ZERO,
            terminating: false,
            runs: 0,
            told: None,
            out: Vec::new(),
            rules: GuardRules::default(),
        }
    }

    /// The same guard, with one rule broken on purpose.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn breaking(mut self, broken: Option<super::rules::Mutant>) -> Self {
        self.rules = GuardRules::breaking(broken);
        self
    }

    #[must_use]
    pub fn state(&self) -> GuardState {
        self.state
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
