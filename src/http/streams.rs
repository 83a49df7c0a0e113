//! The open streams of a node: how many there may be, and what is counted of them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::{
    http::answer::Problem,
    telemetry::{Metrics, StreamEnd},
};

/// The bounds of streams.
#[derive(Clone, Copy, Debug)]
pub struct StreamBounds {
    /// The most streams of the node.
    pub most: usize,
    /// The most calls in flight of one stream. Calls that keep or end leases may be as many again.
    pub calls: usize,
    /// How often a ping is sent.
    pub ping: Duration,
}

/// The open streams of a node.
pub struct Streams {
    bounds: StreamBounds,
    open: AtomicUsize,
    metrics: Arc<Metrics>,
}

/// One of the open streams, until it is dropped.
pub struct Open(Arc<Streams>);

impl Streams {
    /// No streams yet.
    #[must_use]
    pub fn new(bounds: StreamBounds, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { bounds, open: AtomicUsize::new(0), metrics })
    }

    /// How many are open.
    #[must_use]
    pub fn count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// One more stream.
    ///
    /// # Errors
    /// There are as many as may be.
    pub(in crate::http) fn open(self: &Arc<Self>) -> Result<Open, Problem> {
        let more = |open: usize| (open < self.bounds.most).then(|| open + 1);
        let opened = self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        opened.map(|_| Open(self.clone())).map_err(|_| Problem::too_many_streams(self.bounds.most))
    }
}

impl Open {
    pub fn calls(&self) -> usize {
        self.0.bounds.calls
    }

    pub fn ping(&self) -> Duration {
        self.0.bounds.ping
    }

    pub fn count_call(&self) {
        self.0.metrics.stream_calls.increment(1);
    }

    pub fn count_notice(&self) {
        self.0.metrics.stream_notices.increment(1);
    }

    pub fn ended(&self, kind: StreamEnd) {
        self.0.metrics.stream_ended(kind);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
