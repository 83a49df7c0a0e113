//! Work that any thread may add, and one task does.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

/// Work that waits for its task.
///
/// Guarantees: after an addition [`Self::filled`] resolves, also if the task begins to wait only then. Many additions
/// may wake the task once.
#[derive(Default)]
pub struct Inbox<C> {
    waiting: Mutex<C>,
    added: Notify,
}

impl<C: Default> Inbox<C> {
    /// Changes what waits, and wakes the task.
    pub fn add(&self, add: impl FnOnce(&mut C)) {
        self.look(add);
        self.added.notify_one();
    }

    /// Reads or changes the content without waking the receiver.
    pub fn look<T>(&self, look: impl FnOnce(&mut C) -> T) -> T {
        look(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn take(&self) -> C {
        self.look(std::mem::take)
    }

    /// Resolves once after each addition, or once for several.
    pub async fn filled(&self) {
        self.added.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn whoever_comes_after_the_additions_finds_them_all_and_is_woken_once() {
        let inbox = Inbox::<Vec<u32>>::default();
        inbox.add(|waiting| waiting.push(1));
        inbox.add(|waiting| waiting.push(2));
        inbox.filled().await;
        assert_eq!(inbox.take(), [1, 2]);
        let again = tokio::time::timeout(Duration::from_millis(20), inbox.filled()).await;
        assert!(again.is_err(), "nothing was added since");
        assert_eq!(inbox.take(), [0; 0]);
    }

    #[tokio::test]
    async fn an_addition_wakes_the_task_and_a_look_does_not() {
        let inbox = Inbox::<Vec<u32>>::default();
        let (woken, ()) = tokio::join!(
            async {
                inbox.filled().await;
                inbox.take()
            },
            async {
                tokio::task::yield_now().await;
                inbox.look(|waiting| waiting.push(1));
                tokio::task::yield_now().await;
                inbox.add(|waiting| waiting.push(2));
            }
        );
        assert_eq!(woken, [1, 2]);
    }
}
