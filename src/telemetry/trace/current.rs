//! For which span this thread works now.
//!
//! Guarantees: a thread that works for no span reads one flag to know it.

use std::cell::{Cell, RefCell};

use super::open::Trace;

thread_local! {
    static IS_TRACED: Cell<bool> = const { Cell::new(false) };
    static CURRENT: RefCell<Option<Trace>> = const { RefCell::new(None) };
}

/// The span for which this thread works now.
#[must_use]
pub fn current() -> Option<Trace> {
    if !IS_TRACED.get() {
        return None;
    }
    CURRENT.with_borrow(Clone::clone)
}

/// Works for a span.
pub fn within<R>(trace: &Trace, work: impl FnOnce() -> R) -> R {
    let _before = Before(put(Some(trace.clone())));
    work()
}

fn put(trace: Option<Trace>) -> Option<Trace> {
    IS_TRACED.set(trace.is_some());
    CURRENT.replace(trace)
}

/// What was current before. Its drop makes it current again, also when the work panics.
struct Before(Option<Trace>);

impl Drop for Before {
    fn drop(&mut self) {
        drop(put(self.0.take()));
    }
}
