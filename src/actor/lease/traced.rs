//! The spans of traced calls: what each waited for, and the writes that were done for it.
//!
//! A lease does not say for which call it writes. A call that is answered at once by a write, or when a write is
//! settled, waited for that write.

use super::{actor::LeaseActor, context::LeaseContext};
use crate::{
    actor::mail::Reply,
    lease::{Answer, Call, Change, ChangeKind, Input, Moment},
    telemetry::{
        CasOutcome,
        trace::{self, Trace},
    },
};

impl LeaseActor {
    /// Handles a call; if it is traced, as a part of its span.
    pub(super) fn step_for(&mut self, call: Call<Reply>, ctx: &mut LeaseContext) {
        let reading = self.coordinator.reading();
        let Some(traced) = call.caller.traced().cloned() else {
            return self.step_at(reading, Input::Call(call), ctx);
        };
        traced.arrives(reading.0);
        self.traces.get_or_insert_default().arrived(&traced);
        trace::within(&traced.trace, || self.step_at(reading, Input::Call(call), ctx));
    }

    /// A step that follows the outcome of a write, as a part of the span that the write is a part of.
    pub(super) fn step_after_write(
        &mut self,
        (began, outcome): (Moment, CasOutcome),
        reading: (Moment, u64),
        input: Input<Reply>,
        ctx: &mut LeaseContext,
    ) {
        let Some(traces) = &mut self.traces else { return self.step_at(reading, input, ctx) };
        traces.settled = Some((began, outcome));
        match traces.writing.take() {
            Some(trace) => trace::within(&trace, || self.step_at(reading, input, ctx)),
            None => self.step_at(reading, input, ctx),
        }
        if let Some(traces) = &mut self.traces {
            traces.settled = None;
        }
    }

    /// A write begins. The log lines of its changes will have the ids of the spans that caused them.
    pub(super) fn trace_write(&mut self, changes: &[Change]) {
        let current = trace::current();
        let known = &self.coordinator.traced_changes;
        if current.is_none() && self.traces.is_none() && known.is_empty() {
            return;
        }
        let mut cause = current.clone();
        for change in changes {
            let trace = self.taker(change).or_else(|| current.clone());
            cause = cause.or_else(|| trace.clone());
            if !self.key().is_internal() {
                known.note(self.key(), change.seq, trace);
            }
        }
        if cause.is_some() || self.traces.is_some() {
            self.traces.get_or_insert_default().writing = cause;
        }
    }

    /// The traced call to which a change grants the key.
    fn taker(&self, change: &Change) -> Option<Trace> {
        let owner = change.owner.as_ref().filter(|_| change.kind == ChangeKind::Granted)?;
        self.traces.as_ref()?.of_owner(owner)
    }

    /// The span that a fence is a part of: that of the call that ended the tenure, or that of a call that waits for the
    /// key.
    pub(super) fn cause_of_fence(&self) -> Option<Trace> {
        trace::current().or_else(|| self.traces.as_ref()?.first())
    }

    /// Records what a traced call waited for, before it is answered.
    pub(super) fn trace_answer(&self, now: Moment, reply: &Reply, answer: &Answer) {
        let Some(call) = reply.traced() else { return };
        // A caller that waits for several keys is told of its grant alone.
        if matches!(reply, Reply::Any(_)) && !matches!(answer, Answer::Granted(_)) {
            return;
        }
        let (handled, key) = (call.handled(), self.key().as_str());
        let settled = self.traces.as_ref().and_then(|traces| traces.settled);
        let settled = settled.filter(|(began, _)| *began >= handled);
        let until = settled.map_or(now, |(began, _)| began);
        if until > handled {
            let span = call.trace.child("tenure.queue").since(handled);
            span.trace().note("tenure.key", key);
            span.end(until);
        }
        if let Some((began, outcome)) = settled {
            let mut span = call.trace.child("tenure.store.write").since(began);
            span.trace().note("tenure.key", key);
            span.trace().note("tenure.outcome", outcome.as_str());
            if outcome != CasOutcome::Committed {
                span.fail();
            }
            span.end(now);
        }
    }
}
