//! What a guard promises, judged by what it orders: the judge knows nothing of its insides.
//!
//! - G1: active, or on the way to it, only under a lease whose guarantee has not ended.
//! - G2: the activation ends while there is room for a deactivation; at the deadline the service is inactive,
//!   or an alarm was raised.
//! - G3: activations and deactivations that succeeded alternate, but for those of every round.
//! - G4: an activation has its lease, its confirmations under it, its fence, and room.
//! - G5: nothing is given back while the service may be active; nothing unwanted is kept.
//! - G6: a campaign is that of a healthy, inactive standby that has rested.
//! - G7: the will is there before the activation, has the newest deadline, and goes after the deactivation.
//! - G8: one check and one other script at a time, with their time-outs.
//! - G9: F failures in a row end the activation, and fewer do not.
//! - G10: the end is ordered, inactive with nothing held, or loud.
//! - G11: an activation whose will was executed ends.
//! - L: once faults stop it becomes active, and ends when told.

use std::{collections::HashMap, time::Duration};

use tenure::{
    lease::Moment,
    worker::guard::{
        Alarm, Effect, GuardState, Input, Report, Rest, RunId, Script, ScriptOutcome, Settings,
    },
};

pub type Verdict = Result<(), String>;

/// Fails with the name of the rule.
macro_rules! must {
    ($rule:literal, $holds:expr, $($words:tt)*) => {
        if !$holds {
            return Err(format!("{}: {}", $rule, format!($($words)*)));
        }
    };
}

#[derive(Clone, Copy, Debug)]
struct Run {
    script: Script,
    /// Whether it began under the present lease.
    under_lease: bool,
}

#[derive(Debug)]
pub struct Judge {
    settings: Settings,
    runs: HashMap<RunId, Run>,
    /// The service may be active.
    on: bool,
    /// It is not even known whether a predecessor left it active.
    unknown: bool,
    /// The end of the guarantee, while there is a lease, and after it as long as the service may be on.
    deadline: Option<Moment>,
    held: bool,
    asking: bool,
    releasing: bool,
    /// Healthy checks in a row under the lease.
    confirmed: u32,
    fenced: bool,
    /// Whether the last check of this standby was healthy.
    healthy: bool,
    /// Failed checks in a row of the active service.
    failures: u32,
    /// Before this no campaign.
    rest_until: Moment,
    will: Option<Moment>,
    alarmed: bool,
    overran: bool,
    /// The process did not run for a while: what is late is the guardian's.
    pub paused: bool,
    will_ran: bool,
    terminating: bool,
    pub exited: Option<bool>,
}

