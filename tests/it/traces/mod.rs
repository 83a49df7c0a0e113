//! Traces: real coordinators, and a collector that reads what they send it with the types of OpenTelemetry.

mod calls;
mod collector;
mod forwarded;
mod node;
mod secrets;
mod silence;

/// The trace and the span that a caller of these tests is in.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// The header `traceparent` of that caller.
fn parent() -> String {
    format!("00-{TRACE}-{SPAN}-01")
}
