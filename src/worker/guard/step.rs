//! The only entry point of the state machine: applies an input, and performs what is due.

use super::{
    hold::Hold,
    interface::{Effect, GuardState, Input, Report, Rest, Script, ScriptOutcome},
    machine::Guard,
};
use crate::lease::Moment;

impl Guard {
    /// Applies an input at time `now`, and returns the effects to perform.
    #[must_use]
    pub fn step(&mut self, input: Input, now: Moment) -> Vec<Effect> {
        if self.state != GuardState::Gone {
            self.take(input, now);
            self.settle(now);
            if self.told != Some(self.state) {
                self.told = Some(self.state);
                self.order(Effect::Report(Report::GuardState(self.state)));
            }
        }
        std::mem::take(&mut self.out)
    }

    /// When the next step is due at the latest, if no other input arrives.
    #[must_use]
    pub fn wake_at(&self) -> Option<Moment> {
        if self.state == GuardState::Gone {
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
            Input::WillRan => self.will_ran(now),
            Input::Terminate => self.terminate(now),
        }
    }

    fn ended(&mut self, script: Script, outcome: ScriptOutcome, now: Moment) {
        match script {
            Script::Healthcheck { .. } => {}
            Script::Fence if self.rules.an_activation_may_follow_the_fence(outcome) => {
                self.fenced = true;
                self.state = GuardState::Confirming(self.settings.confirmations);
            }
            Script::Fence => self.stand_down(Rest::FenceFailed(outcome), now),
            Script::Activate => self.activated(outcome, now),
            Script::Deactivate => self.deactivated(outcome, now),
        }
    }

    fn will_ran(&mut self, now: Moment) {
        if self.state.is_active() && self.rules.a_will_that_ran_ends_the_activation() {
            self.leave(Rest::WillRan, now);
        }
    }

    fn terminate(&mut self, now: Moment) {
        self.terminating = true;
        match self.state {
            GuardState::Activating | GuardState::Active
                if !self.rules.an_exit_deactivates_first() =>
            {
                self.go();
            }
            GuardState::Activating | GuardState::Active => self.leave(Rest::Terminated, now),
            GuardState::Confirming(_) | GuardState::Fencing => {
                self.stand_down(Rest::Terminated, now);
                self.state = GuardState::Leaving;
            }
            GuardState::Standby => self.state = GuardState::Leaving,
            GuardState::Deactivating | GuardState::Leaving | GuardState::Gone => {}
        }
    }

    fn settle(&mut self, now: Moment) {
        self.watch_guarantee(now);
        self.drive_deactivation(now);
        self.campaign(now);
        self.advance(now);
        self.start_check(now);
        if self.state == GuardState::Leaving && self.running.is_none() {
            self.stop_check();
            let unsettled = self.rules.an_exit_waits_for_the_release();
            if self.hold == Hold::Nothing || (self.hold == Hold::Releasing && !unsettled) {
                self.go();
            }
        }
    }

    /// Ends the guard. The service is inactive.
    fn go(&mut self) {
        self.state = GuardState::Gone;
        self.order(Effect::Exit { inactive: true });
    }
}
