//! How long records stay that are of no use.

#[cfg(feature = "testing")]
#[path = "../../tests/doors/retention.rs"]
mod door;

use std::time::Duration;

/// How long a record stays that is of no use: that of a forgotten key after the change that forgot it, and that of an
/// ended session after a search that found none of its leases.
const RETENTION: Duration = Duration::from_secs(300);

/// [`RETENTION`], unless a test sets a shorter time.
pub(crate) fn retention() -> Duration {
    #[cfg(feature = "testing")]
    if let Some(span) = door::retention() {
        return span;
    }
    RETENTION
}
