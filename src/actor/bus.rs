//! The bus of ownership changes: bounded, and never waiting for a listener.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use tokio::sync::broadcast;

use crate::store::Committed;

/// A published change. Doors keep their rendering in it, so that a thousand subscribers cost one.
#[derive(Debug)]
pub struct Published {
    /// The change.
    pub committed: Committed,
    /// A door's rendering of it.
    pub rendered: OnceLock<Bytes>,
}

/// The bus. A listener that falls behind by more than the buffer is told so, and nobody waits for it.
pub struct Bus {
    sender: broadcast::Sender<Arc<Published>>,
    subscribers: Arc<AtomicUsize>,
    limit: usize,
}

/// As many subscribers as are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are {0} subscribers, which is the limit")]
pub struct TooManySubscribers(pub usize);

/// A place on the bus.
pub struct Subscriber {
    /// Where changes arrive.
    pub changes: broadcast::Receiver<Arc<Published>>,
    subscribers: Arc<AtomicUsize>,
}

impl Bus {
    pub(super) fn new(buffer: usize, limit: usize) -> Self {
        let (sender, _) = broadcast::channel(buffer.max(1));
        Self { sender, subscribers: Arc::default(), limit }
    }

    /// Listens from now on.
    ///
    /// # Errors
    /// [`TooManySubscribers`].
    pub fn subscribe(&self) -> Result<Subscriber, TooManySubscribers> {
        let subscribers = self.subscribers.clone();
        if subscribers.fetch_add(1, Ordering::AcqRel) >= self.limit {
            subscribers.fetch_sub(1, Ordering::AcqRel);
            return Err(TooManySubscribers(self.limit));
        }
        Ok(Subscriber { changes: self.sender.subscribe(), subscribers })
    }

    /// How many listen.
    pub fn subscribers(&self) -> usize {
        self.subscribers.load(Ordering::Acquire)
    }

    pub(super) fn publish(&self, committed: Committed) {
        // An error means that nobody listens.
        let _ = self.sender.send(Arc::new(Published { committed, rendered: OnceLock::new() }));
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.subscribers.fetch_sub(1, Ordering::AcqRel);
    }
}
