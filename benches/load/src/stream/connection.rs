//! One stream, driven by the task that uses it.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail, ensure};
use hyper::body::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::frames::{Frame, parse, pong, text};
use crate::endpoint::{Callable, Endpoint};
use crate::http;
use crate::load::Lane;

/// Room for what comes at once.
const ROOM: usize = 64 << 10;
/// The longest head of an answer to an upgrade, in bytes.
const MAX_HEAD: usize = 16 << 10;
/// What an answer to a call begins with.
const ANSWER: &[u8] = b"{\"id\":";

/// A server's streams, without TLS.
#[derive(Clone, Debug)]
pub struct Target {
    address: SocketAddr,
    /// The head of the request that asks for the upgrade.
    upgrade: String,
}

/// A server's streams, for one call at a time, whose answer is read whole.
#[derive(Clone, Debug)]
pub struct Calls(pub Target);

/// What of an answer counts.
#[derive(Clone, Copy, Debug)]
pub enum Kept {
    /// The answer: one lease.
    One,
    /// Each verdict in it.
    Verdicts,
}

/// Calls that are in flight together. A clone shares the bytes.
#[derive(Clone, Debug)]
pub struct Burst {
    frames: Bytes,
    calls: usize,
    kept: Kept,
}

/// One open stream.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// What has come, and where of it the next frame begins.
    received: Vec<u8>,
    at: usize,
}

impl Target {
    /// The streams of a server.
    ///
    /// # Errors
    /// It asks for TLS.
    pub fn of(target: &http::Target) -> Result<Self> {
        ensure!(target.means().tls().is_none(), "streams are measured without TLS");
        let mut upgrade = format!(
            "GET /v1/stream HTTP/1.1\r\nhost: {}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
            target.address
        );
        if let Some(shown) = target.means().authorization()? {
            upgrade += &format!("authorization: {}\r\n", shown.to_str()?);
        }
        upgrade += "\r\n";
        Ok(Self { address: target.address, upgrade })
    }
}

impl Burst {
    /// Calls of one operation with these bodies.
    pub fn new<T: Serialize>(op: &str, bodies: &[T], kept: Kept) -> Self {
        let mut frames = Vec::new();
        for (id, body) in bodies.iter().enumerate() {
            text(&http::json(&json!({ "id": id, "op": op, "body": body })), &mut frames);
        }
        Self { frames: frames.into(), calls: bodies.len(), kept }
    }
}

impl Connection {
    async fn upgrade(&mut self, head: &str) -> Result<()> {
        self.stream.write_all(head.as_bytes()).await?;
        loop {
            let end = self.received.windows(4).position(|it| it == b"\r\n\r\n");
            if let Some(end) = end {
                let status = String::from_utf8_lossy(&self.received[..end]).into_owned();
                let first = status.lines().next().unwrap_or_default();
                ensure!(first.contains(" 101 "), "no stream: {first}");
                self.at = end + 4;
                return Ok(());
            }
            ensure!(self.received.len() < MAX_HEAD, "the head of the answer has no end");
            self.receive().await?;
        }
    }

    async fn receive(&mut self) -> Result<()> {
        if self.at == self.received.len() {
            self.received.clear();
            self.at = 0;
        } else if self.at > ROOM {
            self.received.drain(..self.at);
            self.at = 0;
        }
        self.received.reserve(ROOM);
        let read = self.stream.read_buf(&mut self.received).await?;
        ensure!(read > 0, "the server has ended the connection");
        Ok(())
    }

    /// Reads messages of text until one of them gives a result.
    async fn read<T>(&mut self, mut of: impl FnMut(&[u8]) -> Option<T>) -> Result<T> {
        loop {
            let mut answers = Vec::new();
            while let Some((frame, length)) = parse(&self.received[self.at..])? {
                let result = match frame {
                    Frame::Text(message) => of(message),
                    Frame::Ping(payload) => {
                        pong(payload, &mut answers);
                        None
                    }
                    Frame::Close(why) => {
                        bail!("the server ended the stream: {}", String::from_utf8_lossy(why))
                    }
                    Frame::Other => None,
                };
                self.at += length;
                if let Some(result) = result {
                    self.stream.write_all(&answers).await?;
                    return Ok(result);
                }
            }
            self.stream.write_all(&answers).await?;
            self.receive().await?;
        }
    }

