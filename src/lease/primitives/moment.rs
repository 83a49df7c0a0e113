//! A reading of the node's clock.

use std::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

/// A reading of this process's suspend-aware monotonic clock, in nanoseconds since an arbitrary origin. Comparable only
/// with readings of the same clock. The range is 584 years.
#[derive(
    Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Moment(pub u64);

impl Moment {
    /// Earlier than every other reading.
    pub const ZERO: Self = Self(0);
    /// Later than every other reading: a deadline that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// The time from `earlier` to this moment; zero when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Moment {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;
    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER {
            return f.write_str("never");
        }
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}
