//! A test sets how long a lease is held before it is moved.

use std::time::Duration;

/// The time that `TENURE_TEST_MIN_HOLD_MS` gives.
pub(super) fn min_hold() -> Option<Duration> {
    let ms = std::env::var("TENURE_TEST_MIN_HOLD_MS").ok()?;
    ms.parse().ok().map(Duration::from_millis)
}
