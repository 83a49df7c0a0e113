//! The guardian's children, including the processes that it adopted.

use std::fs;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpgid, kill_process, kill_process_group,
    test_kill_process_group, waitid, waitpid,
};

use super::wire::Exit;
use crate::worker::group::pid;

/// The variable that identifies a slot's processes after they left their group.
pub const MARK: &str = "TENURE_WARD";

/// Makes this process adopt the orphans of its children, where the system can.
pub fn adopt() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    // On failure, only processes that leave their group escape.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// The process ids of all children of this process. Empty where the system does not tell.
pub fn children() -> Vec<u32> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().flat_map(str::parse).collect::<Vec<_>>())
        .collect()
}

/// Whether a process is stopped (SIGSTOP), as far as the system tells.
pub fn is_stopped(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The state follows the program's name, which may contain anything.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

/// The mark of one slot of a guardian.
pub fn mark(guardian: &str, slot: u64) -> String {
    format!("{guardian}-{slot}")
}

/// Whether the process has this mark in its environment.
pub fn wears(child: u32, mark: &str) -> bool {
    let worn = format!("{MARK}={mark}");
    let environment = fs::read(format!("/proc/{child}/environ")).unwrap_or_default();
    environment.split(|&byte| byte == 0).any(|variable| variable == worn.as_bytes())
}

/// All processes with this mark, whatever their parents. Empty where the system does not tell.
pub fn wearers(mark: &str) -> Vec<u32> {
    processes().filter(|&process| wears(process, mark)).collect()
}

/// The ids of all processes. Empty where the system does not tell.
fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Sends SIGKILL to all processes that carry a guardian's mark with a number for which `is_meant` is true, and to their
/// groups. Returns whether there was any. Each process is killed as soon as it is found, so that it starts no further
/// ones if possible. The newest come first: a process that only starts its successor and ends would be gone before its
/// turn came.
pub fn kill_wearers(guardian: &str, is_meant: impl Fn(u64) -> bool) -> bool {
    let worn = format!("{MARK}={guardian}-");
    let mut any = false;
    let listed: Vec<u32> = processes().collect();
    for process in listed.into_iter().rev() {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        let number = |variable: &[u8]| {
            let number = variable.strip_prefix(worn.as_bytes())?;
            str::from_utf8(number).ok()?.parse().ok()
        };
        if environment.split(|&byte| byte == 0).filter_map(number).any(&is_meant) {
            // Processes in the group may have cleared their environment.
            if let Some(leader) = pid(process).filter(|_| group_of(process) == Some(process)) {
                let _ = kill_process_group(leader, Signal::KILL);
            }
            signal(process, Signal::KILL);
            any = true;
        }
    }
    any
}

/// The number of processes that the system has started so far, if it tells.
pub fn started() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("processes ")?.parse().ok())
}

/// Whether any process in a group is alive. An ended process that was not reaped is not.
pub fn is_group_alive(leader: u32) -> bool {
    let Some(group) = pid(leader) else { return false };
    if test_kill_process_group(group) == Err(rustix::io::Errno::SRCH) {
        return false;
    }
    let (mut tells, mut alive) = (false, false);
    for process in processes() {
        tells = true;
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // The state, the parent and the group follow the program's name.
        let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
        let mut fields = rest.split(' ');
        let has_ended = fields.next().is_none_or(|state| matches!(state, "Z" | "X"));
        alive |= !has_ended && fields.nth(1).and_then(|at| at.parse().ok()) == Some(leader);
    }
    alive || !tells
}

/// The process group of a process.
pub fn group_of(child: u32) -> Option<u32> {
    let group = getpgid(Some(pid(child)?)).ok()?;
    u32::try_from(group.as_raw_pid()).ok()
}

/// How a child of this process ended, if it did. The child is not reaped, so that the system does not reuse its process
/// id or that of its group.
pub fn ended(child: u32) -> Option<Exit> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(pid(child)?), options) {
        Ok(status) => status.map(|status| Exit {
            code: status.exit_status(),
            signal: status.terminating_signal(),
            why: None,
        }),
        // It is no longer a child of this process: it was reaped.
        Err(rustix::io::Errno::CHILD) => Some(Exit::default()),
        Err(_) => None,
    }
}

/// Reaps a child if it has ended. Returns whether it has.
pub fn reap(child: u32) -> bool {
    let ended = |child: Pid| match waitpid(Some(child), WaitOptions::NOHANG) {
        Ok(found) => found.is_some(),
        Err(_) => true,
    };
    pid(child).is_none_or(ended)
}

/// Sends a signal to one process.
pub fn signal(child: u32, signal: Signal) {
    if let Some(child) = pid(child) {
        let _ = kill_process(child, signal);
    }
}
