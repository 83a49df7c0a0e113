//! The processor time of another process.

use std::time::Duration;

use anyhow::{Context as _, Result};

/// How many ticks of `/proc/PID/stat` a second has, on every Linux.
const TICKS_PER_S: u32 = 100;

/// What the process has used so far, user and system, to a tick.
pub fn used(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(&path).context(path)?;
    ticks(&stat).context("the server's stat has another form")
}

fn ticks(stat: &str) -> Option<Duration> {
    // Behind the program's name, which may have spaces: ten more fields, the ticks in user mode, those in the kernel.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some(Duration::from_secs(1) * (user + system) / TICKS_PER_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_added() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 150 25 3 4 20 0 8 0 99";
        assert_eq!(ticks(stat), Some(Duration::from_millis(1750)));
        assert_eq!(ticks("7 (a) S 1"), None);
        assert!(used(std::process::id()).is_ok());
    }
}
