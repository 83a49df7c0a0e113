//! Handles to the metric series of one fence plugin.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

/// How an attempt of a plugin ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceTry {
    Confirmed,
    Failed,
    /// It gave no answer in time.
    TimedOut,
    Panicked,
}

/// Handles to the series of one fence plugin.
#[derive(Clone)]
pub struct FenceMetrics {
    tries: [Histogram; 4],
    /// Fences that it has not answered yet.
    pub in_flight: Gauge,
    pub failed: Counter,
}

impl FenceMetrics {
    /// Registers the plugin's series, with the value 0.
    #[must_use]
    pub fn register(plugin: &str) -> Self {
        let tries = ["confirmed", "failed", "timeout", "panicked"].map(|outcome| {
            histogram!("tenure_fence_duration_seconds", "plugin" => plugin.to_owned(), "outcome" => outcome)
        });
        let in_flight = gauge!("tenure_fences_in_flight", "plugin" => plugin.to_owned());
        let failed = counter!("tenure_fences_failed_total", "plugin" => plugin.to_owned());
        Self { tries, in_flight, failed }
    }

    /// Records the end of an attempt.
    pub fn tried(&self, how: FenceTry, took: Duration) {
        self.tries[how as usize].record(took);
    }
}
