//! The rounds: health checks and their consequences.

use super::{
    checks::Round,
    interface::{Effect, GuardState, Report, Rest, Script, ScriptOutcome},
    machine::Guard,
};
use crate::lease::Moment;

impl Guard {
    /// The lease was granted. Rounds count from now on, and the first one starts at once.
    pub(super) fn confirm_from(&mut self, now: Moment) {
        self.checks.next = now;
        let counts = !self.rules.a_check_counts_only_under_its_lease();
        if let Some(round) = &mut self.checks.running {
            round.counts = counts;
        }
    }

    pub(super) fn checked(&mut self, outcome: ScriptOutcome, now: Moment) {
        let Some(round) = self.checks.running.take() else { return };
        let due = round.began + self.settings.round;
        // A check that started before the grant does not count. One that counts follows at once.
        self.checks.next = if round.counts { due.max(now) } else { now };
        let healthy = outcome == ScriptOutcome::Ok;
        match self.state {
            GuardState::Standby => {
                self.checks.healthy = healthy;
                self.tell_unhealthy(u32::from(!healthy), outcome);
            }
            GuardState::Confirming(rounds) if healthy => {
                self.state = GuardState::Confirming(rounds + u32::from(round.counts));
            }
            GuardState::Confirming(_) => {
                self.tell_unhealthy(1, outcome);
                self.stand_down(Rest::Unhealthy, now);
                self.checks.next = due.max(now);
            }
            GuardState::Active => self.checked_active(outcome, now),
            _ => {}
        }
        if !std::mem::replace(&mut self.checks.done, true) {
            self.report(Report::Ready);
        }
        if self.settings.every_round && self.running.is_none() {
            match self.state {
                GuardState::Standby => self.run(Script::Deactivate),
                GuardState::Active if healthy => self.run(Script::Activate),
                _ => {}
            }
        }
    }

    fn checked_active(&mut self, outcome: ScriptOutcome, now: Moment) {
        if outcome == ScriptOutcome::Ok {
            if self.rules.a_success_clears_the_failures() {
                self.failures = 0;
            }
            self.failed_activations = 0;
            return;
        }
        self.failures += 1;
        self.tell_unhealthy(self.failures, outcome);
        if self.failures >= self.settings.failures {
            self.leave(Rest::Unhealthy, now);
        }
    }

    fn tell_unhealthy(&mut self, failures: u32, outcome: ScriptOutcome) {
        if outcome != ScriptOutcome::Ok {
            self.report(Report::Unhealthy { failures, outcome });
        }
    }

    fn checks_wanted(&self) -> bool {
        let awaited = match self.state {
            GuardState::Standby | GuardState::Active => true,
            GuardState::Confirming(rounds) => {
                rounds < self.rounds_wanted() || self.running.is_some()
            }
            _ => false,
        };
        awaited && self.checks.running.is_none()
    }

    pub(super) fn rounds_wanted(&self) -> u32 {
        self.rules.an_activation_waits_for_rounds(self.settings.confirmations)
    }

    pub(super) fn check_due(&self) -> Option<Moment> {
        self.checks_wanted().then_some(self.checks.next)
    }

    pub(super) fn start_check(&mut self, now: Moment) {
        if !self.checks_wanted() || now < self.checks.next {
            return;
        }
        let run = self.new_run();
        let script = Script::Healthcheck { active: self.state == GuardState::Active };
        self.checks.running = Some(Round { run, began: now, counts: true });
        self.order(Effect::Run { run, script, timeout: self.settings.check_timeout });
    }

    /// Kills a check whose result no longer matters.
    pub(super) fn stop_check(&mut self) {
        if let Some(round) = self.checks.running.take() {
            self.order(Effect::Kill(round.run));
        }
    }
}
