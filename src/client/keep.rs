//! The heartbeat in the background: when to send it, how long to wait, and when to give up.
//!
//! Guarantees: several attempts are made before a guarantee ends. The holder learns that a renewal is overdue, or that
//! the guarantee is over, within 1 s on a machine that was not suspended.
//!
//! Assumes: the runtime runs its tasks. If it does not, [`Guarantee::valid`] is still correct.

use std::{future::Future, time::Duration};

use super::{
    error::ClientError,
    guarantee::{Guarantee, Loss, Sent},
};
use crate::{api::Code, clock::Chance, lease::Moment};

/// The longest single sleep. Sleeps are cut into slices because timers do not count suspend.
const SLICE: Duration = Duration::from_secs(1);
/// The shortest pause after a failed attempt.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);

/// How many times in a ttl a heartbeat that was denied is tried again: a server's file of principals may be mended.
const DENIED_PAUSES: u32 = 12;

#[derive(Clone, Debug)]
pub(super) enum KeepOutcome {
    /// It goes on. The next heartbeat is wanted after this long at the latest, if there is a limit.
    Alive(Option<Duration>),
    /// It is over, for this reason.
    Lost(Loss),
    /// No answer, or one that asks to try again, after this long if the answer says so.
    Failed(Option<Duration>),
    /// The server does not know the caller, or does not allow it this, for this reason. That ends nothing.
    Denied(String),
}

impl KeepOutcome {
    /// The outcome of a failed heartbeat. The problem with the code `lost` says that it is over.
    pub(super) fn of_failure(error: &ClientError, lost: Code) -> Self {
        match error.problem() {
            Some(problem) if error.is_no_permission() => Self::Denied(problem.to_string()),
            Some(problem) if problem.known() == Some(lost) => {
                Self::Lost(Loss::from_reason(problem.reason.as_deref()))
            }
            Some(problem) => Self::Failed(problem.retry_after_ms.map(Duration::from_millis)),
            None => Self::Failed(None),
        }
    }
}

/// Something that a heartbeat keeps.
pub(super) trait Kept: Sync {
    fn guarantee(&self) -> &Guarantee;

    /// Sends one heartbeat to one server, and takes no longer than `patience`. If it is alive, this also renews the
    /// guarantee.
    fn beat(&self, sent: Sent, patience: Duration) -> impl Future<Output = KeepOutcome> + Send;

    /// Called when a renewal is overdue.
    fn overdue(&self);

    fn over(&self, loss: Loss);

    /// Resolves when a server told by itself that something happened: the next heartbeat comes at once.
    fn nudged(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Called when heartbeats begin to be denied, with the reason, and when they are allowed again.
    fn denied(&self, why: Option<&str>);
}

/// When actions are due, all counted back from the end of the guarantee.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    ttl: Duration,
}

impl Pace {
    pub(super) fn new(ttl: Duration) -> Self {
        Self { ttl }
    }

    /// When the next heartbeat is due: after a third of the ttl or a little earlier, so that holders spread out.
    pub(super) fn due(self, until: Moment, chance: &mut Chance) -> Moment {
        until - (self.ttl * 2 / 3 + chance.jitter(self.ttl / 12))
    }

    /// From this moment on, the holder should know that something is wrong.
    pub(super) fn overdue(self, until: Moment) -> Moment {
        until - self.ttl / 2
    }

    /// How long one attempt may take.
    pub(super) fn patience(self, left: Duration) -> Duration {
        (self.ttl / 6).min(left)
    }

    /// The pause after a failed attempt.
    pub(super) fn pause(
        self,
        asked: Option<Duration>,
        left: Duration,
        chance: &mut Chance,
    ) -> Duration {
        let own = self.ttl / 60 + chance.jitter(self.ttl / 60);
        // The pause that a server asks for is respected as long as it leaves time for other attempts.
        asked.unwrap_or(own).min(left / 4).max(SHORTEST_PAUSE)
    }
}

/// Sends heartbeats until the tenure or session is over.
pub(super) async fn keep(kept: &impl Kept, ttl: Duration, mut chance: Chance) {
    let (guarantee, pace) = (kept.guarantee(), Pace::new(ttl));
    let clock = guarantee.clock.clone();
    let mut due = pace.due(guarantee.deadline().until, &mut chance);
    let mut denied = false;
    while guarantee.valid() {
        let (now, until) = (clock.now(), guarantee.deadline().until);
        if now >= pace.overdue(until) {
            kept.overdue();
        }
        if now < due {
            tokio::select! {
                biased;
                () = kept.nudged() => due = clock.now(),
                () = wait(guarantee, now, [due, pace.overdue(until), until]) => {}
            }
            continue;
        }
        let sent = Sent::now(clock.as_ref());
        let patience = pace.patience(until.since(sent.at));
        let outcome = tokio::select! {
            biased;
            loss = guarantee.lost() => KeepOutcome::Lost(loss),
            outcome = kept.beat(sent, patience) => outcome,
        };
        match outcome {
            KeepOutcome::Alive(soon) => {
                if std::mem::take(&mut denied) {
                    kept.denied(None);
                }
                due = pace.due(guarantee.deadline().until, &mut chance);
                due = soon.map_or(due, |soon| due.min(clock.now() + soon));
            }
            KeepOutcome::Lost(loss) => {
                guarantee.lose(loss);
            }
            KeepOutcome::Failed(asked) => {
                let left = until.since(clock.now());
                due = clock.now() + pace.pause(asked, left, &mut chance);
            }
            KeepOutcome::Denied(why) => {
                // The holder learns at once why its guarantee will run out.
                if !std::mem::replace(&mut denied, true) {
                    kept.denied(Some(&why));
                }
                let left = until.since(clock.now());
                due = clock.now() + pace.pause(Some(ttl / DENIED_PAUSES), left, &mut chance);
            }
        }
    }
    let loss = guarantee.deadline().lost.unwrap_or(Loss::Unknown);
    kept.over(loss);
}

/// Sleeps until the next of these moments, or until it is over.
async fn wait(guarantee: &Guarantee, now: Moment, moments: [Moment; 3]) {
    let next = moments.into_iter().filter(|moment| *moment > now).min().unwrap_or(now);
    tokio::select! {
        _ = guarantee.lost() => {}
        () = tokio::time::sleep(next.since(now).min(SLICE)) => {}
    }
}
