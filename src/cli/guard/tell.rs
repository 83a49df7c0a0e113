//! Messages of the guard, on stderr and to the service manager.

use std::time::Duration;

use sd_notify::NotifyState;

use super::pace::{Pace, Words};
use crate::{
    cli::output::{log, shown},
    clock::{Clock, SystemClock},
    lease::Moment,
    settings::format_duration,
    worker::{
        agent::{AgentMessage, Charge},
        guard::{Alarm, GuardState, Report, Rest},
    },
};

/// Tells people by lines, and systemd by its notification socket.
pub(super) struct Teller {
    key: String,
    clock: SystemClock,
    /// Half of the service manager's watchdog interval.
    watchdog: Option<Duration>,
    next_pulse: Moment,
    pace: Pace,
}

impl Teller {
    pub(super) fn new(charge: &Charge) -> Self {
        let watchdog = sd_notify::watchdog_enabled().map(|span| span / 2);
        Self {
            key: shown(&charge.key),
            clock: SystemClock::new(),
            watchdog,
            next_pulse: Moment::ZERO,
            pace: Pace::new(charge.settings.round + charge.settings.check_timeout),
        }
    }

    pub(super) fn tell(&mut self, told: &AgentMessage) {
        match told {
            AgentMessage::Pulse => self.pulse(),
            AgentMessage::Report(report) => self.report(*report),
            other => {
                if let Some(words) = words(other) {
                    self.say(&words);
                }
            }
        }
    }

    fn pulse(&mut self) {
        let Some(every) = self.watchdog else { return };
        let now = self.clock.now();
        if now >= self.next_pulse {
            self.next_pulse = now + every;
            notify(NotifyState::Watchdog);
        }
    }

    fn report(&mut self, report: Report) {
        match report {
            Report::Ready => notify(NotifyState::Ready),
            Report::GuardState(GuardState::Gone) => {}
            Report::GuardState(state) => {
                self.say(&state.to_string());
                notify(NotifyState::Status(&state.to_string()));
                if state == GuardState::Leaving {
                    notify(NotifyState::Stopping);
                }
            }
            Report::Leaving(why) => {
                self.say(&format!("deactivates the service: {}", why));
                if why == Rest::Terminated {
                    notify(NotifyState::Stopping);
                }
            }
            Report::Unhealthy { failures, outcome } => {
                match self.pace.words(failures, self.clock.now()) {
                    Words::News => {
                        self.say(&format!("the health check {outcome} ({failures} in a row)"));
                    }
                    Words::Still => {
                        self.say(&format!("the health check {outcome} again, as before"))
                    }
                    Words::Nothing => {}
                }
            }
            Report::Resting { why, pause } => {
                let pause = format_duration(pause);
                self.say(&format!("does not compete for the lease for {pause}: {}", why));
            }
            Report::Alarm(alarm) => {
                let words = alarm_words(alarm);
                self.say(&format!("ALARM: {words}"));
                notify(NotifyState::Status(&format!("ALARM: {words}")));
            }
        }
    }

    fn say(&self, words: &str) {
        log(&format!("guard {}: {words}", self.key));
    }
}

/// A failure is ignored: this process may run without a service manager.
fn notify(state: NotifyState<'_>) {
    let _ = sd_notify::notify(&[state]);
}

fn words(told: &AgentMessage) -> Option<String> {
    Some(match told {
        AgentMessage::Granted(token) => format!("has the lease, token {token}"),
        AgentMessage::Lost(loss) => format!("has lost the lease: {loss}"),
        AgentMessage::Refused(why) => format!("does not get the lease: {why}"),
        AgentMessage::NotReleased(why) => {
            format!("could not give the lease back, so it expires: {why}")
        }
        AgentMessage::WillRan => {
            "the agent was late: its guardian has deactivated the service".to_owned()
        }
        AgentMessage::GuardianGone => {
            "ALARM: its guardian is gone; deactivates the service and ends".to_owned()
        }
        AgentMessage::Report(_) | AgentMessage::Pulse => return None,
    })
}

fn alarm_words(alarm: Alarm) -> String {
    match alarm {
        Alarm::NotDeactivated { tries, left } => {
            let left = left.map_or("no lease is held".to_owned(), |left| {
                let left =
                    Duration::from_millis(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
                format!("the lease ends in {}", format_duration(left))
            });
            format!("the service is not deactivated after {tries} failed tries; {left}; retrying")
        }
        Alarm::Overrun => "the lease has ended, and the service may still be active".to_owned(),
    }
}
