//! A test sets how long records stay that are of no use.

use std::time::Duration;

/// The time that `TENURE_TEST_RETENTION_MS` gives.
pub(super) fn retention() -> Option<Duration> {
    let ms = std::env::var("TENURE_TEST_RETENTION_MS").ok()?;
    ms.parse().ok().map(Duration::from_millis)
}
