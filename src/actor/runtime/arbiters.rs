//! The threads on which lease actors live: those of the HTTP workers.

use std::{cell::Cell, sync::OnceLock};

use actix::ArbiterHandle;
use tokio::sync::oneshot;

thread_local! {
    static HERE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The arbiters of the lease actors. A key's hash determines its arbiter.
#[derive(Default)]
pub struct Arbiters {
    slots: Vec<OnceLock<ArbiterHandle>>,
}

/// Where an actor is started.
pub(in crate::actor) enum Seat<'a> {
    /// On this thread.
    Here,
    /// On the thread of this arbiter.
    On(&'a ArbiterHandle),
}

/// Declares this thread the arbiter at `index`: actors that belong here are started without a hop to another thread.
pub fn claim_this_thread(index: usize) {
    HERE.set(Some(index));
}

/// The index of this thread among those of lease actors.
pub(in crate::actor) fn here() -> usize {
    HERE.get().unwrap_or(0)
}

impl Arbiters {
    /// Space for `count` arbiters, none of which is registered yet.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self { slots: (0..count.max(1)).map(|_| OnceLock::new()).collect() }
    }

    /// No arbiters: actors live in the `LocalSet` of the task that asks for them.
    #[must_use]
    pub fn here() -> Self {
        Self::default()
    }

    /// How many arbiters there will be.
    #[must_use]
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// Registers an arbiter. Only the first one registered under an index counts.
    pub fn set(&self, index: usize, handle: ArbiterHandle) {
        let _ = self.slots[index].set(handle);
    }

    /// Whether every arbiter is registered.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.slots.iter().all(|slot| slot.get().is_some())
    }

    /// Where an actor of this hash is started. `None` if its arbiter is not registered yet.
    pub(in crate::actor) fn seat(&self, hash: u64) -> Option<Seat<'_>> {
        let index = self.index(hash);
        if self.is_here(index) {
            return Some(Seat::Here);
        }
        self.slots[index].get().map(Seat::On)
    }

    /// The index of the arbiter of `hash`.
    pub(in crate::actor) fn index(&self, hash: u64) -> usize {
        usize::try_from(hash % self.slots.len().max(1) as u64).unwrap_or(0)
    }

    fn is_here(&self, index: usize) -> bool {
        self.slots.is_empty() || HERE.get() == Some(index)
    }

    /// Resolves when every arbiter has come to what it was asked to do before, and this thread to what waited.
    pub(in crate::actor) async fn caught_up(&self) {
        for index in 0..self.slots.len() {
            let (tell, told) = oneshot::channel();
            self.run(index, move || {
                let _ = tell.send(());
            });
            // An error means that the arbiter is gone.
            let _ = told.await;
        }
        tokio::task::yield_now().await;
    }

    /// Runs `action` on an arbiter, or at once if that is this thread. Does nothing if the arbiter is not registered
    /// yet.
    pub(in crate::actor) fn run(&self, index: usize, action: impl FnOnce() + Send + 'static) {
        if self.is_here(index) {
            action();
        } else if let Some(arbiter) = self.slots[index].get() {
            arbiter.spawn_fn(action);
        }
    }
}
