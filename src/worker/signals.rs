//! The signals that this process gets.

use std::io;

use rustix::process::Signal;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// What is passed on to a program.
const FORWARDED: [Signal; 8] = [
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
    Signal::CONT,
];
/// What ends this process when nothing runs yet.
const ENDING: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];
/// Signals that wait to be passed on; the system keeps no more than one of a kind either.
const QUEUE: usize = 16;

/// Whether the signal asks a process to end.
#[must_use]
pub fn is_ending(signal: Signal) -> bool {
    ENDING.contains(&signal)
}

/// Every signal that this process gets from now on, in place of what it does by default.
///
/// # Errors
/// When the system does not let us listen.
pub fn received() -> io::Result<mpsc::Receiver<Signal>> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    for kind in FORWARDED {
        let mut stream = signal(SignalKind::from_raw(kind.as_raw()))?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                if sender.send(kind).await.is_err() {
                    return;
                }
            }
        });
    }
    Ok(receiver)
}
