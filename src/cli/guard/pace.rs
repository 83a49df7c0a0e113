//! How often a health check that keeps failing is told of.

use std::time::Duration;

use crate::lease::Moment;

/// The shortest time between two messages on the same failure.
const AGAIN: Duration = Duration::from_secs(60);

/// What is said of a failed check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    /// It failed, which is news.
    News,
    /// It still fails.
    Still,
    Nothing,
}

/// On standby, each failed check is the first one in a row. Without this, every round would be told.
#[derive(Debug)]
pub(super) struct Pace {
    /// The longest time from the end of a check to the end of the next one.
    gap: Duration,
    failed: Option<Moment>,
    said: Moment,
}

impl Pace {
    pub(super) fn new(gap: Duration) -> Self {
        Self { gap, failed: None, said: Moment::ZERO }
    }

    /// What to say of a check that failed now, and which of the failures in a row that was.
    pub(super) fn words(&mut self, failures: u32, now: Moment) -> Words {
        let failed = self.failed.replace(now);
        let continues = failures == 1 && failed.is_some_and(|at| now <= at + self.gap);
        let words = match continues {
            false => Words::News,
            true if now >= self.said + AGAIN => Words::Still,
            true => return Words::Nothing,
        };
        self.said = now;
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_once_and_then_once_a_minute() {
        let mut pace = Pace::new(Duration::from_secs(4));
        let mut at = |second: u64, failures| {
            pace.words(failures, Moment::ZERO + Duration::from_secs(second))
        };
        assert_eq!(at(100, 1), Words::News);
        let silent = (103..160).step_by(3).all(|second| at(second, 1) == Words::Nothing);
        assert!(silent);
        assert_eq!(at(160, 1), Words::Still);
        assert_eq!(at(163, 1), Words::Nothing);
        assert_eq!(at(170, 1), Words::News, "it succeeded in between");
        assert_eq!([at(173, 2), at(176, 3)], [Words::News; 2], "each one in a row counts");
    }
}
