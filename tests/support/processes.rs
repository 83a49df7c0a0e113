//! Processes, as the system shows them.

use rustix::process::{Pid, Signal, kill_process};

fn stat(pid: u32) -> Option<(char, u32, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the program's name: its state, its parent, and, 18 fields later, when it was started.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let (state, parent) = (fields.next()?.chars().next()?, fields.next()?.parse().ok()?);
    Some((state, parent, fields.nth(17)?.parse().ok()?))
}

/// Whether it runs: there, and no zombie.
pub fn lives(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, ..)| !matches!(state, 'Z' | 'X'))
}

/// Its command line.
pub fn command(pid: u32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ").trim().to_owned()
}

pub fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// A process and when it was started: its number may be another's later.
pub type Known = (u32, u64);

/// Every process with its parent, in one look.
fn all() -> Vec<(Known, u32)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: u32| stat(pid).map(|(_, parent, started)| ((pid, started), parent)))
        .collect()
}

/// Those whose parent it is.
pub fn children(parent: u32) -> Vec<u32> {
    all().into_iter().filter(|(_, of)| *of == parent).map(|((pid, _), _)| pid).collect()
}

/// All that it started, and what these started.
pub fn descendants(of: u32) -> Vec<Known> {
    let all = all();
    let (mut found, mut next): (Vec<Known>, _) = (Vec::new(), vec![of]);
    while let Some(parent) = next.pop() {
        for (known, _) in all.iter().filter(|(_, of)| *of == parent) {
            found.push(*known);
            next.push(known.0);
        }
    }
    found
}

/// Those that still live.
pub fn left(known: &[Known]) -> Vec<Known> {
    let same = |(pid, started): &Known| {
        stat(*pid).is_some_and(|(state, _, at)| at == *started && !matches!(state, 'Z' | 'X'))
    };
    known.iter().copied().filter(same).collect()
}
