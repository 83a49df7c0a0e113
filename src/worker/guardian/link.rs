//! The guardian's end of the socket.

use std::io;

use rustix::net::{RecvFlags, SendFlags, recv, send};
use tokio::{io::Interest, net::UnixStream};

use super::wire::{Order, Report};

/// The longest order, in bytes: the system's own limit for arguments and environment, several times.
const LONGEST: usize = 16 << 20;
/// Reports that wait for an agent that does not read, in bytes.
const UNREAD: usize = 4 << 20;

/// Lines in, lines out, without ever waiting for the agent.
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

    /// Until there is something to read, or room for what is unsaid.
    pub(super) async fn ready(&self) {
        let interest = match self.unsaid.is_empty() {
            true => Interest::READABLE,
            false => Interest::READABLE | Interest::WRITABLE,
        };
        let _ = self.stream.ready(interest).await;
    }

    /// Every order that has arrived by now.
    ///
    /// The system is asked, not the runtime's memory of it: after both processes stood still, the newest
    /// deadline counts, and it lies in the socket.
    pub(super) fn orders(&mut self) -> Vec<Order> {
        while !self.closed && self.read().is_ok() {}
        // Forgets that the socket was readable, which the runtime believes until it is told.
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

    /// Says it, now or when there is room.
    pub(super) fn report(&mut self, report: &Report) {
        let Ok(mut line) = serde_json::to_vec(report) else { return };
        line.push(b'\n');
        if self.unsaid.len() + line.len() <= UNREAD {
            self.unsaid.append(&mut line);
        }
        self.flush();
    }

    /// Says what there is room for.
    pub(super) fn flush(&mut self) {
        while !self.unsaid.is_empty() {
            match send(&self.stream, &self.unsaid, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(length) => drop(self.unsaid.drain(..length)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    let _ = self.stream.try_io(Interest::WRITABLE, || Err::<(), _>(again()));
                    return;
                }
                // Nobody listens any more.
                Err(_) => self.unsaid.clear(),
            }
        }
    }
}

fn again() -> io::Error {
    io::ErrorKind::WouldBlock.into()
}
