//! The slots of a schedule: the minutes that a cron pattern names in a time zone, or the multiples of a span.
//!
//! Daylight saving. A pattern whose hour field begins with `*` names points of an interval: it goes on by real time, so
//! the repeated hour has slots of its own, and the hour that is left out has none. Any other pattern names times of the
//! day: each of them comes once a day. In the repeated hour it is the first one, and a time that is left out comes when
//! the clock is set forward.

use std::time::Duration;

use cronexpr::{Crontab, MakeTimestamp};
use jiff::{
    Timestamp,
    tz::{AmbiguousOffset, TimeZone},
};

/// The spans that are searched for the latest slot, in milliseconds: an hour, a day, a month, five years.
const SPANS: [u64; 4] = [3_600_000, 86_400_000, 31 * 86_400_000, 5 * 366 * 86_400_000];
/// A time zone is at most so far from UTC, in milliseconds, and sets its clocks by less than this.
const DAY_MS: u64 = 86_400_000;
/// The shortest span.
const LEAST: Duration = Duration::from_millis(100);

/// The slots of a schedule. They are in milliseconds since 1970.
#[derive(Debug)]
pub struct Schedule(Kind);

#[derive(Debug)]
enum Kind {
    /// Every multiple of this span since 1970.
    Every(u64),
    /// The instants at which the pattern fits the clock of its zone.
    Interval(Crontab),
    /// The times of the day that the pattern names, as if they were in UTC, and the zone that they are in.
    Times(Crontab, TimeZone),
}

impl Schedule {
    /// Every multiple of this span since 1970.
    ///
    /// # Errors
    /// A message for people if the span is too short.
    pub fn every(span: Duration) -> Result<Self, String> {
        if span < LEAST {
            return Err(format!("must be at least {}ms", LEAST.as_millis()));
        }
        Ok(Self(Kind::Every(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))))
    }

    /// The minutes that the pattern names: minute, hour, day of the month, month, day of the week.
    ///
    /// # Errors
    /// A message for people that says what is wrong with the pattern or the zone.
    pub fn cron(pattern: &str, zone: &str) -> Result<Self, String> {
        let fields: Vec<&str> = pattern.split_whitespace().collect();
        let [_, hour, ..] = fields[..] else { return Err(five(fields.len())) };
        if fields.len() != 5 {
            return Err(five(fields.len()));
        }
        let known = TimeZone::get(zone)
            .map_err(|_| format!("the time zone {zone:?} is unknown; a name is Europe/Berlin"))?;
        let parse = |zone: &str| {
            let fields = fields.join(" ");
            let parsed = cronexpr::parse_crontab(&format!("{fields} {zone}"));
            // The message repeats what was parsed, with the zone.
            parsed
                .map_err(|error| one_line(&error.to_string().replacen(&format!(" {zone}"), "", 1)))
        };
        let kind = if hour.starts_with('*') {
            Kind::Interval(parse(zone)?)
        } else {
            Kind::Times(parse("UTC")?, known)
        };
        let schedule = Self(kind);
        // For instance the 30th of February.
        schedule.next(DAY_MS).map(|_| schedule).ok_or_else(|| "has no slot".to_owned())
    }

    /// The first slot after this moment.
    #[must_use]
    pub fn next(&self, after: u64) -> Option<u64> {
        match &self.0 {
            Kind::Every(span) => (after / span + 1).checked_mul(*span),
            Kind::Interval(crontab) => next_of(crontab, after),
            Kind::Times(crontab, zone) => {
                let mut there = after.saturating_sub(DAY_MS);
                loop {
                    there = next_of(crontab, there)?;
                    let slot = instant(there, zone)?;
                    if slot > after {
                        return Some(slot);
                    }
                }
            }
        }
    }

    /// The last slot after `after` and up to `until`.
    #[must_use]
    pub fn latest(&self, after: u64, until: u64) -> Option<u64> {
        if let Kind::Every(span) = self.0 {
            return Some(until / span * span).filter(|slot| *slot > after);
        }
        let starts = SPANS.map(|span| until.saturating_sub(span).max(after));
        let found = starts.into_iter().find_map(|start| self.last_of(start, until));
        found.or_else(|| self.last_of(after, until))
    }

    fn last_of(&self, after: u64, until: u64) -> Option<u64> {
        let slots = std::iter::successors(self.next(after), |slot| self.next(*slot));
        slots.take_while(|slot| *slot <= until).last()
    }
}

fn five(given: usize) -> String {
    format!(
        "has {given} fields; the five are minute, hour, day of the month, month and day of the week"
    )
}

