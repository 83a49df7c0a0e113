//! The thread on which a plugin's code runs: not that of any actor, so that a plugin which blocks it
//! holds up nobody else, and is left behind.

use std::{
    io,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::{
    runtime::{Builder, Handle},
    sync::{oneshot, watch},
    task::{JoinError, JoinHandle, spawn_local},
    time::timeout,
};

use crate::plugin::{FenceError, FenceOrder, FencePlugin};

/// Threads that a plugin may leave behind, blocked; then it fails without a try.
const MAX_BLOCKED: usize = 16;
/// How long a try whose time is over may take to let go. One that takes longer blocks its thread.
pub(super) const GRACE: Duration = Duration::from_millis(250);

/// How a try ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tried {
    Confirmed,
    Failed(FenceError),
    TimedOut,
    Panicked(String),
}

/// The thread of one plugin; another one takes its place when it is blocked.
pub(super) struct Worker {
    name: Arc<str>,
    current: Mutex<Option<Arc<Thread>>>,
    threads: Arc<AtomicUsize>,
    /// Lives as long as any of its threads.
    alive: watch::Receiver<()>,
    /// It has no thread of its own: tries run in the `LocalSet` of the caller.
    here: bool,
}

/// Ends when nobody holds it: what runs on it is dropped.
struct Thread {
    handle: Handle,
    _stop: oneshot::Sender<()>,
}

/// A task that ends with this value.
struct Task(JoinHandle<Result<(), FenceError>>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Worker {
    pub(super) fn new(name: Arc<str>, alive: watch::Receiver<()>, here: bool) -> Self {
        Self { name, current: Mutex::default(), threads: Arc::default(), alive, here }
    }

    /// One try. It is dropped when `span` is over, or when this future is.
    pub(super) async fn attempt(
        &self,
        plugin: Arc<dyn FencePlugin>,
        order: FenceOrder,
        span: Duration,
    ) -> Tried {
        let fence = async move { plugin.fence(order).await };
        let (thread, task) = if self.here {
            (None, spawn_local(fence))
        } else {
            match self.thread() {
                Ok(thread) => {
                    let task = thread.handle.spawn(fence);
                    (Some(thread), task)
                }
                Err(error) => {
                    return Tried::Failed(FenceError::new(format!("there is no thread: {error}")));
                }
            }
        };
        let mut task = Task(task);
        if let Ok(ended) = timeout(span, &mut task.0).await {
            return judge(ended);
        }
        task.0.abort();
        match timeout(GRACE, &mut task.0).await {
            // It was faster than the abort.
            Ok(Ok(ended)) => judge(Ok(ended)),
            Ok(Err(_)) => Tried::TimedOut,
            Err(_) => {
                thread.iter().for_each(|thread| self.leave(thread));
                Tried::TimedOut
            }
        }
    }

    fn thread(&self) -> io::Result<Arc<Thread>> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = &*current {
            return Ok(thread.clone());
        }
        if self.threads.load(Ordering::Acquire) > MAX_BLOCKED {
            return Err(io::Error::other("it blocked too many"));
        }
        Ok(current.insert(Arc::new(self.start()?)).clone())
    }

    fn start(&self) -> io::Result<Thread> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let (threads, alive) = (self.threads.clone(), self.alive.clone());
        threads.fetch_add(1, Ordering::AcqRel);
        let count = Count(threads);
        thread::Builder::new().name(format!("plugin-{}", self.name)).spawn(move || {
            let (_count, _alive) = (count, alive);
            runtime.block_on(async {
                let _ = stopped.await;
            });
            // What a plugin does as it is dropped is its own affair.
            let _ = std::panic::catch_unwind(AssertUnwindSafe(|| runtime.shutdown_background()));
        })?;
        Ok(Thread { handle, _stop: stop })
    }

    /// The next try goes to another thread.
    fn leave(&self, blocked: &Arc<Thread>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|thread| Arc::ptr_eq(thread, blocked)) {
            tracing::error!(plugin = &*self.name, "the plugin blocks its thread, which is left");
            *current = None;
        }
    }
}

struct Count(Arc<AtomicUsize>);

impl Drop for Count {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn judge(ended: Result<Result<(), FenceError>, JoinError>) -> Tried {
    match ended {
        Ok(Ok(())) => Tried::Confirmed,
        Ok(Err(error)) => Tried::Failed(error),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => Tried::Panicked(
                panic
                    .downcast_ref::<&str>()
                    .map(ToString::to_string)
                    .or_else(|| panic.downcast_ref::<String>().cloned())
                    .unwrap_or_default(),
            ),
            Err(_) => Tried::Failed(FenceError::new("its thread ended")),
        },
    }
}
