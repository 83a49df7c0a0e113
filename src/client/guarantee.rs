//! What a holder knows of its tenure: until when it is guaranteed, and whether it is over.
//!
//! Guarantees: once [`Guarantee::valid`] was false in any thread, it is never true again. Nothing extends a guarantee
//! that ran out, however late it is looked at.
//!
//! Does not guarantee: that the holder learns in time that its tenure was ended before the guarantee ran out.
//!
//! Assumes: the clock counts suspend, and its rate is within the drift that the server allows for.

use std::{fmt, sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::{clock::Clock, lease::Moment};

/// Why a lease or session is over for its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// It ran out: the server said so, or this process did not run in time.
    Expired,
    /// Its holder gave it back before it ran out.
    Released,
    /// It was ended by an administrator, or because a hand-over took too long.
    Revoked,
    /// Its owner acquired it again with `reclaim`.
    Reclaimed,
    /// A newer session of the same owner took its place: another process runs under this owner's name.
    Replaced,
    /// Its holder handed it over.
    Transferred,
    /// The session that kept it is over.
    SessionEnded,
    /// It ran out and its fence has begun, so that it cannot be revived.
    Fenced,
    /// The server does not know it, or does not say.
    Unknown,
    /// The guarantee ran out, and no server had renewed it.
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
            Some("replaced") => Self::Replaced,
            Some("transferred") => Self::Transferred,
            Some("session-ended") => Self::SessionEnded,
            Some("fenced") => Self::Fenced,
            _ => Self::Unknown,
        }
    }

    /// Whether another process of the same owner may already be at work: no promise protects what is still done.
    fn is_takeover(self) -> bool {
        matches!(self, Self::Reclaimed | Self::Replaced)
    }

    /// The cause as the API names it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Released => "released",
            Self::Revoked => "revoked",
            Self::Reclaimed => "reclaimed",
            Self::Replaced => "replaced",
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

/// Until when a holder has a lease or session, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The end of the guarantee, on the suspend-aware clock. For a lost lease: the moment by which all work under it
    /// must have stopped. This is the end of the last promise, or the moment of the loss if another process of the same
    /// owner took the lease.
    pub until: Moment,
    /// The same, in milliseconds of `CLOCK_BOOTTIME`.
    pub boottime_ms: u64,
    /// Whether a renewal is overdue.
    pub at_risk: bool,
    /// The time by which it must be handed over; it is revoked after that.
    pub handover: Option<Moment>,
    /// Why it is over, once it is. Then this never changes.
    pub lost: Option<Loss>,
}

/// A moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(super) at: Moment,
    pub(crate) boottime_ms: u64,
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
    /// The guarantee in the answer to a request that was sent at `sent`.
    pub(super) fn new(clock: Arc<dyn Clock>, sent: Sent, valid_for_ms: u64) -> Self {
        let (until, boottime_ms) = sent.deadline(valid_for_ms);
        let deadline = Deadline { until, boottime_ms, at_risk: false, handover: None, lost: None };
        Self { clock, told: watch::Sender::new(deadline) }
    }

    /// Whether the guarantee holds at this moment.
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

    /// Ends the guarantee if its time has run out.
    fn lapse(&self) -> Lapse {
        let mut lapse = Lapse::Over;
        self.told.send_if_modified(|told| {
            if told.lost.is_some() {
                return false;
            }
            if self.clock.now() < told.until {
                // Another thread has just extended it.
                lapse = Lapse::Lasts;
                return false;
            }
            told.lost = Some(if told.at_risk { Loss::Unreachable } else { Loss::Expired });
            true
        });
        lapse
    }

    /// Applies a renewal. Returns false and changes nothing when it came too late.
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
            // An older answer that arrives late does not shorten the guarantee.
            if until > told.until {
                (told.until, told.boottime_ms) = (until, boottime_ms);
            }
            told.at_risk = false;
            *told != before
        });
        renewed || self.valid()
    }

    /// Notes that a renewal is overdue.
    pub(super) fn risk(&self) {
        self.change(|told| told.at_risk = true);
    }

    /// Notes that it must be handed over by `moment`.
    pub(super) fn hand_over(&self, moment: Moment) {
        self.change(|told| {
            let sooner = told.handover.map_or(moment, |before| before.min(moment));
            told.handover = Some(sooner);
        });
    }

    /// Ends it. Returns false when it was already over.
    pub(super) fn lose(&self, loss: Loss) -> bool {
        let now = Sent::now(self.clock.as_ref());
        self.valid()
            && self.change(|told| {
                told.lost = Some(loss);
                if loss.is_takeover() {
                    told.until = told.until.min(now.at);
                    told.boottime_ms = told.boottime_ms.min(now.boottime_ms);
                }
            })
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

    /// The time that is left; zero when it is over.
    pub(super) fn remaining(&self) -> Duration {
        let valid = self.valid();
        let left = self.deadline().until.since(self.clock.now());
        if valid { left } else { Duration::ZERO }
    }

    /// Resolves when it is over.
    pub(super) async fn lost(&self) -> Loss {
        self.until(|told| told.lost).await
    }

    /// Resolves when a renewal is overdue, with the time left; never if it is over before.
    pub(super) async fn at_risk(&self) -> Duration {
        self.until(|told| (told.at_risk && told.lost.is_none()).then_some(())).await;
        self.remaining()
    }

    /// Resolves when it must be handed over, with the time left for that; never if it is over before.
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
