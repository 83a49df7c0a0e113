//! The agent's side of a slot: runs its programs, and moves its deadline.

use std::{sync::Arc, time::Duration};

use rustix::process::Signal;
use tokio::sync::{oneshot, watch};

use super::{
    shared::{GuardianShared, Known, locked, millis},
    wire::{Exit, GuardianOrder, RunError, Task, Why},
};
use crate::clock::boottime_ms;

/// A slot of the guardian: at most one program at a time, its deadline, and its will. The will is the program that the
/// guardian runs by itself when the agent cannot. When the slot is dropped, its program is stopped with the grace, and
/// its will never runs.
#[derive(Debug)]
pub struct Slot {
    id: u64,
    grace: Duration,
    shared: Arc<GuardianShared>,
    willed: watch::Receiver<Option<Exit>>,
    stopping: watch::Receiver<Option<Why>>,
}

/// A started program, until its end is reported.
#[derive(Debug)]
pub struct Running {
    /// The process id of the program and of its process group.
    pub pid: u32,
    exited: oneshot::Receiver<Exit>,
    exit: Option<Exit>,
}

impl Slot {
    pub(super) fn new(shared: &Arc<GuardianShared>, grace: Duration, margin: Duration) -> Self {
        let id = shared.new_number();
        let ((willed, will_seen), (stopping, stop_seen)) =
            (watch::channel(None), watch::channel(None));
        let known = Known {
            grace: millis(grace),
            margin: millis(margin),
            deadline: None,
            done_by: None,
            pid: None,
            started: None,
            exited: None,
            willed,
            stopping,
        };
        let order = GuardianOrder::Slot { id, grace_ms: known.grace, margin_ms: known.margin };
        locked(&shared.slots).insert(id, known);
        shared.tell(order);
        Self { id, grace, shared: shared.clone(), willed: will_seen, stopping: stop_seen }
    }

    /// The slot's number, unique among the slots of this guardian.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Runs a program, in a process group of its own.
    ///
    /// # Errors
    /// [`RunError`].
    pub async fn run(&self, task: Task) -> Result<Running, RunError> {
        let ((started, starts), (exited, exits)) = (oneshot::channel(), oneshot::channel());
        {
            let mut slots = locked(&self.shared.slots);
            let known = slots.get_mut(&self.id).ok_or(RunError::GuardianGone)?;
            if known.started.is_some() || known.exited.is_some() {
                return Err(RunError::Busy);
            }
            (known.started, known.exited) = (Some(started), Some(exited));
            let limit = task.limit_ms.map(|limit| limit.saturating_add(known.margin));
            known.done_by = limit.map(|limit| boottime_ms().saturating_add(limit));
        }
        if !self.shared.tell(GuardianOrder::Run { id: self.id, task }) {
            if let Some(known) = locked(&self.shared.slots).get_mut(&self.id) {
                (known.started, known.exited, known.done_by) = (None, None, None);
            }
            return Err(RunError::GuardianGone);
        }
        let pid = starts.await.map_err(|_| RunError::GuardianGone)??;
        Ok(Running { pid, exited: exits, exit: None })
    }

    /// Sets when the guarantee ends, as a reading of [`boottime_ms`]. `None` means never.
    pub fn deadline(&self, at_ms: Option<u64>) {
        if let Some(known) = locked(&self.shared.slots).get_mut(&self.id) {
            known.deadline = at_ms;
        }
        self.shared.tell(GuardianOrder::Deadline { id: Some(self.id), at_ms });
    }

    /// Sets the will, or removes it. The guardian runs the will once, after it has stopped the slot's program: when the
    /// deadline comes near and no newer one has arrived, or when this process is gone. The will may take its
    /// [`Task::limit_ms`], and the guardian reserves that time before the deadline.
    pub fn will(&self, task: Option<Task>) {
        self.shared.tell(GuardianOrder::Will { id: self.id, task });
    }

    /// Sends a signal to the program's process group.
    pub fn signal(&self, signal: Signal) {
        self.shared.tell(GuardianOrder::Signal { id: self.id, signal: signal.as_raw() });
    }

    /// Stops the program: SIGTERM, and SIGKILL after the grace. A second call can only shorten the grace.
    pub fn stop(&self, grace: Duration) {
        let grace_ms = millis(grace);
        if let Some(known) = locked(&self.shared.slots).get_mut(&self.id) {
            let by = boottime_ms().saturating_add(grace_ms).saturating_add(known.margin);
            known.done_by = Some(known.done_by.map_or(by, |earlier| earlier.min(by)));
        }
        self.shared.tell(GuardianOrder::Stop { id: self.id, grace_ms });
    }

    /// The grace with which the slot was created.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// Resolves when the guardian starts to stop the program, with the reason.
    pub async fn stopping(&self) -> Why {
        let mut stopping = self.stopping.clone();
        let why = stopping.wait_for(Option::is_some).await.ok().and_then(|why| *why);
        why.unwrap_or(Why::GuardianGone)
    }

    /// Resolves to true when the guardian has run the will by itself, and to false when that can no longer happen. The
    /// future does not keep the slot alive.
    pub fn willed_later(&self) -> impl Future<Output = bool> + Send + 'static {
        let mut willed = self.willed.clone();
        async move { willed.wait_for(Option::is_some).await.is_ok() }
    }

    /// Resolves when the guardian has run the will by itself, with the will's exit.
    pub async fn willed(&self) -> Exit {
        let mut willed = self.willed.clone();
        let exit = willed.wait_for(Option::is_some).await.ok().and_then(|exit| *exit);
        exit.unwrap_or(Exit { why: Some(Why::GuardianGone), ..Exit::default() })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.shared.tell(GuardianOrder::Dismiss { id: self.id });
        let mut slots = locked(&self.shared.slots);
        if let Some(known) = slots.get_mut(&self.id) {
            if known.pid.is_none() && known.exited.is_none() {
                slots.remove(&self.id);
            } else {
                known.done_by = Some(boottime_ms() + known.grace + known.margin);
            }
        }
    }
}

impl Running {
    /// Resolves when the program has ended. The future may be dropped, and the method called again.
    pub async fn exited(&mut self) -> Exit {
        if self.exit.is_none() {
            let gone = Exit { why: Some(Why::GuardianGone), ..Exit::default() };
            self.exit = Some((&mut self.exited).await.unwrap_or(gone));
        }
        self.exit.unwrap_or_default()
    }
}
