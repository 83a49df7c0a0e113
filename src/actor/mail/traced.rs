//! A call that is traced, on its way to an actor and back.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use crate::{
    lease::{Moment, Owner},
    telemetry::trace::{self, Trace},
};

/// A call that is traced. It lives until its caller is answered.
pub struct TracedCall {
    pub trace: Trace,
    /// Who wants to own the key.
    pub owner: Option<Owner>,
    posted: Moment,
    handled: OnceLock<Moment>,
}

impl TracedCall {
    /// The call that this thread works for; `None` if it is not traced.
    pub fn here(now: impl FnOnce() -> Moment, owner: Option<&Owner>) -> Option<Arc<Self>> {
        let trace = trace::current()?;
        let handled = OnceLock::new();
        Some(Arc::new(Self { trace, owner: owner.cloned(), posted: now(), handled }))
    }

    /// An actor takes it from its mailbox.
    pub fn arrives(&self, now: Moment) {
        if self.handled.set(now).is_ok() {
            self.trace.child("tenure.mailbox").since(self.posted).end(now);
        }
    }

    /// When an actor took it from its mailbox.
    pub fn handled(&self) -> Moment {
        self.handled.get().copied().unwrap_or(self.posted)
    }
}

impl fmt::Debug for TracedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.trace.fmt(f)
    }
}
