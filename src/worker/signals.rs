//! The signals that this process receives.

use std::io;

use rustix::process::Signal;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// The signals that the agent forwards to a program.
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
/// The signals that end this process while no program runs.
const ENDING: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];
/// Number of signals that may wait to be passed on. The system, too, keeps at most one pending signal of a kind.
const QUEUE: usize = 16;

/// Whether the signal asks a process to end.
#[must_use]
pub fn is_ending(signal: Signal) -> bool {
    ENDING.contains(&signal)
}

/// Receives the signals of this process from now on, and replaces their default actions.
///
/// # Errors
/// If a signal handler cannot be installed.
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
