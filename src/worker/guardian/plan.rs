//! What must be done with a slot, and when. Pure: readings of `CLOCK_BOOTTIME` in milliseconds come in, actions come
//! out.

use super::wire::Why;

/// An action that is due now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send SIGTERM to all processes of the slot.
    Term(Why),
    /// Send SIGKILL to all processes of the slot.
    Kill(Why),
    Will,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing runs, so there is nothing to kill.
    Quiet,
    /// The program runs, and is killed at `until`.
    Running { until: Option<u64> },
    /// The program's leader ended by itself. What it left behind is killed at `kill_at`.
    Leftovers { kill_at: u64 },
    /// The program got SIGTERM, and is killed at `kill_at`.
    Asked { kill_at: u64, why: Why },
    /// The program got SIGKILL. If anything of it is left, it gets SIGKILL again at `again_at`.
    Killed { again_at: u64, why: Why },
    /// The will runs, and is killed at `kill_at`.
    Willing { kill_at: u64 },
}

/// The time until SIGKILL is repeated, in milliseconds, for processes that the first one missed.
const AGAIN_MS: u64 = 50;

/// The times and the phase of one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    grace: u64,
    margin: u64,
    deadline: Option<u64>,
    /// The time limit of the will, in milliseconds. `None` if there is no will.
    will: Option<u64>,
    /// Whether the will must run as soon as nothing else runs.
    will_due: bool,
    phase: Phase,
}

impl Plan {
    /// A slot that runs nothing yet.
    pub fn new(grace: u64, margin: u64) -> Self {
        let phase = Phase::Quiet;
        Self { grace, margin, deadline: None, will: None, will_due: false, phase }
    }

    /// Sets when the guarantee ends. `None` means never.
    pub fn set_deadline(&mut self, at: Option<u64>) {
        self.deadline = at;
    }

    /// Sets the time limit of the will. `None` means that there is no will.
    pub fn set_will(&mut self, limit: Option<u64>) {
        self.will = limit;
        self.will_due &= limit.is_some();
    }

    pub fn is_quiet(&self) -> bool {
        self.phase == Phase::Quiet
    }

    /// Whether nothing runs, and the will is not due.
    pub fn is_over(&self) -> bool {
        self.is_quiet() && !self.will_due
    }

