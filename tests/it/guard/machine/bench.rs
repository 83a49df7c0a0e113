//! A guard with a world around it that does what the test says.

use std::{collections::BTreeMap, time::Duration};

use tenure::{
    lease::Moment,
    worker::guard::{
        Alarm, Effect, Guard, GuardState, Input, Mutant, Report, RunId, Script, ScriptOutcome,
        Settings,
    },
};

use super::judge::{Judge, Verdict};

pub const START: Moment = Moment(i64::MAX as u64 - 1_000_000_000);

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// R = 1 s, F = 3, C = 2: ttl 3 s, deactivation 1 s, margin 300 ms.
pub fn settings() -> Settings {
    Settings::of(ms(1000), 3, 2)
}

/// A run and when its time is over.
#[derive(Clone, Copy, Debug)]
struct Run {
    script: Script,
    over: Moment,
}

#[derive(Debug)]
pub struct Bench {
    pub guard: Guard,
    pub now: Moment,
    pub verdict: Verdict,
    pub judge: Judge,
    settings: Settings,
    runs: BTreeMap<RunId, Run>,
    pub asking: bool,
    pub withdrawn: bool,
    pub releasing: bool,
    pub held: bool,
    /// Everything that was ordered, with its moment.
    pub log: Vec<(Moment, Effect)>,
    /// How late the process is with everything.
    pub late: Duration,
}

impl Bench {
    pub fn new(settings: Settings) -> Self {
        Self::breaking(settings, None)
    }

    pub fn breaking(settings: Settings, mutant: Option<Mutant>) -> Self {
        let mut bench = Self {
            guard: Guard::new(settings.clone()).breaking(mutant),
            now: START,
            verdict: Ok(()),
            judge: Judge::new(settings.clone()),
            settings,
            runs: BTreeMap::new(),
            asking: false,
            withdrawn: false,
            releasing: false,
            held: false,
            log: Vec::new(),
            late: Duration::ZERO,
        };
        bench.tell(Input::Tick);
        bench
    }

    /// One step, judged.
    pub fn tell(&mut self, input: Input) {
        if self.verdict.is_err() || self.judge.exited.is_some() {
            return;
        }
        match input {
            Input::Ended(run, _) => drop(self.runs.remove(&run)),
            Input::Granted { .. } => (self.asking, self.held) = (false, true),
            Input::NotGranted => self.asking = false,
            Input::Lost => self.held = false,
            Input::Released => self.releasing = false,
            Input::Tick | Input::Renewed { .. } | Input::WillRan | Input::Terminate => {}
        }
        self.judge.told(input, self.guard.state(), self.now);
        for effect in self.guard.step(input, self.now) {
            self.log.push((self.now, effect));
            match effect {
                Effect::Run { run, script, timeout } => {
                    self.runs.insert(run, Run { script, over: self.now + timeout });
                }
                Effect::Kill(run) => drop(self.runs.remove(&run)),
                Effect::Acquire => (self.asking, self.withdrawn) = (true, false),
                Effect::Withdraw => self.withdrawn = true,
                Effect::Release => (self.held, self.releasing) = (false, true),
                _ => {}
            }
            if self.verdict.is_ok() {
                self.verdict = self.judge.ordered(effect, self.now);
            }
        }
        if self.verdict.is_ok() {
            self.verdict = self.judge.rests(self.guard.state(), self.now);
        }
        if let Err(why) = &mut self.verdict {
            why.push_str(&format!("\n  at {:?} after {input:?}", self.now.since(START)));
        }
    }

