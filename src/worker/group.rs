//! Process groups: a program and what it started, except processes that left the group.

use std::io;

use rustix::process::{Pid, Signal, kill_process_group};

/// A process group. It is killed when this is dropped, unless [`Group::forget`] was called.
#[derive(Debug)]
pub struct Group(Option<Pid>);

impl Group {
    /// The group of the leader with this process id. An invalid process id gives an empty group.
    #[must_use]
    pub fn of(leader: Option<u32>) -> Self {
        Self(leader.and_then(pid))
    }

    /// Sends a signal to the whole group.
    ///
    /// # Errors
    /// The system's error. A group that is gone is no error.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        match self.0.map(|leader| kill_process_group(leader, signal)) {
            None | Some(Ok(()) | Err(rustix::io::Errno::SRCH)) => Ok(()),
            Some(Err(error)) => Err(error.into()),
        }
    }

    /// Stops tracking the group, because its leader was reaped: the system may reuse the process id.
    pub fn forget(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // An error means that the group is already gone.
        let _ = self.signal(Signal::KILL);
    }
}

/// A process id as the system calls take it. 0 and 1 are never processes of ours.
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