    /// Whether a program runs that was not told to end.
    pub fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }

    pub fn is_willing(&self) -> bool {
        matches!(self.phase, Phase::Willing { .. })
    }

    /// Whether a program that starts now has any time before it must be stopped.
    pub fn may_start(&self, now: u64) -> bool {
        self.stop_at(self.grace).is_none_or(|at| now < at)
    }

    pub fn started(&mut self, now: u64, limit: Option<u64>) {
        self.phase = Phase::Running { until: limit.map(|limit| now.saturating_add(limit)) };
    }

    pub fn will_started(&mut self, now: u64) {
        let kill_at = self.before_the_end(now.saturating_add(self.will.unwrap_or(0)), 0);
        (self.phase, self.will_due) = (Phase::Willing { kill_at }, false);
    }

    /// The will is done, or could not be started.
    pub fn will_done(&mut self) {
        (self.phase, self.will, self.will_due) = (Phase::Quiet, None, false);
    }

    /// The program's leader ended, and other processes of it are left. They are told to end too.
    pub fn leader_ended(&mut self, now: u64) -> Option<Action> {
        let Phase::Running { .. } = self.phase else { return None };
        let kill_at = self.before_the_end(now.saturating_add(self.grace), self.will.unwrap_or(0));
        self.phase = Phase::Leftovers { kill_at };
        Some(Action::Term(Why::Asked))
    }

    /// Nothing of the program is left. Returns why it was stopped.
    pub fn gone(&mut self) -> Option<Why> {
        let why = match self.phase {
            Phase::Asked { why, .. } | Phase::Killed { why, .. } => Some(why),
            _ => None,
        };
        self.phase = Phase::Quiet;
        why
    }

    /// Stops what runs, with this grace or the slot's own. `and_will`: the will runs afterwards, because the agent may
    /// be unable to do the rest.
    pub fn stop(
        &mut self,
        now: u64,
        grace: Option<u64>,
        why: Why,
        and_will: bool,
    ) -> Option<Action> {
        self.will_due |= and_will && self.will.is_some() && !self.is_willing();
        let grace = now.saturating_add(grace.unwrap_or(self.grace));
        let kill_at = self.before_the_end(grace, self.will.unwrap_or(0));
        match &mut self.phase {
            Phase::Running { .. } => {
                self.phase = Phase::Asked { kill_at, why };
                Some(Action::Term(why))
            }
            Phase::Leftovers { kill_at: at } | Phase::Asked { kill_at: at, .. } => {
                *at = kill_at.min(*at);
                None
            }
            Phase::Quiet | Phase::Killed { .. } | Phase::Willing { .. } => None,
        }
    }

    /// The action that is due now, if any.
    pub fn due(&mut self, now: u64) -> Option<Action> {
        if self.next().is_none_or(|at| now < at) {
            return None;
        }
        match self.phase {
            Phase::Quiet => {
                self.will_due = true;
                Some(Action::Will)
            }
            Phase::Running { until } if until.is_some_and(|until| now >= until) => {
                self.kill(now, Why::Limit)
            }
            Phase::Running { .. } => self.stop(now, None, Why::Deadline, true),
            Phase::Asked { why, .. } | Phase::Killed { why, .. } => self.kill(now, why),
            // The leader ended by itself, so that stays the program's exit.
            Phase::Leftovers { .. } => {
                self.phase = Phase::Leftovers { kill_at: now + AGAIN_MS };
                Some(Action::Kill(Why::Asked))
            }
            Phase::Willing { .. } => {
                self.phase = Phase::Willing { kill_at: now + AGAIN_MS };
                Some(Action::Kill(Why::Limit))
            }
        }
    }

    /// When the next action is due.
    pub fn next(&self) -> Option<u64> {
        match self.phase {
            Phase::Quiet if self.will_due => Some(0),
            Phase::Quiet => self.will.and_then(|_| self.stop_at(0)),
            Phase::Running { until } => earlier(until, self.stop_at(self.grace)),
            Phase::Leftovers { kill_at }
            | Phase::Asked { kill_at, .. }
            | Phase::Willing { kill_at } => Some(kill_at),
            Phase::Killed { again_at, .. } => Some(again_at),
        }
    }

    fn kill(&mut self, now: u64, why: Why) -> Option<Action> {
        self.phase = Phase::Killed { again_at: now + AGAIN_MS, why };
        Some(Action::Kill(why))
    }

    /// When a program with this grace must be told to end, so that everything is over before the deadline.
    fn stop_at(&self, grace: u64) -> Option<u64> {
        let needed = grace + self.margin + self.will.unwrap_or(0);
        self.deadline.map(|deadline| deadline.saturating_sub(needed))
    }

    /// `at`, or an earlier moment that leaves `needed` and the margin before the deadline.
    fn before_the_end(&self, at: u64, needed: u64) -> u64 {
        let latest = self.deadline.map(|deadline| deadline.saturating_sub(self.margin + needed));
        latest.map_or(at, |latest| at.min(latest))
    }
}

fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Grace 300, margin 100, running since 0, guaranteed until 2000.
    fn running() -> Plan {
        let mut plan = Plan::new(300, 100);
        plan.set_deadline(Some(2000));
        plan.started(0, None);
        plan
    }

    #[test]
    fn it_is_told_to_end_and_killed_before_the_deadline_and_not_earlier_than_need_be() {
        let mut plan = running();
        assert_eq!((plan.due(1599), plan.next()), (None, Some(1600)));
        assert_eq!(plan.due(1600), Some(Action::Term(Why::Deadline)));
        assert_eq!((plan.due(1899), plan.next()), (None, Some(1900)));
        assert_eq!(plan.due(1900), Some(Action::Kill(Why::Deadline)));
        assert_eq!(plan.due(1949), None);
        assert_eq!(plan.due(1950), Some(Action::Kill(Why::Deadline)), "until it is gone");
        assert_eq!((plan.gone(), plan.next()), (Some(Why::Deadline), None));
        assert!(plan.is_over());
    }

    #[test]
    fn one_that_looks_late_shortens_the_grace_and_not_the_margin() {
        let mut plan = running();
        assert_eq!(plan.due(1850), Some(Action::Term(Why::Deadline)));
        assert_eq!(plan.next(), Some(1900));
        let mut plan = running();
        assert_eq!(plan.due(5000), Some(Action::Term(Why::Deadline)));
        assert_eq!(plan.due(5000), Some(Action::Kill(Why::Deadline)));
    }

    #[test]
    fn every_renewal_moves_the_end() {
        let mut plan = running();
        plan.set_deadline(Some(3000));
        assert_eq!((plan.due(1600), plan.next()), (None, Some(2600)));
        plan.set_deadline(None);
        assert_eq!(plan.next(), None);
    }

    #[test]
    fn a_stop_has_its_own_grace_and_a_second_one_can_only_hasten() {
        let mut plan = running();
        assert_eq!(plan.stop(100, Some(1000), Why::Asked, false), Some(Action::Term(Why::Asked)));
        assert_eq!(plan.next(), Some(1100));
        assert_eq!(plan.stop(200, Some(5000), Why::Asked, false), None);
        assert_eq!(plan.next(), Some(1100));
        assert_eq!(plan.stop(300, Some(0), Why::Asked, false), None);
        assert_eq!(plan.due(300), Some(Action::Kill(Why::Asked)));
        let mut late = running();
        late.stop(1000, Some(5000), Why::Asked, false);
        assert_eq!(late.next(), Some(1900), "no grace reaches beyond the deadline");
    }

    #[test]
    fn a_limit_kills() {
        let mut plan = Plan::new(300, 100);
        plan.started(50, Some(200));
        assert_eq!((plan.due(249), plan.due(250)), (None, Some(Action::Kill(Why::Limit))));
        assert_eq!(plan.gone(), Some(Why::Limit));
    }

    #[test]
    fn what_a_program_left_behind_is_told_to_end_and_killed() {
        let mut plan = running();
        assert_eq!(plan.leader_ended(500), Some(Action::Term(Why::Asked)));
        assert_eq!(plan.leader_ended(500), None);
        assert_eq!((plan.due(799), plan.due(800)), (None, Some(Action::Kill(Why::Asked))));
        assert_eq!(plan.gone(), None, "it ended by itself");
    }

    #[test]
    fn the_will_has_its_time_before_the_deadline_after_what_runs() {
        let mut plan = running();
        plan.set_will(Some(500));
        assert_eq!(plan.due(1100), Some(Action::Term(Why::Deadline)));
        assert_eq!(plan.due(1400), Some(Action::Kill(Why::Deadline)));
        plan.gone();
        assert!(!plan.is_over());
        assert_eq!(plan.due(1410), Some(Action::Will));
        plan.will_started(1410);
        assert_eq!((plan.due(1899), plan.due(1900)), (None, Some(Action::Kill(Why::Limit))));
        plan.will_done();
        assert!(plan.is_over() && plan.next().is_none());
    }

    #[test]
    fn the_will_of_a_slot_that_runs_nothing_is_due_too() {
        let mut plan = Plan::new(300, 100);
        plan.set_will(Some(500));
        assert_eq!(plan.next(), None);
        plan.set_deadline(Some(2000));
        assert_eq!((plan.due(1399), plan.due(1400)), (None, Some(Action::Will)));
        let mut alone = Plan::new(300, 100);
        alone.set_will(Some(500));
        assert_eq!(alone.stop(10, Some(300), Why::AgentGone, true), None);
        assert_eq!(alone.due(10), Some(Action::Will));
        let mut revoked = Plan::new(300, 100);
        revoked.set_will(Some(500));
        revoked.stop(10, Some(300), Why::AgentGone, true);
        revoked.set_will(None);
        assert!(revoked.is_over());
    }

    #[test]
    fn nothing_is_started_without_time_for_it() {
        let mut plan = Plan::new(300, 100);
        assert!(plan.may_start(9999));
        plan.set_deadline(Some(2000));
        assert!(plan.may_start(1599) && !plan.may_start(1600));
    }
}
