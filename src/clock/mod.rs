//! Time and randomness, injected everywhere.
//!
//! Guarantees: [`Clock::now`] of one clock never goes backwards, across all threads, and counts the time for which the
//! machine slept. [`Entropy::nonce`] of the system source is 128 bits from a cryptographic generator. Everything seeded
//! gives the same sequence for the same seed.
//!
//! Does not guarantee: anything about the wall clock, which may stand still, jump or go back; that [`Clock::now`] shows
//! a pause by a hypervisor, which is what [`JumpDetector`] is for.
//!
//! Assumes: the rate of the kernel's `MONOTONIC_RAW` is within the drift that `lease` allows for.

mod chance;
mod entropy;
mod hash;
mod jump;
mod manual;
#[cfg(feature = "testing")]
#[path = "../../tests/doors/set_wall.rs"]
mod set_wall;
mod system;

use std::{sync::Arc, time::Duration};

pub use chance::Chance;
pub use entropy::{Entropy, SeededEntropy, SystemEntropy};
#[cfg(feature = "server")]
pub use hash::{DashMap, dash_map};
pub use hash::{HashMap, HashSet};
pub use jump::JumpDetector;
pub use manual::{ManualClock, VirtualClock};
pub use system::{SystemClock, boottime_ms};

use crate::lease::Moment;

/// The clock on which all promises are counted.
pub trait Clock: Send + Sync {
    /// A reading of the suspend-aware monotonic clock.
    fn now(&self) -> Moment;

    /// The wall clock, in milliseconds since 1970-01-01 UTC. For people, and for the ends of what proves who calls. No
    /// lease is decided by it.
    fn wall_ms(&self) -> u64;

    /// `CLOCK_BOOTTIME` in milliseconds, rounded down. Other processes of the machine can use a deadline on this clock.
    /// A clock without it returns its own reading.
    fn boottime_ms(&self) -> u64 {
        self.now().0 / 1_000_000
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Moment {
        (**self).now()
    }

    fn wall_ms(&self) -> u64 {
        (**self).wall_ms()
    }

    fn boottime_ms(&self) -> u64 {
        (**self).boottime_ms()
    }
}

/// The last instant that RFC 3339 can write, in milliseconds since 1970.
const YEAR_9999_MS: u64 = 253_402_300_799_999;

/// Writes milliseconds since 1970 as RFC 3339, UTC, with milliseconds: `2026-11-21T02:20:00.125Z`.
///
/// A time after the year 9999 is written as the last millisecond of that year.
#[must_use]
pub fn rfc3339(wall_ms: u64) -> String {
    let since = Duration::from_millis(wall_ms.min(YEAR_9999_MS));
    humantime::format_rfc3339_millis(std::time::UNIX_EPOCH + since).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_written_in_utc_with_milliseconds() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(1_709_164_800_007), "2024-02-29T00:00:00.007Z");
        assert_eq!(rfc3339(u64::MAX), "9999-12-31T23:59:59.999Z");
    }
}