impl Judge {
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            runs: HashMap::new(),
            on: false,
            unknown: true,
            deadline: None,
            held: false,
            asking: false,
            releasing: false,
            confirmed: 0,
            fenced: false,
            healthy: false,
            failures: 0,
            rest_until: Moment::ZERO,
            will: None,
            alarmed: false,
            overran: false,
            paused: false,
            will_ran: false,
            terminating: false,
            exited: None,
        }
    }

    pub fn on(&self) -> bool {
        self.on
    }

    /// What the guard is told, before it answers.
    pub fn told(&mut self, input: Input, state: GuardState, now: Moment) {
        match input {
            Input::Tick => {}
            Input::Ended(run, outcome) => self.ended(run, outcome, state, now),
            Input::Granted { deadline } => {
                (self.asking, self.held) = (false, true);
                (self.confirmed, self.fenced) = (0, false);
                self.deadline = Some(deadline);
                self.runs.values_mut().for_each(|run| run.under_lease = false);
            }
            Input::NotGranted => self.asking = false,
            Input::Renewed { deadline } => self.deadline = self.deadline.max(Some(deadline)),
            Input::Lost => self.held = false,
            Input::Released => self.releasing = false,
            Input::WillRan => self.will_ran = self.on,
            Input::Terminate => self.terminating = true,
        }
    }

    fn ended(&mut self, run: RunId, outcome: ScriptOutcome, state: GuardState, now: Moment) {
        let Some(run) = self.runs.remove(&run) else { return };
        let ok = outcome == ScriptOutcome::Ok;
        match run.script {
            Script::Healthcheck { active: false } => {
                self.healthy = ok;
                let counts = ok && run.under_lease;
                self.confirmed = if ok { self.confirmed + u32::from(counts) } else { 0 };
            }
            Script::Healthcheck { active: true } => {
                self.failures = if ok { 0 } else { self.failures + 1 };
                if self.failures >= self.settings.failures && state == GuardState::Active {
                    self.rest_from(now);
                }
            }
            Script::Fence => {
                self.fenced = ok;
                if !ok {
                    self.rest_from(now);
                }
            }
            Script::Activate if !ok => self.rest_from(now),
            Script::Activate => {}
            Script::Deactivate if ok => {
                // What a check of the active service found says nothing of the standby.
                self.healthy &= !self.on && !self.unknown;
                (self.on, self.unknown, self.will_ran) = (false, false, false);
                (self.alarmed, self.overran, self.paused) = (false, false, false);
            }
            Script::Deactivate => self.unknown = true,
        }
    }

    /// After a failure others have their turn: at least F rounds.
    fn rest_from(&mut self, now: Moment) {
        self.rest_until = now + self.settings.round * self.settings.failures;
    }

    /// What the guard ordered.
    pub fn ordered(&mut self, effect: Effect, now: Moment) -> Verdict {
        match effect {
            Effect::Run { run, script, timeout } => self.run(run, script, timeout, now)?,
            Effect::Kill(run) => {
                must!("G8", self.runs.remove(&run).is_some(), "kills what does not run");
            }
            Effect::Acquire => self.campaigns(now)?,
            Effect::Withdraw => must!("G6", self.asking, "withdraws no campaign"),
            Effect::Release => {
                must!("G5", !self.on, "gives the lease back while the service may be active");
                must!("G5", self.held, "gives back what it does not hold");
                (self.held, self.releasing) = (false, true);
            }
            Effect::Abandon => must!("G5", self.on, "leaves a lease to run out without need"),
            Effect::ArmWill { deadline } => self.will = Some(deadline),
            Effect::DisarmWill => {
                must!("G7", !self.on, "takes the will back while the service may be active");
                self.will = None;
            }
            Effect::Report(Report::Alarm(alarm)) => match alarm {
                Alarm::NotDeactivated { .. } => self.alarmed = true,
                Alarm::Overrun => self.overran = true,
            },
            Effect::Report(Report::Leaving(Rest::Unhealthy)) => {
                let enough = self.failures >= self.settings.failures;
                must!("G9", enough, "leaves after {} failures", self.failures);
            }
            Effect::Report(_) => {}
            Effect::Exit { inactive } => {
                must!("G10", self.terminating, "ends without having been told to");
                must!("G10", inactive != (self.on || self.unknown), "ends with a lie");
                let settled = !self.held && !self.asking && !self.releasing;
                must!("G10", !inactive || settled, "ends while it has business with the lease");
                must!("G10", inactive || self.alarmed, "ends in failure without an alarm");
                self.exited = Some(inactive);
            }
        }
        Ok(())
    }

    fn campaigns(&mut self, now: Moment) -> Verdict {
        must!("G6", !self.unknown && !self.on, "campaigns with a service that may be active");
        must!("G6", self.healthy, "campaigns though it is not healthy");
        must!("G6", !self.terminating, "campaigns on its way out");
        let busy = self.asking || self.held || self.releasing;
        must!("G6", !busy, "campaigns twice");
        must!("G6", now >= self.rest_until, "campaigns before its rest is over");
        self.asking = true;
        Ok(())
    }

    fn run(&mut self, run: RunId, script: Script, timeout: Duration, now: Moment) -> Verdict {
        let every = self.settings.every_round;
        let check = |script| matches!(script, Script::Healthcheck { .. });
        let others = self.runs.values().filter(|other| check(other.script) == check(script));
        must!("G8", others.count() == 0, "{script:?} beside another");
        match script {
            Script::Healthcheck { active } => {
                must!("G8", active == self.on, "checks for active: {active}");
                must!("G8", timeout == self.settings.check_timeout, "another time-out");
            }
            Script::Fence => self.under_lease(now)?,
            Script::Activate if self.on => must!("G3", every, "activates twice"),
            Script::Activate => {
                must!("G3", !self.unknown, "activates what may be active already");
                self.under_lease(now)?;
                must!("G4", self.fenced || !self.settings.fence, "activates unfenced");
                let room = self.deadline.is_some_and(|end| now + self.settings.reserve() < end);
                must!("G4", room, "activates without room for a deactivation");
                must!("G7", self.will.is_some(), "activates without a will");
                (self.on, self.failures) = (true, 0);
            }
            Script::Deactivate => {
                must!("G3", self.on || self.unknown || every, "deactivates twice");
                must!("G8", timeout == self.settings.deactivate_timeout, "another time-out");
            }
        }
        self.runs.insert(run, Run { script, under_lease: self.held });
        Ok(())
    }

    fn under_lease(&self, now: Moment) -> Verdict {
        must!("G4", self.held && self.deadline.is_some_and(|end| now < end), "holds no lease");
        let rounds = self.settings.confirmations;
        must!("G4", self.confirmed >= rounds, "after {} healthy rounds", self.confirmed);
        Ok(())
    }

    /// After every step.
    pub fn rests(&mut self, state: GuardState, now: Moment) -> Verdict {
        if self.exited.is_some() {
            return Ok(());
        }
        must!("G1", !state.is_active() || self.on, "{state} without an activation");
        let valid = self.deadline.is_some_and(|end| now < end);
        must!("G1", !state.is_active() || (self.held && valid), "{state} without a valid lease");
        let room = self.deadline.is_some_and(|end| now + self.settings.reserve() < end);
        must!("G2", !state.is_active() || room, "{state} without room for a deactivation");
        if self.on {
            let Some(end) = self.deadline else { return Err("G1: on without a lease".into()) };
            if now >= end && !self.paused {
                must!("G2", self.alarmed, "neither inactive nor alarmed at the deadline");
                must!("G2", self.overran, "no alarm for the overrun");
            }
            let current = self.will == Some(end) || !state.is_active();
            must!("G7", current, "the will is for {:?}, not {end:?}", self.will);
        } else {
            must!("G7", self.will.is_none(), "a will without an activation");
        }
        let failed = self.failures >= self.settings.failures;
        must!(
            "G9",
            !(failed && state == GuardState::Active),
            "active after {} failures",
            self.failures
        );
        let idle = matches!(state, GuardState::Standby | GuardState::Leaving);
        must!("G5", !(self.held && idle), "{state} with a lease that it does not want");
        let aspires = matches!(state, GuardState::Confirming(_) | GuardState::Fencing);
        must!("G5", !aspires || self.healthy, "{state} though it is not healthy");
        must!("G11", !(self.will_ran && state.is_active()), "{state} after its will was executed");
        must!("G10", !(self.terminating && state.is_active()), "{state} after SIGTERM");
        Ok(())
    }
}
