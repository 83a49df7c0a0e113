//! One fence order, with all its tries.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Semaphore, time::sleep};

use super::{
    limits::PluginLimits,
    worker::{Tried, Worker},
};
use crate::{
    actor::runtime::fence::FenceOutcome,
    clock::{Chance, Clock},
    lease::Moment,
    plugin::{FailureKind, FenceError, FenceOrder, FencePlugin, excerpt},
    telemetry::{
        FenceMetrics, FenceTry,
        trace::{Span, Trace},
    },
};

/// The pause after the first failure. It doubles with each further failure, and half of it is random.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Everything that an order needs.
pub(super) struct Order {
    pub plugin: Arc<dyn FencePlugin>,
    pub name: Arc<str>,
    pub limits: PluginLimits,
    pub places: Arc<Semaphore>,
    pub worker: Arc<Worker>,
    pub clock: Arc<dyn Clock>,
    pub chance: Chance,
    pub metrics: FenceMetrics,
    pub order: FenceOrder,
    /// How long all tries together may take.
    pub budget: Duration,
    /// The end of the budget, which begins when the order gets a place. Many tenures may end at once, as when a node or
    /// a rack dies, and their orders must not fail before their turn has come.
    pub deadline: Moment,
    /// The span that the tries are parts of.
    pub trace: Option<Trace>,
}

/// Counts an order that is in flight.
struct InFlight(FenceMetrics);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.decrement(1.0);
    }
}

impl Order {
    /// Runs the order, and counts the outcome.
    pub(super) async fn work(self) -> FenceOutcome {
        let metrics = self.metrics.clone();
        metrics.in_flight.increment(1.0);
        let _in_flight = InFlight(metrics.clone());
        let outcome = self.run().await;
        if matches!(outcome, FenceOutcome::Failed(_)) {
            metrics.failed.increment(1);
        }
        outcome
    }

    /// Waits for a place, and tries until the plugin confirmed or no try is left.
    async fn run(mut self) -> FenceOutcome {
        let places = self.places.clone();
        let Ok(_place) = places.acquire().await else { return FenceOutcome::Interrupted };
        self.deadline = self.clock.now() + self.budget;
        let mut kind = FailureKind::TimedOut;
        for attempt in 1..=self.limits.retries.saturating_add(1) {
            let span = self.limits.timeout.min(self.left());
            if span.is_zero() {
                break;
            }
            self.order.attempt = attempt;
            let Some(failure) = self.attempt(span).await else { return FenceOutcome::Confirmed };
            kind = failure.kind;
            let (key, token) = (self.order.key.as_str(), self.order.token.0);
            // The detail comes from the program or server and may hold secrets: at most an excerpt goes to the log.
            let detail = self.limits.log_detail.then(|| excerpt(&failure.detail));
            let pause = pause(attempt, &mut self.chance);
            let last = failure.permanent || attempt > self.limits.retries || pause >= self.left();
            let next = if last { "giving up" } else { "retrying" };
            let plugin = &*self.name;
            tracing::warn!(plugin, key, token, attempt, %kind, detail, "a fence order failed; {next}");
            if last {
                let tries = if attempt == 1 { "try" } else { "tries" };
                return FenceOutcome::Failed(format!("after {attempt} {tries}: {kind}"));
            }
            sleep(pause).await;
        }
        FenceOutcome::Failed(kind.to_string())
    }

    fn left(&self) -> Duration {
        self.deadline.since(self.clock.now())
    }

    /// Makes one try. Returns why it failed, or `None` if it was confirmed.
    async fn attempt(&self, span: Duration) -> Option<FenceError> {
        let from = self.clock.now();
        let traced = self.span();
        let (plugin, mut order) = (self.plugin.clone(), self.order.clone());
        order.traceparent = traced.as_ref().map(|traced| traced.trace().header().into());
        let tried = self.worker.attempt(move || plugin.fence(order), span).await;
        let how = match &tried {
            Tried::Confirmed => FenceTry::Confirmed,
            Tried::Failed(_) => FenceTry::Failed,
            Tried::TimedOut => FenceTry::TimedOut,
            Tried::Panicked(_) => FenceTry::Panicked,
        };
        let ended = self.clock.now();
        self.metrics.tried(how, ended.since(from));
        if let Some(mut traced) = traced {
            traced.trace().note("tenure.outcome", how.as_str());
            if how != FenceTry::Confirmed {
                traced.fail();
            }
            traced.end(ended);
        }
        tried.failure(span)
    }
}

impl Order {
    /// The span of a try, if the fence is a part of a trace.
    fn span(&self) -> Option<Span> {
        let span = self.trace.as_ref()?.child("tenure.fence").outgoing();
        let (trace, order) = (span.trace(), &self.order);
        trace.note("tenure.plugin", &*self.name);
        trace.note("tenure.key", order.key.as_str());
        trace.note("tenure.owner", order.owner.as_str());
        trace.note("tenure.token", order.token.0);
        trace.note("tenure.attempt", u64::from(order.attempt));
        Some(span)
    }
}

/// The pause after this many failures.
fn pause(failures: u32, chance: &mut Chance) -> Duration {
    let doubled = 1u32.checked_shl(failures - 1).unwrap_or(u32::MAX);
    let half = FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE) / 2;
    half + chance.jitter(half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_half_of_each_is_chance() {
        let mut chance = Chance::new(1);
        for failures in 1..=100 {
            let whole = (0.1 * 2f64.powi(failures - 1)).min(10.0);
            let pause = pause(u32::try_from(failures).unwrap(), &mut chance).as_secs_f64();
            assert!(pause >= whole / 2.0 - 1e-6 && pause <= whole, "{failures}: {pause}");
        }
    }
}
