//! Handles to the metric series of one plugin that is notified of ownership changes.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use super::fences::FenceTry;

/// Handles to the series of one plugin that is notified of ownership changes.
#[derive(Clone)]
pub struct NotificationMetrics {
    calls: [Histogram; 4],
    /// The age of the oldest change that the plugin has not confirmed, in seconds.
    pub lag_seconds: Gauge,
    /// How often changes were missed.
    pub resets: Counter,
}

impl NotificationMetrics {
    /// Registers the plugin's series, with the value 0.
    #[must_use]
    pub fn register(plugin: &str) -> Self {
        let calls = ["confirmed", "failed", "timeout", "panicked"].map(|outcome| {
            histogram!("tenure_notification_duration_seconds", "plugin" => plugin.to_owned(), "outcome" => outcome)
        });
        let lag_seconds = gauge!("tenure_notification_lag_seconds", "plugin" => plugin.to_owned());
        let resets = counter!("tenure_notification_resets_total", "plugin" => plugin.to_owned());
        Self { calls, lag_seconds, resets }
    }

    /// Records the end of a call.
    pub fn called(&self, how: FenceTry, took: Duration) {
        self.calls[how as usize].record(took);
    }
}
