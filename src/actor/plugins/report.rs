//! What became of a fence order.

/// What became of a fence order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FenceOutcome {
    /// The plugin confirmed.
    Confirmed,
    /// It did not, with all tries and within the time that there was. Why, as events show it to everybody: a kind of
    /// failure, and nothing that a program or a server said.
    Failed(String),
    /// Nobody knows: its actor died, is resting, or was taken away. To be ordered again, after a pause.
    Interrupted,
}

/// Where the outcome of one order is told. It is told exactly once, however the order ends.
///
/// It may be called on any thread, and while one unwinds: it must not panic, block or lock.
pub struct Report(Option<Box<dyn FnOnce(FenceOutcome) + Send>>);

impl Report {
    /// Calls `tell` with the outcome.
    pub fn new(tell: impl FnOnce(FenceOutcome) + Send + 'static) -> Self {
        Self(Some(Box::new(tell)))
    }

    /// Tells it.
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
