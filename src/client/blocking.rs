//! A runtime for programs that have none. It runs in its own thread, and keeps the heartbeats going while the caller
//! blocks, computes or sleeps.
//!
//! Guarantees: [`Background::wait`] blocks only the calling thread. The heartbeats of leases and sessions that it
//! returned go on until the [`Background`] is dropped.
//!
//! Does not guarantee: that a guard that is dropped just before the [`Background`] releases its lease. Release it
//! explicitly.
//!
//! Assumes: it is not called from an asynchronous task.
//!
//! ```no_run
//! use std::time::Duration;
//! use tenure::client::{Client, Hold, blocking::Background};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let background = Background::start()?;
//!     let client = Client::new("http://127.0.0.1:7373")?;
//!     let hold = Hold::key("jobs/nightly").owner("w1").wait(Duration::from_secs(60));
//!     let lease = background.wait(client.hold(hold))?;
//!     for part in 0..100 {
//!         // `valid` needs no runtime.
//!         if !lease.valid() {
//!             return Err(format!("lost before part {part}").into());
//!         }
//!         // … one part of the work, with lease.token() in every write …
//!     }
//!     background.wait(lease.release_with("all parts"))?;
//!     Ok(())
//! }
//! ```

use std::{future::Future, io, thread::JoinHandle};

use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

/// A runtime in its own thread. The runtime ends when this is dropped.
#[derive(Debug)]
pub struct Background {
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system provides no thread or no sockets.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let body = move || {
            let _ = runtime.block_on(stopped);
        };
        let thread = std::thread::Builder::new().name("tenure-client".into()).spawn(body)?;
        Ok(Self { runtime: handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Blocks the calling thread until the future is ready.
    ///
    /// # Panics
    /// When it is called from an asynchronous task.
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
