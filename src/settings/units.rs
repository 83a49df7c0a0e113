//! Durations and sizes in the form in which people write them.

use std::{fmt, str::FromStr, time::Duration};

pub(super) const DAY: Duration = Duration::from_secs(86_400);

/// A number of bytes, written `8MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

const UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl ByteSize {
    /// `count` times 2^20 bytes.
    #[must_use]
    pub const fn mib(count: u64) -> Self {
        Self(count << 20)
    }

    /// The size as a number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |&&(_, size): &&(&str, u64)| self.0 >= size && self.0.is_multiple_of(size);
        let (unit, size) = UNITS.iter().find(fits).unwrap_or(&("B", 1));
        write!(f, "{}{unit}", self.0 / size)
    }
}

/// The text is not a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a whole number of B, KiB, MiB, GiB or TiB, such as 8MiB")]
pub struct NotASize;

impl FromStr for ByteSize {
    type Err = NotASize;

    fn from_str(text: &str) -> Result<Self, NotASize> {
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(split);
        let unit = if unit.is_empty() { "B" } else { unit.trim_start() };
        let (_, size) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(NotASize)?;
        let count: u64 = digits.parse().map_err(|_| NotASize)?;
        count.checked_mul(*size).map(Self).ok_or(NotASize)
    }
}

/// Reads `250ms`, `15s`, `2m`, `1h 30m`.
///
/// # Errors
/// The library's message about the text that it could not read.
pub fn parse_duration(text: &str) -> Result<Duration, humantime::DurationError> {
    humantime::parse_duration(text)
}

/// Writes a duration for people, so that [`parse_duration`] reads it: `1m 30s`, or `24h` rather than `1day`.
#[must_use]
pub fn format_duration(span: Duration) -> String {
    let whole_hours = span.as_secs().is_multiple_of(3600) && span.subsec_nanos() == 0;
    if whole_hours && !span.is_zero() {
        return format!("{}h", span.as_secs() / 3600);
    }
    humantime::format_duration(span).to_string()
}

/// Writes a duration as a setting, in one unit: `75s`, `24h`, `366d`.
pub(super) fn in_one_unit(span: Duration) -> String {
    const UNITS: [(&str, u128, u128); 5] = [
        ("d", 86_400_000_000_000, 2), // From two days on: a day is 24 hours.
        ("h", 3_600_000_000_000, 1),
        ("m", 60_000_000_000, 1),
        ("s", 1_000_000_000, 0),
        ("ms", 1_000_000, 1),
    ];
    let nanos = span.as_nanos();
    let fits = |&&(_, size, least): &&(&str, u128, u128)| {
        nanos.is_multiple_of(size) && nanos / size >= least
    };
    let (unit, size, _) = UNITS.iter().find(fits).unwrap_or(&("ns", 1, 1));
    format!("{}{unit}", nanos / size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_numbers_of_a_binary_unit() {
        assert_eq!("8MiB".parse(), Ok(ByteSize(8 << 20)));
        assert_eq!("1 GiB".parse(), Ok(ByteSize(1 << 30)));
        assert_eq!("512".parse(), Ok(ByteSize(512)));
        for text in ["", "MiB", "8MB", "1.5MiB", "-1", "8mib", "99999999TiB", "1B B"] {
            assert_eq!(text.parse::<ByteSize>(), Err(NotASize), "{text}");
        }
        for size in [0, 1, 1023, 1024, 3 << 20, (3 << 20) + 1, u64::MAX] {
            assert_eq!(ByteSize(size).to_string().parse(), Ok(ByteSize(size)));
        }
        assert_eq!(ByteSize::mib(64).to_string(), "64MiB");
    }

    #[test]
    fn durations_read_back_as_written() {
        let millis = [0, 1, 250, 1000, 15_000, 90_000, 600_000, 3_600_000, 86_400_000, 86_400_001];
        for span in millis.map(Duration::from_millis) {
            assert_eq!(parse_duration(&format_duration(span)), Ok(span));
            assert_eq!(parse_duration(&in_one_unit(span)), Ok(span));
        }
        let shown =
            |millis| [format_duration, in_one_unit].map(|f| f(Duration::from_millis(millis)));
        assert_eq!(shown(0), ["0s", "0s"]);
        assert_eq!(shown(1500), ["1s 500ms", "1500ms"]);
        assert_eq!(shown(90_000), ["1m 30s", "90s"]);
        assert_eq!(shown(86_400_000), ["24h", "24h"]);
        assert_eq!(shown(366 * 86_400_000), ["8784h", "366d"]);
        assert!(parse_duration("15").is_err() && parse_duration("-1s").is_err());
    }
}
