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

impl FenceTry {
    /// Each outcome, in the order of declaration.
    const ALL: [Self; 4] = [Self::Confirmed, Self::Failed, Self::TimedOut, Self::Panicked];

    /// The outcome as a label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Failed => "failed",
            Self::TimedOut => "timeout",
            Self::Panicked => "panicked",
        }
    }
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
        let tries = FenceTry::ALL.map(|how| {
            histogram!("tenure_fence_duration_seconds", "plugin" => plugin.to_owned(), "outcome" => how.as_str())
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
