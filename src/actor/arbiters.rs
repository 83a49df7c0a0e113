//! The threads on which lease actors live: those of the HTTP workers.

use std::{cell::Cell, sync::OnceLock};

use actix::ArbiterHandle;

thread_local! {
    static HERE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The arbiters of the lease actors; a key's hash chooses one, always the same.
#[derive(Default)]
pub struct Arbiters {
    slots: Vec<OnceLock<ArbiterHandle>>,
}

/// Tells this thread that it is the arbiter at `index`: actors that belong here start without a hop.
pub fn claim_this_thread(index: usize) {
    HERE.set(Some(index));
}

/// Which of the threads of lease actors this is.
pub(super) fn here() -> usize {
    HERE.get().unwrap_or(0)
}

impl Arbiters {
    /// Room for `count` arbiters, none of them known yet.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self { slots: (0..count.max(1)).map(|_| OnceLock::new()).collect() }
    }

    /// None: actors live in the `LocalSet` of whoever asks for them.
    #[must_use]
    pub fn here() -> Self {
        Self::default()
    }

    /// How many there will be.
    #[must_use]
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// Registers an arbiter. The first one to be registered under an index stays.
    pub fn set(&self, index: usize, handle: ArbiterHandle) {
        let _ = self.slots[index].set(handle);
    }

    /// Whether every arbiter is known.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.slots.iter().all(|slot| slot.get().is_some())
    }

    /// Runs `start` on the arbiter of `hash`; at once, when that is this thread.
    pub(super) fn place<T: Send + 'static>(
        &self,
        hash: u64,
        local: impl FnOnce() -> T,
        remote: impl FnOnce(&ArbiterHandle) -> T,
    ) -> Option<T> {
        let index = self.index(hash);
        if self.is_here(index) {
            return Some(local());
        }
        self.slots[index].get().map(remote)
    }

    /// The number of the arbiter of `hash`.
    pub(super) fn index(&self, hash: u64) -> usize {
        usize::try_from(hash % self.slots.len().max(1) as u64).unwrap_or(0)
    }

    fn is_here(&self, index: usize) -> bool {
        self.slots.is_empty() || HERE.get() == Some(index)
    }

    /// Runs `action` on an arbiter; at once, when that is this thread. Not so, where there is none yet.
    pub(super) fn run(&self, index: usize, action: impl FnOnce() + Send + 'static) {
        if self.is_here(index) {
            action();
        } else if let Some(arbiter) = self.slots[index].get() {
            arbiter.spawn_fn(action);
        }
    }
}
