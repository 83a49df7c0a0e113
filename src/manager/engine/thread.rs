//! A coordinator inside another program, which may use another kind of runtime.

use std::{ops::Deref, sync::Arc, thread::JoinHandle};

use tokio::sync::oneshot;

use super::{Engine, Manager};
use crate::{
    actor::{Arbiters, claim_this_thread},
    settings::Settings,
};

/// A coordinator that runs inside this program, on its own threads. It is the same as `tenure serve` runs, without
/// HTTP. Its operations are those of [`Manager`], and may be called from any tokio runtime of the program.
///
/// When it is dropped, it stops as [`Tenure::stop`] does, and the drop waits for that.
pub struct Tenure {
    manager: Arc<Manager>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Why a coordinator could not be started: the store, a plugin or the machine caused an error.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
pub struct StartError(#[from] anyhow::Error);

impl Tenure {
    /// Starts a coordinator from its settings. Settings of the HTTP server (`server.listen`…) have no effect.
    ///
    /// # Errors
    /// [`StartError`], when the store cannot be opened or a plugin cannot be made.
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        let (started, hear_start) = oneshot::channel();
        let (stop, hear_stop) = oneshot::channel();
        let run = move || actix::System::new().block_on(run(settings, started, hear_stop));
        let thread = std::thread::Builder::new().name("tenure".to_owned()).spawn(run);
        let thread = thread.map_err(anyhow::Error::from)?;
        let silent = |_| anyhow::anyhow!("the coordinator's thread ended before it had started");
        let manager = hear_start.await.map_err(silent)??;
        Ok(Self { manager, stop: Some(stop), thread: Some(thread) })
    }

    /// The coordinator's interface. It may be kept and shared.
    #[must_use]
    pub fn manager(&self) -> Arc<Manager> {
        self.manager.clone()
    }

    /// Accepts no more work, settles what is in flight, syncs, and closes the store. Leases stay held: after the next
    /// start, their owners have one ttl to send a heartbeat.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The panic of a thread was already reported.
            let _ = tokio::task::spawn_blocking(|| thread.join()).await;
        }
    }
}

impl Deref for Tenure {
    type Target = Manager;

    fn deref(&self) -> &Manager {
        &self.manager
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn run(
    settings: Settings,
    started: oneshot::Sender<anyhow::Result<Arc<Manager>>>,
    stop: oneshot::Receiver<()>,
) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let places = Arc::new(Arbiters::new(settings.server.workers.resolve(cores)));
    let threads: Vec<_> = (0..places.count()).map(|index| place(&places, index)).collect();
    match Engine::start(&settings, String::new(), None, places).await {
        Ok(engine) => {
            if started.send(Ok(engine.manager.clone())).is_ok() {
                // A message and a dropped sender both mean that it is time to stop.
                let _ = stop.await;
            }
            engine.leave().await;
            engine.stop().await;
        }
        // An error means that the caller has left.
        Err(error) => drop(started.send(Err(error))),
    }
    for thread in threads {
        thread.stop();
        let _ = thread.join();
    }
}

/// Starts a thread for lease actors.
fn place(places: &Arbiters, index: usize) -> actix::Arbiter {
    let thread = actix::Arbiter::new();
    thread.spawn_fn(move || claim_this_thread(index));
    places.set(index, thread.handle());
    thread
}
