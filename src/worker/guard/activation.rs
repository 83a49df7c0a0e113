//! Activation, and deactivation in time.

use super::{
    hold::Hold,
    interface::{Alarm, Effect, GuardState, Report, Rest, Script, ScriptOutcome},
    machine::Guard,
};
use crate::lease::Moment;

/// A failed deactivation is retried after one round divided by this number.
const RETRY_PART: u32 = 3;

impl Guard {
    /// Advances from a confirmed lease to the fence, and from there to the activation.
    pub(super) fn advance(&mut self, now: Moment) {
        let GuardState::Confirming(rounds) = self.state else { return };
        let Hold::Held { deadline } = self.hold else { return };
        if rounds < self.rounds_wanted() || self.running.is_some() {
            return;
        }
        if self.settings.fence && !self.fenced {
            self.stop_check();
            self.state = GuardState::Fencing;
            self.run(Script::Fence);
        } else if self.has_room(deadline, now) {
            self.stop_check();
            self.state = GuardState::Activating;
            self.failures = 0;
            self.must_end_by = Some(deadline);
            if self.rules.a_will_comes_before_the_activation() {
                self.order(Effect::ArmWill { deadline });
            }
            self.run(Script::Activate);
        }
    }

    fn has_room(&self, deadline: Moment, now: Moment) -> bool {
        self.rules.an_activation_has_room(now, self.settings.reserve(), deadline)
    }

    pub(super) fn activated(&mut self, outcome: ScriptOutcome, now: Moment) {
        if outcome != ScriptOutcome::Ok {
            self.leave(Rest::ActivateFailed(outcome), now);
        } else if self.state == GuardState::Activating {
            if let Some(deadline) = self.must_end_by
                && !self.rules.a_will_comes_before_the_activation()
            {
                self.order(Effect::ArmWill { deadline });
            }
            self.state = GuardState::Active;
            // The service has one round to start.
            self.checks.begin_anew(now + self.settings.round);
        }
    }

    /// Ends the activation: kills what runs, and starts the deactivation.
    pub(super) fn leave(&mut self, why: Rest, now: Moment) {
        self.kill_running();
        self.stop_check();
        self.report(Report::Leaving(why));
        self.state = GuardState::Deactivating;
        (self.why, self.parted) = (Some(why), Some(why));
        (self.tries, self.retry_at) = (0, now);
        (self.alarmed, self.overran) = (false, false);
        if !self.rules.a_lease_outlasts_the_activation() {
            self.give_back();
        }
    }

    /// Gives up a lease under which the service was never activated.
    pub(super) fn stand_down(&mut self, why: Rest, now: Moment) {
        // Only the fence may be killed. A deactivation in progress must be allowed to succeed.
        if self.state == GuardState::Fencing {
            self.kill_running();
        }
        self.parted = Some(why);
        self.give_back();
        self.state = GuardState::Standby;
        self.checks.begin_anew(now);
        // A machine that did not activate its service may campaign again after its next healthy round. Only a failed
        // fence makes it rest.
        if matches!(why, Rest::FenceFailed(_)) {
            self.rest(why, now);
        }
    }

    pub(super) fn deactivated(&mut self, outcome: ScriptOutcome, now: Moment) {
        if !self.rules.a_deactivation_is_over(outcome) {
            return self.not_deactivated(now);
        }
        if self.state != GuardState::Deactivating {
            // A deactivation of `every_round` on standby changes nothing.
            return;
        }
        if self.must_end_by.take().is_some() {
            self.order(Effect::DisarmWill);
        }
        self.give_back();
        self.state = if self.terminating { GuardState::Leaving } else { GuardState::Standby };
        self.checks.begin_anew(now);
        self.tries = 0;
        if let Some(why) = self.why.take() {
            self.rest(why, now);
        }
    }

    fn not_deactivated(&mut self, now: Moment) {
        if self.state != GuardState::Deactivating {
            // It ran in a standby round. The service was inactive before, and must be deactivated again.
            self.give_back();
            self.stop_check();
            self.state = GuardState::Deactivating;
            self.tries = 0;
        }
        self.tries = self.tries.saturating_add(1);
        self.retry_at = now + self.settings.round / RETRY_PART;
        self.alarm(now);
        if !self.rules.a_failed_deactivation_abandons_the_lease() {
            self.give_back();
        } else if matches!(self.hold, Hold::Held { .. }) {
            self.hold = Hold::Abandoned;
            self.order(Effect::Abandon);
        }
    }

    fn alarm(&mut self, now: Moment) {
        self.alarmed = true;
        let left = self.must_end_by.map(|deadline| deadline.since(now));
        self.report(Report::Alarm(Alarm::NotDeactivated { tries: self.tries, left }));
    }

    /// When the deactivation must start, so that it ends within this guarantee.
    fn leave_by(&self, deadline: Moment) -> Moment {
        self.rules.a_deactivation_starts_by(deadline, self.settings.reserve())
    }

    /// Ends an activation whose lease is not renewed, while there is time for the deactivation.
    pub(super) fn watch_guarantee(&mut self, now: Moment) {
        let Hold::Held { deadline } = self.hold else { return };
        match self.state {
            GuardState::Activating | GuardState::Active if now >= self.leave_by(deadline) => {
                self.leave(Rest::Unrenewed, now);
            }
            GuardState::Confirming(_) | GuardState::Fencing if now >= deadline => {
                self.stand_down(Rest::Unrenewed, now);
            }
            _ => {}
        }
    }

    /// Starts the deactivation, repeats it, and raises alarms.
    pub(super) fn drive_deactivation(&mut self, now: Moment) {
        if self.state != GuardState::Deactivating {
            return;
        }
        if !self.rules.a_start_deactivates_first() && self.must_end_by.is_none() {
            self.state = GuardState::Standby;
            return;
        }
        if let Some(deadline) = self.must_end_by
            && self.rules.a_late_deactivation_raises_an_alarm()
        {
            if !self.alarmed && now >= deadline - self.settings.margin {
                self.alarm(now);
            }
            if !self.overran && now >= deadline {
                self.overran = true;
                self.report(Report::Alarm(Alarm::Overrun));
            }
        }
        if self.terminating && self.tries > 0 && self.must_end_by.is_none_or(|end| now >= end) {
            self.state = GuardState::Gone;
            self.order(Effect::Exit { inactive: false });
        } else if self.running.is_none() && now >= self.retry_at {
            self.run(Script::Deactivate);
        }
    }

    pub(super) fn guarantee_due(&self) -> Option<Moment> {
        match (self.state, self.hold) {
            (GuardState::Activating | GuardState::Active, Hold::Held { deadline }) => {
                Some(self.leave_by(deadline))
            }
            (GuardState::Confirming(_) | GuardState::Fencing, Hold::Held { deadline }) => {
                Some(deadline)
            }
            (GuardState::Deactivating, _) => {
                let end = self.must_end_by?;
                let alarm = (!self.alarmed).then(|| end - self.settings.margin);
                alarm.or((!self.overran).then_some(end))
            }
            _ => None,
        }
    }

    pub(super) fn retry_due(&self) -> Option<Moment> {
        let due = self.state == GuardState::Deactivating && self.running.is_none();
        due.then_some(self.retry_at)
    }
}
