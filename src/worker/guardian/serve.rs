//! The guardian's loop: it receives orders, watches its slots, and performs what is due.

#[cfg(feature = "testing")]
#[path = "../../../tests/doors/no_guardian.rs"]
mod door;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    time::Duration,
};

use rustix::process::{Signal, kill_process_group};
use tokio::{
    net::UnixStream,
    signal::unix::{SignalKind, signal},
    time::sleep,
};

use super::{
    link::Link,
    plan::{Action, Plan},
    process_tree,
    program::spawn,
    wire::{Exit, GuardianOrder, Report, RunError, Task, Why},
};
use crate::{
    clock::boottime_ms,
    worker::{group::pid, private_dir::PrivateDir, signals},
};

/// The longest sleep while there is a slot, in milliseconds. Timers stand still while the machine is suspended, but
/// deadlines do not.
const SLICE_MS: u64 = 100;
/// The interval of checks for processes that must end.
const STEP: Duration = Duration::from_millis(20);
/// The number of such checks at the guardian's end. What is left after them is left to the system.
const STEPS: u32 = 50;
/// After this many consecutive checks that find nothing, nothing is left of what the agent started. One check is not
/// enough: the agent may have been killed just as it started a program, which carries the mark a moment later.
const LOOKS: u32 = 5;
/// What is still there after this many checks cannot be killed, and is left to the system.
const MOST_LOOKS: u32 = 500;

/// What runs for a slot: a program, or the will.
struct Running {
    leader: u32,
    ended: Option<Exit>,
    is_will: bool,
    /// Whether the processes that it started may continue after its end.
    leaves: bool,
}

struct Slot {
    plan: Plan,
    will: Option<Task>,
    running: Option<Running>,
    dismissed: bool,
}

struct Guardian {
    link: Link,
    slots: BTreeMap<u64, Slot>,
    /// The mark of this guardian, known only to the programs of its slots and those that the agent starts itself.
    mark: String,
    /// The numbers of the running programs that the agent started itself, and the newest number so far.
    attended: BTreeSet<u64>,
    newest: Option<u64>,
}

/// Serves the agent that listens on this socket, until the agent and everything that it ran are gone. Then removes the
/// socket's directory.
///
/// # Errors
/// If there is no agent.
pub async fn serve(socket: &Path, mark: String) -> io::Result<()> {
    process_tree::adopt();
    // A terminal or a person sends these signals to all processes. The agent handles them, and the guardian ignores
    // them.
    let kinds = [
        Signal::HUP,
        Signal::INT,
        Signal::QUIT,
        Signal::TERM,
        Signal::USR1,
        Signal::USR2,
        Signal::ALARM,
        Signal::TSTP,
        Signal::TTIN,
        Signal::TTOU,
    ];
    let _heard_and_forgotten =
        kinds.map(signals::listen).into_iter().collect::<io::Result<Vec<_>>>()?;
    let mut child = signal(SignalKind::child())?;
    let link = Link::new(UnixStream::connect(socket).await?);
    let mut guardian =
        Guardian { link, slots: BTreeMap::new(), mark, attended: BTreeSet::new(), newest: None };
    loop {
        guardian.turn();
        if guardian.is_done() {
            break;
        }
        if is_broken() && guardian.link.is_closed() {
            return Ok(());
        }
        tokio::select! {
            () = guardian.link.ready(), if !guardian.link.is_closed() => {}
            _ = child.recv() => {}
            () = sleep(guardian.rest()), if !guardian.slots.is_empty() => {}
        }
    }
    guardian.kill_the_rest().await;
    if let Some(dir) = socket.parent().filter(|_| guardian.link.is_closed()) {
        PrivateDir::clear(dir);
    }
    Ok(())
}

impl Guardian {
    /// One turn of the loop. It reads orders first, so that the newest deadline counts.
    fn turn(&mut self) {
        for order in self.link.orders() {
            self.obey(order);
        }
        let now = boottime_ms();
        if self.link.is_closed() && !is_broken() {
            self.stop_all(now);
        }
        self.look(now);
        let ids: Vec<u64> = self.slots.keys().copied().collect();
        for id in ids {
            let action = self.slots.get_mut(&id).and_then(|slot| slot.plan.due(now));
            self.perform(id, action);
        }
        self.slots.retain(|_, slot| !(slot.dismissed && slot.plan.is_over()));
        self.link.flush();
    }

    fn is_done(&self) -> bool {
        self.link.is_closed() && self.slots.values().all(|slot| slot.plan.is_over())
    }

