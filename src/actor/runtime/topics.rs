//! Topics: what is published under a name goes to the present subscriber of that name.
//!
//! Guarantees: a message that is not delivered is dropped or returned, never kept for a later subscriber. Whoever
//! publishes must notice the drop, and publish again. Nobody waits for a subscriber.

use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::mpsc::{self, Receiver, Sender, error::TrySendError};

use crate::clock::HashMap;

/// How many messages a topic keeps for a subscriber that falls behind. It takes a message in microseconds.
const BUFFER: usize = 16 * 1024;

/// Topics by name. Clones share them.
pub struct Topics<M>(Arc<RwLock<HashMap<Arc<str>, Sender<M>>>>);

/// Why nobody received a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undelivered {
    /// The topic does not exist.
    NoTopic,
    /// The subscriber is gone, and its successor has not subscribed yet.
    NoSubscriber,
    /// The subscriber fell behind by [`BUFFER`] messages.
    Lagged,
}

impl<M> Topics<M> {
    /// Subscribes in place of an earlier subscriber, whose messages are dropped with its receiver. Makes the topic.
    pub fn subscribe(&self, topic: Arc<str>) -> Receiver<M> {
        let (sender, receiver) = mpsc::channel(BUFFER);
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(topic, sender);
        receiver
    }

    pub fn remove(&self, topic: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(topic);
    }

    /// Publishes a message.
    ///
    /// # Errors
    /// The message, and why nobody received it.
    pub fn publish(&self, topic: &str, message: M) -> Result<(), (M, Undelivered)> {
        let topics = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(sender) = topics.get(topic) else { return Err((message, Undelivered::NoTopic)) };
        sender.try_send(message).map_err(|error| match error {
            TrySendError::Closed(message) => (message, Undelivered::NoSubscriber),
            TrySendError::Full(message) => (message, Undelivered::Lagged),
        })
    }
}

impl<M> Clone for Topics<M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M> Default for Topics<M> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_receives_comes_back_with_the_reason() {
        let topics = Topics::default();
        assert_eq!(topics.publish("a", 1), Err((1, Undelivered::NoTopic)));
        let mut first = topics.subscribe("a".into());
        assert_eq!(topics.publish("a", 2), Ok(()));
        assert_eq!(first.try_recv(), Ok(2));
        drop(first);
        assert_eq!(topics.publish("a", 3), Err((3, Undelivered::NoSubscriber)));
        let mut second = topics.subscribe("a".into());
        for message in 0..BUFFER {
            assert_eq!(topics.publish("a", message), Ok(()));
        }
        assert_eq!(topics.publish("a", 4), Err((4, Undelivered::Lagged)));
        assert_eq!(second.try_recv(), Ok(0), "the oldest comes first");
        topics.remove("a");
        assert_eq!(topics.publish("a", 5), Err((5, Undelivered::NoTopic)));
    }
}
