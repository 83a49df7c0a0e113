//! Times of day, which are for people: the clocks of the server and of this machine may differ.

use std::{
    pin::Pin,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::time::Sleep;

use super::args::{duration, millis};
use crate::{
    clock::{Clock as _, SystemClock},
    settings::format_duration,
};

/// A time before now, as the user gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    Ago(Duration),
    /// Milliseconds since 1970.
    At(u64),
}

impl Since {
    /// Parses `10m`, or `2026-11-22T02:00:00Z`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Some(at) = humantime::parse_rfc3339_weak(text).ok().and_then(ms) {
            return Ok(Self::At(at));
        }
        let ago = duration(text).map(Self::Ago);
        ago.map_err(|error| format!("{error}, or a time such as 2026-11-22T02:00:00Z"))
    }

    /// The time, in milliseconds since 1970.
    pub(super) fn wall_ms(self) -> u64 {
        match self {
            Self::Ago(span) => now_ms().saturating_sub(millis(span)),
            Self::At(at) => at,
        }
    }
}

/// Now, in milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    SystemClock::new().wall_ms()
}

/// A time in RFC 3339 form, in milliseconds since 1970.
pub(super) fn wall_ms(text: &str) -> Option<u64> {
    humantime::parse_rfc3339(text).ok().and_then(ms)
}

/// A span in its two largest units, and in whole seconds from one second on.
pub(super) fn brief(ms: u64) -> String {
    let span = if ms < 1000 { Duration::from_millis(ms) } else { Duration::from_secs(ms / 1000) };
    let text = format_duration(span);
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// Waits for the timer. Without a timer, it waits forever.
pub(super) async fn due(timer: &mut Option<Pin<Box<Sleep>>>) {
    match timer {
        Some(timer) => timer.await,
        None => std::future::pending().await,
    }
}

fn ms(at: SystemTime) -> Option<u64> {
    at.duration_since(UNIX_EPOCH).ok().map(millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_span_before_now_or_a_time_of_day() {
        assert_eq!(Since::parse("10m"), Ok(Since::Ago(Duration::from_secs(600))));
        assert_eq!(Since::parse("1970-01-01T00:00:01Z"), Ok(Since::At(1000)));
        assert_eq!(Since::parse("1970-01-01 00:00:01"), Ok(Since::At(1000)));
        assert!(Since::parse("yesterday").unwrap_err().contains("2026-11-22T02:00:00Z"));
        assert_eq!(wall_ms("1970-01-01T00:00:00.125Z"), Some(125));
        assert!(Since::Ago(Duration::from_secs(1)).wall_ms() < now_ms());
    }

    #[test]
    fn a_span_is_told_in_two_units() {
        for (ms, told) in [
            (0, "0s"),
            (412, "412ms"),
            (1_999, "1s"),
            (107_598, "1m 47s"),
            (3_735_000, "1h 2m"),
            (7_200_000, "2h"),
        ] {
            assert_eq!(brief(ms), told);
        }
    }
}
