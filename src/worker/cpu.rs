//! The CPU time that a program uses, with the processes that it started.

use std::{fs, time::Duration};

use rustix::param::clock_ticks_per_second;

/// How many processes of a program are looked at.
const MOST: usize = 10_000;

/// The CPU time that a process has used so far, with its descendants and with those that ended and were waited for. What
/// left the tree of processes does not count. Zero where the system does not tell.
#[must_use]
pub fn cpu_time(process: u32) -> Duration {
    let (mut found, mut ticks) = (vec![process], 0_u64);
    let mut at = 0;
    while let Some(&next) = found.get(at).filter(|_| at < MOST) {
        at += 1;
        ticks = ticks.saturating_add(ticks_of(next));
        let tasks = fs::read_dir(format!("/proc/{next}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64)
}

/// The fields utime, stime, cutime and cstime of a process.
fn ticks_of(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The fields follow the program's name, which may contain anything.
    let Some((_, fields)) = stat.rsplit_once(") ") else { return 0 };
    fields.split_whitespace().skip(11).take(4).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_program_has_that_of_its_children() {
        let script = "(i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done); echo; read line";
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut line = [0];
        let mut out = child.stdout.take().expect("a pipe");
        std::io::Read::read_exact(&mut out, &mut line).expect("the loop is done");
        let used = cpu_time(child.id());
        child.kill().expect("it lives");
        child.wait().expect("it ended");
        assert!(used > Duration::ZERO && used < Duration::from_secs(20), "{used:?}");
        assert_eq!(cpu_time(u32::MAX), Duration::ZERO);
    }
}
