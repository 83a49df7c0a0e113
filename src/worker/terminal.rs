//! Lends the terminal of this process to a program.

use std::io::{IsTerminal as _, stdin};

use nix::sys::signal::{SigSet, Signal};
use rustix::{
    process::getpgrp,
    termios::{tcgetpgrp, tcsetpgrp},
};

use super::group::pid;

/// The terminal, while a process group has it. This process takes it back when this is dropped.
#[derive(Debug)]
pub struct Lent(());

/// Makes this group the foreground group of the terminal on standard input, if this process's group is that now.
/// Otherwise the system would stop the group as soon as it reads.
#[must_use]
pub fn lend(group: u32) -> Option<Lent> {
    let stdin = stdin();
    let ours = stdin.is_terminal() && tcgetpgrp(&stdin).is_ok_and(|front| front == getpgrp());
    let lent = ours && pid(group).is_some_and(|group| tcsetpgrp(&stdin, group).is_ok());
    lent.then_some(Lent(()))
}

impl Drop for Lent {
    fn drop(&mut self) {
        // A background process that takes the terminal back is stopped by SIGTTOU, unless it blocks that signal.
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGTTOU);
        if signals.thread_block().is_ok() {
            let _ = tcsetpgrp(stdin(), getpgrp());
            let _ = signals.thread_unblock();
        }
    }
}