    fn rest(&self) -> Duration {
        let now = boottime_ms();
        // While an ended leader waits for other processes to end, no signal may announce their end.
        let waits = self
            .slots
            .values()
            .any(|slot| slot.running.as_ref().is_some_and(|r| r.ended.is_some()));
        let next = self.slots.values().filter_map(|slot| slot.plan.next()).min();
        let rest = next.map_or(SLICE_MS, |at| at.saturating_sub(now)).min(SLICE_MS);
        let rest = Duration::from_millis(rest);
        if waits { rest.min(STEP) } else { rest }
    }

    fn obey(&mut self, order: GuardianOrder) {
        let now = boottime_ms();
        match order {
            GuardianOrder::Attend { id } => {
                self.attended.insert(id);
                self.newest = self.newest.max(Some(id));
            }
            GuardianOrder::Leave { id } => drop(self.attended.remove(&id)),
            GuardianOrder::Slot { id, grace_ms, margin_ms } => {
                let plan = Plan::new(grace_ms, margin_ms);
                self.slots.entry(id).or_insert(Slot {
                    plan,
                    will: None,
                    running: None,
                    dismissed: false,
                });
            }
            GuardianOrder::Will { id, task } => {
                if let Some(slot) = self.slots.get_mut(&id).filter(|slot| !slot.plan.is_willing()) {
                    slot.plan.set_will(task.as_ref().map(|task| task.limit_ms.unwrap_or(0)));
                    slot.will = task;
                }
            }
            GuardianOrder::Run { id, task } => {
                let report = match self.run(id, &task, now) {
                    Ok(pid) => Report::Started { id, pid },
                    Err(error) => Report::Refused { id, error },
                };
                self.link.report(&report);
            }
            GuardianOrder::Deadline { .. } if is_broken() => {}
            GuardianOrder::Deadline { id, at_ms } => {
                let is_meant = |slot: &u64| id.is_none_or(|id| id == *slot);
                for (_, slot) in self.slots.iter_mut().filter(|(slot, _)| is_meant(slot)) {
                    slot.plan.set_deadline(at_ms);
                }
            }
            GuardianOrder::Signal { id, signal } => {
                if let (Some(signal), Some(leader)) =
                    (Signal::from_named_raw(signal), self.leader(id))
                {
                    to_group(leader, signal);
                }
            }
            GuardianOrder::Stop { id, grace_ms } => {
                self.stop(id, now, Some(grace_ms), Why::Asked, false)
            }
            GuardianOrder::Dismiss { id } => {
                self.stop(id, now, None, Why::Asked, false);
                if let Some(slot) = self.slots.get_mut(&id) {
                    slot.dismissed = true;
                    slot.plan.set_will(None);
                }
            }
        }
    }

    fn leader(&self, id: u64) -> Option<u32> {
        Some(self.slots.get(&id)?.running.as_ref()?.leader)
    }

    fn mark(&self, id: u64) -> String {
        process_tree::mark(&self.mark, id)
    }

    fn run(&mut self, id: u64, task: &Task, now: u64) -> Result<u32, RunError> {
        let mark = self.mark(id);
        let Some(slot) = self.slots.get_mut(&id) else { return Err(RunError::TooLate) };
        if slot.running.is_some() || !slot.plan.is_over() {
            return Err(RunError::Busy);
        }
        if slot.dismissed || !slot.plan.may_start(now) {
            return Err(RunError::TooLate);
        }
        let leader = spawn(task, &mark)?;
        slot.plan.started(now, task.limit_ms);
        slot.running = Some(Running { leader, ended: None, is_will: false, leaves: task.leaves });
        Ok(leader)
    }

