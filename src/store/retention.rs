//! How long records stay that are of no use.

use std::time::Duration;

/// How long a record stays that is of no use: that of a forgotten key after the change that forgot it, and that of an
/// ended session after a search that found none of its leases.
const RETENTION: Duration = Duration::from_secs(300);

/// [`RETENTION`], unless a test sets a shorter time.
pub(crate) fn retention() -> Duration {
    #[cfg(any(test, feature = "testing"))]
    if let Some(ms) = std::env::var("TENURE_TEST_RETENTION_MS").ok().and_then(|ms| ms.parse().ok())
    {
        return Duration::from_millis(ms);
    }
    RETENTION
}
