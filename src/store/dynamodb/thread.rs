//! The store's own thread: callers come from several runtimes, and connections belong to one.

use std::{future::Future, thread};

use tokio::{
    runtime::{Builder, Handle},
    sync::watch,
    task::JoinHandle,
};

/// A thread with a runtime. It ends, and everything on it, when this is dropped or stopped.
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
            // An error means that the store is gone.
            runtime.block_on(async { drop(stopped.wait_for(|stop| *stop).await) });
        })?;
        Ok(Self { handle, stop })
    }

    /// Has the thread do it, whether or not the handle is awaited.
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
