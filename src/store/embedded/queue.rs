//! The queue of writes for the writer.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::oneshot;

use super::{
    super::{StoreError, WriteOutcome},
    frame::FrameKind,
};
use crate::lease::{Change, Key, Revision};

/// How many writes may wait. At 100 000 writes/s, these are 2.6 s of writes and about 100 MB.
pub(super) const MAX_WAITING: usize = 262_144;

/// A write that its caller has encoded.
#[derive(Debug)]
pub(super) struct Job {
    pub key: Key,
    pub expected: Revision,
    /// The frame, as [`frame::draft`](super::frame::draft) made it.
    pub draft: Vec<u8>,
    pub kind: FrameKind,
    pub changes: Vec<Change>,
    pub reply: oneshot::Sender<Verdict>,
}

#[derive(Debug)]
pub(super) enum Verdict {
    Settled(WriteOutcome),
    /// The key had another revision. The caller's thread reads what is there.
    Conflict,
}

/// A bounded queue that its only reader empties at once.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: Vec<Job>,
    reader_waits: bool,
    closed: Option<StoreError>,
}

impl Queue {
    /// Adds a write, or returns why it is refused.
    pub fn push(&self, job: Job) -> Result<(), StoreError> {
        let mut state = self.lock();
        if let Some(why) = &state.closed {
            return Err(why.clone());
        }
        if state.jobs.len() >= MAX_WAITING {
            let why = format!("overloaded: {MAX_WAITING} writes are waiting");
            return Err(StoreError::Unavailable(why));
        }
        state.jobs.push(job);
        if std::mem::take(&mut state.reader_waits) {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Waits for writes and moves them all into `jobs`, which must be empty. Returns `false` once the queue is
    /// closed and empty.
    pub fn take(&self, jobs: &mut Vec<Job>) -> bool {
        let mut state = self.lock();
        loop {
            if !state.jobs.is_empty() {
                std::mem::swap(&mut state.jobs, jobs);
                return true;
            }
            if state.closed.is_some() {
                return false;
            }
            state.reader_waits = true;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for this span, or until the queue is closed.
    pub fn pause(&self, span: Duration) {
        let state = self.lock();
        let closed = |state: &mut State| state.closed.is_none();
        drop(self.wake.wait_timeout_while(state, span, closed));
    }

    /// Closes the queue. The first reason is kept.
    pub fn close(&self, why: StoreError) {
        self.lock().closed.get_or_insert(why);
        self.wake.notify_one();
    }

    /// Refuses the writes that are not part of a group yet.
    pub fn refuse_waiting(&self, why: &StoreError) {
        for job in self.drain() {
            let _ = job.reply.send(Verdict::Settled(WriteOutcome::Refused(why.clone())));
        }
    }

    /// Removes entries that no caller will read again.
    pub fn drain(&self) -> Vec<Job> {
        std::mem::take(&mut self.lock().jobs)
    }

    pub fn closed(&self) -> Option<StoreError> {
        self.lock().closed.clone()
    }

    // Nothing panics while it holds the lock, and every state is consistent.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
