//! The Prometheus recorder of one coordinator.

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use super::table::{MetricKind, TABLE};

/// Why the recorder could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// The table has a histogram without buckets.
    #[error("the metrics table is malformed: {0}")]
    Table(#[from] metrics_exporter_prometheus::BuildError),
}

/// Renders the metrics in the text format of Prometheus.
#[derive(Clone)]
pub struct Recorder {
    handle: PrometheusHandle,
    process: metrics_process::Collector,
}

impl Recorder {
    /// The recorder of this process, which is created and installed at the first call. All coordinators of the process
    /// share it.
    ///
    /// # Errors
    /// [`RecorderError`] when the table of metrics is malformed.
    ///
    /// # Panics
    /// When another part of the program installed its own recorder for the `metrics` crate.
    pub fn install() -> Result<Self, RecorderError> {
        static INSTALLED: std::sync::Mutex<Option<Recorder>> = std::sync::Mutex::new(None);
        let mut installed = INSTALLED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(recorder) = &*installed {
            return Ok(recorder.clone());
        }
        let mut builder = PrometheusBuilder::new();
        for series in TABLE {
            if let MetricKind::Histogram(buckets) = series.kind {
                builder =
                    builder.set_buckets_for_metric(Matcher::Full(series.name.into()), buckets)?;
            }
        }
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder)
            .expect("no other code installs a recorder for the metrics crate");
        for series in TABLE {
            match series.kind {
                MetricKind::Counter => metrics::describe_counter!(series.name, series.help),
                MetricKind::Gauge => metrics::describe_gauge!(series.name, series.help),
                MetricKind::Histogram(_) => metrics::describe_histogram!(series.name, series.help),
            }
        }
        let process = metrics_process::Collector::default();
        process.describe();
        let recorder = Self { handle, process };
        *installed = Some(recorder.clone());
        Ok(recorder)
    }

    /// Renders the metrics in the Prometheus text format.
    #[must_use]
    pub fn render(&self) -> String {
        self.process.collect();
        self.handle.render()
    }

    /// Moves observed values into their buckets. It must be called every few seconds: otherwise memory grows while
    /// there are no scrapes.
    pub fn upkeep(&self) {
        self.handle.run_upkeep();
    }
}
