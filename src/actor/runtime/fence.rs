//! Fence orders as the bus carries them, and their outcomes.

use std::time::Duration;

use crate::{plugin::FenceOrder, telemetry::trace::Trace};

/// A fence order for a plugin. The key's record keeps the fence until its confirmation is durable, so an order that is
/// dropped is published again.
#[derive(Debug)]
pub struct Fence {
    /// What the plugin is told.
    pub order: FenceOrder,
    /// How long all tries together may take.
    pub budget: Duration,
    /// Receives the outcome, also when this is dropped.
    pub report: Report,
    /// The span that the fence is a part of.
    pub trace: Option<Trace>,
}

/// The outcome of a fence order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FenceOutcome {
    Confirmed,
    /// It did not confirm, in all its tries and within its time. The text is shown in events, to everybody: it names a
    /// kind of failure, and contains nothing that a program or a server said.
    Failed(String),
    /// The outcome is unknown: the plugin's actor lagged, died, rests, or was removed. The order must be given again
    /// after a pause.
    Interrupted,
}

/// Receives the outcome of one order. It is called exactly once, however the order ends.
///
/// It may be called on any thread, and while one unwinds: it must not panic, block or lock.
pub struct Report(Option<Box<dyn FnOnce(FenceOutcome) + Send>>);

impl Report {
    /// Calls `tell` with the outcome.
    pub fn new(tell: impl FnOnce(FenceOutcome) + Send + 'static) -> Self {
        Self(Some(Box::new(tell)))
    }

    pub fn send(mut self, outcome: FenceOutcome) {
        if let Some(tell) = self.0.take() {
            tell(outcome);
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some(tell) = self.0.take() {
            tell(FenceOutcome::Interrupted);
        }
    }
}

impl std::fmt::Debug for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Report")
    }
}