    /// Time passes; the guard is woken when it asked for it, runs are killed when their time is over.
    pub fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        for _ in 0..10_000 {
            let timeout = self.runs.iter().map(|(&run, of)| (of.over, run)).min();
            let wake = self.guard.wake_at();
            let next = [timeout.map(|(at, _)| at), wake].into_iter().flatten().min();
            let Some(next) = next.filter(|&at| at + self.late <= end) else { break };
            self.now = self.now.max(next + self.late);
            match timeout {
                Some((at, run)) if at == next => {
                    self.tell(Input::Ended(run, ScriptOutcome::TimedOut))
                }
                _ => self.tell(Input::Tick),
            }
            if self.verdict.is_err() || self.judge.exited.is_some() {
                break;
            }
        }
        self.now = self.now.max(end);
    }

    /// The process stands still.
    pub fn pause(&mut self, span: Duration) {
        self.now = self.now + span;
        self.judge.paused |= self.judge.on();
        self.tell(Input::Tick);
        // All that ended meanwhile is reported when it wakes.
        let over = self.runs.iter().filter(|(_, of)| of.over <= self.now);
        for run in over.map(|(&run, _)| run).collect::<Vec<_>>() {
            if self.runs.contains_key(&run) {
                self.tell(Input::Ended(run, ScriptOutcome::TimedOut));
            }
        }
    }

    /// What runs, oldest first.
    pub fn runs(&self) -> Vec<(RunId, Script)> {
        self.runs.iter().map(|(&run, of)| (run, of.script)).collect()
    }

    fn the(&self, wanted: impl Fn(Script) -> bool) -> Option<RunId> {
        self.runs.iter().find(|(_, of)| wanted(of.script)).map(|(&run, _)| run)
    }

    #[track_caller]
    pub fn end(&mut self, script: Script, outcome: ScriptOutcome) {
        let run = self.the(|other| other == script);
        let run = run.unwrap_or_else(|| panic!("{script:?} does not run: {:?}", self.runs()));
        self.tell(Input::Ended(run, outcome));
    }

    /// Ends the check that runs, waiting for it if need be.
    #[track_caller]
    pub fn check(&mut self, outcome: ScriptOutcome) {
        for _ in 0..100 {
            if let Some(run) = self.the(|script| matches!(script, Script::Healthcheck { .. })) {
                self.tell(Input::Ended(run, outcome));
                return;
            }
            self.pass(ms(50));
        }
        panic!("no check begins");
    }

    pub fn grant(&mut self, ms: u64) {
        self.tell(Input::Granted { deadline: self.now + Duration::from_millis(ms) });
    }

    pub fn renew(&mut self, ms: u64) {
        self.tell(Input::Renewed { deadline: self.now + Duration::from_millis(ms) });
    }

    #[track_caller]
    pub fn is(&self, state: GuardState) {
        assert_eq!(self.verdict, Ok(()));
        assert_eq!(self.guard.state(), state, "{:#?}", self.log);
    }

    /// What was ordered since the last call, without reports.
    pub fn orders(&mut self) -> Vec<Effect> {
        let log = std::mem::take(&mut self.log);
        let reports = |effect: &Effect| matches!(effect, Effect::Report(_));
        log.into_iter().map(|(_, effect)| effect).filter(|effect| !reports(effect)).collect()
    }

    pub fn alarms(&self) -> Vec<Alarm> {
        let alarm = |(_, effect): &(Moment, Effect)| match effect {
            Effect::Report(Report::Alarm(alarm)) => Some(*alarm),
            _ => None,
        };
        self.log.iter().filter_map(alarm).collect()
    }

    /// Whether something of this kind was ordered since the log was emptied.
    pub fn ordered(&self, wanted: impl Fn(Effect) -> bool) -> bool {
        self.log.iter().any(|&(_, effect)| wanted(effect))
    }

    pub fn started(&self, wanted: Script) -> bool {
        self.ordered(|effect| matches!(effect, Effect::Run { script, .. } if script == wanted))
    }

    /// A healthy standby that campaigns.
    pub fn standby() -> Self {
        Self::standby_with(settings())
    }

    pub fn standby_with(settings: Settings) -> Self {
        let mut bench = Self::new(settings);
        bench.end(Script::Deactivate, ScriptOutcome::Ok);
        bench.check(ScriptOutcome::Ok);
        bench.is(GuardState::Standby);
        bench
    }

    /// An active guard whose lease was granted for the ttl just before the last confirmation.
    pub fn active() -> Self {
        Self::active_with(settings())
    }

    pub fn active_with(settings: Settings) -> Self {
        let mut bench = Self::standby_with(settings);
        bench.grant(3000);
        bench.check(ScriptOutcome::Ok);
        bench.check(ScriptOutcome::Ok);
        if bench.settings.fence {
            bench.end(Script::Fence, ScriptOutcome::Ok);
        }
        bench.renew(3000);
        bench.end(Script::Activate, ScriptOutcome::Ok);
        bench.is(GuardState::Active);
        bench
    }

    /// Faults stop: everything succeeds at once, and heartbeats are answered.
    pub fn bliss(&mut self, span: Duration, until: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + span;
        while self.now < end && self.verdict.is_ok() {
            if until(self) {
                return true;
            }
            if let Some((run, _)) = self.runs().first() {
                self.tell(Input::Ended(*run, ScriptOutcome::Ok));
            } else if self.asking && !self.withdrawn {
                self.grant(3000);
            } else if self.asking {
                self.tell(Input::NotGranted);
            } else if self.releasing {
                self.tell(Input::Released);
            } else {
                if self.held {
                    self.renew(3000);
                }
                self.pass(ms(100));
            }
        }
        until(self)
    }
}
