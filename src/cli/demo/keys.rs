//! The keys of `tenure demo --keep`, and the terminal or pipe from which they come.

use std::io::{self, ErrorKind, IsTerminal as _, Read as _, stdin};

use rustix::{
    process::getpgrp,
    termios::{
        LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
    },
};
use tokio::sync::mpsc;

/// What the keys do.
pub const HELP: &str = "k 3 kills worker-3, p 3 pauses it, r 3 resumes it, a adds one, q ends";
/// How many keys may wait. A person is slower, and a pipe waits.
const QUEUE: usize = 16;

/// What the caller wants. Workers are named by their places, which begin with 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Kill(usize),
    Pause(usize),
    Resume(usize),
    Add,
    Quit,
}

/// Makes orders of keys.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keys {
    /// The letter that waits for its digit.
    verb: Option<char>,
}

impl Keys {
    /// The letter that waits for its digit.
    pub fn pending(self) -> Option<char> {
        self.verb
    }

    /// Takes a key. Keys that mean nothing are passed over.
    pub fn press(&mut self, key: u8) -> Option<Order> {
        let key = char::from(key);
        if key == ' ' {
            return None;
        }
        let verb = self.verb.take();
        match (key, verb) {
            ('k' | 'p' | 'r', _) => self.verb = Some(key),
            ('1'..='9', Some(verb)) => {
                let worker = key as usize - '1' as usize;
                return Some(match verb {
                    'k' => Order::Kill(worker),
                    'p' => Order::Pause(worker),
                    _ => Order::Resume(worker),
                });
            }
            ('a', _) => return Some(Order::Add),
            ('q', _) => return Some(Order::Quit),
            _ => {}
        }
        None
    }
}

/// The keys of standard input, until it ends.
///
/// # Errors
/// If no thread can be started.
pub fn pressed() -> io::Result<mpsc::Receiver<u8>> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    // It may wait in `read` until the process ends.
    std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
        let (mut input, mut key) = (stdin().lock(), [0]);
        loop {
            match input.read(&mut key) {
                Ok(1) if sender.blocking_send(key[0]).is_ok() => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    })?;
    Ok(receiver)
}

/// The terminal on standard input, which passes each key on at once and does not show it. It is as before when this is
/// dropped.
pub struct Unbuffered {
    before: Termios,
}

impl Unbuffered {
    /// `None` if standard input is no terminal, or another process group has it.
    pub fn new() -> Option<Self> {
        let input = stdin();
        // The system stops a background process that changes the terminal.
        if !input.is_terminal() || tcgetpgrp(&input).ok()? != getpgrp() {
            return None;
        }
        let before = tcgetattr(&input).ok()?;
        let mut now = before.clone();
        now.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        now.special_codes[SpecialCodeIndex::VMIN] = 1;
        now.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&input, OptionalActions::Now, &now).ok()?;
        Some(Self { before })
    }
}

impl Drop for Unbuffered {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(keys: &str) -> Vec<Order> {
        let mut state = Keys::default();
        keys.bytes().filter_map(|key| state.press(key)).collect()
    }

    #[test]
    fn a_letter_and_a_digit_make_an_order_with_or_without_space_and_line_end() {
        let wanted = [Order::Kill(2), Order::Pause(0), Order::Resume(8), Order::Add, Order::Quit];
        assert_eq!(orders("k3p1r9aq"), wanted);
        assert_eq!(orders("k 3\np  1\nr 9\na\nq\n"), wanted);
    }

    #[test]
    fn what_means_nothing_is_passed_over() {
        // The last one is an arrow.
        assert!(orders("3 0 x\n k\n3 k0 kx3 \u{1b}[A").is_empty());
        assert_eq!(orders("kp2"), [Order::Pause(1)], "the later letter counts");
    }

    #[test]
    fn a_letter_that_waits_is_shown() {
        let mut keys = Keys::default();
        assert_eq!((keys.press(b'k'), keys.pending()), (None, Some('k')));
        assert_eq!((keys.press(b' '), keys.pending()), (None, Some('k')));
        assert_eq!((keys.press(b'1'), keys.pending()), (Some(Order::Kill(0)), None));
    }
}
