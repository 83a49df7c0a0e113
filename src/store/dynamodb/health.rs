//! Whether the table accepts writes, and when to send no requests to it.

use std::time::Duration;

use crate::{
    clock::Chance,
    lease::{Epoch, Moment},
    store::{Health, Witness},
};

/// The first and the longest span for which writes to a throttled table are refused.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// How long a table still counts as throttled after that span. Perhaps no caller tries a write in that time.
const GRACE: Duration = Duration::from_secs(1);
/// After this time without throttling, the next one counts as the first.
const FORGET: Duration = Duration::from_secs(10);
/// How many failures in a row make the store unready. A single lost reply does not.
const DOWN_AFTER: u32 = 2;

/// Why nothing may be granted.
#[derive(Clone, Debug)]
pub(super) struct Frozen {
    /// The reason, in one sentence for people.
    pub why: String,
    /// The store thaws when its epoch is above this.
    pub epoch: Epoch,
    /// What was known of the store before it froze. What the store holds now is not trusted.
    pub remember: Witness,
}

#[derive(Debug)]
pub(super) struct RecentFailures {
    pub frozen: Option<Frozen>,
    /// The table did not exist. Before anything else, the next table must be checked for being the same one.
    pub gone: bool,
    throttled: Option<(Moment, u32)>,
    failures: u32,
    why: String,
    chance: Chance,
}

impl RecentFailures {
    pub fn new(chance: Chance) -> Self {
        Self { frozen: None, gone: false, throttled: None, failures: 0, why: String::new(), chance }
    }

    /// A request was answered. Only an answered write shows that writes are no longer throttled.
    pub fn answered(&mut self, write: bool) {
        self.failures = 0;
        if write {
            self.throttled = None;
        }
    }

    pub fn failed(&mut self, why: &str, grave: bool) {
        self.failures = self.failures.saturating_add(if grave { DOWN_AFTER } else { 1 });
        self.gone |= grave;
        why.clone_into(&mut self.why);
    }

    /// A request was throttled. Writes are refused for a span that grows while this continues.
    pub fn throttled(&mut self, why: &str, now: Moment) {
        let rounds = match self.throttled {
            // Requests that were in flight together count as one round.
            Some((until, rounds)) if now < until => {
                self.throttled = Some((until, rounds));
                return;
            }
            Some((until, rounds)) if now < until + FORGET => rounds + 1,
            _ => 0,
        };
        let (first, longest) = BACKOFF;
        let span = first.saturating_mul(1 << rounds.min(10)).min(longest);
        self.throttled = Some((now + span / 2 + self.chance.jitter(span / 2), rounds));
        why.clone_into(&mut self.why);
    }

    /// Why nothing may be written, for any reason.
    pub fn halted(&self) -> Option<&'static str> {
        match self.frozen {
            Some(_) => Some("frozen"),
            None => self.gone.then_some("the table was missing"),
        }
    }

    /// Why a write is refused at once.
    pub fn refuses(&self, now: Moment) -> Option<String> {
        if let Some(frozen) = &self.frozen {
            return Some(format!("frozen: {}", frozen.why));
        }
        if self.gone {
            return Some(format!("the table was missing: {}", self.why));
        }
        match self.throttled {
            Some((until, _)) if now < until => Some(format!("throttled: {}", self.why)),
            _ => None,
        }
    }

    /// A random span of at most `span`.
    pub fn jitter(&mut self, span: Duration) -> Duration {
        self.chance.jitter(span)
    }

    pub fn health(&self, now: Moment) -> Health {
        if let Some(frozen) = &self.frozen {
            Health::Frozen(frozen.why.clone())
        } else if self.throttled.is_some_and(|(until, _)| now < until + GRACE) {
            Health::Degraded(format!("the table throttles: {}", self.why))
        } else if self.gone {
            Health::Degraded(format!("the table was missing: {}", self.why))
        } else if self.failures >= DOWN_AFTER {
            Health::Degraded(self.why.clone())
        } else {
            Health::Ready
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_throttled_table_is_left_alone_for_longer_and_longer() {
        let mut recent_failures = RecentFailures::new(Chance::new(1));
        let mut now = Moment(0);
        let mut last = Duration::ZERO;
        for _ in 0..8 {
            recent_failures.throttled("slow", now);
            let start = now;
            while recent_failures.refuses(now).is_some() {
                now = now + Duration::from_millis(1);
            }
            last = now.since(start);
        }
        assert!(last >= BACKOFF.1 / 2 && last <= BACKOFF.1 + Duration::from_millis(1), "{last:?}");
        assert!(matches!(recent_failures.health(now), Health::Degraded(_)));
        recent_failures.answered(false);
        assert!(
            matches!(recent_failures.health(now), Health::Degraded(_)),
            "a read says nothing about writes"
        );
        assert_eq!(recent_failures.health(now + GRACE), Health::Ready);
        recent_failures.answered(true);
        assert_eq!(recent_failures.health(now), Health::Ready);
    }

    #[test]
    fn after_a_table_was_gone_nothing_is_written_until_it_was_looked_at() {
        let mut recent_failures = RecentFailures::new(Chance::new(1));
        recent_failures.failed("x", false);
        assert_eq!((recent_failures.refuses(Moment(0)), recent_failures.halted()), (None, None));
        recent_failures.failed("no table", true);
        recent_failures.answered(true);
        assert!(recent_failures.refuses(Moment(0)).is_some_and(|why| why.contains("no table")));
        assert!(recent_failures.halted().is_some());
        assert!(matches!(recent_failures.health(Moment(0)), Health::Degraded(_)));
        recent_failures.gone = false;
        assert_eq!((recent_failures.refuses(Moment(0)), recent_failures.halted()), (None, None));
        assert_eq!(recent_failures.health(Moment(0)), Health::Ready);
    }

    #[test]
    fn one_lost_reply_is_no_news_and_a_frozen_store_says_so_first() {
        let mut recent_failures = RecentFailures::new(Chance::new(1));
        recent_failures.failed("x", false);
        assert_eq!(recent_failures.health(Moment(0)), Health::Ready);
        recent_failures.failed("x", false);
        assert_eq!(recent_failures.health(Moment(0)), Health::Degraded("x".to_owned()));
        let (identity, epoch) = (crate::lease::Nonce(1), Epoch(0));
        let remember = Witness { identity, epoch, highest: crate::lease::Revision(0) };
        recent_failures.frozen = Some(Frozen { why: "y".to_owned(), epoch, remember });
        assert_eq!(recent_failures.health(Moment(0)), Health::Frozen("y".to_owned()));
        recent_failures.answered(true);
        assert!(recent_failures.refuses(Moment(0)).is_some());
    }
}
