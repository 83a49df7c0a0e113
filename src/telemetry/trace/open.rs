//! Spans that have not ended.

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    finished::{Attribute, Finished, Kind, Value},
    parent::Parent,
    tracer::Tracer,
};
use crate::lease::Moment;

/// The longest `tracestate` that is kept, in bytes. The standard demands as much.
const LONGEST_STATE: usize = 512;
/// The most attributes of a span.
const ATTRIBUTES: usize = 16;

/// A position in a trace: what is done for a call, wherever that happens, is a part of this span.
#[derive(Clone)]
pub struct Trace(Arc<Position>);

struct Position {
    tracer: Arc<Tracer>,
    trace: u128,
    span: u64,
    state: Option<Arc<str>>,
    attributes: Mutex<Vec<Attribute>>,
}

impl Trace {
    fn new(tracer: Arc<Tracer>, trace: u128, state: Option<Arc<str>>) -> Self {
        let span = tracer.new_span();
        Self(Arc::new(Position { tracer, trace, span, state, attributes: Mutex::default() }))
    }

    /// The name of the trace, and that of the span.
    #[must_use]
    pub fn ids(&self) -> (u128, u64) {
        (self.0.trace, self.0.span)
    }

    /// The header `traceparent` of a call that is made for this span.
    #[must_use]
    pub fn header(&self) -> String {
        Parent { trace: self.0.trace, span: self.0.span, sampled: true }.to_string()
    }

    /// The header `tracestate` that belongs to it.
    #[must_use]
    pub fn state(&self) -> Option<&str> {
        self.0.state.as_deref()
    }

    /// Sets an attribute of the span. Of a span that has ended, nothing changes.
    pub fn note(&self, name: &'static str, value: impl Into<Value>) {
        let mut attributes = self.attributes();
        if let Some((_, known)) = attributes.iter_mut().find(|(known, _)| *known == name) {
            *known = value.into();
        } else if attributes.len() < ATTRIBUTES {
            attributes.push((name, value.into()));
        }
    }

    /// A part of this span, which begins now.
    #[must_use]
    pub fn child(&self, name: &'static str) -> Span {
        let Position { tracer, trace, span, state, .. } = &*self.0;
        Span {
            began: tracer.now(),
            trace: Self::new(tracer.clone(), *trace, state.clone()),
            parent: Some(*span),
            remote: false,
            name: name.into(),
            kind: Kind::Internal,
            ended: None,
            failed: false,
        }
    }

    fn attributes(&self) -> MutexGuard<'_, Vec<Attribute>> {
        self.0.attributes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({:032x}, {:016x})", self.0.trace, self.0.span)
    }
}

/// A span that has begun. It ends when it is dropped.
#[derive(Debug)]
pub struct Span {
    trace: Trace,
    parent: Option<u64>,
    remote: bool,
    name: Cow<'static, str>,
    kind: Kind,
    began: Moment,
    ended: Option<Moment>,
    failed: bool,
}

impl Span {
    /// Begins the span of a call with these headers `traceparent` and `tracestate`, if the call is traced. The caller
    /// decides that. Without a caller who does, chance decides, if this node may begin a trace (`may_begin`).
    #[must_use]
    pub fn of_call(
        tracer: &Arc<Tracer>,
        parent: Option<&str>,
        state: Option<&str>,
        may_begin: bool,
    ) -> Option<Self> {
        let parent = parent.and_then(Parent::read);
        let traced = parent.map_or_else(|| may_begin && tracer.samples(), |it| it.sampled);
        if !traced {
            return None;
        }
        let state = state.filter(|state| parent.is_some() && fits(state)).map(Arc::from);
        let trace = parent.map_or_else(|| tracer.new_trace(), |parent| parent.trace);
        Some(Self {
            began: tracer.now(),
            trace: Trace::new(tracer.clone(), trace, state),
            parent: parent.map(|parent| parent.span),
            remote: parent.is_some(),
            name: "call".into(),
            kind: Kind::Server,
            ended: None,
            failed: false,
        })
    }

    /// Its position in the trace.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The same, but it began at this moment.
    #[must_use]
    pub fn since(mut self, began: Moment) -> Self {
        self.began = began;
        self
    }

    /// The same, as a call of another program.
    #[must_use]
    pub fn outgoing(mut self) -> Self {
        self.kind = Kind::Client;
        self
    }

