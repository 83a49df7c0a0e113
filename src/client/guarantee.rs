//! What a holder knows of its tenure: until when it is sure, and whether it is over.
//!
//! Guarantees: once [`Guarantee::valid`] was false it is never true again, for all threads together;
//! nothing extends a guarantee that ran out, however late anybody looks.
//!
//! Does not guarantee: to find out in time that a tenure was ended while its guarantee lasts.
//!
//! Assumes: the clock counts suspend, and runs within the drift that the server reckons with.

use std::{fmt, sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::{clock::Clock, lease::Moment};

/// Why a lease or session is over for its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// It ran out: the server said so, or this process did not run.
    Expired,
    /// Its holder gave it back.
    Released,
    /// An administrator, or a hand-over that took too long, ended it.
    Revoked,
    /// Its owner took it anew.
    Reclaimed,
    /// Its holder handed it over.
    Transferred,
    /// The session that kept it is over.
    SessionEnded,
    /// Its fence was begun.
    Fenced,
    /// The server does not know it, or does not say.
    Unknown,
    /// The guarantee ran out, and no server had answered.
    Unreachable,
}

impl Loss {
    /// The cause that the server gave.
    #[must_use]
    pub fn from_reason(reason: Option<&str>) -> Self {
        match reason {
            Some("expired") => Self::Expired,
            Some("released") => Self::Released,
            Some("revoked") => Self::Revoked,
            Some("reclaimed") => Self::Reclaimed,
            Some("transferred") => Self::Transferred,
            Some("session-ended") => Self::SessionEnded,
            Some("fenced") => Self::Fenced,
            _ => Self::Unknown,
        }
    }

    /// The cause as the API names it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Released => "released",
            Self::Revoked => "revoked",
            Self::Reclaimed => "reclaimed",
            Self::Transferred => "transferred",
            Self::SessionEnded => "session-ended",
            Self::Fenced => "fenced",
            Self::Unknown => "unknown-lease",
            Self::Unreachable => "unreachable",
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Until when a lease or session is its holder's, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The end of the guarantee, on the suspend-aware clock. Of a lease that is lost: the end of what
    /// was promised last, until when what works on it must have stopped.
    pub until: Moment,
    /// The same, in milliseconds of `CLOCK_BOOTTIME`.
    pub boottime_ms: u64,
    /// A renewal is overdue.
    pub at_risk: bool,
    /// It is to be handed over until then, or will be revoked.
    pub handover: Option<Moment>,
    /// It is over, and why. This never changes any more.
    pub lost: Option<Loss>,
}

/// A moment as the two clocks show it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Moment,
    boottime_ms: u64,
}

impl Sent {
    /// Now, before something is sent.
    pub(super) fn now(clock: &dyn Clock) -> Self {
        Self { at: clock.now(), boottime_ms: clock.boottime_ms() }
    }

    fn deadline(self, valid_for_ms: u64) -> (Moment, u64) {
        let until = self.at + Duration::from_millis(valid_for_ms);
        (until, self.boottime_ms.saturating_add(valid_for_ms))
    }
}

/// One tenure's guarantee.
pub(super) struct Guarantee {
    pub(super) clock: Arc<dyn Clock>,
    told: watch::Sender<Deadline>,
}

impl fmt::Debug for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guarantee").field(&*self.told.borrow()).finish()
    }
}

impl Guarantee {
    /// What an answer promised to a request that was sent at `sent`.
    pub(super) fn new(clock: Arc<dyn Clock>, sent: Sent, valid_for_ms: u64) -> Self {
        let (until, boottime_ms) = sent.deadline(valid_for_ms);
        let deadline = Deadline { until, boottime_ms, at_risk: false, handover: None, lost: None };
        Self { clock, told: watch::Sender::new(deadline) }
    }

    /// Whether it holds at this moment.
    pub(super) fn valid(&self) -> bool {
        {
            let told = self.told.borrow();
            if told.lost.is_some() {
                return false;
            }
            if self.clock.now() < told.until {
                return true;
            }
        }
        self.lapse() == Lapse::Lasts
    }

    /// Puts an end to it if its time has run out.
    fn lapse(&self) -> Lapse {
        let mut lapse = Lapse::Over;
        self.told.send_if_modified(|told| {
            if told.lost.is_some() {
                return false;
            }
            if self.clock.now() < told.until {
                // It was extended just now.
                lapse = Lapse::Lasts;
                return false;
            }
            told.lost = Some(if told.at_risk { Loss::Unreachable } else { Loss::Expired });
            true
        });
        lapse
    }

    /// What a renewal promised. False, and nothing changed, when it came too late.
    pub(super) fn renew(&self, sent: Sent, valid_for_ms: u64) -> bool {
        if !self.valid() {
            return false;
        }
        let (until, boottime_ms) = sent.deadline(valid_for_ms);
        let mut renewed = false;
        self.told.send_if_modified(|told| {
            if told.lost.is_some() || self.clock.now() >= told.until {
                return false;
            }
            renewed = true;
            let before = *told;
            // An answer that was overtaken takes nothing back.
            if until > told.until {
                (told.until, told.boottime_ms) = (until, boottime_ms);
            }
            told.at_risk = false;
            *told != before
        });
        renewed || self.valid()
    }

    /// A renewal is overdue.
    pub(super) fn risk(&self) {
        self.change(|told| told.at_risk = true);
    }

    /// It is to be handed over until `moment`.
    pub(super) fn hand_over(&self, moment: Moment) {
        self.change(|told| {
            let sooner = told.handover.map_or(moment, |before| before.min(moment));
            told.handover = Some(sooner);
        });
    }

    /// It is over. False when it was before.
    pub(super) fn lose(&self, loss: Loss) -> bool {
        self.valid() && self.change(|told| told.lost = Some(loss))
    }

    fn change(&self, change: impl FnOnce(&mut Deadline)) -> bool {
        self.told.send_if_modified(|told| {
            let before = *told;
            if before.lost.is_none() {
                change(told);
            }
            *told != before
        })
    }

    pub(super) fn deadline(&self) -> Deadline {
        *self.told.borrow()
    }

    pub(super) fn watch(&self) -> watch::Receiver<Deadline> {
        self.told.subscribe()
    }

    /// How long it lasts yet; zero when it is over.
    pub(super) fn remaining(&self) -> Duration {
        let valid = self.valid();
        let left = self.deadline().until.since(self.clock.now());
        if valid { left } else { Duration::ZERO }
    }

    /// Resolves when it is over.
    pub(super) async fn lost(&self) -> Loss {
        self.until(|told| told.lost).await
    }

    /// Resolves when a renewal is overdue, with the time left; never when it is over before.
    pub(super) async fn at_risk(&self) -> Duration {
        self.until(|told| (told.at_risk && told.lost.is_none()).then_some(())).await;
        self.remaining()
    }

    /// Resolves when it is to be handed over, with the time left for that; never when it is over before.
    pub(super) async fn handover_requested(&self) -> Duration {
        let end = self.until(|told| told.handover.filter(|_| told.lost.is_none())).await;
        end.since(self.clock.now())
    }

    async fn until<T>(&self, so: impl Fn(&Deadline) -> Option<T>) -> T {
        let mut seen = self.watch();
        loop {
            if let Some(found) = so(&seen.borrow_and_update()) {
                return found;
            }
            if seen.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

#[derive(PartialEq)]
enum Lapse {
    Over,
    Lasts,
}
