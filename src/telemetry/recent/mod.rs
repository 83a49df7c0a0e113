//! What happened lately, for whoever looks at a node that has no Prometheus: how often keys changed and why, how long
//! they were without an owner, which of them changed most.
//!
//! Guarantees: memory is bounded, whatever happens (`series.rs`, `churn.rs` and `failures.rs` say how). A heartbeat that
//! changes nothing costs nothing here. A change costs one lock for the counts, and one for the keys and owners.
//!
//! Does not guarantee: that changes that the feed lost are counted.

mod cause;
mod churn;
mod failures;
mod interruptions;
mod series;
mod sketch;
mod spans;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

pub use self::{
    cause::{CAUSES, Cause, Counts},
    churn::{Part, ROOM, Window},
    failures::FenceFailure,
    interruptions::{Interruption, Interruptions},
    series::{Measure, Point, Step},
    sketch::{Row, Summary},
    spans::SpansSummary,
};
use self::{
    churn::Churn, failures::FenceFailures, interruptions::AllInterruptions, series::Series,
};
use crate::lease::{Change, ChangeKind, Key, Moment, Policy};

/// What happened lately.
#[derive(Debug)]
pub struct Recent {
    series: Mutex<Series>,
    churn: Mutex<Churn>,
    failures: Mutex<FenceFailures>,
    interruptions: Mutex<AllInterruptions>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recent {
    /// Counts from now on.
    #[must_use]
    pub fn new(now: Moment) -> Self {
        Self {
            series: Mutex::new(Series::new(now)),
            churn: Mutex::new(Churn::new(now)),
            failures: Mutex::default(),
            interruptions: Mutex::default(),
        }
    }

    /// Counts a change of a key that this policy applies to, whichever node wrote it. `at_ms` is the wall clock at its
    /// commit.
    pub fn changed(
        &self,
        now: Moment,
        key: &Key,
        policy: &Arc<Policy>,
        change: &Change,
        at_ms: u64,
    ) {
        let failure = [ChangeKind::FenceFailed, ChangeKind::FenceSkipped, ChangeKind::Forgotten];
        if failure.contains(&change.kind) {
            lock(&self.failures).heard(key, change, at_ms);
        }
        let Some(cause) = Cause::of(change) else { return };
        lock(&self.series).count(now, cause);
        let before = change.previous.as_ref().map(|(owner, _)| owner);
        lock(&self.churn).add(now, key, policy, change.owner.as_ref().or(before), cause);
    }

    /// Counts an adoption by this node.
    pub fn adopted(&self, now: Moment) {
        lock(&self.series).count(now, Cause::ADOPTED);
    }

    /// Adds a span that this node measured.
    pub fn measured(&self, now: Moment, what: Measure, span: Duration) {
        lock(&self.series).measure(now, what, span);
    }

    /// Notes that this node promised nothing for a moment.
    pub fn interrupted(&self, now: Moment, why: Interruption) {
        lock(&self.interruptions).add(now, why);
    }

    /// The interruptions of the last ten minutes.
    #[must_use]
    pub fn interruptions(&self, now: Moment) -> Vec<Interruptions> {
        lock(&self.interruptions).lately(now)
    }

    /// What happened in each of the last 60 slices of this length.
    #[must_use]
    pub fn points(&self, now: Moment, step: Step) -> Vec<Point> {
        lock(&self.series).points(now, step)
    }

    /// What happened in the last five minutes or less.
    #[must_use]
    pub fn lately(&self, now: Moment, span: Duration) -> Point {
        lock(&self.series).lately(now, span)
    }

    /// What changed most in the last hour or less.
    #[must_use]
    pub fn window(&self, now: Moment, span: Duration) -> Window {
        lock(&self.churn).window(now, span)
    }

    /// The fences that were heard to have failed. Some of them may be settled by now.
    #[must_use]
    pub fn fence_failures(&self) -> Vec<(Key, FenceFailure)> {
        lock(&self.failures).all()
    }

    /// Forgets the failure at a key that was found to be settled.
    pub fn fence_settled(&self, key: &Key, failure: &FenceFailure) {
        lock(&self.failures).settled(key, failure);
    }
}
