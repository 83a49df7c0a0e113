//! A value on which many tasks wait. It is like tokio's `watch`, but wakes the waiting tasks in the order in which they
//! came: tokio chooses a random order, and then a run of the simulator could not be replayed.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

/// Changes the value, which all receivers then see.
pub struct Sender<T>(Arc<Shared<T>>);

/// Waits for changes of the value.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

/// The sender is gone: the value does not change any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value does not change any more: its sender is gone")]
pub struct Closed;

struct Shared<T> {
    /// The value, and how often it was changed.
    value: Mutex<(T, u64)>,
    changed: Notify,
    closed: AtomicBool,
}

impl<T> Shared<T> {
    fn value(&self) -> MutexGuard<'_, (T, u64)> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves when `done` returns true.
    async fn until(&self, mut done: impl FnMut(&T, u64) -> bool) -> Result<(), Closed> {
        loop {
            // Created before the check, so that a change after the check wakes this task.
            let changed = self.changed.notified();
            if let (value, changes) = &*self.value()
                && done(value, *changes)
            {
                return Ok(());
            }
            if self.closed.load(Ordering::Acquire) {
                return Err(Closed);
            }
            changed.await;
        }
    }
}

impl<T> Sender<T> {
    /// A sender with a first value.
    pub fn new(value: T) -> Self {
        let (value, changed) = (Mutex::new((value, 0)), Notify::new());
        Self(Arc::new(Shared { value, changed, closed: AtomicBool::new(false) }))
    }

    /// Replaces the value.
    pub fn send_replace(&self, value: T) {
        self.send_modify(|present| *present = value);
    }

    /// Changes the value in place.
    pub fn send_modify(&self, change: impl FnOnce(&mut T)) {
        let mut value = self.0.value();
        change(&mut value.0);
        value.1 += 1;
        drop(value);
        self.0.changed.notify_waiters();
    }

    /// The value.
    #[must_use]
    pub fn get(&self) -> T
    where
        T: Clone,
    {
        self.0.value().0.clone()
    }

    /// A receiver that waits for changes from now on.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver { seen: self.0.value().1, shared: self.0.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Release);
        self.0.changed.notify_waiters();
    }
}

impl<T> Receiver<T> {
    /// Resolves when `such` holds for the value, or at once if it already does.
    ///
    /// # Errors
    /// [`Closed`].
    pub async fn wait_for(&mut self, such: impl Fn(&T) -> bool) -> Result<(), Closed> {
        self.shared.until(|value, _| such(value)).await
    }

    /// Resolves when the value changed since this receiver last looked at it.
    ///
    /// # Errors
    /// [`Closed`].
    pub async fn changed(&mut self) -> Result<(), Closed> {
        let seen = &mut self.seen;
        self.shared.until(|_, changes| std::mem::replace(seen, changes) != changes).await
    }

    /// The value. All changes so far count as seen.
    pub fn get(&mut self) -> T
    where
        T: Clone,
    {
        let value = self.shared.value();
        self.seen = value.1;
        value.0.clone()
    }

    /// Marks all changes so far as seen.
    pub fn look(&mut self) {
        self.seen = self.shared.value().1;
    }
}

/// Many changes come at once. A waiting task waits this long after the first one, and then looks once.
const SETTLE: Duration = Duration::from_millis(10);

/// Resolves a moment after the next change.
///
/// # Errors
/// [`Closed`].
pub async fn settle<T>(changes: &mut Receiver<T>) -> Result<(), Closed> {
    changes.changed().await?;
    tokio::time::sleep(SETTLE).await;
    changes.look();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_waits_is_woken_in_order_and_told_of_the_end() {
        let (sender, order) = (Sender::new(0), Arc::new(Mutex::new(Vec::new())));
        let wait = |number| {
            let (mut receiver, order) = (sender.subscribe(), order.clone());
            tokio::spawn(async move {
                let waited = receiver.wait_for(|value| *value == 7).await;
                order.lock().unwrap().push((number, waited));
            })
        };
        let waiting: Vec<_> = (0..10).map(wait).collect();
        let mut other = sender.subscribe();
        tokio::task::yield_now().await;
        sender.send_replace(5);
        assert_eq!(other.changed().await, Ok(()));
        sender.send_replace(6);
        other.look();
        sender.send_replace(7);
        assert_eq!(other.changed().await, Ok(()));
        for task in waiting {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), (0..10).map(|n| (n, Ok(()))).collect::<Vec<_>>());
        drop(sender);
        assert_eq!(other.changed().await, Err(Closed));
    }
}
