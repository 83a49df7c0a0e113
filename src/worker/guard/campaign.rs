//! The lease, and the campaign to get it.

use super::{
    hold::Hold,
    interface::{Effect, GuardState, Report, Rest},
    machine::Guard,
};
use crate::lease::Moment;

impl Guard {
    pub(super) fn granted(&mut self, deadline: Moment, now: Moment) {
        let Hold::Asking { withdrawn } = self.hold else { return };
        self.hold = Hold::Held { deadline };
        self.parted = None;
        let wanted = self.rules.a_granted_lease_is_wanted(withdrawn);
        if wanted && self.state == GuardState::Standby {
            self.fenced = false;
            self.state = GuardState::Confirming(0);
            self.confirm_from(now);
        } else {
            self.give_back();
        }
    }

    pub(super) fn not_granted(&mut self, now: Moment) {
        if let Hold::Asking { withdrawn } = self.hold {
            self.hold = Hold::Nothing;
            // A server that refuses or cannot be reached is asked at most once per round.
            self.ask_at = if withdrawn { now } else { now + self.settings.round };
        }
    }

    pub(super) fn renewed(&mut self, deadline: Moment) {
        let Hold::Held { deadline: known } = &mut self.hold else { return };
        if deadline <= *known {
            return;
        }
        *known = deadline;
        if let Some(must_end_by) = &mut self.must_end_by {
            *must_end_by = deadline;
            if self.rules.a_will_follows_the_deadline() {
                self.order(Effect::ArmWill { deadline });
            }
        }
    }

    pub(super) fn lost(&mut self, now: Moment) {
        if !self.rules.a_loss_ends_the_activation() {
            return;
        }
        if matches!(self.hold, Hold::Held { .. } | Hold::Abandoned) {
            self.hold = Hold::Nothing;
            match self.state {
                GuardState::Activating | GuardState::Active => self.leave(Rest::Lost, now),
                GuardState::Confirming(_) | GuardState::Fencing => self.stand_down(Rest::Lost, now),
                _ => {}
            }
        }
    }

    /// Gives back a lease that is held or was left to expire.
    pub(super) fn give_back(&mut self) {
        if matches!(self.hold, Hold::Held { .. } | Hold::Abandoned) {
            self.hold = Hold::Releasing;
            self.order(Effect::Release);
        }
    }

    /// Campaigns for the lease while this machine is healthy, and withdraws when it is not.
    pub(super) fn campaign(&mut self, now: Moment) {
        let fit = self.state == GuardState::Standby
            && self.rules.a_standby_campaigns(self.checks.healthy);
        match self.hold {
            Hold::Nothing if fit && now >= self.rest_until.max(self.ask_at) => {
                self.hold = Hold::Asking { withdrawn: false };
                self.order(Effect::Acquire);
            }
            Hold::Asking { withdrawn: false } if !fit => {
                self.hold = Hold::Asking { withdrawn: true };
                self.order(Effect::Withdraw);
            }
            _ => {}
        }
    }

    pub(super) fn campaign_due(&self) -> Option<Moment> {
        let idle = self.state == GuardState::Standby && self.hold == Hold::Nothing;
        (idle && self.checks.healthy).then(|| self.rest_until.max(self.ask_at))
    }

    /// Pauses the campaign after a failure.
    pub(super) fn rest(&mut self, why: Rest, now: Moment) {
        let failed =
            matches!(why, Rest::Unhealthy | Rest::FenceFailed(_) | Rest::ActivateFailed(_));
        if failed && self.rules.a_failure_pauses_the_campaign() {
            self.failed_activations = self.failed_activations.saturating_add(1);
            let pause = self.settings.rest(self.failed_activations);
            self.rest_until = now + pause;
            self.report(Report::Resting { why, pause });
        }
    }
}
