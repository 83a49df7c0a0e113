//! A task that ends with the value that stands for it.

use actix::spawn;

/// A running task. Dropping it is like `kill -9`: the task does nothing more.
pub struct Task(tokio::task::JoinHandle<()>);

impl Task {
    pub fn run(work: impl Future<Output = ()> + 'static) -> Self {
        Self(spawn(work))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