    fn stop(&mut self, id: u64, now: u64, grace: Option<u64>, why: Why, and_will: bool) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let action = slot.plan.stop(now, grace, why, and_will);
        self.perform(id, action);
    }

    fn stop_all(&mut self, now: u64) {
        let ids: Vec<u64> = self.slots.keys().copied().collect();
        for id in ids {
            self.stop(id, now, None, Why::AgentGone, true);
        }
    }

    fn perform(&mut self, id: u64, action: Option<Action>) {
        match action {
            None => {}
            Some(Action::Term(why)) => {
                let is_leader_there =
                    self.slots[&id].running.as_ref().is_some_and(|running| running.ended.is_none());
                if is_leader_there {
                    self.link.report(&Report::Stopping { id, why });
                }
                self.send(id, Signal::TERM);
                // A stopped process acts on SIGTERM only after SIGCONT.
                self.send(id, Signal::CONT);
            }
            Some(Action::Kill(_)) => self.send(id, Signal::KILL),
            Some(Action::Will) => self.run_will(id),
        }
    }

    fn run_will(&mut self, id: u64) {
        let mark = self.mark(id);
        let Some(slot) = self.slots.get_mut(&id) else { return };
        match slot.will.take().map(|task| spawn(&task, &mark)) {
            Some(Ok(leader)) => {
                slot.plan.will_started(boottime_ms());
                slot.running = Some(Running { leader, ended: None, is_will: true, leaves: false });
            }
            Some(Err(_)) | None => {
                slot.plan.will_done();
                self.link.report(&Report::Willed {
                    id,
                    exit: Exit { code: Some(127), ..Exit::default() },
                });
            }
        }
    }

    /// Sends a signal to the slot's group, and to the processes that left the group.
    fn send(&mut self, id: u64, signal: Signal) {
        let Some(leader) = self.leader(id) else { return };
        to_group(leader, signal);
        for stray in self.others(id, leader) {
            if process_tree::group_of(stray) != Some(leader) {
                process_tree::signal(stray, signal);
            }
        }
    }

    /// The living processes of a slot besides its leader, as far as they are children of this process.
    fn others(&self, id: u64, leader: u32) -> Vec<u32> {
        let mark = self.mark(id);
        let leaders: BTreeSet<u32> =
            self.slots.values().filter_map(|slot| Some(slot.running.as_ref()?.leader)).collect();
        let is_only_slot = self.slots.len() == 1;
        let adopted = process_tree::children().into_iter().filter(|child| !leaders.contains(child));
        let living = adopted.filter(|&child| !process_tree::reap(child));
        let is_its_own = |child: &u32| {
            is_only_slot
                || process_tree::group_of(*child) == Some(leader)
                || process_tree::wears(*child, &mark)
        };
        living.filter(is_its_own).collect()
    }

    /// Finds leaders that have ended, and slots of which no process is left.
    fn look(&mut self, now: u64) {
        let ids: Vec<u64> = self.slots.keys().copied().collect();
        for id in ids {
            let Some(running) = self.slots.get_mut(&id).and_then(|slot| slot.running.as_mut())
            else {
                continue;
            };
            running.ended = running.ended.or_else(|| process_tree::ended(running.leader));
            let Some(exit) = running.ended else { continue };
            let (leader, leaves) = (running.leader, running.leaves);
            let by_itself = self.slots.get(&id).is_some_and(|slot| slot.plan.is_running());
            if leaves && by_itself {
                self.gone(id, leader, exit);
            } else if self.others(id, leader).is_empty() {
                // Processes may be left in the group that are not children of this process.
                to_group(leader, Signal::KILL);
                self.gone(id, leader, exit);
            } else {
                let action = self.slots.get_mut(&id).and_then(|slot| slot.plan.leader_ended(now));
                self.perform(id, action);
            }
        }
        self.reap_strangers();
    }

    fn gone(&mut self, id: u64, leader: u32, exit: Exit) {
        process_tree::reap(leader);
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let is_will = slot.running.take().is_some_and(|running| running.is_will);
        if is_will {
            slot.plan.will_done();
            self.link.report(&Report::Willed { id, exit });
        } else {
            let why = slot.plan.gone();
            self.link.report(&Report::Exited { id, exit: Exit { why, ..exit } });
        }
    }

    /// Reaps adopted processes that belong to no slot that is being watched.
    fn reap_strangers(&self) {
        let leaders: BTreeSet<u32> =
            self.slots.values().filter_map(|slot| Some(slot.running.as_ref()?.leader)).collect();
        for child in process_tree::children() {
            if !leaders.contains(&child) {
                process_tree::reap(child);
            }
        }
    }

    /// Kills what the agent started itself, and then all children that are left, even without their group and mark.
    async fn kill_the_rest(&mut self) {
        if let Some(newest) = self.newest {
            // The agent may have been killed before it could announce a newer number.
            let ends = |id| id > newest || self.attended.contains(&id);
            let mut quiet = 0;
            for _ in 0..MOST_LOOKS {
                if quiet == LOOKS {
                    break;
                }
                quiet = if process_tree::kill_wearers(&self.mark, ends) { 0 } else { quiet + 1 };
                sleep(STEP).await;
            }
        }
        for _ in 0..STEPS {
            let rest: Vec<u32> = process_tree::children()
                .into_iter()
                .filter(|&child| !process_tree::reap(child))
                .collect();
            if rest.is_empty() {
                return;
            }
            rest.into_iter().for_each(|child| process_tree::signal(child, Signal::KILL));
            sleep(STEP).await;
        }
    }
}

/// Whether a test has disabled the guardian.
pub(super) fn is_broken() -> bool {
    #[cfg(feature = "testing")]
    let is_broken = door::is_broken();
    #[cfg(not(feature = "testing"))]
    let is_broken = false;
    is_broken
}

fn to_group(leader: u32, signal: Signal) {
    if let Some(leader) = pid(leader) {
        let _ = kill_process_group(leader, signal);
    }
}
