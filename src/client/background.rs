//! What a client does in the background for callers that no longer wait: it gives back what they do not want.

use std::future::Future;

use tokio::{runtime::Handle, sync::watch};

/// The number of these tasks that have not ended. Clones count together.
#[derive(Clone, Debug)]
pub(super) struct Background(watch::Sender<usize>);

impl Default for Background {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Background {
    /// Runs a task on this runtime, and counts it until it ends or its runtime does.
    pub(super) fn run(&self, runtime: &Handle, task: impl Future<Output = ()> + Send + 'static) {
        let counted = Counted::new(self.0.clone());
        runtime.spawn(async move {
            task.await;
            drop(counted);
        });
    }

    /// Resolves when none is left.
    pub(super) async fn settled(&self) {
        // This is a sender itself, so there is always one.
        let _ = self.0.subscribe().wait_for(|&count| count == 0).await;
    }
}

struct Counted(watch::Sender<usize>);

impl Counted {
    fn new(count: watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_settled_when_the_last_task_has_ended() {
        let background = Background::default();
        background.settled().await;
        for seconds in [1, 3, 2] {
            let task = async move { tokio::time::sleep(Duration::from_secs(seconds)).await };
            background.clone().run(&Handle::current(), task);
        }
        let early = tokio::time::timeout(Duration::from_millis(2900), background.settled()).await;
        assert!(early.is_err(), "one of them has not ended");
        background.settled().await;
    }
}
