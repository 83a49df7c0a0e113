//! The guardian's loop: hears orders, looks after its slots, does what is due.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    io,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
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
    wire::{Exit, Order, Report, RunError, Task, Why},
};
use crate::{
    clock::boottime_ms,
    worker::{group::pid, private_dir::PrivateDir},
};

/// The longest sleep while there is a deadline: timers stand still while the machine sleeps, and the
/// deadline does not.
const SLICE_MS: u64 = 100;
/// How often strangers that are to be gone are looked after.
const STEP: Duration = Duration::from_millis(20);
/// How often at the end, before they are left to the system.
const STEPS: u32 = 50;
/// After so many looks in a row nothing is left of what the agent started: it may have been killed at the very moment
/// at which it started something, which wears the mark a moment later.
const LOOKS: u32 = 5;
/// After so many looks what is still there cannot be killed, and is left to the system.
const MOST_LOOKS: u32 = 500;

/// What runs for a slot.
struct Running {
    leader: u32,
    ended: Option<Exit>,
    is_will: bool,
    /// What it started may go on after it.
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
    /// Known to nobody but our slots, and what the agent starts itself.
    mark: String,
    /// The numbers of the programs that the agent started itself, and the newest that there was.
    attended: BTreeSet<u64>,
    newest: Option<u64>,
}

