//! Bounds that settings of several stores share.

use std::{ops::RangeInclusive, time::Duration};

/// A store must answer or give up while its caller still waits.
pub(super) const REQUEST_TIMEOUTS: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(30);
