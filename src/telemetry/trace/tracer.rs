//! Decides which calls are traced, and takes the spans that have ended.
//!
//! Guarantees: nobody waits for the queue of spans. A span that finds it full is dropped and counted.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::mpsc;

use super::finished::Finished;
use crate::{
    clock::{Clock, Entropy},
    lease::Moment,
    telemetry::{DroppedSpan, Metrics},
};

/// The number of spans that wait for their export: some 2 MiB.
const QUEUE: usize = 4096;
/// The wall clock is read in milliseconds. The spans of a node follow it only if it moved by more than this, in
/// nanoseconds: otherwise they would move against each other.
const TOLERANCE: u64 = 2_000_000;

/// Where the spans of a coordinator go.
pub struct Tracer {
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    /// The share of calls without a parent that are traced.
    ratio: f64,
    queue: mpsc::Sender<Finished>,
    metrics: Arc<Metrics>,
    /// What is added to a reading of the clock to get nanoseconds since 1970.
    offset: AtomicU64,
}

impl Tracer {
    /// A tracer, and the queue of its spans.
    pub(super) fn new(
        ratio: f64,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        metrics: Arc<Metrics>,
    ) -> (Self, mpsc::Receiver<Finished>) {
        let (queue, spans) = mpsc::channel(QUEUE);
        let offset = AtomicU64::new(offset(&*clock));
        (Self { clock, entropy, ratio, queue, metrics, offset }, spans)
    }

    pub(super) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// A moment in nanoseconds since 1970.
    pub(super) fn unix(&self, at: Moment) -> u64 {
        at.0.wrapping_add(self.offset.load(Ordering::Relaxed))
    }

    /// Follows the wall clock.
    pub(super) fn align(&self) {
        let (before, now) = (self.offset.load(Ordering::Relaxed), offset(&*self.clock));
        // The smaller of the two differences: both are wrapped.
        if before.wrapping_sub(now).min(now.wrapping_sub(before)) > TOLERANCE {
            self.offset.store(now, Ordering::Relaxed);
        }
    }

    /// Whether a call without a parent is traced.
    pub(super) fn samples(&self) -> bool {
        // 53 bits are what a float of this size holds exactly.
        #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
        let chance = (self.entropy.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        chance < self.ratio
    }

    /// A name for a trace.
    pub(super) fn new_trace(&self) -> u128 {
        self.entropy.nonce().0.max(1)
    }

    /// A name for a span.
    pub(super) fn new_span(&self) -> u64 {
        self.entropy.next_u64().max(1)
    }

    /// Takes a span that has ended.
    pub(super) fn put(&self, span: Finished) {
        if self.queue.try_send(span).is_err() {
            self.metrics.spans_dropped(DroppedSpan::QueueFull, 1);
        }
    }
}

fn offset(clock: &dyn Clock) -> u64 {
    clock.wall_ms().wrapping_mul(1_000_000).wrapping_sub(clock.now().0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{ManualClock, SeededEntropy};

    fn tracer(ratio: f64) -> (Tracer, mpsc::Receiver<Finished>) {
        let metrics = Arc::new(Metrics::register("embedded"));
        Tracer::new(ratio, Arc::new(ManualClock::new()), Arc::new(SeededEntropy::new(7)), metrics)
    }

    #[test]
    fn the_ratio_is_the_share_of_calls_that_are_traced() {
        let share = |ratio| {
            let (tracer, _spans) = tracer(ratio);
            (0..10_000).filter(|_| tracer.samples()).count()
        };
        assert_eq!((share(0.0), share(1.0)), (0, 10_000));
        let tenth = share(0.1);
        assert!((900..1100).contains(&tenth), "{tenth}");
    }
}
