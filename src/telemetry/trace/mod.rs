//! Traces: which call did what, when, on which node (docs/traces.md).
//!
//! A call that is traced has a [`Span`]. Whatever is done for it on some thread is done [`within`] its [`Trace`], and
//! what travels to another thread takes the trace along. So no signature tells of traces.
//!
//! Guarantees: a call that is not traced costs a flag, and waits for nothing. No span has a lease id, a value or the id
//! of a session.
//!
//! Does not guarantee: that every span is exported. Those that are not are counted in
//! `tenure_trace_spans_dropped_total`.
//!
//! The SDK of OpenTelemetry is not used. Its batch processor tells no metric how many spans it dropped, sends from a
//! thread that has no runtime, and takes time and chance from the machine instead of `clock/`; with its exporter it
//! brings ten crates, for the hundred lines of `otlp.rs`. The tests read these lines with its own types.
//!
//! `trace_absent.rs` replaces this in a build without the Cargo feature `otel`.

mod current;
mod exporter;
mod finished;
mod open;
mod otlp;
mod parent;
mod tracer;

pub use current::{current, within};
pub use exporter::{ExportOptions, Exporter};
pub use finished::Value;
pub use open::{Span, Trace};
pub use parent::Parent;
pub use tracer::Tracer;
