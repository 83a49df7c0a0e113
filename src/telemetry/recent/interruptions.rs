//! When this node could promise nothing for a moment, or had to begin anew.

use std::time::Duration;

use crate::lease::Moment;

/// Interruptions that follow each other within this time count together.
const TOGETHER: Duration = Duration::from_secs(600);

/// Why this node promised nothing for a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// By how many milliseconds the wall clock moved against the node's clock.
    ClockJump(i64),
    /// The node did not renew its record in time.
    RecordRanOut,
    /// Another node found it dead.
    FoundDead,
}

/// Interruptions of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interruptions {
    /// The latest one.
    pub latest: Interruption,
    /// When that was.
    pub at: Moment,
    /// How many there were, with less than ten minutes between them.
    pub count: u64,
}

/// The interruptions by their kinds.
#[derive(Debug, Default)]
pub(super) struct AllInterruptions(Vec<Interruptions>);

impl AllInterruptions {
    pub(super) fn add(&mut self, now: Moment, latest: Interruption) {
        let kind = std::mem::discriminant(&latest);
        let known = self.0.iter_mut().find(|one| std::mem::discriminant(&one.latest) == kind);
        match known {
            Some(known) => {
                let goes_on = now.since(known.at) <= TOGETHER;
                let count = if goes_on { known.count + 1 } else { 1 };
                *known = Interruptions { latest, at: now, count };
            }
            None => self.0.push(Interruptions { latest, at: now, count: 1 }),
        }
    }

    /// The interruptions of the last ten minutes.
    pub(super) fn lately(&self, now: Moment) -> Vec<Interruptions> {
        self.0.iter().filter(|one| now.since(one.at) <= TOGETHER).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interruptions_count_together_and_are_told_of_for_ten_minutes() {
        let mut all = AllInterruptions::default();
        let at = |seconds| Moment::ZERO + Duration::from_secs(seconds);
        all.add(at(0), Interruption::ClockJump(-5));
        all.add(at(500), Interruption::ClockJump(2_000));
        all.add(at(500), Interruption::FoundDead);
        let jumps = Interruptions { latest: Interruption::ClockJump(2_000), at: at(500), count: 2 };
        assert_eq!(all.lately(at(1_100)).first(), Some(&jumps));
        assert_eq!(all.lately(at(1_100)).len(), 2);
        assert!(all.lately(at(1_101)).is_empty());
        all.add(at(1_101), Interruption::ClockJump(7));
        assert_eq!(all.lately(at(1_101))[0].count, 1);
    }
}
