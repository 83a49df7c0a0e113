//! The bus of ownership changes: bounded, and never waiting for a listener.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use tokio::sync::broadcast;

use super::watch;
use crate::store::{Committed, Position};

/// What listeners hear.
#[derive(Clone, Debug)]
pub enum Heard {
    /// A change.
    Change(Arc<Published>),
    /// Some changes before this position were lost.
    Lost(Position),
    /// Nothing is granted any more, or again: why, while it is so.
    Frozen(Option<Arc<str>>),
}

/// A published change. Doors keep their rendering in it, so that a thousand subscribers cost one.
#[derive(Debug)]
pub struct Published {
    /// The change.
    pub committed: Committed,
    /// The door's rendering of it.
    pub rendered: OnceLock<Bytes>,
}

/// How the door renders a change.
type Render = Box<dyn Fn(&Committed) -> Bytes + Send + Sync>;

/// The bus. A listener that falls behind by more than the buffer is told so, and nobody waits for it.
pub struct Bus {
    sender: broadcast::Sender<Heard>,
    subscribers: Arc<AtomicUsize>,
    limit: usize,
    render: OnceLock<Render>,
    /// Up to where the store's history was published.
    reached: watch::Sender<Position>,
}

/// As many subscribers as are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are {0} subscribers, which is the limit")]
pub struct TooManySubscribers(pub usize);

/// A place on the bus.
pub struct Subscriber {
    /// Where changes arrive.
    pub changes: broadcast::Receiver<Heard>,
    subscribers: Arc<AtomicUsize>,
}

impl Bus {
    pub(super) fn new(buffer: usize, limit: usize) -> Self {
        let (sender, _) = broadcast::channel(buffer.max(1));
        let reached = watch::Sender::new(Position::default());
        Self { sender, subscribers: Arc::default(), limit, render: OnceLock::new(), reached }
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

    /// Has changes rendered where they are published, while anybody listens: that thread has time, the
    /// listeners' threads keep leases. The first to say how is heard.
    pub fn render_with(&self, render: impl Fn(&Committed) -> Bytes + Send + Sync + 'static) {
        let _ = self.render.set(Box::new(render));
    }

    /// How many listen.
    pub fn subscribers(&self) -> usize {
        self.subscribers.load(Ordering::Acquire)
    }

    pub(super) fn publish(&self, committed: Committed) {
        let rendered = OnceLock::new();
        if self.subscribers() > 0
            && let Some(render) = self.render.get()
        {
            let _ = rendered.set(render(&committed));
        }
        // An error means that nobody listens.
        let _ = self.sender.send(Heard::Change(Arc::new(Published { committed, rendered })));
    }

    /// All changes up to here were published, or said to be lost.
    pub(super) fn reach(&self, position: Position) {
        self.reached.send_replace(position);
    }

    /// Resolves when all changes up to here were published.
    pub async fn reached(&self, position: Position) {
        let _ = self.reached.subscribe().wait_for(|reached| *reached >= position).await;
    }

    /// Tells listeners that changes before a position were lost.
    pub(super) fn lose(&self, resume: Position) {
        let _ = self.sender.send(Heard::Lost(resume));
    }

    /// Tells listeners that nothing is granted for now, or again.
    pub(super) fn freeze(&self, why: Option<Arc<str>>) {
        let _ = self.sender.send(Heard::Frozen(why));
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.subscribers.fetch_sub(1, Ordering::AcqRel);
    }
}