    /// Renames it.
    pub fn rename(&mut self, name: String) {
        self.name = name.into();
    }

    /// Marks it as failed.
    pub fn fail(&mut self) {
        self.failed = true;
    }

    /// Ends it at this moment.
    pub fn end(mut self, at: Moment) {
        self.ended = Some(at);
    }
}

/// Whether a `tracestate` can be kept. One that is too long may be dropped as a whole.
fn fits(state: &str) -> bool {
    !state.is_empty() && state.len() <= LONGEST_STATE
}

impl Drop for Span {
    fn drop(&mut self) {
        let Position { tracer, trace, span, state, .. } = &*self.trace.0;
        let ended = self.ended.unwrap_or_else(|| tracer.now());
        let finished = Finished {
            trace: *trace,
            span: *span,
            parent: self.parent,
            remote: self.remote,
            state: state.clone(),
            name: std::mem::take(&mut self.name),
            kind: self.kind,
            from: tracer.unix(self.began),
            to: tracer.unix(ended.max(self.began)),
            attributes: std::mem::take(&mut *self.trace.attributes()),
            failed: self.failed,
        };
        tracer.put(finished);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::Receiver;

    use super::*;
    use crate::{
        clock::{ManualClock, SeededEntropy},
        telemetry::Metrics,
    };

    const SAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn tracer(ratio: f64) -> (Arc<Tracer>, Receiver<Finished>) {
        let metrics = Arc::new(Metrics::register("embedded"));
        let (clock, chance) = (Arc::new(ManualClock::new()), Arc::new(SeededEntropy::new(7)));
        let (tracer, spans) = Tracer::new(ratio, clock, chance, metrics);
        (Arc::new(tracer), spans)
    }

    #[test]
    fn the_caller_decides_and_chance_decides_where_no_caller_does() {
        let traced = |ratio, parent: Option<&str>, may_begin| {
            Span::of_call(&tracer(ratio).0, parent, None, may_begin).is_some()
        };
        let unsampled = SAMPLED.replace("-01", "-00");
        assert!(traced(0.0, Some(SAMPLED), false) && !traced(1.0, Some(&unsampled), true));
        assert!(traced(1.0, None, true) && !traced(1.0, None, false) && !traced(0.0, None, true));
        for malformed in ["", "garbage", &SAMPLED.to_uppercase()] {
            assert!(traced(1.0, Some(malformed), true), "as if it were absent");
            assert!(!traced(0.0, Some(malformed), true), "as if it were absent");
        }
    }

    #[test]
    fn a_child_has_the_trace_of_its_parent_and_both_end_with_their_attributes() {
        let (tracer, mut spans) = tracer(0.0);
        let span = Span::of_call(&tracer, Some(SAMPLED), Some("a=b"), false).expect("traced");
        span.trace().note("tenure.key", "k");
        span.trace().note("tenure.key", "other");
        let child = span.trace().child("tenure.queue").since(Moment(5)).outgoing();
        child.trace().note("tenure.token", 7u64);
        let header = child.trace().header();
        child.end(Moment(9));
        drop(span);
        let child = spans.try_recv().expect("the child");
        let parent = spans.try_recv().expect("the parent");
        assert_eq!((child.trace, child.parent), (parent.trace, Some(parent.span)));
        assert_eq!(child.to - child.from, 4);
        assert_eq!((child.kind, parent.kind), (Kind::Client, Kind::Server));
        assert_eq!(parent.parent, Some(0x00f0_67aa_0ba9_02b7));
        assert!(parent.remote && !child.remote);
        assert_eq!(parent.attributes, [("tenure.key", Value::from("other"))]);
        assert_eq!(child.attributes, [("tenure.token", Value::Number(7))]);
        assert_eq!(child.state.as_deref(), Some("a=b"));
        let carried = Parent::read(&header).expect("a header");
        assert_eq!((carried.span, carried.sampled), (child.span, true));
    }

    #[test]
    fn a_full_queue_drops_spans_and_holds_up_nobody() {
        let (tracer, mut spans) = tracer(1.0);
        for _ in 0..10_000 {
            drop(Span::of_call(&tracer, None, None, true).expect("traced"));
        }
        let kept = std::iter::from_fn(|| spans.try_recv().ok()).count();
        assert_eq!(kept, 4096);
    }
}
