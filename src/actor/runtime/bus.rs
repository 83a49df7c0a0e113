//! The bus: ownership changes for every subscriber, and fence orders, with a topic for each plugin. It is bounded, and
//! never waits for a subscriber.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use tokio::sync::broadcast;

use super::{fence::Fence, topics::Topics, watch};
use crate::store::{Committed, Position};

/// A message of the bus, which every subscriber receives.
#[derive(Clone, Debug)]
pub enum BusEvent {
    /// A change that the store has committed.
    Change(Arc<Published>),
    /// Some changes were lost.
    Lost(Resume),
    /// The store is frozen, for this reason, and nothing is granted; or, with `None`, no longer frozen.
    Frozen(Option<Arc<str>>),
}

/// From where changes are published after some were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume {
    /// Changes up to this position may be lost.
    pub position: Position,
    /// The store went backwards. Positions from before mean nothing in the store as it is now.
    pub is_anew: bool,
}

impl Resume {
    /// Where a subscriber goes on that came to this position.
    #[must_use]
    pub fn after(self, reached: Position) -> Position {
        if self.is_anew { self.position } else { self.position.max(reached) }
    }
}

/// A published change. The HTTP handlers keep their rendering in it, so that a thousand subscribers need only one.
#[derive(Debug)]
pub struct Published {
    /// The change, with its key and position.
    pub committed: Committed,
    /// The HTTP handlers' rendering of it.
    pub rendered: OnceLock<Bytes>,
    /// Their rendering of it for routers.
    pub routed: OnceLock<Bytes>,
}

/// How the HTTP handlers render a change.
type Render = Box<dyn Fn(&Committed) -> Bytes + Send + Sync>;

/// The bus. A subscriber that falls behind by more than the buffer is told so; the bus does not wait for it.
pub struct Bus {
    sender: broadcast::Sender<BusEvent>,
    subscribers: Arc<AtomicUsize>,
    limit: usize,
    /// Fence orders. Each plugin's actor subscribes to the topic with the plugin's name.
    pub(in crate::actor) fences: Topics<Fence>,
    render: OnceLock<Render>,
    /// The position up to which the store's history was published.
    reached: watch::Sender<Position>,
}

/// The number of subscribers has reached its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bus has {0} subscribers, and accepts no more")]
pub struct TooManySubscribers(pub usize);

/// A subscription to the bus.
pub struct Subscriber {
    /// Receives what is published after the subscription began.
    pub changes: broadcast::Receiver<BusEvent>,
    subscribers: Arc<AtomicUsize>,
}

impl Bus {
    pub(in crate::actor) fn new(buffer: usize, limit: usize) -> Self {
        let (sender, _) = broadcast::channel(buffer.max(1));
        let reached = watch::Sender::new(Position::default());
        Self {
            sender,
            subscribers: Arc::default(),
            limit,
            fences: Topics::default(),
            render: OnceLock::new(),
            reached,
        }
    }

    /// Subscribes to the changes from now on.
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

    /// Has changes rendered on the thread that publishes them, while there is a subscriber: that thread has time,
    /// whereas the subscribers' threads serve leases. Only the first call has an effect.
    pub fn render_with(&self, render: impl Fn(&Committed) -> Bytes + Send + Sync + 'static) {
        let _ = self.render.set(Box::new(render));
    }

    pub fn subscribers(&self) -> usize {
        self.subscribers.load(Ordering::Acquire)
    }

    pub(in crate::actor) fn publish(&self, committed: Committed) {
        let rendered = OnceLock::new();
        if self.subscribers() > 0
            && let Some(render) = self.render.get()
        {
            let _ = rendered.set(render(&committed));
        }
        // An error means that there is no subscriber.
        let published = Published { committed, rendered, routed: OnceLock::new() };
        let _ = self.sender.send(BusEvent::Change(Arc::new(published)));
    }

    /// All changes up to this position were published, or reported as lost.
    pub(in crate::actor) fn reach(&self, position: Position) {
        self.reached.send_replace(position);
    }

    /// Resolves when all changes up to this position were published.
    pub async fn reached(&self, position: Position) {
        let _ = self.reached.subscribe().wait_for(|reached| *reached >= position).await;
    }

    /// Resolves when changes after this position were published, or reported as lost.
    pub async fn passed(&self, position: Position) {
        let _ = self.reached.subscribe().wait_for(|reached| *reached > position).await;
    }

    /// Tells subscribers that changes were lost.
    pub(in crate::actor) fn lose(&self, resume: Resume) {
        let _ = self.sender.send(BusEvent::Lost(resume));
    }

    /// Tells subscribers that the store is frozen, or no longer frozen.
    pub(in crate::actor) fn freeze(&self, why: Option<Arc<str>>) {
        let _ = self.sender.send(BusEvent::Frozen(why));
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.subscribers.fetch_sub(1, Ordering::AcqRel);
    }
}
