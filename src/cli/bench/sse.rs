//! A subscriber of `/v1/events`: server-sent events over one connection.
//!
//! Guarantees
//! - Events are seen in the order and number in which they came; a `reset` is seen as one.
//!
//! Assumes
//! - Line ends are `\n`, one `data:` line per event: the form that the server writes.

use std::time::Instant;

use anyhow::{Result, bail};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use super::tick::tick;
use super::wire::{Chunks, Connection, Target, WireError};

/// How much is read at once.
const READ: usize = 64 << 10;
/// The largest event taken: keys, owners and a value's worth.
const MAX_EVENT: usize = 1 << 20;

/// One event, borrowed from the subscriber.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// The short type: `granted`, `expired`, `reset`, …
    pub kind: &'a str,
    /// The JSON document.
    pub data: &'a str,
}

/// An open event stream.
#[derive(Debug)]
pub struct Subscriber {
    stream: TcpStream,
    chunks: Chunks,
    raw: Vec<u8>,
    text: Vec<u8>,
}

impl Subscriber {
    /// Subscribes; `query` is the part after the question mark.
    ///
    /// # Errors
    /// When the server does not answer 200.
    pub async fn open(target: &Target, query: &str) -> Result<Self> {
        let request = target.get(&format!("/v1/events?{query}"));
        let (stream, raw, status) = Connection::open(target).await?.into_stream(&request).await?;
        if status != 200 {
            bail!("GET /v1/events?{query}: {status} {}", String::from_utf8_lossy(&raw));
        }
        let mut chunks = Chunks::default();
        let mut text = Vec::new();
        chunks.push(&raw, &mut text)?;
        Ok(Self { stream, chunks, raw, text })
    }

    /// Reads once, and calls `see` for each event that is complete now; gives the arrival.
    pub async fn read(&mut self, mut see: impl FnMut(Event<'_>)) -> Result<Instant> {
        self.raw.clear();
        self.raw.reserve(READ);
        if self.stream.read_buf(&mut self.raw).await? == 0 || self.chunks.is_done() {
            return Err(WireError::Closed(self.text.len()).into());
        }
        let arrived = tick();
        self.chunks.push(&self.raw, &mut self.text)?;
        let used = each_event(&self.text, &mut see)?;
        self.text.drain(..used);
        if self.text.len() > MAX_EVENT {
            bail!("an event above {MAX_EVENT} bytes");
        }
        Ok(arrived)
    }
}

/// Calls `see` for each complete event in `bytes`; gives how many bytes they took.
fn each_event(bytes: &[u8], see: &mut impl FnMut(Event<'_>)) -> Result<usize> {
    let whole = match bytes.windows(2).rposition(|pair| pair == b"\n\n") {
        Some(last) => last + 2,
        None => return Ok(0),
    };
    let text = std::str::from_utf8(&bytes[..whole])?;
    let (mut kind, mut data) = ("", "");
    for line in text.split('\n') {
        if let Some(rest) = line.strip_prefix("data:") {
            data = rest.trim_ascii_start();
        } else if let Some(rest) = line.strip_prefix("event:") {
            kind = rest.trim();
        } else if line.is_empty() && !(kind.is_empty() && data.is_empty()) {
            see(Event { kind, data });
            (kind, data) = ("", "");
        }
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_events_are_seen_and_the_rest_is_kept() {
        let bytes = b": hello\n\nid: 1\nevent: granted\ndata: {\"a\":1}\n\n\
                      id:2\nevent:reset\ndata:{}\n\nid: 3\nevent: gra";
        let mut seen = Vec::new();
        let used =
            each_event(bytes, &mut |it| seen.push(format!("{} {}", it.kind, it.data))).unwrap();
        assert_eq!(seen, ["granted {\"a\":1}", "reset {}"]);
        assert!(bytes[used..].starts_with(b"id: 3"));
        assert_eq!(each_event(b"id: 3\nevent: gra", &mut |_| panic!("incomplete")).unwrap(), 0);
    }
}
