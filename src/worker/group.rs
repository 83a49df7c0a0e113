//! Process groups: a program and all that it started, unless that left the group.

use std::io;

use rustix::process::{Pid, Signal, kill_process_group};

/// A process group that is killed when this is dropped, unless it was told that its leader is reaped.
#[derive(Debug)]
pub struct Group(Option<Pid>);

impl Group {
    /// The group of the leader with this process id; none for one that is no process id.
    #[must_use]
    pub fn of(leader: Option<u32>) -> Self {
        Self(leader.and_then(pid))
    }

    /// Sends a signal to all of the group.
    ///
    /// # Errors
    /// That of the system; none when the group is gone.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        match self.0.map(|leader| kill_process_group(leader, signal)) {
            None | Some(Ok(()) | Err(rustix::io::Errno::SRCH)) => Ok(()),
            Some(Err(error)) => Err(error.into()),
        }
    }

    /// Its leader is reaped: the number may be another's from now on, and nothing is sent to it.
    pub fn forget(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Gone already: nothing to kill.
        let _ = self.signal(Signal::KILL);
    }
}

/// A process id as the system calls take it. 0 and 1 name no process that could be ours.
pub(super) fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().filter(|&number| number > 1).and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_names_everybody_is_no_group() {
        assert_eq!([0, 1, u32::MAX].map(pid), [None; 3]);
        assert!(pid(2).is_some());
        assert!(Group::of(Some(0)).signal(Signal::KILL).is_ok(), "and nothing was killed");
    }
}