/// The library draws an arrow under the fault, over several lines.
fn one_line(message: &str) -> String {
    let words = message.split_whitespace().filter(|word| !word.trim_matches('^').is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// The first minute after this one that fits the pattern.
fn next_of(crontab: &Crontab, after: u64) -> Option<u64> {
    let after = MakeTimestamp::from_millisecond(i64::try_from(after).ok()?).ok()?;
    let next = crontab.find_next(after).ok()?;
    u64::try_from(next.timestamp().as_millisecond()).ok()
}

/// The instant at which a clock of the zone shows what a clock of UTC shows at `there`.
fn instant(there: u64, zone: &TimeZone) -> Option<u64> {
    let shown = Timestamp::from_millisecond(i64::try_from(there).ok()?).ok()?;
    let shown = TimeZone::UTC.to_datetime(shown);
    let ambiguous = zone.to_ambiguous_zoned(shown);
    let is_left_out = matches!(ambiguous.offset(), AmbiguousOffset::Gap { .. });
    let earlier = ambiguous.earlier().ok()?.timestamp();
    let slot = if is_left_out { zone.following(earlier).next()?.timestamp() } else { earlier };
    u64::try_from(slot.as_millisecond().max(0)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::rfc3339;

    fn ms(moment: &str) -> u64 {
        moment.parse::<Timestamp>().expect("a moment").as_millisecond().try_into().expect("later")
    }

    /// The slots after a moment, without their seconds.
    fn slots(pattern: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let schedule = Schedule::cron(pattern, zone).expect("a schedule");
        let slots = std::iter::successors(schedule.next(ms(after)), |slot| schedule.next(*slot));
        slots.take(count).map(|slot| rfc3339(slot)[5..16].to_owned()).collect()
    }

    #[test]
    fn a_time_that_is_left_out_comes_when_the_clock_is_set_forward() {
        // In Berlin, 02:00 to 03:00 is left out on 29 March 2026.
        let daily = slots("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", 3);
        assert_eq!(daily, ["03-28T01:30", "03-29T01:00", "03-30T00:30"]);
        let both = slots("30 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 2);
        assert_eq!(both, ["03-29T01:00", "03-29T01:30"]);
        // Three slots that are left out come as one.
        let twenty = slots("*/20 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 2);
        assert_eq!(twenty, ["03-29T01:00", "03-30T00:00"]);
    }

    #[test]
    fn a_time_of_the_repeated_hour_comes_once_and_an_interval_goes_on() {
        // In Berlin, 02:00 to 03:00 comes twice on 25 October 2026.
        let daily = slots("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2);
        assert_eq!(daily, ["10-25T00:30", "10-26T01:30"]);
        let half_hours = slots("*/30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", 5);
        let expected = ["10-25T00:00", "10-25T00:30", "10-25T01:00", "10-25T01:30", "10-25T02:00"];
        assert_eq!(half_hours, expected);
        let half_hours = slots("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:15:00Z", 3);
        assert_eq!(half_hours, ["03-29T00:30", "03-29T01:00", "03-29T01:30"]);
    }

    #[test]
    fn a_zone_half_an_hour_away_and_one_far_from_utc_have_their_own_days() {
        assert_eq!(slots("0 0 * * *", "Asia/Kolkata", "2026-01-01T00:00:00Z", 1), ["01-01T18:30"]);
        // Clocks are set by half an hour there.
        let island = slots("15 2 * * *", "Australia/Lord_Howe", "2026-10-02T00:00:00Z", 3);
        assert_eq!(island, ["10-02T15:45", "10-03T15:30", "10-04T15:15"]);
        assert_eq!(
            slots("0 0 * * *", "Pacific/Kiritimati", "2026-01-01T12:00:00Z", 1),
            ["01-02T10:00"]
        );
    }

    #[test]
    fn every_slot_of_a_year_follows_the_one_before() {
        for (pattern, zone) in [
            ("*/30 1-3 * * *", "America/New_York"),
            ("0 */2 * * *", "Europe/London"),
            ("59 23 L * *", "America/Sao_Paulo"),
        ] {
            let schedule = Schedule::cron(pattern, zone).expect("a schedule");
            let mut last = ms("2026-01-01T00:00:00Z");
            while last < ms("2027-01-01T00:00:00Z") {
                let next = schedule.next(last).expect("a slot");
                assert!(next > last, "{pattern}: {next} after {last}");
                assert_eq!(schedule.latest(last, next), Some(next));
                assert_eq!(schedule.latest(last, next - 1), None);
                last = next;
            }
        }
    }

    #[test]
    fn the_latest_slot_is_found_however_long_ago() {
        let yearly = Schedule::cron("0 0 1 1 *", "UTC").expect("a schedule");
        let now = ms("2026-11-26T00:00:00Z");
        assert_eq!(yearly.latest(0, now), Some(ms("2026-01-01T00:00:00Z")));
        assert_eq!(yearly.latest(ms("2026-01-01T00:00:00Z"), now), None);
        let leap = Schedule::cron("0 0 29 2 *", "UTC").expect("a schedule");
        assert_eq!(leap.latest(0, now), Some(ms("2024-02-29T00:00:00Z")));
        let every = Schedule::every(Duration::from_secs(10)).expect("a schedule");
        assert_eq!((every.latest(0, 25_000), every.latest(20_000, 25_000)), (Some(20_000), None));
        assert_eq!(every.next(20_000), Some(30_000));
    }

    #[test]
    fn a_fault_is_named_on_one_line() {
        for (pattern, zone, named) in [
            ("0 3 * *", "UTC", "has 4 fields"),
            ("0 25 * * *", "UTC", "25"),
            ("0 3 * * *", "Europe/Atlantis", "Europe/Atlantis"),
            ("0 0 30 2 *", "UTC", "no slot"),
            ("", "UTC", "has 0 fields"),
        ] {
            let fault = Schedule::cron(pattern, zone).expect_err(pattern);
            assert!(fault.contains(named) && !fault.contains('\n'), "{pattern}: {fault}");
        }
        assert!(Schedule::every(Duration::from_millis(99)).is_err());
    }
}
