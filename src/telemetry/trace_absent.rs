//! Takes the place of `trace` in a build without the Cargo feature `otel`: no call is traced. The settings refuse a
//! collector (`settings/build.rs`).

use std::sync::Arc;

use crate::lease::Moment;

/// Traces no call.
pub struct Tracer(());

/// Exports nothing. None is made.
pub struct Exporter(());

impl Exporter {
    pub fn tracer(&self) -> Arc<Tracer> {
        Arc::new(Tracer(()))
    }

    pub async fn stop(self) {}
}

/// A position in a trace. There is none.
#[derive(Clone, Debug)]
pub struct Trace(());

impl Trace {
    pub fn ids(&self) -> (u128, u64) {
        (0, 0)
    }

    pub fn header(&self) -> String {
        String::new()
    }

    pub fn state(&self) -> Option<&str> {
        None
    }

    pub fn note<T>(&self, _name: &'static str, _value: T) {}

    pub fn child(&self, _name: &'static str) -> Span {
        Span(Self(()))
    }
}

/// A span. There is none.
#[derive(Debug)]
pub struct Span(Trace);

impl Span {
    pub fn of_call(
        _tracer: &Arc<Tracer>,
        _parent: Option<&str>,
        _state: Option<&str>,
        _may_begin: bool,
    ) -> Option<Self> {
        None
    }

    pub fn trace(&self) -> &Trace {
        &self.0
    }

    pub fn since(self, _began: Moment) -> Self {
        self
    }

    pub fn outgoing(self) -> Self {
        self
    }

    pub fn rename(&mut self, _name: String) {}

    pub fn fail(&mut self) {}

    pub fn end(self, _at: Moment) {}
}

/// The span for which this thread works: none.
pub fn current() -> Option<Trace> {
    None
}

/// Works for a span.
pub fn within<R>(_trace: &Trace, work: impl FnOnce() -> R) -> R {
    work()
}
