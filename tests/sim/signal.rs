//! SIGSTOP and SIGCONT.

use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    pin::pin,
    task::{Poll, Waker},
};

/// How a process is stopped and goes on: while it is stopped, nothing in it is polled.
#[derive(Default)]
pub struct Signal {
    stopped: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Signal {
    pub fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    pub fn stop(&self) {
        self.stopped.set(true);
    }

    pub fn go_on(&self) {
        self.stopped.set(false);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Runs what the process does.
    pub async fn obey<T>(&self, life: impl Future<Output = T>) -> T {
        let mut life = pin!(life);
        poll_fn(|cx| {
            *self.waker.borrow_mut() = Some(cx.waker().clone());
            if self.is_stopped() { Poll::Pending } else { life.as_mut().poll(cx) }
        })
        .await
    }
}