/// Serves the agent that listens on this socket, until it is gone and everything that it ran is too.
/// The socket's directory is removed then.
///
/// # Errors
/// When there is no agent.
pub async fn serve(socket: &Path, mark: String) -> io::Result<()> {
    process_tree::adopt();
    // What is sent to a terminal's processes, or by a allow_stale hand, is the agent's to judge.
    let kinds = [
        SignalKind::hangup(),
        SignalKind::interrupt(),
        SignalKind::quit(),
        SignalKind::terminate(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
        SignalKind::alarm(),
        SignalKind::from_raw(Signal::TSTP.as_raw()),
        SignalKind::from_raw(Signal::TTIN.as_raw()),
        SignalKind::from_raw(Signal::TTOU.as_raw()),
    ];
    let _heard_and_forgotten = kinds.into_iter().map(signal).collect::<io::Result<Vec<_>>>()?;
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
    /// Hears first: the newest deadline counts.
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
        // What waits for others to end may hear of it by no signal.
        let waits = self
            .slots
            .values()
            .any(|slot| slot.running.as_ref().is_some_and(|r| r.ended.is_some()));
        let next = self.slots.values().filter_map(|slot| slot.plan.next()).min();
        let rest = next.map_or(SLICE_MS, |at| at.saturating_sub(now)).min(SLICE_MS);
        let rest = Duration::from_millis(rest);
        if waits { rest.min(STEP) } else { rest }
    }

    fn obey(&mut self, order: Order) {
        let now = boottime_ms();
        match order {
            Order::Attend { id } => {
                self.attended.insert(id);
                self.newest = self.newest.max(Some(id));
            }
            Order::Leave { id } => drop(self.attended.remove(&id)),
            Order::Slot { id, grace_ms, margin_ms } => {
                let plan = Plan::new(grace_ms, margin_ms);
                self.slots.entry(id).or_insert(Slot {
                    plan,
                    will: None,
                    running: None,
                    dismissed: false,
                });
            }
            Order::Will { id, task } => {
                if let Some(slot) = self.slots.get_mut(&id).filter(|slot| !slot.plan.is_willing()) {
                    slot.plan.set_will(task.as_ref().map(|task| task.limit_ms.unwrap_or(0)));
                    slot.will = task;
                }
            }
            Order::Run { id, task } => {
                let report = match self.run(id, &task, now) {
                    Ok(pid) => Report::Started { id, pid },
                    Err(error) => Report::Refused { id, error },
                };
                self.link.report(&report);
            }
            Order::Deadline { .. } if is_broken() => {}
            Order::Deadline { id, at_ms } => {
                let is_meant = |slot: &u64| id.is_none_or(|id| id == *slot);
                for (_, slot) in self.slots.iter_mut().filter(|(slot, _)| is_meant(slot)) {
                    slot.plan.set_deadline(at_ms);
                }
            }
            Order::Signal { id, signal } => {
                if let (Some(signal), Some(leader)) =
                    (Signal::from_named_raw(signal), self.leader(id))
                {
                    to_group(leader, signal);
                }
            }
            Order::Stop { id, grace_ms } => self.stop(id, now, Some(grace_ms), Why::Asked, false),
            Order::Dismiss { id } => {
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
                // One that is stopped could not hear it.
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

    /// To the slot's group, and to what left it.
    fn send(&mut self, id: u64, signal: Signal) {
        let Some(leader) = self.leader(id) else { return };
        to_group(leader, signal);
        for stray in self.others(id, leader) {
            if process_tree::group_of(stray) != Some(leader) {
                process_tree::signal(stray, signal);
            }
        }
    }

    /// What lives of a slot beside its leader, as far as it is our child.
    fn others(&self, id: u64, leader: u32) -> Vec<u32> {
        let mark = self.mark(id);
        let leaders: BTreeSet<u32> =
            self.slots.values().filter_map(|slot| Some(slot.running.as_ref()?.leader)).collect();
        let is_only_ward = self.slots.len() == 1;
        let adopted = process_tree::children().into_iter().filter(|child| !leaders.contains(child));
        let living = adopted.filter(|&child| !process_tree::reap(child));
        let is_its_own = |child: &u32| {
            is_only_ward
                || process_tree::group_of(*child) == Some(leader)
                || process_tree::wears(*child, &mark)
        };
        living.filter(is_its_own).collect()
    }

    /// Who has ended, and who is gone with all that it started.
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
                // The last who could be in the group are no children of ours, and hide in it.
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

    /// Adopted ones that ended while no slot of theirs is being looked after.
    fn reap_strangers(&self) {
        let leaders: BTreeSet<u32> =
            self.slots.values().filter_map(|slot| Some(slot.running.as_ref()?.leader)).collect();
        for child in process_tree::children() {
            if !leaders.contains(&child) {
                process_tree::reap(child);
            }
        }
    }

    /// Whatever broke out of its group and its environment; and what the agent started.
    async fn kill_the_rest(&mut self) {
        if let Some(newest) = self.newest {
            // Of a newer one the agent had no time to tell.
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

/// A guardian that guards nothing, for a test that must see what comes of that.
pub(super) fn is_broken() -> bool {
    cfg!(feature = "testing") && std::env::var_os("TENURE_TEST_NO_GUARDIAN").is_some()
}

fn to_group(leader: u32, signal: Signal) {
    if let Some(leader) = pid(leader) {
        let _ = kill_process_group(leader, signal);
    }
}

/// Whether a variable may hold a secret of the agent's: settings, or what proves its session and its lease.
pub(super) fn is_ours(name: &OsStr) -> bool {
    let secret = ["TENURE_SESSION_ID", "TENURE_LEASE_ID"].map(OsStr::new).contains(&name);
    secret || name.as_encoded_bytes().starts_with(b"TENURE__")
}

/// Starts it in a group of its own.
fn spawn(task: &Task, mark: &str) -> Result<u32, RunError> {
    let program = task.argv.first().map(|name| name.to_string_lossy().into_owned());
    let program = program.unwrap_or_default();
    let stdin = if task.stdin { Stdio::inherit() } else { Stdio::null() };
    let mut command = Command::new(super::handle::own_program());
    command.arg("guarded").arg(std::process::id().to_string()).arg("--").args(&task.argv);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_ours(name)) {
        command.env_remove(name);
    }
    command.envs(task.env.iter().map(|(name, value)| (name, value)));
    command.env(process_tree::MARK, mark).stdin(stdin).process_group(0);
    let unable = |error: io::Error| RunError::Unable {
        program,
        missing: error.kind() == io::ErrorKind::NotFound,
        problem: error.to_string(),
    };
    command.spawn().map(|child| child.id()).map_err(unable)
}
