//! The heartbeat in the background: when to send, how long to wait, when to give up.
//!
//! Guarantees: several tries before a guarantee ends; the holder is told when a renewal is overdue and
//! when it is over, within a second of it on a machine that did not sleep.
//!
//! Assumes: the runtime runs its tasks; where it does not, [`Guarantee::valid`] still tells the truth.

use std::{future::Future, time::Duration};

use super::guarantee::{Guarantee, Loss, Sent};
use crate::{clock::Chance, lease::Moment};

/// A sleep is cut into slices: timers do not count suspend.
const SLICE: Duration = Duration::from_secs(1);
/// The shortest pause after a try that failed.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);

/// What one try came to.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// It goes on; the next heartbeat is wanted after so long at the latest, where it says so.
    Alive(Option<Duration>),
    /// It is over.
    Lost(Loss),
    /// No answer, or one that asks to come again, after so long where it says so.
    Failed(Option<Duration>),
}

/// Something that a heartbeat keeps.
pub(super) trait Kept: Sync {
    /// Its guarantee.
    fn guarantee(&self) -> &Guarantee;

    /// One heartbeat to one server, that takes no longer than `patience`. What is alive has its guarantee
    /// renewed by it.
    fn beat(&self, sent: Sent, patience: Duration) -> impl Future<Output = Outcome> + Send;

    /// A renewal is overdue.
    fn overdue(&self);

    /// It is over.
    fn over(&self, loss: Loss);
}

/// When things are due, all of it reckoned back from the end of the guarantee.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    ttl: Duration,
}

impl Pace {
    pub(super) fn new(ttl: Duration) -> Self {
        Self { ttl }
    }

    /// The next heartbeat: after a third of the ttl or a little earlier, so that holders part.
    pub(super) fn due(self, until: Moment, chance: &mut Chance) -> Moment {
        until - (self.ttl * 2 / 3 + chance.jitter(self.ttl / 12))
    }

    /// From here on the holder ought to know that something is wrong.
    pub(super) fn overdue(self, until: Moment) -> Moment {
        until - self.ttl / 2
    }

    /// How long one try may take.
    pub(super) fn patience(self, left: Duration) -> Duration {
        (self.ttl / 6).min(left)
    }

    /// The pause after a try that failed.
    pub(super) fn pause(
        self,
        asked: Option<Duration>,
        left: Duration,
        chance: &mut Chance,
    ) -> Duration {
        let own = self.ttl / 60 + chance.jitter(self.ttl / 60);
        // What a server asks for is honoured as long as it leaves time for other tries.
        asked.unwrap_or(own).min(left / 4).max(SHORTEST_PAUSE)
    }
}

/// Keeps it until it is over.
pub(super) async fn keep(kept: &impl Kept, ttl: Duration, mut chance: Chance) {
    let (guarantee, pace) = (kept.guarantee(), Pace::new(ttl));
    let clock = guarantee.clock.clone();
    let mut due = pace.due(guarantee.deadline().until, &mut chance);
    while guarantee.valid() {
        let (now, until) = (clock.now(), guarantee.deadline().until);
        if now >= pace.overdue(until) {
            kept.overdue();
        }
        if now < due {
            wait(guarantee, now, [due, pace.overdue(until), until]).await;
            continue;
        }
        let sent = Sent::now(clock.as_ref());
        let patience = pace.patience(until.since(sent.at));
        let outcome = tokio::select! {
            biased;
            loss = guarantee.lost() => Outcome::Lost(loss),
            outcome = kept.beat(sent, patience) => outcome,
        };
        match outcome {
            Outcome::Alive(soon) => {
                due = pace.due(guarantee.deadline().until, &mut chance);
                due = soon.map_or(due, |soon| due.min(clock.now() + soon));
            }
            Outcome::Lost(loss) => {
                guarantee.lose(loss);
            }
            Outcome::Failed(asked) => {
                let left = until.since(clock.now());
                due = clock.now() + pace.pause(asked, left, &mut chance);
            }
        }
    }
    let loss = guarantee.deadline().lost.unwrap_or(Loss::Unknown);
    kept.over(loss);
}

/// Sleeps until the first of these moments that is to come, or until it is over.
async fn wait(guarantee: &Guarantee, now: Moment, moments: [Moment; 3]) {
    let next = moments.into_iter().filter(|moment| *moment > now).min().unwrap_or(now);
    tokio::select! {
        _ = guarantee.lost() => {}
        () = tokio::time::sleep(next.since(now).min(SLICE)) => {}
    }
}
