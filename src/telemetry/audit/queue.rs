//! The queue to the thread that writes: places for changes, and others for everything else.
//!
//! Guarantees: nothing that takes the places of calls keeps a change out. A producer never waits.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

/// How many lines of each kind may wait to be written. They take a few MiB at most.
const PLACES: usize = 4096;

/// A bounded queue with two lanes.
pub(super) struct Queue<C, O> {
    state: Mutex<State<C, O>>,
    filled: Condvar,
}

struct State<C, O> {
    calls: VecDeque<C>,
    changes: VecDeque<O>,
    is_closed: bool,
}

/// The lines that waited.
pub(super) struct Batch<C, O> {
    pub calls: VecDeque<C>,
    pub changes: VecDeque<O>,
    /// Nothing comes after it.
    pub is_last: bool,
}

impl<C, O> Default for Queue<C, O> {
    fn default() -> Self {
        let (calls, changes) = (VecDeque::new(), VecDeque::new());
        let state = State { calls, changes, is_closed: false };
        Self { state: Mutex::new(state), filled: Condvar::new() }
    }
}

impl<C, O> Queue<C, O> {
    /// Adds a call, if there is a place for it.
    pub(super) fn add_call(&self, call: C) -> Result<(), C> {
        self.add(call, |state| &mut state.calls)
    }

    /// Adds a change, if there is a place for it.
    pub(super) fn add_change(&self, change: O) -> Result<(), O> {
        self.add(change, |state| &mut state.changes)
    }

    fn add<T>(
        &self,
        item: T,
        lane: impl Fn(&mut State<C, O>) -> &mut VecDeque<T>,
    ) -> Result<(), T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_closed || lane(&mut state).len() >= PLACES {
            return Err(item);
        }
        lane(&mut state).push_back(item);
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// Takes all that waits. Waits for it, but not for longer than this.
    pub(super) fn take(&self, longest: Duration) -> Batch<C, O> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_idle = |state: &mut State<C, O>| {
            state.calls.is_empty() && state.changes.is_empty() && !state.is_closed
        };
        let waited = self.filled.wait_timeout_while(state, longest, is_idle);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        Batch {
            calls: std::mem::take(&mut state.calls),
            changes: std::mem::take(&mut state.changes),
            is_last: state.is_closed,
        }
    }

    /// Refuses all that comes from now on.
    pub(super) fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        self.filled.notify_one();
    }
}
