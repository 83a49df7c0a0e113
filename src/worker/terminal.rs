//! The terminal of this process, lent to a program.

use std::io::{IsTerminal as _, stdin};

use nix::sys::signal::{SigSet, Signal};
use rustix::{
    process::getpgrp,
    termios::{tcgetpgrp, tcsetpgrp},
};

use super::group::pid;

/// The terminal, lent to a process group. It is taken back when this is dropped.
#[derive(Debug)]
pub struct Lent(());

/// Lends standard input to this group, where it is a terminal that this process's group may read from.
/// Otherwise the group would be stopped as soon as it reads.
#[must_use]
pub fn lend(group: u32) -> Option<Lent> {
    let stdin = stdin();
    let ours = stdin.is_terminal() && tcgetpgrp(&stdin).is_ok_and(|front| front == getpgrp());
    let lent = ours && pid(group).is_some_and(|group| tcsetpgrp(&stdin, group).is_ok());
    lent.then_some(Lent(()))
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Who is not in front is stopped for taking it, unless it blocks that signal.
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGTTOU);
        if signals.thread_block().is_ok() {
            let _ = tcsetpgrp(stdin(), getpgrp());
            let _ = signals.thread_unblock();
        }
    }
}
