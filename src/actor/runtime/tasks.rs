//! Loops that must not end.

use std::{future::Future, sync::Arc, time::Duration};

/// The pause after a loop ended, before it is started again.
const PAUSE: Duration = Duration::from_millis(100);

/// Restarts a loop when it panics: without it the node would be as good as dead.
pub fn supervise<T, F>(subject: &Arc<T>, task: &'static str, body: impl Fn(Arc<T>) -> F + 'static)
where
    T: 'static,
    F: Future<Output = ()> + 'static,
{
    let subject = subject.clone();
    actix::spawn(async move {
        loop {
            let ended = actix::spawn(body(subject.clone())).await;
            let panicked = ended.is_err();
            tracing::error!(task, panicked, "a background task ended; restarting it");
            tokio::time::sleep(PAUSE).await;
        }
    });
}
