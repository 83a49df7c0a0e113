//! The store's own thread. Callers come from several runtimes, but connections belong to one.

use std::{future::Future, thread};

use tokio::{
    runtime::{Builder, Handle},
    sync::watch,
    task::JoinHandle,
};

/// A thread with a runtime. The thread and all its tasks end when this is dropped or stopped.
#[derive(Debug)]
pub(super) struct Thread {
    handle: Handle,
    stop: watch::Sender<bool>,
}

impl Thread {
    pub fn start() -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, mut stopped) = watch::channel(false);
        thread::Builder::new().name("dynamodb".to_owned()).spawn(move || {
            // An error means that the store was dropped.
            runtime.block_on(async { drop(stopped.wait_for(|stop| *stop).await) });
        })?;
        Ok(Self { handle, stop })
    }

    /// Runs the work on the thread, whether or not the handle is awaited.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.handle.spawn(work)
    }

    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}
