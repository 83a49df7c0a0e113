//! Work that may block without end, such as that on a file system that does not answer.

use tokio::sync::oneshot;

/// What a function returns that may block without end; `None` if it panicked. The end of the process does not wait for it, as
/// it would for a blocking task of the runtime.
pub async fn apart<T: Send + 'static>(blocks: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (found, waits) = oneshot::channel();
    let run = move || drop(found.send(blocks()));
    if let Err(error) = std::thread::Builder::new().name("files".into()).spawn(run) {
        tracing::error!(%error, "no thread can be started to work on files");
    }
    waits.await.ok()
}
