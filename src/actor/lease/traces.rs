//! What a lease actor knows of the traced calls of its key.

use std::sync::{Arc, Weak};

use crate::{
    actor::mail::TracedCall,
    lease::{Moment, Owner},
    telemetry::{CasOutcome, trace::Trace},
};

/// The traced calls of a key, and what its write is done for.
#[derive(Default)]
pub(super) struct Traces {
    /// The calls that may still wait for their answers.
    waiting: Vec<Weak<TracedCall>>,
    /// The span of which the write in flight is a part.
    pub(super) writing: Option<Trace>,
    /// The write that has just been settled: when it began, and its outcome.
    pub(super) settled: Option<(Moment, CasOutcome)>,
}

impl Traces {
    /// A call has arrived.
    pub(super) fn arrived(&mut self, call: &Arc<TracedCall>) {
        self.waiting.retain(|call| call.strong_count() > 0);
        self.waiting.push(Arc::downgrade(call));
    }

    /// The first call that waits.
    pub(super) fn first(&self) -> Option<Trace> {
        self.calls().next().map(|call| call.trace.clone())
    }

    /// The first call that waits to own the key for this owner.
    pub(super) fn of_owner(&self, owner: &Owner) -> Option<Trace> {
        let call = self.calls().find(|call| call.owner.as_ref() == Some(owner));
        call.map(|call| call.trace.clone())
    }

    fn calls(&self) -> impl Iterator<Item = Arc<TracedCall>> {
        self.waiting.iter().filter_map(Weak::upgrade)
    }
}
