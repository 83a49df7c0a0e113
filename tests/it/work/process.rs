//! Processes as a test sees them from outside.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

pub use crate::support::clock::{PATIENCE, ms, within};

/// Whether it runs: there, and no zombie.
pub fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

pub fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    let _ = kill_process(pid, signal);
}

/// The number that a program wrote into a file.
pub async fn number_in(file: &Path) -> u32 {
    let number = || std::fs::read_to_string(file).ok()?.trim().parse().ok();
    assert!(within(PATIENCE, async || number().is_some()).await, "{} is written", file.display());
    number().expect("just seen")
}
