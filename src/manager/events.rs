//! Ownership changes: as they happen, and as the store remembers them.

use bytes::Bytes;

use super::Manager;
use crate::{
    actor::{Subscriber, TooManySubscribers},
    store::{Committed, History, Position, StoreError},
    telemetry::settle_lines,
};

impl Manager {
    /// Subscribes to the ownership changes from now on.
    ///
    /// # Errors
    /// [`TooManySubscribers`].
    pub fn subscribe(&self) -> Result<Subscriber, TooManySubscribers> {
        self.coordinator.bus.subscribe()
    }

    /// How many subscribers there are.
    #[must_use]
    pub fn subscribers(&self) -> usize {
        self.coordinator.bus.subscribers()
    }

    /// Whether a subscriber reads so slowly that its next change is gone.
    #[must_use]
    pub fn has_overtaken(&self, subscriber: &Subscriber) -> bool {
        subscriber.changes.len() > self.coordinator.limits.bus_buffer.next_power_of_two()
    }

    /// Counts a subscriber that was cut off because it did not read.
    pub(crate) fn count_dropped_subscriber(&self) {
        self.coordinator.metrics.subscribers_dropped.increment(1);
    }

    /// Has changes rendered on the thread that publishes them, once for all subscribers. Only the first call has an
    /// effect.
    pub(crate) fn render_with(&self, render: impl Fn(&Committed) -> Bytes + Send + Sync + 'static) {
        self.coordinator.bus.render_with(render);
    }

    /// Writes the line that says how many lines the ownership log left out, if it is due.
    pub(crate) fn settle_ownership_log(&self) {
        self.coordinator.ownership_log.settle(self.now());
        settle_lines(self.now());
    }

    /// The position of the latest ownership change.
    #[must_use]
    pub fn latest(&self) -> Position {
        self.coordinator.store.latest()
    }

    /// The position after which the store still has every ownership change.
    #[must_use]
    pub fn earliest(&self) -> Position {
        self.coordinator.store.earliest()
    }

    /// Ownership changes after a position.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn history(&self, after: Position, limit: usize) -> Result<History, StoreError> {
        self.coordinator.store.history(after, limit).await
    }
}
