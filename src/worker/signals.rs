//! The signals that this process receives.
//!
//! Guarantees: a signal that was ignored when this process started stays ignored, by this process and by the programs
//! that it starts. `nohup` and a shell's `&` rely on that. SIGTERM is the exception: it always ends an agent.

use std::{future::pending, io, sync::OnceLock};

use rustix::process::Signal;
use tokio::{signal::unix, sync::mpsc};

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

/// Receives one signal. It never comes if it was ignored when this process started.
#[derive(Debug)]
pub struct Listener(Option<unix::Signal>);

impl Listener {
    /// Resolves when the signal has come.
    pub async fn recv(&mut self) {
        let came = match &mut self.0 {
            Some(stream) => stream.recv().await,
            None => None,
        };
        if came.is_none() {
            pending().await
        }
    }
}

/// Listens for a signal from now on, in place of its default action.
///
/// # Errors
/// If a signal handler cannot be installed.
pub fn listen(kind: Signal) -> io::Result<Listener> {
    if kind != Signal::TERM && is_ignored_from_the_start(kind) {
        return Ok(Listener(None));
    }
    unix::signal(unix::SignalKind::from_raw(kind.as_raw())).map(Some).map(Listener)
}

/// Receives the signals of this process from now on, in place of their default actions.
///
/// # Errors
/// If a signal handler cannot be installed.
pub fn received() -> io::Result<mpsc::Receiver<Signal>> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    for kind in FORWARDED {
        let mut listener = listen(kind)?;
        let sender = sender.clone();
        tokio::spawn(async move {
            loop {
                listener.recv().await;
                if sender.send(kind).await.is_err() {
                    return;
                }
            }
        });
    }
    Ok(receiver)
}

/// Whether the signal was ignored before this process listened for any. The first call reads that for all signals.
fn is_ignored_from_the_start(kind: Signal) -> bool {
    static MASK: OnceLock<u64> = OnceLock::new();
    let mask = MASK.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        ignored(&status)
    });
    u32::try_from(kind.as_raw() - 1).is_ok_and(|bit| mask.checked_shr(bit).unwrap_or(0) & 1 == 1)
}

/// The set of ignored signals in `/proc/PID/status`. Bit n - 1 stands for signal n.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ignored_signals_are_read_from_the_status() {
        assert_eq!(ignored("SigBlk:\t0000000000000003\nSigIgn:\t0000000000001001\n"), 0x1001);
        assert_eq!([ignored(""), ignored("SigIgn:\tx\n")], [0, 0]);
    }
}
