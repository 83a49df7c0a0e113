//! Metrics, logs and traces.
//!
//! Guarantees: one table names every series. Every known series exists from the start, with the value 0. No label
//! contains a key, an owner or a session.
//!
//! Does not guarantee: that a scrape is a consistent snapshot.

pub mod audit;
mod escaped;
mod fences;
mod files;
mod line_limit;
mod log;
mod metrics;
mod notifications;
mod pool;
pub mod recent;
mod recorder;
pub mod runbook;
mod table;
#[cfg(feature = "otel")]
pub mod trace;
#[cfg(not(feature = "otel"))]
#[path = "trace_absent.rs"]
pub mod trace;
mod traced_lines;

pub use escaped::{escaped_json, escaped_text};
pub use fences::{FenceMetrics, FenceTry};
pub use files::{FileKind, Files, NotInForce};
pub use line_limit::settle_lines;
pub use log::{ConnectionLines, OwnershipLog, init_logs};
pub use metrics::{
    AcquireOutcome, CasOutcome, DroppedSpan, Handshake, HeartbeatOutcome, LimitKind, Metrics,
    ShedClass, StreamEnd,
};
pub use notifications::NotificationMetrics;
pub use pool::PoolMetrics;
pub use recorder::{Recorder, RecorderError};
pub use table::{MetricKind, Series, TABLE};
