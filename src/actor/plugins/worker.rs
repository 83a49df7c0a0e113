//! The thread on which a plugin's code runs. No actor lives on it, so a plugin that blocks it delays no other task, and
//! the thread is abandoned.

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

use crate::{
    plugin::{FailureKind, FenceError, Fencing},
    settings::format_duration,
};

/// How many blocked threads a plugin may leave behind. Beyond that, its orders fail without a try.
const MAX_BLOCKED: usize = 16;
/// How long a try may take to stop after its time is over. One that takes longer blocks its thread.
pub(super) const GRACE: Duration = Duration::from_millis(250);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tried {
    Confirmed,
    Failed(FenceError),
    TimedOut,
    Panicked(String),
}

impl Tried {
    /// Why the try failed; `None` if it was confirmed. `span` is the time that it had.
    pub(super) fn failure(self, span: Duration) -> Option<FenceError> {
        Some(match self {
            Self::Confirmed => return None,
            Self::Failed(error) => error,
            Self::TimedOut => {
                let detail = format!("no answer within {}", format_duration(span));
                FenceError::of(FailureKind::TimedOut, detail)
            }
            Self::Panicked(said) => FenceError::of(FailureKind::Panicked, said),
        })
    }
}

/// The thread of one plugin. When it is blocked, another thread replaces it.
pub(super) struct Worker {
    name: Arc<str>,
    current: Mutex<Option<Arc<Thread>>>,
    threads: Arc<AtomicUsize>,
    /// Lives as long as any of the plugin's threads.
    alive: watch::Receiver<()>,
    /// There is no separate thread: tries run in the `LocalSet` of the caller.
    here: bool,
}

/// The thread ends when no reference to it is left. What runs on it is then dropped.
struct Thread {
    handle: Handle,
    _stop: oneshot::Sender<()>,
}

/// A task that is aborted when this value is dropped.
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

    /// Makes one try: calls the plugin by `call`. The try is dropped when `span` is over, or when this future is.
    pub(super) async fn attempt(
        &self,
        call: impl FnOnce() -> Fencing + Send + 'static,
        span: Duration,
    ) -> Tried {
        let fence = async move { call().await };
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
            // The try finished before the abort.
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
            return Err(io::Error::other("it blocked too many threads"));
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
            // A panic while the plugin's future is dropped is ignored.
            let _ = std::panic::catch_unwind(AssertUnwindSafe(|| runtime.shutdown_background()));
        })?;
        Ok(Thread { handle, _stop: stop })
    }

    /// Makes the next try use another thread.
    fn leave(&self, blocked: &Arc<Thread>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|thread| Arc::ptr_eq(thread, blocked)) {
            tracing::error!(plugin = &*self.name, "a plugin's blocked thread is abandoned");
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
            Err(_) => Tried::Failed(FenceError::new("the plugin's thread ended")),
        },
    }
}
