//! A test sets how long a lease is held before it is moved.

use std::time::Duration;

/// The time that `TENURE_TEST_MIN_AGE_MS` gives.
pub(super) fn min_age() -> Option<Duration> {
    let ms = std::env::var("TENURE_TEST_MIN_AGE_MS").ok()?;
    ms.parse().ok().map(Duration::from_millis)
}
