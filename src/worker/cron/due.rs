//! Which slot is due.

use super::schedule::Schedule;

/// What becomes of slots at which no host could run the program: all hosts were down, no coordinator answered, or the
/// program of an earlier slot still ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missed {
    /// The latest one is run, and the others are not.
    #[default]
    Last,
    /// None is run.
    Skip,
    /// Each is run, in order.
    All,
}

/// When slots are due.
#[derive(Clone, Copy, Debug)]
pub struct Rule<'a> {
    pub schedule: &'a Schedule,
    pub missed: Missed,
    /// How late a slot may begin if missed ones are skipped.
    pub late_ms: u64,
}

/// What is to be done at this moment. Moments are in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Run this slot.
    Now(u64),
    /// Nothing before this moment.
    At(u64),
    /// The schedule has no further slot.
    Never,
}

impl Rule<'_> {
    /// What is due at `now`, if every slot up to `last` is over. Without a `last`, nobody has begun to count yet: that is
    /// due at once.
    pub fn due(self, last: Option<u64>, now: u64) -> Due {
        let Some(last) = last else { return Due::Now(now) };
        let late = match self.missed {
            Missed::All => self.schedule.next(last).filter(|slot| *slot <= now),
            Missed::Last => self.schedule.latest(last, now),
            Missed::Skip => {
                self.schedule.latest(last, now).filter(|slot| now - slot <= self.late_ms)
            }
        };
        if let Some(slot) = late {
            return Due::Now(slot);
        }
        self.schedule.next(last.max(now)).map_or(Due::Never, Due::At)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn missed_slots_are_run_as_the_rule_says() {
        let schedule = Schedule::every(Duration::from_millis(100)).expect("a schedule");
        let due = |missed, last, now| {
            Rule { schedule: &schedule, missed, late_ms: 30 }.due(Some(last), now)
        };
        for missed in [Missed::Last, Missed::Skip, Missed::All] {
            assert_eq!(due(missed, 300, 399), Due::At(400), "{missed:?}");
            assert_eq!(due(missed, 300, 420), Due::Now(400), "{missed:?}");
            // The clock went back.
            assert_eq!(due(missed, 300, 120), Due::At(400), "{missed:?}");
        }
        assert_eq!(due(Missed::Last, 300, 750), Due::Now(700));
        assert_eq!(due(Missed::All, 300, 750), Due::Now(400));
        assert_eq!(
            (due(Missed::Skip, 300, 730), due(Missed::Skip, 300, 750)),
            (Due::Now(700), Due::At(800))
        );
        let rule = Rule { schedule: &schedule, missed: Missed::Last, late_ms: 0 };
        assert_eq!(rule.due(None, 750), Due::Now(750));
    }
}
