//! What the handles of a guardian share: what the agent knows of the guardian's slots, and what the agent does itself
//! when the guardian does not act, or is gone.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rustix::process::{Signal, kill_process_group};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::sleep,
};

use super::{
    process_tree,
    wire::{Exit, GuardianOrder, Report, RunError, Why},
};
use crate::{clock::boottime_ms, worker::group::pid};

/// The interval of checks whether the guardian did what was due.
pub(super) const LOOK: Duration = Duration::from_millis(20);
/// The time that killed processes get to disappear before they are searched for and killed again.
const BREATH: Duration = Duration::from_millis(1);
/// After this many consecutive searches that find nothing, nothing is left.
const MANY_LOOKS: u32 = 40;
/// Killed processes that are not gone after this time are stuck in the system, which is logged.
const STUCK: Duration = Duration::from_secs(10);
/// The numbers of badges start here. The numbers of slots stay below.
pub(super) const BADGES: u64 = 1 << 63;

/// A guardian, as its handles see it.
#[derive(Debug)]
pub(super) struct GuardianShared {
    pub(super) pid: u32,
    /// The mark of its programs. Each program's mark has its slot's number, too.
    pub(super) mark: String,
    orders: Mutex<Option<mpsc::Sender<GuardianOrder>>>,
    pub(super) slots: Mutex<HashMap<u64, Known>>,
    /// The badges of running programs.
    pub(super) badges: Mutex<BTreeSet<u64>>,
    next: AtomicU64,
    pub(super) gone: watch::Receiver<bool>,
}

/// What the agent knows of a slot.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) grace: u64,
    pub(super) margin: u64,
    pub(super) deadline: Option<u64>,
    /// When the current request must be done.
    pub(super) done_by: Option<u64>,
    pub(super) pid: Option<u32>,
    pub(super) started: Option<oneshot::Sender<Result<u32, RunError>>>,
    pub(super) exited: Option<oneshot::Sender<Exit>>,
    pub(super) willed: watch::Sender<Option<Exit>>,
    pub(super) stopping: watch::Sender<Option<Why>>,
}

impl GuardianShared {
    pub(super) fn new(
        pid: u32,
        mark: String,
        orders: mpsc::Sender<GuardianOrder>,
        gone: watch::Receiver<bool>,
    ) -> Self {
        Self {
            pid,
            mark,
            orders: Mutex::new(Some(orders)),
            slots: Mutex::default(),
            badges: Mutex::default(),
            next: AtomicU64::new(1),
            gone,
        }
    }

    /// A number that no slot and no badge has yet.
    pub(super) fn new_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends an order, and returns whether it was queued. A guardian that does not read is noticed by what it fails to
    /// do.
    pub(super) fn tell(&self, order: GuardianOrder) -> bool {
        locked(&self.orders).as_ref().is_some_and(|orders| orders.try_send(order).is_ok())
    }

    /// Sends no more orders, which tells the guardian to end.
    pub(super) fn close(&self) {
        locked(&self.orders).take();
    }

    pub(super) fn hear(&self, report: Report) {
        let mut slots = locked(&self.slots);
        match report {
            Report::Started { id, pid } => {
                let Some(known) = slots.get_mut(&id) else { return };
                known.pid = Some(pid);
                let _ = known.started.take().map(|started| started.send(Ok(pid)));
            }
            Report::Refused { id, error } => {
                let Some(known) = slots.get_mut(&id) else { return };
                (known.exited, known.done_by) = (None, None);
                let _ = known.started.take().map(|started| started.send(Err(error)));
            }
            Report::Stopping { id, why } => {
                if let Some(known) = slots.get_mut(&id) {
                    known.stopping.send_replace(Some(why));
                }
            }
            Report::Exited { id, exit } => {
                let Some(known) = slots.get_mut(&id) else { return };
                known.end(exit);
            }
            Report::Willed { id, exit } => {
                if let Some(known) = slots.get_mut(&id) {
                    known.willed.send_replace(Some(exit));
                }
            }
        }
    }

    /// Kills what the guardian should have killed and has not, because it stands still. This includes processes that
    /// left their group.
    pub(super) fn step_in(&self, now: u64) {
        let mut late = false;
        for (id, known) in locked(&self.slots).iter() {
            let due = known.kill_at().is_some_and(|at| now >= at);
            let Some(leader) = known.pid.filter(|_| due).and_then(pid) else { continue };
            late = true;
            // Without a report from the guardian, the leader is not reaped, so its process id is still its own.
            let _ = kill_process_group(leader, Signal::KILL);
            for stray in process_tree::wearers(&process_tree::mark(&self.mark, *id)) {
                process_tree::signal(stray, Signal::KILL);
            }
        }
        if late {
            self.wake();
        }
    }

    /// Sends SIGCONT to the guardian, in case it was stopped.
    pub(super) fn wake(&self) {
        process_tree::signal(self.pid, Signal::CONT);
    }

    /// Kills everything that the guardian ran until nothing of it lives. Only then reports that the programs have
    /// ended.
    pub(super) async fn all_gone(&self) {
        self.close();
        let began = boottime_ms();
        let (mut quiet, mut said, mut started) = (0, false, process_tree::started());
        // One search can miss a process that is started meanwhile. A search that finds nothing is final if the system
        // has started no process since the search before it. On a busy machine, many such searches are needed.
        loop {
            let found = self.kill_all();
            let now = process_tree::started();
            let nothing_new = now.is_some() && started == now;
            quiet = if found { 0 } else { quiet + 1 };
            if !found && ((nothing_new && quiet > 1) || quiet >= MANY_LOOKS) {
                break;
            }
            started = now;
            let spent = boottime_ms().saturating_sub(began);
            if spent >= millis(STUCK) && !said {
                said = true;
                tracing::error!("the guardian is gone, and one of its processes cannot be killed");
            }
            sleep(if said { LOOK } else { BREATH }).await;
        }
        for known in locked(&self.slots).values_mut() {
            let _ = known.started.take().map(|s| s.send(Err(RunError::GuardianGone)));
            known.end(Exit { why: Some(Why::GuardianGone), ..Exit::default() });
        }
    }

    /// Sends SIGKILL to everything that the guardian ran, including processes that left their group or were not
    /// reported yet, and to processes that carry a badge. Returns whether there was any. Processes of a program whose
    /// badge was dropped live on.
    fn kill_all(&self) -> bool {
        let leaders: Vec<u32> =
            locked(&self.slots).values().filter_map(|known| known.pid).collect();
        let groups: Vec<u32> =
            leaders.into_iter().filter(|&leader| process_tree::is_group_alive(leader)).collect();
        for leader in groups.iter().copied().filter_map(pid) {
            let _ = kill_process_group(leader, Signal::KILL);
        }
        let is_meant = |id| id < BADGES || locked(&self.badges).contains(&id);
        process_tree::kill_wearers(&self.mark, is_meant) || !groups.is_empty()
    }
}

impl Known {
    /// When the agent kills what the guardian has not killed.
    fn kill_at(&self) -> Option<u64> {
        let last = self.deadline.map(|deadline| deadline.saturating_sub(self.margin / 4 * 3));
        match (last, self.done_by) {
            (Some(last), Some(done_by)) => Some(last.min(done_by)),
            (last, done_by) => last.or(done_by),
        }
    }

    fn end(&mut self, exit: Exit) {
        (self.pid, self.done_by) = (None, None);
        self.stopping.send_replace(None);
        let _ = self.exited.take().map(|exited| exited.send(exit));
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
