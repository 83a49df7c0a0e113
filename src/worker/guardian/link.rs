//! The guardian's end of the socket.

use std::io;

use rustix::net::{RecvFlags, SendFlags, recv, send};
use tokio::{io::Interest, net::UnixStream};

use super::wire::{GuardianOrder, Report};

/// The longest order, in bytes: several times the system's limit for arguments and environment.
const LONGEST: usize = 16 << 20;
/// The longest backlog of reports for an agent that does not read, in bytes. Further reports are dropped.
const UNREAD: usize = 4 << 20;

/// Reads and writes lines, and never waits for the agent.
pub(super) struct Link {
    stream: UnixStream,
    heard: Vec<u8>,
    unsaid: Vec<u8>,
    closed: bool,
}

impl Link {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream, heard: Vec::new(), unsaid: Vec::new(), closed: false }
    }

    /// Whether the agent is gone.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Waits until there is something to read, or room to write the backlog.
    pub(super) async fn ready(&self) {
        let interest = match self.unsaid.is_empty() {
            true => Interest::READABLE,
            false => Interest::READABLE | Interest::WRITABLE,
        };
        let _ = self.stream.ready(interest).await;
    }

    /// All orders that have arrived so far.
    ///
    /// It reads from the socket itself, not from the runtime's cached readiness: after both processes stood still, the
    /// newest deadline is in the socket, and that one counts.
    pub(super) fn orders(&mut self) -> Vec<GuardianOrder> {
        while !self.closed && self.read().is_ok() {}
        // Clears the runtime's cached readiness, which it keeps until a read would block.
        while !self.closed
            && self.stream.try_io(Interest::READABLE, || Err::<(), _>(again())).is_ok()
        {}
        let Some(end) = self.heard.iter().rposition(|&byte| byte == b'\n') else {
            self.closed |= self.heard.len() > LONGEST;
            return Vec::new();
        };
        let lines: Vec<u8> = self.heard.drain(..=end).collect();
        let lines = lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    fn read(&mut self) -> io::Result<()> {
        let mut buffer = [0; 16 * 1024];
        match recv(&self.stream, &mut buffer[..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => self.closed = true,
            Ok((_, length)) => self.heard.extend_from_slice(&buffer[..length]),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return Err(again()),
            Err(_) => self.closed = true,
        }
        Ok(())
    }

    /// Sends a report, now or as soon as there is room.
    pub(super) fn report(&mut self, report: &Report) {
        let Ok(mut line) = serde_json::to_vec(report) else { return };
        line.push(b'\n');
        if self.unsaid.len() + line.len() <= UNREAD {
            self.unsaid.append(&mut line);
        }
        self.flush();
    }

    /// Writes as much of the backlog as there is room for.
    pub(super) fn flush(&mut self) {
        while !self.unsaid.is_empty() {
            match send(&self.stream, &self.unsaid, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(length) => drop(self.unsaid.drain(..length)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    let _ = self.stream.try_io(Interest::WRITABLE, || Err::<(), _>(again()));
                    return;
                }
                // The agent is gone.
                Err(_) => self.unsaid.clear(),
            }
        }
    }
}

fn again() -> io::Error {
    io::ErrorKind::WouldBlock.into()
}
