//! A subscriber of `/v1/events`: server-sent events over one connection.
//!
//! Guarantees
//! - Events are seen in the order and number in which they came.
//! - A `reset` is counted, and the stream goes on at the cursor that it named: what was skipped
//!   there, if anything, is then missing in the caller's own count.
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
    /// The cursor.
    pub id: &'a str,
    /// The short type: `granted`, `expired`, `reset`, …
    pub kind: &'a str,
    /// The JSON document.
    pub data: &'a str,
}

/// An open event stream.
#[derive(Debug)]
pub struct Subscriber {
    target: Target,
    query: String,
    stream: TcpStream,
    chunks: Chunks,
    raw: Vec<u8>,
    text: Vec<u8>,
    /// Where to go on, when the last event was a `reset`.
    resume: Option<String>,
    resets: u64,
}

impl Subscriber {
    /// Subscribes; `query` is the part after the question mark.
    ///
    /// # Errors
    /// When the server does not answer 200.
    pub async fn open(target: &Target, query: &str) -> Result<Self> {
        let request = target.get(&format!("/v1/events?{query}"));
        let (stream, mut raw, status) =
            Connection::open(target).await?.into_stream(&request).await?;
        if status != 200 {
            bail!("GET /v1/events?{query}: {status} {}", String::from_utf8_lossy(&raw));
        }
        let mut chunks = Chunks::default();
        let mut text = Vec::new();
        chunks.push(&raw, &mut text)?;
        raw.clear();
        let (target, query) = (target.clone(), query.to_owned());
        Ok(Self { target, query, stream, chunks, raw, text, resume: None, resets: 0 })
    }

    /// How often the server cut this subscriber off, or skipped something.
    pub fn resets(&self) -> u64 {
        self.resets
    }

    /// Reads once, and calls `see` for each event that is complete now; gives the arrival.
    ///
    /// A stream that ended with a `reset` is opened again at the cursor that the reset named, as
    /// any subscriber does.
    pub async fn read(&mut self, mut see: impl FnMut(Event<'_>)) -> Result<Instant> {
        self.raw.clear();
        self.raw.reserve(READ);
        // A stream that came whole with its head still has its events to be seen.
        let ended = match self.chunks.is_done() {
            true => self.text.is_empty(),
            false => self.stream.read_buf(&mut self.raw).await? == 0,
        };
        if ended {
            let Some(cursor) = self.resume.take() else {
                return Err(WireError::Closed(self.text.len()).into());
            };
            let query = format!("{}&after={cursor}", self.query);
            let again = Self::open(&self.target, &query).await?;
            *self = Self { query: std::mem::take(&mut self.query), resets: self.resets, ..again };
        }
        let arrived = tick();
        self.chunks.push(&self.raw, &mut self.text)?;
        let used = each_event(&self.text, &mut |event| {
            if event.kind == "reset" {
                self.resets += 1;
                self.resume = Some(event.id.to_owned());
            } else {
                self.resume = None;
                see(event);
            }
        })?;
        self.text.drain(..used);
        if self.chunks.is_done() {
            // Half an event at the end of a stream never becomes a whole one.
            self.text.clear();
        }
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
    let mut event = Event { id: "", kind: "", data: "" };
    for line in text.split('\n') {
        if let Some(rest) = line.strip_prefix("data:") {
            event.data = rest.trim_ascii_start();
        } else if let Some(rest) = line.strip_prefix("event:") {
            event.kind = rest.trim_ascii();
        } else if let Some(rest) = line.strip_prefix("id:") {
            event.id = rest.trim_ascii();
        } else if line.is_empty() {
            if !(event.kind.is_empty() && event.data.is_empty()) {
                see(event);
            }
            event = Event { id: "", kind: "", data: "" };
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
            each_event(bytes, &mut |it| seen.push([it.id, it.kind, it.data].join(" "))).unwrap();
        assert_eq!(seen, ["1 granted {\"a\":1}", "2 reset {}"]);
        assert!(bytes[used..].starts_with(b"id: 3"));
        assert_eq!(each_event(b"id: 3\nevent: gra", &mut |_| panic!("incomplete")).unwrap(), 0);
    }

    #[tokio::test]
    async fn a_stream_that_was_reset_goes_on_at_its_cursor() {
        use tokio::io::AsyncWriteExt as _;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = Target { address: listener.local_addr().unwrap() };
        let served = tokio::spawn(async move {
            let mut asked = Vec::new();
            for body in [
                "id: 7\nevent: granted\ndata: one\n\nid: 8\nevent: reset\ndata: {}\n\n",
                "id: 9\nevent: released\ndata: two\n\n",
            ] {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = vec![0; 1024];
                let length = stream.read(&mut request).await.unwrap();
                asked.push(String::from_utf8_lossy(&request[..length]).into_owned());
                let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                let answer = format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            asked
        });
        let mut subscriber = Subscriber::open(&target, "prefix=a").await.unwrap();
        let mut seen = Vec::new();
        while seen.len() < 2 {
            subscriber.read(|event| seen.push(event.data.to_owned())).await.unwrap();
        }
        assert_eq!((seen, subscriber.resets()), (vec!["one".to_owned(), "two".to_owned()], 1));
        assert!(served.await.unwrap()[1].starts_with("GET /v1/events?prefix=a&after=8 HTTP/1.1"));
    }
}
