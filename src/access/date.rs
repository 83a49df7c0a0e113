//! The day on which a principal ends.

use std::{fmt, time::UNIX_EPOCH};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A day of the calendar, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
    /// The end of the day, in milliseconds since 1970.
    end_ms: u64,
}

impl Date {
    /// The day; `None` if the calendar has no such day, or it is before 1970.
    #[must_use]
    pub fn new(year: u16, month: u8, day: u8) -> Option<Self> {
        let begin = humantime::parse_rfc3339(&format!("{year:04}-{month:02}-{day:02}T00:00:00Z"));
        let begin_ms = begin.ok()?.duration_since(UNIX_EPOCH).ok()?.as_millis();
        let end_ms = u64::try_from(begin_ms).ok()?.checked_add(DAY_MS)?;
        Some(Self { year, month, day, end_ms })
    }

    /// The end of the day, in milliseconds since 1970.
    #[must_use]
    pub fn end_ms(&self) -> u64 {
        self.end_ms
    }

    /// Whether the day is over at a time in milliseconds since 1970.
    #[must_use]
    pub fn is_over(&self, now_ms: u64) -> bool {
        now_ms >= self.end_ms
    }

    /// The days from the day of this time to this one; 0 on the day itself, and after it.
    #[must_use]
    pub fn days_left(&self, now_ms: u64) -> u64 {
        self.end_ms.saturating_sub(now_ms).saturating_sub(1) / DAY_MS
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_over_at_midnight_utc() {
        let day = Date::new(2027, 1, 31).unwrap();
        // 2027-02-01T00:00:00Z
        let midnight = 1_801_440_000_000;
        assert_eq!(crate::clock::rfc3339(midnight), "2027-02-01T00:00:00.000Z");
        assert!(!day.is_over(midnight - 1) && day.is_over(midnight));
        assert_eq!((day.days_left(midnight - 1), day.days_left(midnight + 1)), (0, 0));
        assert_eq!([1, 14].map(|days| day.days_left(midnight - days * DAY_MS)), [0, 13]);
        assert_eq!(day.to_string(), "2027-01-31");
    }

    #[test]
    fn a_day_that_the_calendar_lacks_is_none() {
        assert!(Date::new(2028, 2, 29).is_some() && Date::new(2027, 2, 29).is_none());
        for (year, month, day) in
            [(2027, 2, 30), (2027, 13, 1), (2027, 0, 1), (2027, 4, 31), (1969, 12, 31)]
        {
            assert!(Date::new(year, month, day).is_none(), "{year}-{month}-{day}");
        }
        assert!(Date::new(9999, 12, 31).is_some());
    }
}
