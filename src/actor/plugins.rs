//! The plugins of a node.

use std::time::Duration;

use crate::{lease::FenceResult, plugin::FenceOrder};

/// The plugins, by name.
#[derive(Default)]
pub struct Plugins;

/// Where the outcome of an order goes. Dropped without one, it reports that nobody knows.
pub struct Report(Option<Box<dyn FnOnce(FenceResult) + Send>>);

impl Report {
    /// Reports to this.
    pub fn new(to: impl FnOnce(FenceResult) + Send + 'static) -> Self {
        Self(Some(Box::new(to)))
    }

    /// Reports.
    pub fn send(mut self, outcome: FenceResult) {
        if let Some(to) = self.0.take() {
            to(outcome);
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some(to) = self.0.take() {
            to(FenceResult::Interrupted);
        }
    }
}

impl Plugins {
    /// Has a plugin fence.
    pub fn order(&self, plugin: &str, _order: FenceOrder, _budget: Duration, report: Report) {
        report.send(FenceResult::Failed(format!("no plugin is called {plugin:?}").into()));
    }
}