    /// Sends one call, and gives the message that answers it.
    async fn answered(&mut self, frame: &[u8]) -> Result<Vec<u8>> {
        self.stream.write_all(frame).await?;
        let answer = |message: &[u8]| message.starts_with(ANSWER).then(|| message.to_vec());
        self.read(answer).await
    }

    /// Makes one call, and gives the document of its answer.
    pub async fn ask<T: DeserializeOwned>(&mut self, op: &str, body: &impl Serialize) -> Result<T> {
        let answer = self.answered(&Burst::new(op, &[body], Kept::One).frames).await?;
        let answer: Value = serde_json::from_slice(&answer)?;
        ensure!(answer["status"] == 200, "{op}: {answer}");
        serde_json::from_value(answer["body"].clone()).with_context(|| format!("{op}: {answer}"))
    }

    /// Waits for a notice that names `key`.
    pub async fn notice(&mut self, key: &str) -> Result<()> {
        let names = |message: &[u8]| {
            let is = message.starts_with(b"{\"notice\"")
                && std::str::from_utf8(message).is_ok_and(|it| it.contains(key));
            is.then_some(())
        };
        self.read(names).await
    }
}

impl Kept {
    /// How many leases an answer says to be kept.
    fn of(self, answer: &[u8]) -> u64 {
        match self {
            Self::One => {
                let status = b"\"status\":200,";
                let begin = &answer[..answer.len().min(64)];
                u64::from(begin.windows(status.len()).any(|it| it == status))
            }
            Self::Verdicts => {
                let text = std::str::from_utf8(answer).unwrap_or_default();
                text.matches("\"valid_for_ms\"").count() as u64
            }
        }
    }
}

impl Endpoint for Target {
    type Connection = Connection;
    type Request = Burst;
    /// How many leases were kept.
    type Answer = u64;

    async fn open(&self) -> Result<Connection> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let mut connection = Connection { stream, received: Vec::new(), at: 0 };
        connection.upgrade(&self.upgrade).await?;
        Ok(connection)
    }

    /// One that broke is not kept, and only a call tells whether it has.
    fn is_open(_: &Connection) -> bool {
        true
    }

    async fn call(connection: &mut Connection, burst: Burst) -> Result<u64> {
        connection.stream.write_all(&burst.frames).await?;
        let (mut left, mut kept) = (burst.calls, 0);
        let count = |message: &[u8]| {
            if message.starts_with(ANSWER) {
                kept += burst.kept.of(message);
                left -= 1;
            }
            (left == 0).then_some(())
        };
        connection.read(count).await?;
        Ok(kept)
    }
}

/// An answer to one call.
#[derive(Debug, Deserialize)]
struct Answered<T> {
    status: u16,
    body: T,
}

impl Endpoint for Calls {
    type Connection = Connection;
    type Request = Burst;
    type Answer = Vec<u8>;

    async fn open(&self) -> Result<Connection> {
        self.0.open().await
    }

    fn is_open(connection: &Connection) -> bool {
        Target::is_open(connection)
    }

    async fn call(connection: &mut Connection, call: Burst) -> Result<Vec<u8>> {
        connection.answered(&call.frames).await
    }
}

impl Callable for Lane<Calls> {
    async fn make<T: DeserializeOwned>(
        &mut self,
        call: &str,
        body: &(impl Serialize + Sync),
    ) -> Option<T> {
        let answer = self.exchange(Ok(Burst::new(call, &[body], Kept::One))).await?;
        match serde_json::from_slice::<Answered<T>>(&answer) {
            Ok(told) if told.status == 200 => Some(told.body),
            _ => {
                self.fault(&format!("{call}: {}", String::from_utf8_lossy(&answer)));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_counted() {
        let one = br#"{"id":7,"status":200,"body":{"valid_for_ms":9}}"#;
        let lost = br#"{"id":7,"status":409,"body":{"status":200,"x":1}}"#;
        assert_eq!(
            (Kept::One.of(one), Kept::One.of(br#"{"id":7,"status":409,"body":{}}"#)),
            (1, 0)
        );
        assert_eq!(Kept::Verdicts.of(lost), 0);
        let two =
            br#"{"id":7,"status":200,"body":{"results":[{"valid_for_ms":9},{"valid_for_ms":8}]}}"#;
        assert_eq!(Kept::Verdicts.of(two), 2);
    }
}
