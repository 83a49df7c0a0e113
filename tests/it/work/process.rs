//! Processes as a test sees them from outside.

use std::{path::Path, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use tenure::clock::boottime_ms;

/// Longer than anything may take that is to happen at all.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

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

/// Waits until it is so, and tells whether it came about.
pub async fn within(span: Duration, mut so: impl FnMut() -> bool) -> bool {
    let end = boottime_ms() + u64::try_from(span.as_millis()).expect("short");
    while !so() {
        if boottime_ms() > end {
            return false;
        }
        tokio::time::sleep(ms(10)).await;
    }
    true
}

/// The number that a program wrote into a file.
pub async fn number_in(file: &Path) -> u32 {
    let number = || std::fs::read_to_string(file).ok()?.trim().parse().ok();
    assert!(within(PATIENCE, || number().is_some()).await, "{} is written", file.display());
    number().expect("just seen")
}
